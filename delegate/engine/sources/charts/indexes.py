"""Chart repositories over HTTP: an index.yaml that lists the versions of each chart, and packed charts beside it."""

import asyncio
import difflib
import hashlib
import hmac
from collections.abc import Iterator, Mapping
from urllib.parse import urljoin, urlsplit

import msgspec
import yaml

from delegate.engine.sources.charts.answers import error_of
from delegate.engine.sources.errors import ChartDigestError, ChartNotFoundError, UnexpectedAnswerError
from delegate.engine.sources.fetching import WebAccess, fetch
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.versions import Version, is_range, read_range, read_version
from delegate.foundation.redaction import redact
from delegate.foundation.secrets import hide_credentials

INDEX_BYTES = 64 * 1024 * 1024
_MOST_VERSIONS = 200_000
_WORDS = 200
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

    def place_of(self, chosen: ChartVersion) -> str:
        """Where the packed chart is: beside the index, or wherever that says."""
        return urljoin(f"{self._url}/", chosen.url)

    def is_own(self, url: str) -> bool:
        """Whether an address is at the index's own host."""
        return urlsplit(url).netloc == urlsplit(self._url).netloc

    async def fetch(self, chosen: ChartVersion, access: WebAccess) -> bytes:
        """A packed chart, checked against its digest. Raises ChartDigestError and the faults of fetching."""
        url = self.place_of(chosen)
        answer = await fetch(url, access, limit=self._limits.file_bytes)
        if answer.status != 200:
            raise error_of(answer, anonymous=not access.authorization)
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
    """The charts of an index.yaml. Blocks. Raises UnexpectedAnswerError for what is none.

    Read event by event: a large one holds ten thousands of versions, of which all but three fields are for people. Aliases are
    not followed.
    """
    events = _Events(data)
    try:
        found = _read_index(events)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        words = redact(" ".join(str(error).split()))[:_WORDS]
        raise UnexpectedAnswerError(f"{where} is no index of charts: {words}", hint="check the address") from error
    except _TooManyError as error:
        raise UnexpectedAnswerError(f"{where} lists more than {_MOST_VERSIONS} versions of charts") from error
    if found is None:
        raise UnexpectedAnswerError(f"{where} is no index of charts: it has no `entries`", hint="check the address")
    return found


class _TooManyError(Exception):
    pass


class _Events:
    """The events of a YAML document, and the few shapes that are looked for in it."""

    def __init__(self, data: bytes) -> None:
        self._events: Iterator[yaml.Event] = iter(yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        self._back: yaml.Event | None = None

    def next(self) -> yaml.Event:
        back, self._back = self._back, None
        event = back or next(self._events, None)
        if event is None:
            raise yaml.YAMLError("it breaks off")
        return event

    def text(self) -> str:
        """A scalar's text; empty for anything else, which is passed over."""
        event = self.next()
        if isinstance(event, yaml.ScalarEvent):
            return str(event.value)
        self._skip(event)
        return ""

    def members(self) -> Iterator[str]:
        """The keys of the mapping that begins now; whoever asks takes or skips each value. None where it is no mapping."""
        event = self.next()
        if not isinstance(event, yaml.MappingStartEvent):
            self._skip(event)
            return
        while not isinstance(event := self.next(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                self._skip(event)
            yield str(event.value) if isinstance(event, yaml.ScalarEvent) else ""

    def items(self) -> Iterator[yaml.Event]:
        """The first events of the members of the sequence that begins now."""
        event = self.next()
        if not isinstance(event, yaml.SequenceStartEvent):
            self._skip(event)
            return
        while not isinstance(event := self.next(), yaml.SequenceEndEvent):
            yield event

    def put_back(self, event: yaml.Event) -> None:
        self._back = event

    def skip(self) -> None:
        self._skip(self.next())

    def _skip(self, event: yaml.Event) -> None:
        depth = int(isinstance(event, yaml.CollectionStartEvent))
        while depth:
            event = self.next()
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)


def _read_index(events: _Events) -> Index | None:
    found: dict[str, tuple[ChartVersion, ...]] | None = None
    events.next(), events.next()  # of the stream and its first document
    count = 0
    for key in events.members():
        if key != "entries":
            events.skip()
            continue
        found = {}
        for name in events.members():
            found[name] = tuple(_versions(events))
            count += len(found[name])
            if count > _MOST_VERSIONS:
                raise _TooManyError
    return found


def _versions(events: _Events) -> Iterator[ChartVersion]:
    for first in events.items():
        events.put_back(first)
        version = url = digest = ""
        for field in events.members():
            match field:
                case "version":
                    version = events.text()
                case "digest":
                    digest = events.text()
                case "urls":
                    url = _first_url(events)
                case _:
                    events.skip()
        if version and url:
            yield ChartVersion(version, url, digest.removeprefix("sha256:"))


def _first_url(events: _Events) -> str:
    url = ""
    for first in events.items():
        events.put_back(first)
        text = events.text()
        url = url or text
    return url


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
