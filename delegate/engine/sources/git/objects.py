"""Reads trees and blobs straight from a bare mirror, through one `git cat-file --batch` a render.

No work tree is ever written: what a commit holds can't run, be linked out of, or be changed under our eyes.
"""

import asyncio
import contextlib
import hashlib
import stat
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from delegate.engine.sources.commands import Child, Command, start_command
from delegate.engine.sources.errors import CorruptRepositoryError, RevisionNotFoundError, SourceTooLargeError
from delegate.engine.sources.git.faults import excerpt
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.files import SourceFile
from delegate.engine.sources.trees import Entry, EntryKind, Found

_AHEAD = 64
"""Requests sent before their answers are read: what surely fits into a pipe."""
_LONGEST_LINK = 4096
_HEADER_PARTS = 3


class GitObject(NamedTuple):
    kind: str
    data: bytes


class ObjectReader:
    """The objects of one mirror. Serves one reader at a time."""

    def __init__(self, child: Child, limits: SourceLimits, where: str) -> None:
        self._child = child
        self._limits = limits
        self._where = where

    async def read(self, name: str, limit: int) -> GitObject | None:
        """The object of an id (or `id^{tree}`); None where the mirror doesn't have it. Raises SourceTooLargeError."""
        await self._child.write(name.encode() + b"\n")
        return await self._answer(limit)

    async def read_blobs(self, names: Sequence[str], limit: int) -> list[bytes]:
        """The contents of blobs, in order."""
        contents: list[bytes] = []
        for start in range(0, len(names), _AHEAD):
            ahead = names[start : start + _AHEAD]
            await self._child.write("".join(f"{name}\n" for name in ahead).encode())
            for name in ahead:
                found = await self._answer(limit)
                if found is None:
                    raise CorruptRepositoryError(f"{self._where}: object {name} is missing from the mirror")
                contents.append(found.data)
        return contents

    async def _answer(self, limit: int) -> GitObject | None:
        header = await self._child.stdout.readline()
        if header.endswith(b" missing\n"):
            return None
        parts = header.split()
        if len(parts) != _HEADER_PARTS or not parts[2].isdigit():
            await self._child.wait()
            raise CorruptRepositoryError(f"{self._where}: the mirror can't be read: {excerpt(self._child.stderr.text()) or 'git ended'}")
        size = int(parts[2])
        if size > limit:
            raise SourceTooLargeError(f"{self._where}: an object of {size} bytes; the limit is {limit}")
        try:
            data = await self._child.stdout.readexactly(size + 1)
        except asyncio.IncompleteReadError as error:
            raise CorruptRepositoryError(f"{self._where}: the mirror broke off in the middle of an object") from error
        return GitObject(parts[1].decode(), data[:-1])


class CommitTree:
    """The tree of one commit. A handle is an object id."""

    def __init__(self, reader: ObjectReader, root: str, limits: SourceLimits, where: str) -> None:
        self._reader = reader
        self._root = root
        self._limits = limits
        self._where = where
        self._directories: dict[str, Mapping[str, Entry[str]]] = {}

    @classmethod
    async def of_commit(cls, reader: ObjectReader, commit: str, limits: SourceLimits, where: str) -> "CommitTree":
        """Raises RevisionNotFoundError where the mirror doesn't hold the commit."""
        root = await reader.read(f"{commit}^{{tree}}", limits.listing_bytes)
        if root is None:
            raise RevisionNotFoundError(f"{where}: commit {commit} is not in the mirror")
        tree = cls(reader, f"{commit}^{{tree}}", limits, where)
        tree._directories[tree._root] = _read_tree(root.data, len(commit) // 2)
        return tree

    @property
    def root(self) -> Entry[str]:
        return Entry(EntryKind.DIRECTORY, self._root)

    async def list_directory(self, handle: str, shown: str) -> Mapping[str, Entry[str]]:
        if handle not in self._directories:
            found = await self._reader.read(handle, self._limits.listing_bytes)
            if found is None or found.kind != "tree":
                raise CorruptRepositoryError(f"{self._where}: the tree of {shown} is missing from the mirror")
            self._directories[handle] = _read_tree(found.data, len(handle) // 2)
        return self._directories[handle]

    async def read_link(self, handle: str, shown: str) -> str:
        del shown
        (target,) = await self._reader.read_blobs([handle], _LONGEST_LINK)
        return target.decode(errors="surrogateescape")

    async def read_files(self, found: Sequence[Found[str]]) -> list[SourceFile]:
        """Raises SourceTooLargeError where a file or all of them are past their limits."""
        files: list[SourceFile] = []
        total = 0
        for start in range(0, len(found), _AHEAD):
            part = found[start : start + _AHEAD]
            for each, data in zip(
                part, await self._reader.read_blobs([each.handle for each in part], self._limits.file_bytes), strict=True
            ):
                total += len(data)
                if total > self._limits.total_bytes:
                    raise SourceTooLargeError(f"{self._where}: more than {self._limits.total_bytes} bytes of manifests")
                files.append(SourceFile(each.path, data))
        return files

    def fingerprint(self, found: Sequence[Found[str]]) -> str:
        digest = hashlib.sha256()
        for each in found:
            path = each.path.encode(errors="surrogateescape")
            digest.update(f"{len(path)} {each.handle} ".encode() + path)
        return digest.hexdigest()


@contextlib.asynccontextmanager
async def open_objects(mirror: Path, environment: Mapping[str, str], limits: SourceLimits, where: str) -> AsyncIterator[ObjectReader]:
    """Reads the objects of a mirror. No lock is held: what git has once stored doesn't change."""
    command = Command(("git", f"--git-dir={mirror}", "cat-file", "--batch"), environment, directory=mirror)
    async with start_command(command) as child:
        yield ObjectReader(child, limits, where)


def _read_tree(data: bytes, id_bytes: int) -> dict[str, Entry[str]]:
    """The entries of a tree object: `<mode> <name>\\0<id>` one after the other."""
    entries: dict[str, Entry[str]] = {}
    position = 0
    while position < len(data):
        space = data.index(b" ", position)
        end = data.index(b"\0", space)
        mode = int(data[position:space], 8)
        name = data[space + 1 : end].decode(errors="surrogateescape")
        position = end + 1 + id_bytes
        entries[name] = Entry(_kind(mode), data[end + 1 : position].hex())
    return entries


def _kind(mode: int) -> EntryKind:
    match stat.S_IFMT(mode):
        case stat.S_IFREG:
            return EntryKind.FILE
        case stat.S_IFDIR:
            return EntryKind.DIRECTORY
        case stat.S_IFLNK:
            return EntryKind.LINK
        case 0o160000:
            return EntryKind.SUBMODULE
        case _:
            return EntryKind.OTHER
