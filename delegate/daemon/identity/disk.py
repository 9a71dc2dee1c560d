"""The system calls that keep generations on disk: a seam, so that each of them can be made to fail in a test."""

import os
from pathlib import Path

from delegate.daemon.directories import PRIVATE_DIRECTORY, PRIVATE_FILE, sync_directory


class Disk:
    """Every method raises OSError."""

    def make_directory(self, directory: Path) -> None:
        """One that must not be there yet."""
        directory.mkdir(mode=PRIVATE_DIRECTORY)

    def create(self, path: Path) -> int:
        """A new file that its owner alone may read."""
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, PRIVATE_FILE)

    def write(self, descriptor: int, data: memoryview) -> int:
        """How many bytes were written; maybe not all."""
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def rename(self, old: Path, new: Path) -> None:
        old.rename(new)

    def link(self, path: Path, target: str) -> None:
        """A symbolic link."""
        path.symlink_to(target)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def remove_directory(self, directory: Path) -> None:
        directory.rmdir()

    def sync_directory(self, directory: Path) -> None:
        sync_directory(directory)
