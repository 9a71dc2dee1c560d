"""Chart repositories over HTTP: an index.yaml that lists the versions of each chart, and packed charts beside it."""

import asyncio
import difflib
import hashlib
import hmac
from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

import msgspec

from delegate.engine.sources.charts.answers import error_of
from delegate.engine.sources.errors import ChartDigestError, ChartNotFoundError, UnexpectedAnswerError
from delegate.engine.sources.fetching import WebAccess, fetch
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.documents import as_object
from delegate.engine.sources.loader.files import SourceFile
from delegate.engine.sources.loader.plain import decode_documents
from delegate.engine.sources.versions import Version, is_range, read_range, read_version
from delegate.foundation.errors import DelegateError
from delegate.foundation.secrets import hide_credentials

INDEX_BYTES = 64 * 1024 * 1024
_INDEX_LIMITS = SourceLimits(file_bytes=INDEX_BYTES, nodes=8_000_000)
_SHOWN = 5


class ChartVersion(msgspec.Struct, frozen=True):
    """One version of a chart. `digest` is the SHA-256 of the packed chart; empty where the repository doesn't say."""

    version: str
    url: str
    digest: str = ""


Index = Mapping[str, tuple[ChartVersion, ...]]


class HttpRepository:
    """One chart repository. The index is asked for each time, and read again only where it has changed."""

    def __init__(self, url: str, limits: SourceLimits) -> None:
        self._url = url.rstrip("/")
        self._limits = limits
        self._validators: dict[str, str] = {}
        self._index: Index = {}
        self._lock = asyncio.Lock()

    async def resolve(self, chart: str, version: str, access: WebAccess) -> ChartVersion:
        """The version of a chart that a version or a range means.

        Raises ChartNotFoundError and the faults of fetching.
        """
        index = await self._read(access)
        shown = hide_credentials(self._url)
        if chart not in index:
            near = difflib.get_close_matches(chart, index, n=_SHOWN, cutoff=0.5)
            hint = f"did you mean {', '.join(near)}?" if near else "check the name of the chart"
            raise ChartNotFoundError(f"{shown} has no chart {chart!r}", hint=hint)
        return choose_version(f"{shown}: chart {chart}", index[chart], version)

    async def fetch(self, chosen: ChartVersion, access: WebAccess) -> bytes:
        """A packed chart, checked against its digest. Raises ChartDigestError and the faults of fetching."""
        url = urljoin(f"{self._url}/", chosen.url)
        same_host = urlsplit(url).netloc == urlsplit(self._url).netloc
        answer = await fetch(url, access, limit=self._limits.file_bytes, authorization=None if same_host else "")
        if answer.status != 200:
            raise error_of(answer, anonymous=not (access.authorization and same_host))
        check_digest(answer.body, chosen.digest, hide_credentials(url))
        return answer.body

    async def _read(self, access: WebAccess) -> Index:
        url = f"{self._url}/index.yaml"
        async with self._lock:
            answer = await fetch(url, access, limit=INDEX_BYTES, headers=self._validators)
            if answer.status == 304 and self._index:
                return self._index
            if answer.status != 200:
                raise error_of(answer, anonymous=not access.authorization)
            self._index = await asyncio.to_thread(read_index, answer.body, hide_credentials(url))
            names = {"etag": "If-None-Match", "last-modified": "If-Modified-Since"}
            self._validators = {names[name]: value for name, value in answer.headers.items() if name in names}
            return self._index


def read_index(data: bytes, where: str) -> Index:
    """The charts of an index.yaml. Blocks. Raises UnexpectedAnswerError for what is none."""
    try:
        documents = decode_documents(SourceFile("index.yaml", data), _INDEX_LIMITS, tolerant=True)
    except DelegateError as error:
        raise UnexpectedAnswerError(f"{where} is no index of charts: {error.message}", hint="check the address") from error
    body = as_object(documents[0].body) if documents else None
    entries = as_object((body or {}).get("entries"))
    if entries is None:
        raise UnexpectedAnswerError(f"{where} is no index of charts: it has no `entries`", hint="check the address")
    return {name: tuple(_versions(listed)) for name, listed in entries.items()}


def _versions(listed: object) -> list[ChartVersion]:
    found = []
    for each in listed if isinstance(listed, list) else ():
        entry = as_object(each) or {}
        urls = entry.get("urls")
        url = urls[0] if isinstance(urls, list) and urls else None
        if isinstance(entry.get("version"), str) and isinstance(url, str):
            digest = str(entry.get("digest") or "").removeprefix("sha256:")
            found.append(ChartVersion(entry["version"], url, digest))
    return found


def choose_version(where: str, listed: tuple[ChartVersion, ...], wanted: str) -> ChartVersion:
    """The version that is called so, else the newest one in the range. `HEAD` is any that is no pre-release."""
    exact = next((each for each in listed if each.version == wanted), None)
    if exact is not None:
        return exact
    found = read_range("*" if wanted in ("", "HEAD", "latest") else wanted)
    by_text: dict[str, ChartVersion] = {}
    versions: list[Version] = []
    for each in listed:
        version = read_version(each.version)
        if version is not None:
            by_text.setdefault(each.version, each)
            versions.append(version)
    one = read_version(wanted)
    if one is not None and not is_range(wanted):
        same = next((version for version in versions if version == one), None)  # with v and without
        if same is not None:
            return by_text[same.text]
    elif found is not None:
        newest = found.newest(versions)
        if newest is not None:
            return by_text[newest.text]
    shown = ", ".join(version.text for version in sorted(versions, reverse=True)[:_SHOWN])
    hint = f"the newest are {shown}" if shown else "it has none that can be read"
    raise ChartNotFoundError(f"{where} has no version {wanted!r}", hint=hint)


def check_digest(data: bytes, digest: str, where: str) -> None:
    """Raises ChartDigestError where data isn't what was promised."""
    found = hashlib.sha256(data).hexdigest()
    if digest and not hmac.compare_digest(found, digest.lower()):
        hint = "the file was changed after the repository was indexed, or on its way; ask who keeps the repository"
        raise ChartDigestError(f"{where}: its digest is {found[:16]}..., and {digest[:16]}... was promised", hint=hint)
