"""The sources that a delegate knows: those of a file, read again when it changes, and those of a task's own url.

Credentials are in the file's entries by reference, never in a task. A file that can't be meant stops the start, with file and line; one
that breaks later is named in the log, and what was known before stays.
"""

import asyncio
import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import structlog

from delegate.engine.verification.answers import Answer, Provider, Query
from delegate.engine.verification.answers import Providers as AnyProviders
from delegate.engine.verification.errors import ProviderConfigurationError, ProviderUnavailableError, VerificationError
from delegate.engine.verification.providers import (
    appdynamics,
    datadog,
    elasticsearch,
    grafana,
    http_json,
    loki,
    newrelic,
    prometheus,
    splunk,
    sumologic,
)
from delegate.engine.verification.providers.calls import Calls
from delegate.engine.verification.providers.credentials import ReadSecret, Vault, warn_if_open
from delegate.engine.verification.providers.entries import Entry, nearest, read_entries, shape_of
from delegate.engine.verification.providers.jobs import JobProvider, OpenClient
from delegate.engine.verification.providers.kinds import Kind, Question
from delegate.engine.verification.providers.links import Link, ProxyFor, Surroundings
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.errors import DelegateError
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.foundation.rule_files import RuleFile, fingerprint_of
from delegate.foundation.secrets import SecretUrl, hide_before_at
from delegate.foundation.settings.proxies import ProxyRules
from delegate.foundation.settings.urls import parse_http_url

log = structlog.get_logger(__name__)

_MODULES = (prometheus, datadog, newrelic, appdynamics, elasticsearch, loki, splunk, sumologic, grafana, http_json)
KINDS: Mapping[str, Kind] = {name: kind for module in _MODULES for kind in module.KINDS for name in kind.types}
"""By type, as entries and checks name it."""
SHAPES = {name: kind.shape for name, kind in KINDS.items()}
JOB = "job"
_PLAIN = "http"
_SECRET_PARAMETER = re.compile(
    r"(?:access|auth|api|x-api|private)[-_]?(?:token|key)|token|password|passwd|(?:client[-_]?)?secret", re.IGNORECASE
)
_METADATA_HOSTS = ("metadata.google.internal", "metadata")


class HttpProvider:
    """One source over HTTP. What it asks, its kind knows; what goes wrong is the same for all."""

    def __init__(self, link: Link, kind: Kind, *, owns_link: bool = False) -> None:
        self._link = link
        self._kind = kind
        self._owns_link = owns_link

    @property
    def name(self) -> str:
        return self._link.entry.name or self._link.source

    @property
    def grain(self) -> float:
        return self._kind.grain

    def __repr__(self) -> str:
        return f"HttpProvider({self._link.source}, {self._link.entry.type})"

    async def read(self, query: Query, *, timeout: float) -> Answer:
        """Raises VerificationError, and DelegateError where a Secret of the cluster can't be read."""
        question, link = self._question(query), self._link
        calls = Calls(link, asyncio.get_running_loop().time() + timeout)
        try:
            async with asyncio.timeout(timeout):
                answer = await self._kind.read(calls, question)
        except TimeoutError as error:
            link.was_well = False
            words = f"{link.source} gave no answer within {timeout:g} s"
            before = f"; before that: {calls.fault}" if calls.fault is not None else ""
            raise ProviderUnavailableError(f"{words}{before}", hint="look at the source; this says nothing about the release") from error
        except VerificationError as error:
            link.was_well = not isinstance(error, ProviderUnavailableError)
            error.object = error.object or f"provider {self.name}"
            raise
        link.was_well = True
        return answer

    async def close(self) -> None:
        """What the configuration names stays open for the next one."""
        if self._owns_link:
            await self._link.close()

    def _question(self, query: Query) -> Question:
        known = self._kind.parameters
        prefixes = tuple(each[:-1] for each in known if each.endswith("*"))
        for key in query.parameters:
            if key not in known and not key.startswith(prefixes or ("\0",)):
                words = f"the parameter {key!r} means nothing to {self._link.entry.type}"
                raise ProviderConfigurationError(words, hint=nearest(key, known))
        return Question(query.text, query.window, {**self._link.entry.settings, **query.parameters})


