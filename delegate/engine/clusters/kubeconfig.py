"""Kubeconfig files: finding, merging and checking them, and the credentials of one context.

kubernetes_asyncio turns a context into an address, a token and TLS settings (it knows OIDC, basic authentication and token
files). What it does not do well stays out of its hands: files are found, bounded and named in errors here, credential plugins
run under a deadline, keys never lie in temporary files for longer than OpenSSL needs, and nothing is written back. It is
imported with the first use of a kubeconfig only: that costs half a second and 40 MiB.
"""

import asyncio
import base64
import binascii
import difflib
import hashlib
import importlib
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import yaml

from delegate.engine.clusters.credentials import ClientCertificate, Credentials, read_bounded
from delegate.engine.clusters.errors import KubeconfigError
from delegate.engine.clusters.exec_credentials import ExecCredential, run_plugin
from delegate.foundation.redaction import KNOWN_SECRETS, redact
from delegate.foundation.secrets import Secret, SecretUrl
from delegate.model.resources import JsonObject

_HINT_FILE = "give a kubeconfig with --kubeconfig, DELEGATE_KUBECONFIG or KUBECONFIG"
_PLUGIN_EARLY_SECONDS = 60.0
_LOADING_SECONDS = 30.0


class _Entry(msgspec.Struct, frozen=True):
    """One named entry with the file that it came from; relative paths in it are relative to that file."""

    name: str
    body: JsonObject
    file: Path


