"""Clusters from Secrets in Argo CD's format (label `argocd.argoproj.io/secret-type: cluster`), in files or in a namespace.

A Secret has `name`, `server` and `config`, a JSON document with a bearer token, a password, a client certificate or a
credential plugin. Files are read again when one of them changes, the namespace of our own cluster every few seconds; a broken Secret is
in the way of no other cluster, and while the API server is away what it said last holds.
"""

import asyncio
import base64
import binascii
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import structlog
import yaml

from delegate.engine.clusters.credentials import ClientCertificate, Credentials, bearer, read_bounded
from delegate.engine.clusters.errors import ClusterError, CredentialError, KubeconfigError
from delegate.engine.clusters.exec_credentials import run_plugin
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.redaction import KNOWN_SECRETS
from delegate.foundation.secrets import Secret, SecretUrl
from delegate.model.resources import JsonObject

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_LABEL = "argocd.argoproj.io/secret-type"
CLUSTER_SECRETS = f"{_LABEL}=cluster"
"""Selects them."""
_SUFFIXES = (".yaml", ".yml", ".json")
_MOST_FILES = 1000
_MAX_AGE_SECONDS = 10.0
_LIST_SECONDS = 5.0
_IGNORED = ("namespaces", "clusterResources", "shard", "project")
"""Fields that narrow what Argo CD does in a cluster; here that is for the rights of the credentials."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_HINT = "see the format of cluster Secrets in Argo CD's documentation"


class _Tls(msgspec.Struct, frozen=True, rename="camel"):
    insecure: bool = False
    server_name: str = ""
    ca_data: str = ""
    cert_data: str = ""
    key_data: str = ""


class _Plugin(msgspec.Struct, frozen=True, rename="camel"):
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""


class _Config(msgspec.Struct, frozen=True, rename="camel"):
    username: str = ""
    password: str = ""
    bearer_token: str = ""
    tls_client_config: _Tls = _Tls()
    exec_provider_config: _Plugin | None = None
    aws_auth_config: JsonObject | None = None
    proxy_url: str = ""


class Origin(msgspec.Struct, frozen=True):
    """Where a Secret was read: in words, by its file where it has one, and where its credential plugin runs."""

    words: str
    directory: Path
    file: str = ""

    @classmethod
    def of_file(cls, path: Path) -> "Origin":
        return cls(str(path), path.parent, str(path))


class SecretCluster:
    """One cluster of a Secret. Never shows what is in it."""

    def __init__(self, name: str, server: str, config: str, origin: Origin) -> None:
        self.name = name
        self.server = server
        self.file = origin.file
        self._directory = origin.directory
        self._config = config

    async def credentials(self, environment: Mapping[str, str]) -> Credentials:
        """Raises KubeconfigError, CredentialError."""
        try:
            config = msgspec.json.decode(self._config or "{}", type=_Config)
        except (msgspec.ValidationError, msgspec.DecodeError):
            # What is wrong is not said in the decoder's words, which may hold a value.
            raise KubeconfigError(f"`config` of the cluster Secret {self.name!r} can't be read", hint=_HINT, file=self.file) from None
        if config.aws_auth_config is not None:
            hint = "use execProviderConfig with the plugin of the cloud"
            raise CredentialError(f"awsAuthConfig of the cluster Secret {self.name!r} is not supported", hint=hint, file=self.file)
        tls, expires = config.tls_client_config, None
        authorization = bearer(config.bearer_token) if config.bearer_token else self._basic(config)
        certificate = self._certificate(tls)
        if config.exec_provider_config is not None:
            given = await run_plugin(_as_plugin(config.exec_provider_config), {}, directory=self._directory, environment=environment)
            authorization, certificate, expires = bearer(given.token) if given.token else None, given.certificate, given.expires_at
        return Credentials(
            server=self.server.rstrip("/"),
            authorization=authorization,
            ca=self._decoded(tls.ca_data, "caData") or None,
            verify=not tls.insecure,
            certificate=certificate,
            server_name=tls.server_name,
            proxy=SecretUrl(config.proxy_url) if config.proxy_url else None,
            expires_at=expires,
        )

    def _basic(self, config: _Config) -> Secret | None:
        if not config.username:
            return None
        KNOWN_SECRETS.add(config.password)
        encoded = base64.b64encode(f"{config.username}:{config.password}".encode()).decode()
        KNOWN_SECRETS.add(encoded)
        return Secret(f"Basic {encoded}")

    def _certificate(self, tls: _Tls) -> ClientCertificate | None:
        if not tls.cert_data:
            return None
        return ClientCertificate(self._decoded(tls.cert_data, "certData"), self._decoded(tls.key_data, "keyData"))

    def _decoded(self, text: str, field: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error:
            words = f"{field} of the cluster Secret {self.name!r} is no base64"
            raise KubeconfigError(words, hint=f"correct {field}", file=self.file) from None


class SecretClusterSource:
    """The credentials of one of them, as its Secret says now."""

    def __init__(self, secrets: "ClusterSecrets", name: str, environment: Mapping[str, str]) -> None:
        self._secrets = secrets
        self._name = name
        self._environment = environment

    @property
    def description(self) -> str:
        return f"cluster Secret {self._name!r}"

    async def load(self, *, rejected: bool = False) -> Credentials:
        del rejected  # nothing is kept
        found = (await self._secrets.read()).get(self._name)
        if found is None:
            raise KubeconfigError(f"the cluster Secret {self._name!r} is gone", hint="put it back, or choose another destination")
        return await found.credentials(self._environment)


ListSecrets = Callable[[], Awaitable[Sequence[JsonObject]]]
"""Those of a namespace that have the label. Raises ClusterError."""


class ClusterSecrets:
    """All that a directory and a namespace hold; a file wins over a Secret in the namespace. With neither there are no clusters."""

    def __init__(self, directory: Path | None, list_secrets: ListSecrets | None = None, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._directory = directory
        self._list_secrets = list_secrets
        self._clock = clock
        self._signature: object = None
        self._in_files: Mapping[str, SecretCluster] = {}
        self._in_namespace: Mapping[str, SecretCluster] = {}
        self._listed_at: float | None = None
        self._listing = asyncio.Lock()

    async def read(self) -> Mapping[str, SecretCluster]:
        """By name. Never raises for what can't be read: that is logged, and its clusters are not there, or as they were last."""
        if self._directory is not None:
            signature = await asyncio.to_thread(_sign, self._directory)
            if signature != self._signature:
                self._in_files = await asyncio.to_thread(_read, self._directory)
                self._signature = signature
        await self._read_namespace()
        return {**self._in_namespace, **self._in_files}

    async def _read_namespace(self) -> None:
        if self._list_secrets is None:
            return
        async with self._listing:
            if self._listed_at is not None and self._clock.monotonic() - self._listed_at < _MAX_AGE_SECONDS:
                return
            try:
                async with asyncio.timeout(_LIST_SECONDS):
                    listed = await self._list_secrets()
            except (ClusterError, TimeoutError) as error:
                log.warning("cluster.secrets_unreadable", error=str(error) or f"no answer within {_LIST_SECONDS:g} s")
            else:
                self._in_namespace = _in_list(listed, self._directory or Path(tempfile.gettempdir()))
            self._listed_at = self._clock.monotonic()


