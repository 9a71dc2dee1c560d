"""Trees of files, wherever they are kept: in a commit, in a directory of this machine, in an unpacked chart.

Symbolic links are followed inside the tree and never out of it, step by step, as `openat` would with every link opened by
hand.
"""

import enum
from collections.abc import Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from delegate.engine.sources.loader.files import SourceFile

_MOST_LINKS = 40
"""Links followed for one path: what Linux allows (path_resolution(7))."""

Handle = TypeVar("Handle")


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


class Found(NamedTuple, Generic[Handle]):
    """A file of a tree: its path as people see it, and how its tree finds it."""

    path: str
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

    async def open_submodule(self, handle: Handle, shown: str) -> Entry[Handle] | None:
        """The directory that a submodule is; None where its content isn't here, and isn't to be fetched."""
        ...

    async def read_files(self, found: Sequence[Found[Handle]]) -> list[SourceFile]:
        """The files, in order. Raises SourceTooLargeError where one or all of them are past their limits."""
        ...

    def fingerprint(self, found: Sequence[Found[Handle]]) -> str:
        """The same for the same files at the same paths, without reading them; empty where only reading tells."""
        ...


class FollowedLink(NamedTuple):
    """A symbolic link on the way to a place: where it really stands, and what it says."""

    path: tuple[str, ...]
    target: str


class Place(NamedTuple, Generic[Handle]):
    """A node and the directories above it, the root first, each with the name of its member on the way.

    `links` are the links that were followed to it.
    """

    above: tuple[tuple[str, Entry[Handle]], ...]
    entry: Entry[Handle]
    links: tuple[FollowedLink, ...] = ()

    @property
    def path(self) -> tuple[str, ...]:
        """Where it really is, whatever links led to it."""
        return tuple(name for name, _ in self.above)


class OutsideError(Exception):
    """A path or link that leads out of the tree."""


class MissingError(Exception):
    """A path or link that leads to nothing."""


class InSubmoduleError(MissingError):
    """A path that leads into a submodule; `path` is where that stands."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class CircleError(Exception):
    """More links than a path may have."""


def split_path(path: str) -> tuple[str, ...]:
    """The parts of a path from the top of a tree."""
    return tuple(part for part in path.split("/") if part not in ("", "."))


def text_of(parts: Sequence[str]) -> str:
    """A path as text. Bytes of a name that are no UTF-8 show as escapes."""
    return "/".join(parts).encode(errors="backslashreplace").decode()


async def find_place(tree: Tree[Handle], start: Place[Handle], parts: Sequence[str]) -> Place[Handle]:
    """The node that `parts` lead to from a directory. Links on the way, the last one too, are followed by hand.

    Raises OutsideError, MissingError, InSubmoduleError, CircleError.
    """
    place, pending, links = start, list(reversed(parts)), list[FollowedLink]()
    while pending:
        part = pending.pop()
        if part in ("", "."):
            continue
        if place.entry.kind is EntryKind.SUBMODULE:
            raise InSubmoduleError(text_of(place.path))
        if place.entry.kind is not EntryKind.DIRECTORY:
            raise MissingError
        if part == "..":
            if not place.above:
                raise OutsideError
            place = Place(place.above[:-1], place.above[-1][1])
            continue
        members = await tree.list_directory(place.entry.handle, part)
        entry = members.get(part)
        if entry is None:
            raise MissingError
        if entry.kind is EntryKind.LINK:
            target = await tree.read_link(entry.handle, part)
            links.append(FollowedLink((*place.path, part), target))
            if len(links) > _MOST_LINKS:
                raise CircleError
            if target.startswith("/"):
                raise OutsideError
            pending += reversed(target.split("/"))
            continue
        place = Place((*place.above, (part, place.entry)), await opened(tree, entry, part))
    return place._replace(links=tuple(links))


async def opened(tree: Tree[Handle], entry: Entry[Handle], shown: str) -> Entry[Handle]:
    """The directory that a submodule is, where its content can be had; any other entry as it is."""
    if entry.kind is not EntryKind.SUBMODULE:
        return entry
    return await tree.open_submodule(entry.handle, shown) or entry


def top_of(tree: Tree[Handle]) -> Place[Handle]:
    return Place((), tree.root)
