"""Who we are to a source: secrets by file, environment or Kubernetes Secret, read when they are needed and again when replaced."""

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec
import structlog

from delegate.engine.verification.errors import ProviderConfigurationError
from delegate.foundation.redaction import KNOWN_SECRETS
from delegate.foundation.rule_files import fingerprint_of
from delegate.foundation.secrets import Secret
from delegate.model.resources import JsonObject

log = structlog.get_logger(__name__)

ReadSecret = Callable[[str, str], Awaitable[JsonObject]]
"""A Secret of the delegate's own cluster by namespace and name; raises DelegateError."""

_LARGEST_BYTES = 64 * 1024
_OTHERS_MAY_READ = 0o004


class SecretReference(msgspec.Struct, frozen=True):
    """Where one secret stands; exactly one of them. `key` names the setting in messages."""

    key: str
    inline: Secret | None = None
    file: Path | None = None
    variable: str = ""
    namespace: str = ""
    secret_name: str = ""
    secret_key: str = ""


class Login(msgspec.Struct, frozen=True):
    """One way to present oneself: the settings that it takes, and the headers that they make."""

    needs: tuple[str, ...]
    headers: Callable[[Mapping[str, str]], dict[str, str]]


def basic_header(user: str, password: str) -> dict[str, str]:
    login = base64.b64encode(f"{user}:{password}".encode()).decode()
    KNOWN_SECRETS.add(login)
    return {"Authorization": f"Basic {login}"}


BASIC = Login(("username", "password"), lambda values: basic_header(values["username"], values["password"]))
BEARER = Login(("token",), lambda values: {"Authorization": f"Bearer {values['token']}"})


class Vault:
    """The secrets of one provider, as they are now. Its repr shows none."""

    def __init__(
        self,
        references: Mapping[str, SecretReference],
        *,
        environment: Mapping[str, str],
        read_secret: ReadSecret | None,
        secret_seconds: float = 60.0,
    ) -> None:
        self._references = references
        self._environment = environment
        self._read_secret = read_secret
        self._secret_seconds = secret_seconds
        self._files: dict[str, tuple[object, str]] = {}
        self._secrets: dict[str, tuple[float, str]] = {}

    def __repr__(self) -> str:
        return f"Vault({', '.join(self._references)})"

    async def values(self, *, rejected: bool = False) -> dict[str, str]:
        """Every secret by its setting; `rejected`: what was read from the cluster is read again. Raises ProviderConfigurationError."""
        if rejected:
            self._secrets.clear()
        found = {}
        for key, reference in self._references.items():
            found[key] = value = await self._value(reference)
            KNOWN_SECRETS.add(value)
        return found

    async def _value(self, reference: SecretReference) -> str:
        if reference.inline is not None:
            return reference.inline.reveal()
        if reference.file is not None:
            return await asyncio.to_thread(self._from_file, reference.key, reference.file)
        if reference.variable:
            value = self._environment.get(reference.variable, "").strip()
            if not value:
                raise ProviderConfigurationError(f"{reference.key}: the variable {reference.variable} is not set")
            return value
        return await self._from_cluster(reference)

    def _from_file(self, key: str, path: Path) -> str:
        fingerprint = fingerprint_of(path)
        known = self._files.get(key)
        if known is not None and known[0] == fingerprint:
            return known[1]
        warn_if_open(path)
        try:
            with path.open("rb") as file:
                value = file.read(_LARGEST_BYTES + 1).decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            words = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ProviderConfigurationError(f"{key}: {path} can't be read: {words}", hint="check the path, and who may read it") from error
        if not value or len(value) > _LARGEST_BYTES:
            raise ProviderConfigurationError(f"{key}: {path} is empty, or larger than {_LARGEST_BYTES} bytes")
        self._files[key] = (fingerprint, value)
        return value

    async def _from_cluster(self, reference: SecretReference) -> str:
        now = asyncio.get_running_loop().time()
        known = self._secrets.get(reference.key)
        if known is not None and now - known[0] < self._secret_seconds:
            return known[1]
        name = f"Secret {reference.namespace}/{reference.secret_name}"
        if self._read_secret is None:
            raise ProviderConfigurationError(f"{reference.key}: the {name} can't be read without a cluster", hint="give it by file instead")
        body = await self._read_secret(reference.namespace, reference.secret_name)
        try:
            value = base64.b64decode(str((body.get("data") or {})[reference.secret_key]), validate=True).decode().strip()
        except KeyError as error:
            raise ProviderConfigurationError(f"{reference.key}: the {name} has no key {reference.secret_key!r}") from error
        except (binascii.Error, UnicodeDecodeError) as error:
            raise ProviderConfigurationError(f"{reference.key}: {reference.secret_key!r} of the {name} is no text") from error
        self._secrets[reference.key] = (now, value)
        return value


def warn_if_open(path: Path) -> None:
    """Says in the log that everybody on this machine may read a file with credentials."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if mode & _OTHERS_MAY_READ:
        log.warning("providers.readable_by_others", file=str(path), mode=f"{mode & 0o777:04o}", hint="chmod 0600")
