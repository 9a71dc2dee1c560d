"""The files that rendering a chart takes: all of its directory, charts that stand beside it, values from its repository.

Paths are resolved inside the repository, links step by step; what leads out is named. A dependency that is neither in the
chart nor beside it is fetched only where its repository is one of those that are configured.
"""

import fnmatch
import posixpath
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Generic, NamedTuple
from urllib.parse import urlsplit

from delegate.engine.sources.dependencies import Dependency, FetchChart
from delegate.engine.sources.errors import (
    ChartDependencyError,
    ChartError,
    LinkError,
    OutsideSourceError,
    PathNotFoundError,
)
from delegate.engine.sources.exporting import Export
from delegate.engine.sources.helm.charts import CHART_FILE, DEPENDENCY_FILES, Chart, read_chart
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.files import SourceFile, refuse_pointers
from delegate.engine.sources.searching import absent_submodule, find_start
from delegate.engine.sources.trees import (
    CircleError,
    Entry,
    EntryKind,
    Found,
    Handle,
    InSubmoduleError,
    MissingError,
    OutsideError,
    Place,
    Tree,
    find_place,
    opened,
    text_of,
    top_of,
)

Parts = tuple[str, ...]
_DEEPEST = 20
_PACKED = (".tgz", ".tar.gz")
_GLOB = re.compile(r"[*?\[]")
_HINT = "commit what `helm dependency build` puts into charts/, or configure its repository"


class Needed(NamedTuple, Generic[Handle]):
    """What a chart takes from its tree: the chart's files by their place below it, and charts that were fetched."""

    chart: Chart
    export: Export[Handle]
    fetched: list[SourceFile]


