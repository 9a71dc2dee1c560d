"""The system calls that keep journals and large results on disk: a seam, so that each of them can be made to fail in a test."""

import os
from collections.abc import Callable
from pathlib import Path

from delegate.daemon.directories import PRIVATE_FILE, sync_directory, write_all

Write = Callable[[int, bytes], None]


class JournalDisk:
    """Every method raises OSError. `write` replaces the writing of bytes."""

    def __init__(self, write: Write = write_all) -> None:
        self._write = write

    def create(self, path: Path) -> int:
        """A new file, which must not be there yet."""
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, PRIVATE_FILE)

    def write(self, descriptor: int, data: bytes) -> None:
        """Writes every byte."""
        self._write(descriptor, data)

    def flush(self, descriptor: int) -> None:
        """Returns when the bytes would outlive a power cut."""
        os.fdatasync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        """Back to this size, with the next write there."""
        os.ftruncate(descriptor, size)
        os.lseek(descriptor, size, os.SEEK_SET)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def replace(self, old: Path, new: Path) -> None:
        old.replace(new)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def sync_directory(self, directory: Path) -> None:
        sync_directory(directory)