class NamedProvider:
    """A source by its name: as the file describes it at the time of each reading."""

    def __init__(self, providers: "Providers", name: str, type: str) -> None:
        self._providers = providers
        self._type = type
        self.name = name

    @property
    def grain(self) -> float:
        return self._providers.grain_of(self.name)

    async def read(self, query: Query, *, timeout: float) -> Answer:
        return await self._providers.read_named(self.name, self._type, query, timeout=timeout)

    async def close(self) -> None:
        """Its connections are the configuration's."""


class Providers:
    """All the sources of one delegate. One for a process; close it in the end."""

    def __init__(
        self,
        path: Path | None,
        around: Surroundings,
        *,
        environment: Mapping[str, str],
        read_secret: ReadSecret | None = None,
    ) -> None:
        """Raises RuleFileError or ProviderConfigurationError, with file and line."""
        self._path = path
        self._around = around
        self._environment = environment
        self._read_secret = read_secret
        self._fingerprint = fingerprint_of(path) if path is not None else None
        self._links: dict[str, Link] = {}
        self._users: dict[int, int] = {}
        self._retired: list[Link] = []
        if path is not None:
            self._take(self._load(path))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the sources in the file."""
        return tuple(sorted(self._links))

    def open(self, *, type: str, provider: str, url: str) -> Provider:
        """The provider of that name, or one of that type for a url that needs no credentials. Raises ProviderConfigurationError."""
        if provider:
            return self.get(provider, type)
        if type == JOB:
            raise ProviderConfigurationError("a Job needs a cluster to run in", hint="verify with a destination")
        return self.open_url(type, url)

    def get(self, name: str, type: str = "") -> Provider:
        """The source that the file calls so. Raises ProviderConfigurationError: no such name, or another type than the check says."""
        self._refresh()
        self._link(name, type)
        return NamedProvider(self, name, type)

    def open_url(self, type: str, url: str) -> Provider:
        """A source at a task's own url, without credentials; whoever opens it closes it. Raises ProviderConfigurationError."""
        shape_of(type, SHAPES)
        kind = KINDS[type]
        entry = Entry(name="", type=type, url=_checked(url, plain=_PLAIN in kind.types))
        return HttpProvider(self._new_link(entry), kind, owns_link=True)

    def grain_of(self, name: str) -> float:
        """Of the source that the file calls so now; 0 where there is none."""
        link = self._links.get(name)
        return KINDS[link.entry.type].grain if link is not None else 0.0

    async def read_named(self, name: str, type: str, query: Query, *, timeout: float) -> Answer:
        """One reading of a source as it is described now."""
        self._refresh()
        await self._close_retired()
        link = self._link(name, type)
        self._users[id(link)] = self._users.get(id(link), 0) + 1
        try:
            return await HttpProvider(link, KINDS[link.entry.type]).read(query, timeout=timeout)
        finally:
            self._users[id(link)] -= 1

    async def close(self) -> None:
        for link in (*self._links.values(), *self._retired):
            await link.close()

    def _link(self, name: str, type: str) -> Link:
        link = self._links.get(name)
        if link is None:
            hint = nearest(name, self._links) if self._path is not None else "name a file with providers in DELEGATE_PROVIDERS"
            raise ProviderConfigurationError(f"this delegate knows no provider {name!r}", hint=hint)
        if type and not _is_of(link.entry, type):
            words = f"the provider {name!r} is of type {link.entry.type}, the check says {type}"
            raise ProviderConfigurationError(words, hint=f"write type: {link.entry.type}, or name another provider")
        return link

    def _refresh(self) -> None:
        if self._path is None:
            return
        fingerprint = fingerprint_of(self._path)
        if fingerprint == self._fingerprint:
            return
        self._fingerprint = fingerprint
        try:
            self._take(self._load(self._path))
            log.info("providers.loaded", file=str(self._path), providers=len(self._links))
        except DelegateError as error:
            log.warning("providers.kept", file=str(self._path), line=error.line, error=error.message)

    def _load(self, path: Path) -> dict[str, Entry]:
        entries = read_entries(RuleFile(path), SHAPES)
        if any(each.inline is not None for entry in entries.values() for each in entry.secrets.values()):
            warn_if_open(path)
        return entries

    def _take(self, entries: Mapping[str, Entry]) -> None:
        """What did not change keeps its connections and what is known of it."""
        kept = {name: link for name, link in self._links.items() if entries.get(name) == link.entry}
        self._retired += [link for name, link in self._links.items() if name not in kept]
        self._links = {name: kept.get(name) or self._new_link(entry) for name, entry in entries.items()}

    async def _close_retired(self) -> None:
        idle = [link for link in self._retired if not self._users.get(id(link))]
        self._retired = [link for link in self._retired if link not in idle]
        for link in idle:
            self._users.pop(id(link), None)
            await link.close()

    def _new_link(self, entry: Entry) -> Link:
        kind = KINDS[entry.type]
        references = {**entry.secrets, **entry.secret_headers}
        vault = Vault(references, environment=self._environment, read_secret=self._read_secret)
        return Link(entry, vault, kind.logins, self._around, right=kind.right)


