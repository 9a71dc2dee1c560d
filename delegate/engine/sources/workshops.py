"""What renderers share: the programs, a place for jails, the limits, the cache, the threads that decode."""

import asyncio
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from delegate.engine.sources.caches import RenderCache
from delegate.engine.sources.dependencies import FetchChart, fetch_nothing
from delegate.engine.sources.jails.running import Jail
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.files import Loaded, SourceFile
from delegate.engine.sources.programs import Program
from delegate.engine.sources.settings import RenderSettings
from delegate.engine.sources.targets import Target
from delegate.engine.sources.trees import Handle, Tree
from delegate.foundation.redaction import redact
from delegate.model.sources import Source

T = TypeVar("T")
_LOADER_THREADS = 2
_SHOWN_CHARACTERS = 500
_ERRORS, _BREAKDOWNS = ("error:",), ("panic:", "fatal error:", "sigsegv:", "sigabrt:", "runtime:")
_MOST_ASKED = 2000


class Lent(NamedTuple):
    """The tree of a source that lends its files to others by its `ref`."""

    tree: Tree[Any]
    where: str


@dataclass(frozen=True)
class Request(Generic[Handle]):
    """A source's tree, to be rendered for a target. `variables` are Argo CD's names (see `variables`).

    `lent` are the trees of other sources by their refs, `fetch` brings charts that a chart depends on.
    """

    tree: Tree[Handle]
    source: Source
    where: str
    variables: Mapping[str, str]
    target: Target = field(default_factory=Target)
    lent: Mapping[str, Lent] = field(default_factory=dict)
    fetch: FetchChart = fetch_nothing


@dataclass(frozen=True)
class Product:
    """What a source holds. `content` is the same wherever all that was read and asked for is the same."""

    loaded: Loaded
    content: str
    notices: tuple[str, ...] = ()


class Workshop:
    """One for a process. `directory` is where jails are made, `outside` our own environment."""

    def __init__(self, directory: Path, settings: RenderSettings, limits: SourceLimits, outside: Mapping[str, str]) -> None:
        self.directory = directory
        self.settings = settings
        self.limits = limits
        self.cache = RenderCache(limits.cache_bytes)
        self.asked: OrderedDict[str, tuple[str, ...]] = OrderedDict()
        self.kubectl = _kustomizer(settings.kubectl, outside)
        self.helm = Program(settings.helm, ("version", "--short"), outside=outside, variable="DELEGATE_HELM")
        self.turns = asyncio.Semaphore(settings.limits.at_once)
        self._executor = ThreadPoolExecutor(_LOADER_THREADS, thread_name_prefix="loader")

    def close(self) -> None:
        """Ends the threads once they are idle."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def decode(self, call: Callable[[threading.Event], T]) -> T:
        """Runs what costs CPU in a thread of ours; if we are cancelled, it ends at the next document."""
        stop = threading.Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, call, stop)
        finally:
            stop.set()

    async def cached(self, key: str) -> Loaded | None:
        return await self.decode(lambda stop: self.cache.get(key)) if key else None

    def remember_asked(self, key: str, paths: Iterable[str]) -> None:
        """What a render asked its cluster for, so that it needn't be done again where the answers are the same."""
        self.asked[key] = tuple(paths)
        self.asked.move_to_end(key)
        while len(self.asked) > _MOST_ASKED:
            self.asked.popitem(last=False)

    async def keep(self, key: str, loaded: Loaded) -> None:
        await self.decode(lambda stop: self.cache.put(key, loaded))


def _kustomizer(name: str, outside: Mapping[str, str]) -> Program:
    arguments = ("version",) if Path(name).name.startswith("kustomize") else ("version", "--client")
    return Program(name, arguments, outside=outside, variable="DELEGATE_KUBECTL")


def key_of(*parts: str) -> str:
    """One key of several texts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode(errors="surrogatepass")
        digest.update(f"{len(data)} ".encode() + data)
    return digest.hexdigest()


def fingerprint_of(files: Sequence[SourceFile]) -> str:
    """The same for the same bytes at the same paths."""
    digest = hashlib.sha256()
    for path, data in files:
        name = path.encode(errors="surrogateescape")
        digest.update(f"{len(name)} ".encode() + name + f" {len(data)}\n".encode() + data)
    return digest.hexdigest()


def words_of(stderr: str, jail: Jail, *, lines: int = 1) -> str:
    """What a renderer complained about, without the names of our own directories and without secrets; cut short."""
    said = [line.strip() for line in stderr.splitlines() if line.strip()]
    beginnings = (_ERRORS, _BREAKDOWNS)  # what follows a breakdown are stacks and registers
    starts = [index for words in beginnings for index, line in enumerate(said) if line.lower().startswith(words)]
    start = starts[0] if starts else len(said) - 1
    telling = " ".join(said[max(start, 0) :][:lines]) or "it said nothing"
    text = telling.removeprefix("Error:").removeprefix("error:").strip()
    for directory in (jail.inside.resolve(), jail.inside):
        text = text.replace(f"{directory}/", "").replace(str(directory), ".")
    text = redact(text)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
