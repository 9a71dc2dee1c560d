"""Runs a kubeconfig's credential plugin (client.authentication.k8s.io/v1 and v1beta1), bounded.

The plugin gets a deadline, a process group of its own that is killed as a whole, no terminal, and an environment without
anything of ours: the search path, the home, proxies, and what cloud tools are configured by.
"""

import asyncio
import contextlib
import datetime as dt
import os
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

import msgspec

from delegate.engine.clusters.credentials import ClientCertificate
from delegate.engine.clusters.errors import CredentialError
from delegate.foundation.redaction import KNOWN_SECRETS, redact
from delegate.model.resources import JsonObject

_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_PASSED = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
_PASSED_PREFIXES = ("AWS_", "AZURE_", "AAD_", "GOOGLE_", "CLOUDSDK_", "XDG_", "OCI_", "DIGITALOCEAN_")
_MOST_OUTPUT_BYTES = 1024 * 1024
_SHOWN_COMPLAINT = 300


class ExecCredential(msgspec.Struct, frozen=True):
    """What a plugin gave; `expires_at` in epoch seconds, None where it doesn't say."""

    token: str = ""
    certificate: ClientCertificate | None = None
    expires_at: float | None = None

    def __repr__(self) -> str:
        return f"ExecCredential(expires_at={self.expires_at})"


async def run_plugin(
    settings: JsonObject, cluster: JsonObject, *, directory: Path, timeout: float = 60.0, environment: Mapping[str, str] = os.environ
) -> ExecCredential:
    """Runs `users[].user.exec`; `directory` is the kubeconfig's, for relative commands. Raises CredentialError."""
    version = str(settings.get("apiVersion") or "")
    command = str(settings.get("command") or "")
    if version not in _VERSIONS:
        raise CredentialError(
            f"the credential plugin {command!r} speaks {version!r}, which nobody serves any more",
            hint=f"set its apiVersion to {_VERSIONS[0]} and use a version of the plugin that speaks it",
        )
    if settings.get("interactiveMode") == "Always":
        raise CredentialError(f"the credential plugin {command!r} wants a terminal", hint="set interactiveMode: IfAvailable or Never")
    program = _find(command, directory, settings, environment)
    arguments = [str(argument) for argument in settings.get("args") or ()]
    information: JsonObject = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    if settings.get("provideClusterInfo"):
        information["spec"]["cluster"] = cluster
    variables = _environment(settings, environment) | {"KUBERNETES_EXEC_INFO": msgspec.json.encode(information).decode()}
    output = await _run(program, arguments, variables, command, timeout)
    return _read_credential(output, version, command)


def _find(command: str, directory: Path, settings: JsonObject, environment: Mapping[str, str]) -> str:
    if "/" in command:
        found = str(directory / command) if (directory / command).is_file() else None
    else:
        found = shutil.which(command, path=environment.get("PATH", os.defpath)) if command else None
    if found is None:
        hint = str(settings.get("installHint") or "").strip()[:_SHOWN_COMPLAINT]
        raise CredentialError(f"the credential plugin {command!r} isn't installed", hint=hint or f"install {command!r} or put it on PATH")
    return found


def _environment(settings: JsonObject, environment: Mapping[str, str]) -> dict[str, str]:
    passed = {name: value for name, value in environment.items() if name in _PASSED or name.startswith(_PASSED_PREFIXES)}
    for entry in settings.get("env") or ():
        if isinstance(entry, dict) and entry.get("name"):
            passed[str(entry["name"])] = str(entry.get("value") or "")
    return passed


async def _run(program: str, arguments: list[str], variables: dict[str, str], command: str, timeout: float) -> bytes:
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *arguments,
            env=variables,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise CredentialError(f"the credential plugin {command!r} can't be started: {error.strerror}") from error
    try:
        async with asyncio.timeout(timeout):
            output, complaint = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            code = await process.wait()
    except TimeoutError as error:
        raise CredentialError(
            f"the credential plugin {command!r} gave no answer within {timeout:g} s",
            hint=f"run {command!r} by hand to see what it waits for",
        ) from error
    finally:
        await _end(process)
    if code != 0:
        lines = complaint.decode(errors="replace").strip().splitlines() or [""]
        words = redact(lines[-1])[:_SHOWN_COMPLAINT]
        raise CredentialError(f"the credential plugin {command!r} ended with code {code}: {words}", hint=f"run {command!r} by hand")
    return output


async def _read(stream: asyncio.StreamReader | None) -> bytes:
    """The first mebibyte; the rest is read and dropped so that the plugin never blocks on a full pipe."""
    kept = bytearray()
    while stream is not None and (piece := await stream.read(65536)):
        kept += piece[: _MOST_OUTPUT_BYTES - len(kept)]
    return bytes(kept)


async def _end(process: asyncio.subprocess.Process) -> None:
    # The group goes also after a plain end: a plugin may leave a child behind that holds the pipes.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _read_credential(output: bytes, version: str, command: str) -> ExecCredential:
    hint = f"run {command!r} by hand; it has to print an ExecCredential of {version}"
    try:
        document = msgspec.json.decode(output)
    except msgspec.DecodeError as error:
        raise CredentialError(f"the credential plugin {command!r} printed no JSON", hint=hint) from error
    if not isinstance(document, dict) or document.get("kind") != "ExecCredential" or document.get("apiVersion") != version:
        raise CredentialError(f"the credential plugin {command!r} printed something else than an ExecCredential of {version}", hint=hint)
    status = document.get("status")
    status = status if isinstance(status, dict) else {}
    token = str(status.get("token") or "")
    chain, key = status.get("clientCertificateData"), status.get("clientKeyData")
    certificate = ClientCertificate(str(chain).encode(), str(key).encode()) if chain and key else None
    if not token and certificate is None:
        raise CredentialError(f"the credential plugin {command!r} gave neither a token nor a certificate with its key", hint=hint)
    KNOWN_SECRETS.add(token)
    return ExecCredential(token=token, certificate=certificate, expires_at=_expiry(status.get("expirationTimestamp"), command))


def _expiry(text: object, command: str) -> float | None:
    if not text:
        return None
    try:
        return dt.datetime.fromisoformat(str(text)).timestamp()
    except ValueError as error:
        raise CredentialError(f"the credential plugin {command!r} gave an expirationTimestamp that is no time") from error
