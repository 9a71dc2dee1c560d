"""The system calls that keep letters on disk: a seam, so that each of them can be made to fail in a test."""

import contextlib
import fcntl
import os
from pathlib import Path
from typing import NamedTuple

from delegate.daemon.directories import PRIVATE_DIRECTORY, PRIVATE_FILE, sync_directory


class Found(NamedTuple):
    """A file of a directory."""

    name: str
    size: int


class Disk:
    """Every method raises OSError."""

    def make_directory(self, directory: Path) -> None:
        directory.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)

    def create(self, path: Path) -> int:
        """A new file for this process alone, locked for as long as it is open."""
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, PRIVATE_FILE)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return descriptor

    def write(self, descriptor: int, data: memoryview) -> int:
        """How many bytes were written; maybe not all."""
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        old.rename(new)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def sync_directory(self, directory: Path) -> None:
        sync_directory(directory)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def list_files(self, directory: Path) -> list[Found]:
        """The plain files of a directory; none where it doesn't exist."""
        found = []
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    with contextlib.suppress(FileNotFoundError):
                        if entry.is_file(follow_symlinks=False):
                            found.append(Found(entry.name, entry.stat(follow_symlinks=False).st_size))
        except FileNotFoundError:
            return []
        return found

    def is_in_use(self, path: Path) -> bool:
        """Whether a living process is writing the file."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return False