class ClusterProviders:
    """The sources of a delegate, and Jobs in a namespace of the cluster that is verified."""

    def __init__(self, providers: AnyProviders, open_client: OpenClient, namespace: str) -> None:
        self._providers = providers
        self._jobs = JobProvider(open_client, namespace)

    def open(self, *, type: str, provider: str, url: str) -> Provider:
        """As `Providers.open`, with the type `job`."""
        if type == JOB and not provider:
            return self._jobs
        return self._providers.open(type=type, provider=provider, url=url)


def load_providers(
    path: Path | None,
    environment: Mapping[str, str],
    *,
    proxy_for: ProxyFor | None = None,
    read_secret: ReadSecret | None = None,
    retrying: Retrying | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> Providers:
    """The sources of a file; without one only those of tasks' own urls.

    `environment` holds the variables that entries refer to, and proxies and authorities (`SSL_CERT_FILE`) as they hold for this program;
    `retrying` is for tries within one reading. Raises RuleFileError or ProviderConfigurationError, with file and line.
    """
    around = Surroundings(
        proxy_for=proxy_for or _proxies_of(environment).address_for,
        authorities=environment.get("SSL_CERT_FILE", ""),
        retrying=retrying or Retrying(max_attempts=3),
        clock=clock,
    )
    return Providers(path, around, environment=environment, read_secret=read_secret)


def _is_of(entry: Entry, type: str) -> bool:
    """`prometheus` is also Mimir's type, `datadog` both versions', and a proxied source is of its backend's."""
    backend = entry.settings.get("backend", "prometheus") if entry.type == "grafana-proxy" else entry.type
    return type in KINDS[entry.type].types or entry.type.startswith(f"{type}-") or (backend in KINDS and type in KINDS[backend].types)


def _checked(url: str, *, plain: bool) -> str:
    """A task's url: http or https, no credentials, and not what tells a machine's own credentials to whoever asks."""
    parts = urlsplit(url)
    try:
        base = parse_http_url(parts._replace(query="").geturl() if plain else url)
    except ValueError as error:
        raise ProviderConfigurationError(str(error), hint="a source that needs credentials is named by provider") from error
    secret = sorted({name for name, _ in parse_qsl(parts.query, keep_blank_values=True) if _SECRET_PARAMETER.fullmatch(name)})
    if secret:
        words = f"the url holds credentials ({', '.join(secret)}), and a task and its result are no place for them"
        raise ProviderConfigurationError(words, hint="name a provider of the delegate's configuration, whose credentials stay there")
    host = (parts.hostname or "").lower().rstrip(".")
    try:
        forbidden = ipaddress.ip_address(host).is_link_local
    except ValueError:
        forbidden = host in _METADATA_HOSTS
    if forbidden:
        raise ProviderConfigurationError(f"{hide_before_at(url)} is an address of the machine's own metadata, which no task may read")
    return f"{base}{parts.path[len(parts.path.rstrip('/')) :]}{'?' + parts.query if parts.query else ''}" if plain else base


def _proxies_of(environment: Mapping[str, str]) -> ProxyRules:
    def variable(name: str) -> str:
        return environment.get(name) or environment.get(name.upper()) or ""

    http, https = variable("http_proxy"), variable("https_proxy")
    exceptions = tuple(entry for entry in variable("no_proxy").split(",") if entry.strip())
    return ProxyRules(SecretUrl(http) if http else None, SecretUrl(https) if https else None, exceptions)
