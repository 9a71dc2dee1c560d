"""Reads trees and blobs straight from a bare mirror, through one `git cat-file --batch` a render.

No work tree is ever written: what a commit holds can't run, be linked out of, or be changed under our eyes.
"""

import asyncio
import contextlib
import hashlib
import stat
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
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
    """The objects of one mirror, by a process that is started with the first question. Serves one reader at a time."""

    def __init__(self, start: Callable[[], Awaitable[Child]], where: str) -> None:
        self._start = start
        self._started: Child | None = None
        self.where = where

    async def read(self, name: str, limit: int) -> GitObject | None:
        """The object of an id (or `id^{tree}`); None where the mirror doesn't have it. Raises SourceTooLargeError."""
        await (await self._child()).write(name.encode() + b"\n")
        return await self._answer(limit)

    async def read_blobs(self, names: Sequence[str], limit: int) -> list[bytes]:
        """The contents of blobs, in order."""
        contents: list[bytes] = []
        for start in range(0, len(names), _AHEAD):
            ahead = names[start : start + _AHEAD]
            await (await self._child()).write("".join(f"{name}\n" for name in ahead).encode())
            for name in ahead:
                found = await self._answer(limit)
                if found is None:
                    raise CorruptRepositoryError(f"{self.where}: object {name} is missing from the mirror")
                contents.append(found.data)
        return contents

    async def _child(self) -> Child:
        if self._started is None:
            self._started = await self._start()
        return self._started

    async def _answer(self, limit: int) -> GitObject | None:
        child = await self._child()
        header = await child.stdout.readline()
        if header.endswith(b" missing\n"):
            return None
        parts = header.split()
        if len(parts) != _HEADER_PARTS or not parts[2].isdigit():
            await child.wait()
            raise CorruptRepositoryError(f"{self.where}: the mirror can't be read: {excerpt(child.stderr.text()) or 'git ended'}")
        size = int(parts[2])
        if size > limit:
            raise SourceTooLargeError(f"{self.where}: an object of {size} bytes; the limit is {limit}")
        try:
            data = await child.stdout.readexactly(size + 1)
        except asyncio.IncompleteReadError as error:
            raise CorruptRepositoryError(f"{self.where}: the mirror broke off in the middle of an object") from error
        return GitObject(parts[1].decode(), data[:-1])


Members = Mapping[str, Entry[str]]


class TreeMemory:
    """Directories that were read, by their ids, the ones used last: most of a commit is in the one before it.

    `mirror` tells repositories apart. One that was thrown away is forgotten.
    """

    def __init__(self, most_entries: int = 20_000) -> None:
        self._most = most_entries
        self._entries = 0
        self._known: OrderedDict[tuple[Path, str], Members] = OrderedDict()

    def get(self, mirror: Path, name: str) -> Members | None:
        members = self._known.get((mirror, name))
        if members is not None:
            self._known.move_to_end((mirror, name))
        return members

    def put(self, mirror: Path, name: str, members: Members) -> None:
        if (mirror, name) not in self._known:
            self._known[(mirror, name)] = members
            self._entries += len(members) + 1
        while self._entries > self._most and self._known:
            _, dropped = self._known.popitem(last=False)
            self._entries -= len(dropped) + 1

    def forget(self, mirror: Path) -> bool:
        """Whether anything was known of it."""
        names = [key for key in self._known if key[0] == mirror]
        for key in names:
            self._entries -= len(self._known.pop(key)) + 1
        return bool(names)


def root_of(commit: str) -> str:
    """What git takes for the id of a commit's tree."""
    return f"{commit}^{{tree}}"


class CommitTree:
    """The tree of one commit. A handle is an object id."""

    def __init__(self, reader: ObjectReader, commit: str, memory: TreeMemory, mirror: Path, limits: SourceLimits) -> None:
        self._reader = reader
        self._root = root_of(commit)
        self._memory = memory
        self._mirror = mirror
        self._limits = limits
        self._where = reader.where

    @classmethod
    async def of_commit(cls, reader: ObjectReader, commit: str, memory: TreeMemory, mirror: Path, limits: SourceLimits) -> "CommitTree":
        """Raises RevisionNotFoundError where the mirror doesn't hold the commit."""
        name = root_of(commit)
        if memory.get(mirror, name) is None:
            root = await reader.read(name, limits.listing_bytes)
            if root is None:
                raise RevisionNotFoundError(f"{reader.where}: commit {commit} is not in the mirror")
            memory.put(mirror, name, _read_tree(root.data, len(commit) // 2))
        return cls(reader, commit, memory, mirror, limits)

    @property
    def root(self) -> Entry[str]:
        return Entry(EntryKind.DIRECTORY, self._root)

    async def list_directory(self, handle: str, shown: str) -> Members:
        members = self._memory.get(self._mirror, handle)
        if members is None:
            found = await self._reader.read(handle, self._limits.listing_bytes)
            if found is None or found.kind != "tree":
                raise CorruptRepositoryError(f"{self._where}: the tree of {shown} is missing from the mirror")
            members = _read_tree(found.data, _id_bytes(handle))
            self._memory.put(self._mirror, handle, members)
        return members

    async def read_link(self, handle: str, shown: str) -> str:
        del shown
        (target,) = await self._reader.read_blobs([handle], _LONGEST_LINK)
        return target.decode(errors="surrogateescape")

    async def open_submodule(self, handle: str, shown: str) -> Entry[str] | None:
        """None: a commit holds nothing of its submodules but their commits' ids (see `checkouts`)."""
        del handle, shown
        return None

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
async def open_objects(mirror: Path, environment: Mapping[str, str], where: str) -> AsyncIterator[ObjectReader]:
    """Reads the objects of a mirror. No lock is held: what git has once stored doesn't change."""
    command = Command(("git", f"--git-dir={mirror}", "cat-file", "--batch"), environment, directory=mirror)
    async with contextlib.AsyncExitStack() as stack:
        yield ObjectReader(lambda: stack.enter_async_context(start_command(command)), where)


def _id_bytes(handle: str) -> int:
    return len(handle.partition("^")[0]) // 2


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