class Kubeconfig(msgspec.Struct, frozen=True):
    """One or more merged files: of entries by the same name, and of current contexts, the first wins (as kubectl does)."""

    paths: tuple[Path, ...]
    current_context: str
    contexts: dict[str, _Entry]
    clusters: dict[str, _Entry]
    users: dict[str, _Entry]
    digest: str

    @property
    def description(self) -> str:
        return os.pathsep.join(map(str, self.paths))

    def server_of(self, context: str) -> str:
        """The address that a context leads to; empty where the file is incomplete."""
        entry = self.contexts.get(context)
        cluster = self.clusters.get(str(entry.body.get("cluster"))) if entry else None
        return str(cluster.body.get("server") or "") if cluster else ""

    def namespace_of(self, context: str) -> str:
        """The namespace that a context names for objects without one; empty where it names none."""
        entry = self.contexts.get(context)
        return str(entry.body.get("namespace") or "") if entry else ""

    def choose(self, context: str) -> str:
        """The context asked for, or else the current one. Raises KubeconfigError that names those there are."""
        known = sorted(self.contexts)
        listed = ", ".join(known) or "none"
        chosen = context or self.current_context
        if not chosen:
            hint = f"choose one with --context ({listed}), or set it: kubectl config use-context NAME"
            raise KubeconfigError(f"{self.description} names no current-context", hint=hint, file=self.description)
        if chosen not in self.contexts:
            nearest = difflib.get_close_matches(chosen, known, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"it has: {listed}"
            raise KubeconfigError(f"{self.description} has no context {chosen!r}", hint=hint, file=self.description)
        return chosen


def locate(explicit: str, environment: Mapping[str, str] = os.environ) -> str:
    """Which kubeconfig a person means: the one given, else `KUBECONFIG`, else `~/.kube/config`; may be a list of files."""
    return explicit or environment.get("KUBECONFIG") or str(Path(environment.get("HOME") or "~") / ".kube" / "config")


def read_kubeconfig(locations: str) -> Kubeconfig:
    """Reads `locations` (files, separated as in PATH). Blocking. Raises KubeconfigError that names file, line and remedy."""
    paths = [Path(os.path.expanduser(part)).absolute() for part in locations.split(os.pathsep) if part]
    if not paths:
        raise KubeconfigError("no kubeconfig is given", hint=_HINT_FILE)
    contents = [(path, content) for path in paths if (content := _read(path, alone=len(paths) == 1)) is not None]
    if not contents:
        raise KubeconfigError(f"none of {locations} exists", hint=_HINT_FILE)
    digest = hashlib.sha256()
    current, sections = "", {"contexts": dict[str, _Entry](), "clusters": dict[str, _Entry](), "users": dict[str, _Entry]()}
    for path, content in contents:
        digest.update(content)
        document = _parse(path, content)
        current = current or str(document.get("current-context") or "")
        for section, entries in sections.items():
            for entry in _entries(document, section, path):
                entries.setdefault(entry.name, entry)
    return Kubeconfig(paths=tuple(path for path, _ in contents), current_context=current, digest=digest.hexdigest(), **sections)


def _read(path: Path, *, alone: bool) -> bytes | None:
    try:
        return read_bounded(path)
    except FileNotFoundError as error:
        if not alone:
            return None
        raise KubeconfigError(f"the kubeconfig {path} doesn't exist", hint=_HINT_FILE, file=str(path)) from error
    except OSError as error:
        hint = "make it readable for this user" if isinstance(error, PermissionError) else _HINT_FILE
        raise KubeconfigError(f"the kubeconfig {path} can't be read: {error.strerror}", hint=hint, file=str(path)) from error


def _parse(path: Path, content: bytes) -> JsonObject:
    try:
        document = yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  # both are safe loaders
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        words = getattr(error, "problem", None) or "it isn't YAML"
        raise KubeconfigError(
            f"the kubeconfig is malformed: {words}",
            hint="correct it; kubectl config view shows what it should look like",
            file=str(path),
            line=mark.line + 1 if mark else None,
        ) from error
    if not isinstance(document, dict) or document.get("kind", "Config") != "Config":
        raise KubeconfigError("this is no kubeconfig (kind: Config)", hint=_HINT_FILE, file=str(path))
    return document


def _entries(document: JsonObject, section: str, path: Path) -> Iterable[_Entry]:
    entries = document.get(section) or []
    inner = section.removesuffix("s")
    if not isinstance(entries, list):
        raise KubeconfigError(f"{section} has to be a list", file=str(path))
    for number, entry in enumerate(entries, start=1):
        if not isinstance(entry, dict) or not entry.get("name") or not isinstance(entry.get(inner) or {}, dict):
            raise KubeconfigError(f"entry {number} of {section} needs a name and a {inner}", file=str(path))
        yield _Entry(str(entry["name"]), entry.get(inner) or {}, path)


class KubeconfigSource:
    """The credentials of one context, read anew whenever asked.

    Refreshed OIDC tokens and what a plugin gave are kept as long as the files stay the same, and no longer than they hold.
    """

    def __init__(self, locations: str, context: str, environment: Mapping[str, str] = os.environ) -> None:
        self._locations = locations
        self._context = context
        self._environment = environment
        self._digest = ""
        self._document: JsonObject = {}
        self._plugin: ExecCredential | None = None

    @property
    def description(self) -> str:
        return f"context {self._context!r} of {self._locations}"

    async def load(self, *, rejected: bool = False) -> Credentials:
        kubeconfig = await asyncio.to_thread(read_kubeconfig, self._locations)
        cluster, user = self._chosen(kubeconfig)
        if kubeconfig.digest != self._digest:
            self._plugin = None
            self._document = self._document_for_loader(cluster, user)
            self._digest = kubeconfig.digest
        plugin = await self._run_plugin(cluster, user, rejected=rejected)
        await asyncio.to_thread(self._read_token_file, user)
        configuration = await self._load(self._document)
        return await asyncio.to_thread(_assemble, configuration, cluster, user, plugin)

    def _chosen(self, kubeconfig: Kubeconfig) -> tuple[_Entry, _Entry]:
        context = kubeconfig.contexts[kubeconfig.choose(self._context)]
        place = f"context {context.name!r} of {context.file}"
        cluster = kubeconfig.clusters.get(str(context.body.get("cluster")))
        if cluster is None:
            raise KubeconfigError(
                f"{place} names the cluster {context.body.get('cluster')!r}, which isn't defined",
                hint="add it under clusters",
                file=str(context.file),
            )
        if not str(cluster.body.get("server") or "").startswith(("https://", "http://")):
            raise KubeconfigError(
                f"cluster {cluster.name!r} needs a server that begins with https:// or http://",
                hint="set clusters[].cluster.server",
                file=str(cluster.file),
            )
        name = str(context.body.get("user") or "")
        user = kubeconfig.users.get(name) if name else _Entry("", {}, context.file)
        if user is None:
            raise KubeconfigError(
                f"{place} names the user {name!r}, who isn't defined", hint="add them under users", file=str(context.file)
            )
        return cluster, user

    def _document_for_loader(self, cluster: _Entry, user: _Entry) -> JsonObject:
        # Certificates and plugins are ours: the loader would leave keys in temporary files and run plugins without a deadline.
        ours = ("exec", "client-certificate", "client-certificate-data", "client-key", "client-key-data", "tokenFile")
        server = {key: value for key, value in cluster.body.items() if not key.startswith("certificate-authority")}
        person = {key: value for key, value in user.body.items() if key not in ours}
        provider = person.get("auth-provider")
        if isinstance(provider, dict) and provider.get("name") != "oidc":
            raise KubeconfigError(
                f"user {user.name!r} wants the auth-provider {provider.get('name')!r}, which Kubernetes removed in 1.26",
                hint="use its credential plugin (users[].user.exec)",
                file=str(user.file),
            )
        document: JsonObject = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "this",
            "contexts": [{"name": "this", "context": {"cluster": "this", "user": "this"}}],
            "clusters": [{"name": "this", "cluster": server}],
            "users": [{"name": "this", "user": person}],
        }
        return document

    async def _run_plugin(self, cluster: _Entry, user: _Entry, *, rejected: bool) -> ExecCredential | None:
        settings = user.body.get("exec")
        if not isinstance(settings, dict):
            return None
        kept = self._plugin
        fresh = kept is not None and (kept.expires_at is None or kept.expires_at - _PLUGIN_EARLY_SECONDS > time.time())
        if kept is None or rejected or not fresh:
            ca = await asyncio.to_thread(_file_or_data, cluster, "certificate-authority")
            shown = {key: value for key, value in cluster.body.items() if not key.startswith("certificate-authority")}
            if ca is not None:
                shown["certificate-authority-data"] = base64.b64encode(ca).decode()
            kept = await run_plugin(settings, shown, directory=user.file.parent, environment=self._environment)
            self._plugin = kept
        return kept

    def _read_token_file(self, user: _Entry) -> None:
        if user.body.get("tokenFile") and not user.body.get("token"):
            path = user.file.parent / str(user.body["tokenFile"])
            try:
                token = read_bounded(path).decode().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise KubeconfigError(f"the token of user {user.name!r} can't be read from {path}: {error}", file=str(user.file)) from error
            self._document["users"][0]["user"]["token"] = token

    async def _load(self, document: JsonObject) -> "_Loaded":
        # In a thread with a loop of its own: the loader touches files, and importing it takes half a second.
        try:
            return await asyncio.to_thread(_load_with_library, document)
        except TimeoutError as error:
            raise KubeconfigError(f"{self.description}: the identity provider gave no answer within {_LOADING_SECONDS:g} s") from error
        except _UnusableError as error:
            raise KubeconfigError(f"{self.description} can't be used: {error}", hint="try kubectl with the same context") from error