class ChartClosure(Generic[Handle]):
    """One walk over a chart and the charts beside it."""

    def __init__(self, tree: Tree[Handle], limits: SourceLimits, where: str, fetch: FetchChart) -> None:
        self._tree = tree
        self._limits = limits
        self._where = where
        self._fetch = fetch
        self._export: Export[Handle] = Export(limits, where)
        self._fetched: list[SourceFile] = []

    async def collect(self, place: Place[Handle]) -> Needed[Handle]:
        """Raises ChartError, ChartDependencyError, LinkError, SubmoduleError, SourceTooLargeError, faults of decoding."""
        chart = await self._take_chart(place, (), [])
        return Needed(chart, self._export, self._fetched)

    async def _take_chart(self, place: Place[Handle], to: Parts, above: list[Parts]) -> Chart:
        if place.path in above or len(above) > _DEEPEST:
            raise ChartError(f"{self._where}: the charts in {text_of(place.path)} depend on each other in a circle")
        members = await self._tree.list_directory(place.entry.handle, text_of(place.path))
        if CHART_FILE not in members:
            shown = text_of(place.path) or "."
            raise PathNotFoundError(f"{self._where}: there is no chart in {shown}: no {CHART_FILE}", hint="check the path", file=shown)
        chart = await self._read_chart(place, members)
        await self._walk(place, to, [])
        present = await self._present(place, members)
        wanted = {dependency.name for dependency in chart.dependencies}
        strays = [name for name in present if name.endswith(_PACKED) and not any(_is_called(name, each) for each in wanted)]
        for dependency in chart.dependencies:
            if strays or any(_is_called(name, dependency.name) for name in present):
                continue  # what a stray package is called inside, helm will see
            try:
                await self._add_dependency(place, chart, dependency, (*to, "charts"), [*above, place.path])
            except ChartDependencyError:
                if not above:
                    raise  # a chart that this one depends on is taken as it is, as helm takes it
        return chart

    async def _read_chart(self, place: Place[Handle], members: Mapping[str, Entry[Handle]]) -> Chart:
        names = [name for name in (CHART_FILE, *DEPENDENCY_FILES) if name in members]
        found = []
        for name in names:
            member = await self._find(place, (name,))
            if member.entry.kind is not EntryKind.FILE:
                raise ChartError(f"{self._where}: it is no file", file=text_of((*place.path, name)))
            found.append(Found(text_of((*place.path, name)), member.entry.handle))
        file, *others = await self._tree.read_files(found)
        refuse_pointers([file, *others])
        return read_chart(file, others, self._limits)

    async def _present(self, place: Place[Handle], members: Mapping[str, Entry[Handle]]) -> list[str]:
        """What charts/ holds: names of directories' charts, and of packed charts' files."""
        if "charts" not in members:
            return []
        charts = await self._find(place, ("charts",))
        if charts.entry.kind is not EntryKind.DIRECTORY:
            return []
        names = []
        for name in await self._tree.list_directory(charts.entry.handle, text_of(charts.path)):
            names.append(name)
            inner = await self._find(charts, (name,))
            if inner.entry.kind is EntryKind.DIRECTORY:
                below = await self._tree.list_directory(inner.entry.handle, text_of(inner.path))
                if CHART_FILE in below:
                    names.append((await self._read_chart(inner, below)).name)
        return names

    async def _add_dependency(self, place: Place[Handle], chart: Chart, dependency: Dependency, to: Parts, above: list[Parts]) -> None:
        if dependency.repository.startswith("file://"):
            path = dependency.repository.removeprefix("file://")
            start = top_of(self._tree) if path.startswith("/") else place
            try:
                beside = await self._find(start, path.split("/"))
            except MissingError:
                raise _missing(chart, dependency, f"there is no {path}") from None
            await self._take_chart(beside, (*to, dependency.name), above)
            return
        if not dependency.repository:
            raise _missing(chart, dependency, "it is not in charts/, and no repository is named")
        packed = await self._fetch(dependency)
        if packed is None:
            raise _missing(chart, dependency, f"it is not in charts/, and {_shown(dependency.repository)} is not configured")
        self._fetched.append(SourceFile("/".join((*to, packed.path)), packed.data))

    async def _walk(self, place: Place[Handle], to: Parts, entered: list[Parts]) -> None:
        if place.path in entered or len(entered) > self._limits.directory_depth:
            raise LinkError(f"{self._where}: {text_of(place.path)} leads in circles, or too deep", file=text_of(place.path))
        for name, member in (await self._tree.list_directory(place.entry.handle, text_of(place.path))).items():
            if name == ".git":
                continue
            entry = await opened(self._tree, member, name)
            if entry.kind is EntryKind.SUBMODULE:
                raise absent_submodule(text_of((*place.path, name)), self._where)
            if entry.kind is EntryKind.LINK:
                await self._follow(place, name, to, [*entered, place.path])
            elif entry.kind is EntryKind.DIRECTORY:
                await self._walk(Place((*place.above, (name, place.entry)), entry), (*to, name), [*entered, place.path])
            elif entry.kind is EntryKind.FILE:
                self._export.add_file((*to, name), entry.handle)

    async def _follow(self, place: Place[Handle], name: str, to: Parts, entered: list[Parts]) -> None:
        """A link becomes what it leads to."""
        shown = text_of((*place.path, name))
        try:
            found = await self._find(place, (name,))
        except MissingError:
            raise LinkError(
                f"{self._where}: {shown} is a link to nothing", hint="remove it, or name it in .helmignore", file=shown
            ) from None
        if found.entry.kind is EntryKind.DIRECTORY:
            await self._walk(found, (*to, name), entered)
        elif found.entry.kind is EntryKind.FILE:
            self._export.add_file((*to, name), found.entry.handle)

    async def _find(self, place: Place[Handle], parts: Parts | list[str]) -> Place[Handle]:
        return await find_inside(self._tree, place, parts, self._where)


class ValueFile(NamedTuple):
    """A file of a repository whose content becomes values. `shown` is its path there."""

    tree: Tree[Any]
    found: Found[Any]

    @property
    def shown(self) -> str:
        return self.found.path


