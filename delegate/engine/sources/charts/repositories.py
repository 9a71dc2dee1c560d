"""Chart repositories as sources: what a version means, and the files of one; and charts that other charts depend on."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from delegate.engine.sources.access.books import AccessBook
from delegate.engine.sources.access.entries import Entry, Kind
from delegate.engine.sources.charts.archives import ArchiveTree, read_archive
from delegate.engine.sources.charts.indexes import ChartVersion, HttpRepository, check_digest
from delegate.engine.sources.charts.registries import Registry
from delegate.engine.sources.dependencies import Dependency
from delegate.engine.sources.errors import AccessError
from delegate.engine.sources.fetching import WebAccess, proxies_of, rules_from, system_authority
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.files import SourceFile
from delegate.engine.sources.stores import DigestStore
from delegate.foundation.redaction import KNOWN_SECRETS
from delegate.foundation.secrets import Secret, hide_credentials
from delegate.model.sources import Source

_MOST_REPOSITORIES = 50
_MOST_ARCHIVES = 200
_ALIASES = ("@", "alias:")


class Artifact(NamedTuple):
    """A fetched archive, and where in it the source's path begins: in a chart, at the chart."""

    tree: ArchiveTree
    path: str


class ChartRepositories:
    """Every chart repository that this process reads. `cache_dir` holds what was fetched."""

    def __init__(self, *, cache_dir: Path, book: AccessBook, limits: SourceLimits, environment: Mapping[str, str]) -> None:
        self._book = book
        self._limits = limits
        self._rules = rules_from(environment)
        self._environment = environment
        self._store = DigestStore(cache_dir / "charts", most_files=_MOST_ARCHIVES)
        self._http: OrderedDict[str, HttpRepository] = OrderedDict()
        self._registries: OrderedDict[str, Registry] = OrderedDict()
        self._unpromised: dict[tuple[str, str], str] = {}

    async def resolve(self, source: Source) -> ChartVersion:
        """The version that a source means right now. Raises ChartNotFoundError, AccessError and the faults of fetching."""
        address = address_of(source)
        access = await self._access(address)
        if is_registry(address):
            return await self._registry(address).resolve(source.target_revision, access)
        return await self._repository(address).resolve(source.chart, source.target_revision, access)

    async def open(self, source: Source, chosen: ChartVersion) -> Artifact:
        """The files of a version. Raises ChartDigestError, UnexpectedAnswerError, SourceTooLargeError, faults of fetching."""
        address = address_of(source)
        where = f"{hide_credentials(address)} {source.chart} {chosen.version}".replace("  ", " ")
        if is_registry(address):
            data, is_chart = await self._pull(address, chosen)
        else:
            passes_on = source.helm is not None and source.helm.pass_credentials
            data, is_chart = await self._download(address, chosen, pass_credentials=passes_on), True
        tree = await asyncio.to_thread(read_archive, data, where, self._limits)
        return Artifact(tree, _top(tree) if is_chart else "")

    async def fetch_dependency(self, dependency: Dependency) -> SourceFile | None:
        """A chart that another one needs; None where its repository is none of those that are written down."""
        address = dependency.repository
        if address.startswith(_ALIASES):
            named = await self._book.named(address.removeprefix("@").removeprefix("alias:"))
            if named is None:
                return None
            address = f"oci://{named.url.removeprefix('oci://')}" if named.kind is Kind.OCI else named.url
        registry = is_registry(address)
        if await self._book.find(address, _kinds(registry)) is None:
            return None
        address = f"{address.rstrip('/')}/{dependency.name}" if registry else address
        access = await self._access(address)
        if registry:
            chosen = await self._registry(address).resolve(dependency.version or "*", access)
            data, _ = await self._pull(address, chosen)
        else:
            chosen = await self._repository(address).resolve(dependency.name, dependency.version or "*", access)
            data = await self._download(address, chosen)
        return SourceFile(f"{dependency.name}-{chosen.version}.tgz", data)

    async def _pull(self, address: str, chosen: ChartVersion) -> tuple[bytes, bool]:
        """Kept under the manifest's digest, which stands for the archive's; with a mark for what is a chart."""
        known = self._unpromised.get((address, chosen.digest))
        kept = await self._store.get(known.removeprefix("chart:")) if known else None
        if known and kept is not None:
            return kept, known.startswith("chart:")
        data, is_chart = await self._registry(address).fetch(chosen, await self._access(address))
        digest = await self._store.put(data)
        self._unpromised[(address, chosen.digest)] = f"chart:{digest}" if is_chart else digest
        return data, is_chart

    async def _download(self, address: str, chosen: ChartVersion, *, pass_credentials: bool = False) -> bytes:
        digest = chosen.digest or self._unpromised.get((address, chosen.url), "")
        kept = await self._store.get(digest)
        if kept is not None:
            return kept
        repository, access = self._repository(address), await self._access(address)
        url = repository.place_of(chosen)
        if not repository.is_own(url):
            access = await self._elsewhere(url, access, pass_credentials=pass_credentials)
        data = await repository.fetch(chosen, access)
        check_digest(data, chosen.digest, hide_credentials(chosen.url))
        self._unpromised[(address, chosen.url)] = await self._store.put(data)
        return data

    async def _elsewhere(self, url: str, access: WebAccess, *, pass_credentials: bool) -> WebAccess:
        """The way to a chart at another host than its index: by that host's authorities, as somebody only if that is asked for."""
        authority = (await self._book.current()).authority_for(url) or await system_authority(self._environment)
        known = WebAccess(access.username, access.password, access.token) if pass_credentials else WebAccess()
        return msgspec.structs.replace(known, authority=authority, proxies=access.proxies)

    async def _access(self, address: str) -> WebAccess:
        """Who we are to a repository: by its address, else by what is written of it."""
        entry = await self._book.find(address, _kinds(is_registry(address)))
        if entry is not None and entry.unsupported:
            raise AccessError(f"{hide_credentials(address)}: {', '.join(entry.unsupported)} is not supported", file=entry.origin)
        current = await self._book.current()
        url = address if "://" in address else f"https://{address}"
        authority = current.authority_for(url) or await system_authority(self._environment)
        given = _from_entry(entry) if entry is not None else WebAccess()
        parts = urlsplit(url)
        if parts.password:
            password = Secret(parts.password)
            KNOWN_SECRETS.add(password)
            given = msgspec.structs.replace(given, username=parts.username or "", password=password)
        proxies = proxies_of(entry.proxy, entry.no_proxy, self._rules) if entry is not None else self._rules
        return msgspec.structs.replace(given, authority=authority, proxies=proxies)

    def _repository(self, address: str) -> HttpRepository:
        if address not in self._http:
            self._http[address] = HttpRepository(_without_login(address), self._limits)
            if len(self._http) > _MOST_REPOSITORIES:
                self._http.popitem(last=False)
        self._http.move_to_end(address)
        return self._http[address]

    def _registry(self, address: str) -> Registry:
        if address not in self._registries:
            self._registries[address] = Registry(address, self._limits)
            if len(self._registries) > _MOST_REPOSITORIES:
                self._registries.popitem(last=False)
        self._registries.move_to_end(address)
        return self._registries[address]


def is_chart_source(source: Source) -> bool:
    """Whether a source comes from a chart repository or a registry, and not from Git."""
    return bool(source.chart) or source.repo_url.startswith("oci://")


def address_of(source: Source) -> str:
    """An HTTP repository's own address; in a registry that of the chart."""
    url = source.repo_url.rstrip("/")
    return f"{url}/{source.chart}" if source.chart and is_registry(url) else url


def is_registry(address: str) -> bool:
    return address.startswith("oci://") or "://" not in address


def _kinds(registry: bool) -> tuple[Kind, ...]:
    return (Kind.OCI, Kind.HELM) if registry else (Kind.HELM,)


def _from_entry(entry: Entry) -> WebAccess:
    return WebAccess(
        username=entry.username,
        password=entry.password,
        token=entry.bearer_token,
        certificate=entry.tls_certificate,
        key=entry.tls_key,
        insecure=entry.insecure,
        plain_http=entry.plain_http,
    )


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _top(tree: ArchiveTree) -> str:
    """The one directory that a packed chart holds."""
    names = list(tree.top_names())
    return names[0] if len(names) == 1 else ""
