"""Copies of what a renderer needs, in a private directory: files from a tree, and links between directories of the copy."""

import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Generic, NamedTuple

from delegate.engine.sources.errors import CacheDirectoryError, SourceTooLargeError
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.files import SourceFile
from delegate.engine.sources.trees import FollowedLink, Found, Handle

Parts = tuple[str, ...]


class Export(Generic[Handle]):
    """What is to be copied, by the place where it really is: files under their own or their link's name, links as they are.

    A link that is copied leads to a directory that is copied too: whoever adds it has followed it inside the tree.
    """

    def __init__(self, limits: SourceLimits, where: str) -> None:
        self._files: dict[Parts, Found[Handle]] = {}
        self._links: dict[Parts, str] = {}
        self._limits = limits
        self._where = where

    def add_file(self, path: Parts, handle: Handle) -> None:
        """Raises SourceTooLargeError past the limit of files."""
        if len(self._files) >= self._limits.files:
            raise SourceTooLargeError(f"{self._where}: more than {self._limits.files} files are needed", hint="choose a deeper path")
        self._files.setdefault(path, Found("/".join(path), handle))

    def add_links(self, links: Iterable[FollowedLink]) -> None:
        for link in links:
            self._links[link.path] = link.target

    @property
    def files(self) -> list[Found[Handle]]:
        """In order of their paths."""
        return [self._files[path] for path in sorted(self._files)]

    @property
    def links(self) -> Mapping[Parts, str]:
        return {path: self._links[path] for path in sorted(self._links)}


class Copied(NamedTuple):
    """A file to write: where it goes below the directory, and its bytes."""

    path: Parts
    data: bytes


async def write_copies(directory: Path, files: Iterable[SourceFile], links: Mapping[Parts, str]) -> None:
    """Raises CacheDirectoryError where the disk doesn't take it."""
    copies = [Copied(tuple(file.path.split("/")), file.data) for file in files]
    try:
        await asyncio.to_thread(_write, directory, copies, links)
    except OSError as error:
        words = f"{directory.parent}: what is to be rendered can't be written: {os.strerror(error.errno or 0)}"
        raise CacheDirectoryError(words, hint="make room, or make the state directory writable") from error


def _write(directory: Path, copies: Iterable[Copied], links: Mapping[Parts, str]) -> None:
    made = {directory}
    for path, data in copies:
        target = directory.joinpath(*map(_checked, path))
        _make_parents(target, made)
        target.write_bytes(data)
    for path, to in links.items():
        link = directory.joinpath(*map(_checked, path))
        _make_parents(link, made)
        link.symlink_to(to)


def _make_parents(target: Path, made: set[Path]) -> None:
    if target.parent not in made:
        target.parent.mkdir(parents=True, exist_ok=True)
        made.add(target.parent)


def _checked(name: str) -> str:
    """A name can't lead anywhere else: git refuses such trees on the way in, and nothing of this machine has such a name."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise OSError(22, f"{name!r} is no name of a file")
    return name
