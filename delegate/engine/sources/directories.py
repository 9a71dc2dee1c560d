"""Directories and files of this machine as sources. For local commands only.

Every open goes component by component from the source's own directory, and follows no link by itself, so that nothing
outside can be read in, whatever changes meanwhile. All of it blocks, so `LocalTree` hands it to threads.
"""

import asyncio
import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from delegate.engine.sources.errors import PathNotFoundError, SourceTooLargeError, UnreadableFileError
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.files import SourceFile
from delegate.engine.sources.trees import Entry, EntryKind, Found

Parts = tuple[str, ...]

_CHUNK_BYTES = 1024 * 1024


class LocalTree:
    """The directory at `root`. A handle is the path below it, free of links."""

    def __init__(self, root: Path, limits: SourceLimits) -> None:
        self._root = root
        self._limits = limits

    @property
    def root(self) -> Entry[Parts]:
        return Entry(EntryKind.DIRECTORY, ())

    async def list_directory(self, handle: Parts, shown: str) -> Mapping[str, Entry[Parts]]:
        return await asyncio.to_thread(self._list, handle, shown)

    async def read_link(self, handle: Parts, shown: str) -> str:
        return await asyncio.to_thread(self._read_link, handle, shown)

    async def open_submodule(self, handle: Parts, shown: str) -> Entry[Parts] | None:
        """None: here are files and directories alone."""
        del handle, shown
        return None

    async def read_files(self, found: Sequence[Found[Parts]]) -> list[SourceFile]:
        """Raises UnreadableFileError and SourceTooLargeError."""
        return await asyncio.to_thread(self._read_all, found)

    def fingerprint(self, found: Sequence[Found[Parts]]) -> str:
        """Empty: what a file of this machine holds is known once it was read."""
        del found
        return ""

    def _read_all(self, found: Sequence[Found[Parts]]) -> list[SourceFile]:
        files: list[SourceFile] = []
        total = 0
        for path, handle in found:
            data = self._read(handle, path, self._limits)
            total += len(data)
            if total > self._limits.total_bytes:
                words = f"{self._root}: more than {self._limits.total_bytes} bytes of manifests"
                raise SourceTooLargeError(words, hint="choose a deeper path")
            files.append(SourceFile(path, data))
        return files

    def _list(self, handle: Parts, shown: str) -> dict[str, Entry[Parts]]:
        with self._opened(handle, os.O_RDONLY | os.O_DIRECTORY, shown) as descriptor, os.scandir(descriptor) as scan:
            return {entry.name: Entry(_kind(entry.stat(follow_symlinks=False).st_mode), (*handle, entry.name)) for entry in scan}

    def _read_link(self, handle: Parts, shown: str) -> str:
        with self._opened(handle[:-1], os.O_RDONLY | os.O_DIRECTORY, shown) as descriptor:
            return os.readlink(handle[-1], dir_fd=descriptor)

    def _read(self, handle: Parts, path: str, limits: SourceLimits) -> bytes:
        # O_NONBLOCK: a pipe that took the file's place must not hold us up.
        with self._opened(handle, os.O_RDONLY | os.O_NONBLOCK, path) as descriptor:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UnreadableFileError(f"{path} is no regular file", file=path)
            parts, size = [], 0
            while chunk := os.read(descriptor, _CHUNK_BYTES):
                parts.append(chunk)
                size += len(chunk)
                if size > limits.file_bytes:
                    raise SourceTooLargeError(f"{path}: more than {limits.file_bytes} bytes, the limit of one file", file=path)
            return b"".join(parts)

    @contextlib.contextmanager
    def _opened(self, handle: Parts, flags: int, shown: str) -> Iterator[int]:
        descriptors: list[int] = []
        try:
            descriptors.append(os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            for position, part in enumerate(handle):
                last = position == len(handle) - 1
                wanted = flags if last else os.O_RDONLY | os.O_DIRECTORY
                descriptors.append(os.open(part, wanted | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptors[-1]))
            yield descriptors[-1]
        except OSError as error:
            raise _explain(error, shown or str(self._root)) from error
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def split_local(path: Path) -> tuple[Path, str]:
    """The directory that nothing may lead out of, and the path below it: for a file its own directory.

    Raises PathNotFoundError and UnreadableFileError.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise _explain(error, str(path)) from error
    if stat.S_ISDIR(mode):
        return path, "."
    # A file is named by the person who runs the command, so it may be a link to anywhere.
    real = path.resolve()
    return real.parent, real.name


def roots_for(directory: Path) -> tuple[Path, ...]:
    """The directories that a kustomization or chart in `directory` may reach, the narrowest first.

    In a work tree that is the work tree. Elsewhere a path that says `..` may lead up, as far as it says; links may not.
    """
    above = (directory, *directory.parents)
    for candidate in above:
        if (candidate / ".git").exists():
            return (candidate,)
    return above


def _kind(mode: int) -> EntryKind:
    if stat.S_ISREG(mode):
        return EntryKind.FILE
    if stat.S_ISDIR(mode):
        return EntryKind.DIRECTORY
    return EntryKind.LINK if stat.S_ISLNK(mode) else EntryKind.OTHER


def _explain(error: OSError, shown: str) -> PathNotFoundError | UnreadableFileError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
        return PathNotFoundError(f"there is no {shown}", hint="check the path", file=shown)
    if error.errno == errno.ELOOP:
        return UnreadableFileError(f"{shown} became a link while it was read", file=shown)
    hint = "let us read it" if error.errno in (errno.EACCES, errno.EPERM) else ""
    return UnreadableFileError(f"{shown} can't be read: {os.strerror(error.errno or 0)}", hint=hint, file=shown)