class ValueSearch(Generic[Handle]):
    """Files of values by their paths: relative to a chart, or with a leading `/` to the repository's top."""

    def __init__(self, tree: Tree[Handle], chart: Place[Handle], where: str) -> None:
        self._tree = tree
        self._chart = chart
        self._where = where

    async def find(self, path: str) -> list[ValueFile]:
        """The files that a path or a pattern means, by name; empty where there is none.

        Raises ChartError for a URL or a directory, LinkError for what leads out of the repository.
        """
        if "://" in path:
            hint = "put the file into the repository, or make its repository a source with a ref"
            raise ChartError(f"{path} would be fetched, and a render reaches no network", hint=hint)
        start = top_of(self._tree) if path.startswith("/") else self._chart
        parts = [part for part in posixpath.normpath(path.lstrip("/") or ".").split("/") if part != "."]
        if not any(map(_GLOB.search, parts)):
            try:
                return [await self._file(start, parts)]
            except MissingError:
                return []
        fixed = next(index for index, part in enumerate(parts) if _GLOB.search(part))
        try:
            directory = await find_inside(self._tree, start, parts[:fixed], self._where)
        except MissingError:
            return []
        matches = [found async for found in self._matches(directory, parts[fixed:], [])]
        return [await self._file(directory, found) for found in sorted(matches)]

    async def _file(self, start: Place[Handle], parts: list[str]) -> ValueFile:
        place = await find_inside(self._tree, start, parts, self._where)
        shown = text_of(place.path)
        if place.entry.kind is not EntryKind.FILE:
            raise ChartError(f"{self._where}: {shown or '.'} is no file of values", file=shown)
        return ValueFile(self._tree, Found(shown, place.entry.handle))

    async def _matches(self, directory: Place[Handle], pattern: list[str], above: list[str]) -> AsyncIterator[list[str]]:
        """Paths below a directory that a pattern matches; `**` stands for any number of directories."""
        if directory.entry.kind is not EntryKind.DIRECTORY or len(above) > _DEEPEST:
            return
        first, rest = pattern[0], pattern[1:]
        members = await self._tree.list_directory(directory.entry.handle, text_of(directory.path))
        if first == "**" and rest:
            async for found in self._matches(directory, rest, above):
                yield found
        for name in sorted(members):
            entry = await opened(self._tree, members[name], name)
            if first == "**" and entry.kind is EntryKind.DIRECTORY and name != ".git":
                inner = Place((*directory.above, (name, directory.entry)), entry)
                async for found in self._matches(inner, pattern, [*above, name]):
                    yield found
            if first == "**" and rest:
                continue
            if fnmatch.fnmatchcase(name, "*" if first == "**" else first):
                if rest:
                    inner = await find_inside(self._tree, directory, (name,), self._where)
                    async for found in self._matches(inner, rest, [*above, name]):
                        yield found
                elif entry.kind in (EntryKind.FILE, EntryKind.LINK):
                    yield [*above, name]


async def find_inside(tree: Tree[Handle], place: Place[Handle], parts: Parts | list[str], where: str) -> Place[Handle]:
    """The place that a path leads to, inside the repository.

    Raises MissingError where there is nothing, LinkError where it leads out or in circles, SubmoduleError.
    """
    shown = text_of((*place.path, *parts))
    try:
        return await find_place(tree, place, list(parts))
    except InSubmoduleError as error:
        raise absent_submodule(error.path, where) from None
    except OutsideError:
        kind = OutsideSourceError if ".." in parts else LinkError
        raise kind(f"{where}: {shown} leads out of the repository", hint="keep it inside", file=shown) from None
    except CircleError:
        raise LinkError(f"{where}: {shown} leads in circles", file=shown) from None


async def find_chart(tree: Tree[Handle], path: str, where: str) -> Place[Handle]:
    """The directory of a chart. Raises PathNotFoundError, LinkError, SubmoduleError."""
    place = await find_start(tree, path, where)
    if place.entry.kind is not EntryKind.DIRECTORY:
        raise PathNotFoundError(f"{where}: {path} is no directory with a chart", hint="check the path", file=path)
    return place


def _is_called(name: str, wanted: str) -> bool:
    """Whether a member of charts/ is a chart of that name: its directory, or its package `name-1.2.3.tgz`."""
    return name == wanted or (name.endswith(_PACKED) and re.match(rf"{re.escape(wanted)}-v?\d", name) is not None)


def _missing(chart: Chart, dependency: Dependency, words: str) -> ChartDependencyError:
    message = f"the chart {chart.name} needs {dependency.name} {dependency.version}: {words}"
    return ChartDependencyError(message, hint=_HINT, file=chart.path, line=dependency.line or None)


def _shown(repository: str) -> str:
    parts = urlsplit(repository)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.hostname else repository