def _in_list(listed: Sequence[JsonObject], directory: Path) -> dict[str, SecretCluster]:
    found: dict[str, SecretCluster] = {}
    for secret in listed[:_MOST_FILES]:
        metadata = secret.get("metadata") or {}
        origin = Origin(f"Secret {metadata.get('namespace')}/{metadata.get('name')}", directory)
        for labelled in _secrets_in({**secret, "kind": "Secret"}):
            cluster = _cluster_of(labelled, origin)
            if cluster is not None:
                found.setdefault(cluster.name, cluster)
    return found


def _sign(directory: Path) -> object:
    try:
        statuses = [(str(path), path.stat()) for path in _files(directory)]
    except OSError:
        return ()
    return tuple((name, status.st_mtime_ns, status.st_size, status.st_ino) for name, status in statuses)


def _files(directory: Path) -> list[Path]:
    files = (path for path in sorted(directory.iterdir()) if path.name.endswith(_SUFFIXES) and not path.name.startswith("."))
    return list(files)[:_MOST_FILES]


def _read(directory: Path) -> dict[str, SecretCluster]:
    found: dict[str, SecretCluster] = {}
    try:
        files = _files(directory)
    except OSError as error:
        log.warning("cluster.secrets_unreadable", directory=str(directory), error=error.strerror)
        return found
    for path in files:
        try:
            for document in yaml.load_all(read_bounded(path), Loader=_LOADER):
                for secret in _secrets_in(document):
                    cluster = _cluster_of(secret, Origin.of_file(path))
                    if cluster is not None:
                        found.setdefault(cluster.name, cluster)
        except (OSError, yaml.YAMLError, ValueError, CredentialError) as error:
            log.warning("cluster.secrets_unreadable", file=str(path), error=type(error).__name__)
    return found


def _secrets_in(document: object) -> Iterator[JsonObject]:
    if not isinstance(document, dict):
        return
    if str(document.get("kind", "")).endswith("List"):
        items = document.get("items")
        for item in items if isinstance(items, list) else ():
            yield from _secrets_in(item)
        return
    metadata = document.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    if document.get("kind") == "Secret" and isinstance(labels, dict) and labels.get(_LABEL) == "cluster":
        yield document


def _cluster_of(secret: JsonObject, origin: Origin) -> SecretCluster | None:
    """None for a Secret that can't be read, which is named in the log."""
    shown = str(secret["metadata"].get("name", ""))
    try:
        data = _data_of(secret)
    except (TypeError, ValueError) as error:
        log.warning("cluster.secret_unreadable", file=origin.words, secret=shown, error=type(error).__name__)
        return None
    server = data.get("server", "").strip()
    name = data.get("name", "").strip() or server
    if not server.startswith(("https://", "http://")):
        log.warning("cluster.secret_without_server", file=origin.words, secret=shown)
        return None
    ignored = [field for field in _IGNORED if data.get(field)]
    if ignored:
        log.warning("cluster.secret_fields_ignored", file=origin.words, cluster=name, fields=ignored)
    return SecretCluster(name, server, data.get("config", ""), origin)


def _data_of(document: JsonObject) -> dict[str, str]:
    """Raises ValueError for what is no base64 of a text, TypeError for data that are no mapping."""
    encoded, plain = document.get("data") or {}, document.get("stringData") or {}
    if not isinstance(encoded, dict) or not isinstance(plain, dict):
        raise TypeError("data and stringData are mappings")
    data = {str(field): base64.b64decode(str(value), validate=True).decode() for field, value in encoded.items()}
    return data | {str(field): str(value) for field, value in plain.items()}


def _as_plugin(plugin: _Plugin) -> JsonObject:
    """As a kubeconfig has it."""
    return {
        "apiVersion": plugin.api_version,
        "command": plugin.command,
        "args": list(plugin.args),
        "env": [{"name": name, "value": value} for name, value in plugin.env.items()],
        "installHint": plugin.install_hint,
        "interactiveMode": "Never",
    }