class _Loaded(msgspec.Struct, frozen=True):
    host: str
    authorization: str
    verify: bool
    server_name: str
    proxy: str


class _UnusableError(Exception):
    """What the library says of a document, in one line."""


def _load_with_library(document: JsonObject) -> _Loaded:
    """Blocking; writes no file, since no certificate is left in the document. Raises TimeoutError, _UnusableError."""
    if os.path.expanduser("~") == "~":  # it asks for one while it is loaded, and fails for a user without HOME and passwd entry
        os.environ["HOME"] = "/"  # as container runtimes have it
    config = importlib.import_module("kubernetes_asyncio.config")
    configuration = importlib.import_module("kubernetes_asyncio.client").Configuration()

    async def load() -> None:
        async with asyncio.timeout(_LOADING_SECONDS):
            await config.load_kube_config_from_dict(document, client_configuration=configuration)

    try:
        asyncio.run(load())
    except TimeoutError:
        raise
    except (config.ConfigException, ValueError, KeyError, AssertionError, OSError) as error:
        raise _UnusableError(_first_line(error)) from error
    return _Loaded(
        host=str(configuration.host),
        authorization=str(configuration.api_key.get("BearerToken") or ""),
        verify=bool(configuration.verify_ssl),
        server_name=str(getattr(configuration, "tls_server_name", None) or ""),
        proxy=str(configuration.proxy or ""),
    )


def _assemble(loaded: _Loaded, cluster: _Entry, user: _Entry, plugin: ExecCredential | None) -> Credentials:
    authorization = loaded.authorization
    if plugin is not None and plugin.token:
        authorization = f"Bearer {plugin.token}"
    if authorization:
        KNOWN_SECRETS.add(authorization.partition(" ")[2])
    certificate = plugin.certificate if plugin is not None else None
    chain, key = _file_or_data(user, "client-certificate"), _file_or_data(user, "client-key")
    if certificate is None and chain is not None:
        if key is None:
            raise KubeconfigError(f"user {user.name!r} has a client-certificate and no client-key", file=str(user.file))
        certificate = ClientCertificate(chain, key)
    if loaded.proxy and not loaded.proxy.startswith(("http://", "https://")):
        raise KubeconfigError(
            f"the proxy-url of cluster {cluster.name!r} has to begin with http:// or https://",
            hint="SOCKS isn't spoken here",
            file=str(cluster.file),
        )
    return Credentials(
        server=loaded.host,
        authorization=Secret(authorization) if authorization else None,
        ca=_file_or_data(cluster, "certificate-authority"),
        verify=loaded.verify,
        certificate=certificate,
        server_name=loaded.server_name,
        proxy=SecretUrl(loaded.proxy) if loaded.proxy else None,
        expires_at=plugin.expires_at if plugin is not None else None,
    )


def _file_or_data(entry: _Entry, key: str) -> bytes | None:
    """The bytes behind `key-data` (base64) or the file behind `key`; data wins, as in kubectl."""
    data = entry.body.get(f"{key}-data")
    if data:
        try:
            return base64.b64decode(str(data), validate=False)
        except binascii.Error as error:
            raise KubeconfigError(f"{key}-data of {entry.name!r} is no base64", hint=f"correct {key}-data", file=str(entry.file)) from error
    name = entry.body.get(key)
    if not name:
        return None
    path = entry.file.parent / str(name)
    try:
        return read_bounded(path)
    except OSError as error:
        raise KubeconfigError(
            f"the {key} of {entry.name!r} can't be read from {path}: {error.strerror}", hint=f"correct {key}", file=str(entry.file)
        ) from error


def _first_line(error: Exception) -> str:
    return redact((str(error).splitlines() or [type(error).__name__])[0][:300])
