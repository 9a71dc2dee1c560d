"""Finds the manifest files below a path, wherever the tree is kept: in a commit or in a directory of this machine.

Symbolic links are followed inside the tree and never out of it, step by step, as `openat` would with every link opened by
hand; what leads out, in circles or nowhere is named. Files come in path order, directory by directory, as kubectl and
Argo CD walk.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from delegate.engine.sources.errors import (
    LinkError,
    NoManifestsError,
    PathNotFoundError,
    SourceTooLargeError,
    SubmoduleError,
    UnreadableFileError,
)
from delegate.engine.sources.globs import Filter
from delegate.engine.sources.limits import SourceLimits

_MOST_LINKS = 40
"""Links followed for one path: what Linux allows (path_resolution(7))."""

Handle = TypeVar("Handle")
HandleT_co = TypeVar("HandleT_co", covariant=True)


class EntryKind(enum.Enum):
    FILE = enum.auto()
    DIRECTORY = enum.auto()
    LINK = enum.auto()
    SUBMODULE = enum.auto()
    OTHER = enum.auto()


class Entry(NamedTuple, Generic[Handle]):
    """A member of a directory; `handle` is whatever its tree finds it by."""

    kind: EntryKind
    handle: Handle


class Tree(Protocol[Handle]):
    """A tree of files. Members are asked for one directory at a time."""

    @property
    def root(self) -> Entry[Handle]:
        """The directory that nothing may lead out of."""
        ...

    async def list_directory(self, handle: Handle, shown: str) -> Mapping[str, Entry[Handle]]:
        """What a directory holds, by name."""
        ...

    async def read_link(self, handle: Handle, shown: str) -> str:
        """Where a symbolic link points."""
        ...


class Found(NamedTuple, Generic[Handle]):
    """A manifest file: its path as people see it, and how its tree finds it."""

    path: str
    handle: Handle


class _Place(NamedTuple, Generic[Handle]):
    """A node and the directories above it, the root first, each with the name of its member on the way."""

    above: tuple[tuple[str, Entry[Handle]], ...]
    entry: Entry[Handle]

    @property
    def path(self) -> tuple[str, ...]:
        """Where it really is, whatever links led to it."""
        return tuple(name for name, _ in self.above)


class _OutsideError(Exception):
    """A path or link that leads out of the tree."""


class _MissingError(Exception):
    """A path or link that leads to nothing."""


class _CircleError(Exception):
    """More links than a path may have."""


class Search(Generic[Handle]):
    """One search for the manifests of a source."""

    def __init__(self, tree: Tree[Handle], *, recurse: bool, chosen: Filter, limits: SourceLimits, where: str) -> None:
        self._tree = tree
        self._recurse = recurse
        self._chosen = chosen
        self._limits = limits
        self._where = where
        self._found: list[Found[Handle]] = []
        self._start: tuple[str, ...] = ()
        self._entered: list[tuple[str, ...]] = []
        self._directories = 0
        self.notices: list[str] = []

    async def find(self, path: str) -> list[Found[Handle]]:
        """The manifest files at `path` (a directory or one file), in path order.

        Raises PathNotFoundError, NoManifestsError, LinkError, SubmoduleError, UnreadableFileError, SourceTooLargeError.
        """
        parts = tuple(part for part in path.split("/") if part not in ("", "."))
        shown = _text(parts) or "."
        place = await self._resolve_start(parts, shown)
        kind = place.entry.kind
        if kind is EntryKind.FILE:
            return [Found(shown, place.entry.handle)]
        if kind is EntryKind.SUBMODULE:
            raise _absent_submodule(shown, self._where)
        if kind is not EntryKind.DIRECTORY:
            raise UnreadableFileError(f"{self._where}: {shown} is neither a directory nor a file", file=shown)
        self._start = parts
        await self._walk(place, parts)
        if not self._found:
            words = "*.yaml, *.yml or *.json" + (" that is included" if self._chosen else "")
            hint = "check the path" if self._recurse else "directories below it are not read, because recurse is off"
            raise NoManifestsError(f"{self._where}: no manifests in {shown}: there is no {words}", hint=hint, file=shown)
        return self._found

    async def _resolve_start(self, parts: tuple[str, ...], shown: str) -> _Place[Handle]:
        try:
            return await self._resolve(_Place((), self._tree.root), parts)
        except _OutsideError:
            raise LinkError(f"{self._where}: {shown} leads out of the source", file=shown) from None
        except _CircleError:
            raise LinkError(f"{self._where}: {shown} leads in circles", file=shown) from None
        except _MissingError:
            hint = "check the path; it is taken from the top of the source"
            raise PathNotFoundError(f"{self._where}: there is no {shown}", hint=hint, file=shown) from None

    async def _walk(self, place: _Place[Handle], shown: tuple[str, ...]) -> None:
        self._directories += 1
        if len(self._entered) > self._limits.directory_depth or self._directories > self._limits.files:
            words = f"directories nest deeper than {self._limits.directory_depth} levels, or are more than {self._limits.files}"
            raise SourceTooLargeError(f"{self._where}: {words}, at {_text(shown)}", hint="choose a deeper path")
        self._entered.append(place.path)
        members = await self._tree.list_directory(place.entry.handle, _text(shown))
        for name in sorted(members):
            await self._take(place, name, members[name], (*shown, name))
        self._entered.pop()

    async def _take(self, place: _Place[Handle], name: str, entry: Entry[Handle], shown: tuple[str, ...]) -> None:
        path = _text(shown)
        relative = _text(shown[len(self._start) :])
        is_manifest = self._chosen.accepts_file(relative)
        match entry.kind:
            case EntryKind.FILE:
                if is_manifest:
                    self._add(path, entry.handle)
            case EntryKind.DIRECTORY:
                if self._recurse and name != ".git":
                    await self._walk(_Place((*place.above, (name, place.entry)), entry), shown)
            case EntryKind.LINK:
                await self._follow(place, name, shown, is_manifest=is_manifest, excluded=self._chosen.excludes(relative))
            case EntryKind.SUBMODULE:
                if self._recurse and not self._chosen.excludes(relative):
                    raise _absent_submodule(path, self._where)
            case EntryKind.OTHER:
                if is_manifest:
                    raise UnreadableFileError(f"{self._where}: {path} is no regular file", file=path)

    async def _follow(self, place: _Place[Handle], name: str, shown: tuple[str, ...], *, is_manifest: bool, excluded: bool) -> None:
        if excluded:
            return
        path = _text(shown)
        try:
            target = await self._resolve(place, (name,))
        except _OutsideError:
            raise LinkError(f"{self._where}: {path} is a link that leads out of the source", hint=_LINK_HINT, file=path) from None
        except _CircleError:
            raise LinkError(f"{self._where}: {path} is a link that leads in circles", hint=_LINK_HINT, file=path) from None
        except _MissingError:
            if is_manifest:
                raise LinkError(f"{self._where}: {path} is a link to nothing", hint=_LINK_HINT, file=path) from None
            self.notices.append(f"{path}: a link to nothing is skipped")
            return
        match target.entry.kind:
            case EntryKind.FILE if is_manifest:
                self._add(path, target.entry.handle)
            case EntryKind.DIRECTORY if self._recurse:
                if target.path in self._entered:
                    raise LinkError(f"{self._where}: {path} is a link that leads in circles", hint=_LINK_HINT, file=path)
                await self._walk(target, shown)
            case EntryKind.SUBMODULE if self._recurse:
                raise _absent_submodule(path, self._where)
            case _:
                pass

    async def _resolve(self, start: _Place[Handle], parts: Sequence[str]) -> _Place[Handle]:
        """The node that `parts` lead to from a directory. Links on the way, the last one too, are followed by hand."""
        place, pending, links = start, list(reversed(parts)), 0
        while pending:
            part = pending.pop()
            if part in ("", "."):
                continue
            if place.entry.kind is not EntryKind.DIRECTORY:
                raise _MissingError
            if part == "..":
                if not place.above:
                    raise _OutsideError
                place = _Place(place.above[:-1], place.above[-1][1])
                continue
            members = await self._tree.list_directory(place.entry.handle, part)
            entry = members.get(part)
            if entry is None:
                raise _MissingError
            if entry.kind is EntryKind.LINK:
                links += 1
                if links > _MOST_LINKS:
                    raise _CircleError
                target = await self._tree.read_link(entry.handle, part)
                if target.startswith("/"):
                    raise _OutsideError
                pending += reversed(target.split("/"))
                continue
            place = _Place((*place.above, (part, place.entry)), entry)
        return place

    def _add(self, path: str, handle: Handle) -> None:
        if len(self._found) >= self._limits.files:
            raise SourceTooLargeError(f"{self._where}: more than {self._limits.files} files", hint="choose a deeper path, or exclude some")
        self._found.append(Found(path, handle))


_LINK_HINT = "point it to a file inside the source, or leave it out with `exclude`"


def _absent_submodule(path: str, where: str) -> SubmoduleError:
    hint = "submodules are not fetched; leave it out with `exclude`, or keep the manifests in the repository itself"
    return SubmoduleError(f"{where}: {path} is a submodule, whose content is not here", hint=hint, file=path)


def _text(parts: Sequence[str]) -> str:
    """A path as text. Bytes of a name that are no UTF-8 show as escapes."""
    return "/".join(parts).encode(errors="backslashreplace").decode()
