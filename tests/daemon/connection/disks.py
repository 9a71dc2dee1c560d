"""Disks under the journal that fail: with an error at one call, by the death of the process, or by a power cut."""

import os
from pathlib import Path

from delegate.daemon.connection.journal_disk import JournalDisk
from delegate.daemon.directories import write_all


class Died(BaseException):
    """The process is no more: nothing that it would have done afterwards happens."""


class CountingDisk(JournalDisk):
    """Counts the calls that change something, and hands each to `before` with its name."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.open: dict[int, Path] = {}

    def before(self, name: str) -> None:
        self.calls.append(name)

    def create(self, path: Path) -> int:
        self.before("create")
        descriptor = super().create(path)
        self.open[descriptor] = path
        return descriptor

    def write(self, descriptor: int, data: bytes) -> None:
        self.before("write")
        super().write(descriptor, data)

    def flush(self, descriptor: int) -> None:
        self.before("flush")
        super().flush(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        self.before("truncate")
        super().truncate(descriptor, size)

    def replace(self, old: Path, new: Path) -> None:
        self.before("replace")
        super().replace(old, new)

    def unlink(self, path: Path) -> None:
        self.before("unlink")
        super().unlink(path)

    def sync_directory(self, directory: Path) -> None:
        self.before("sync_directory")
        super().sync_directory(directory)


class FailingDisk(CountingDisk):
    """Fails the calls of these numbers (from 1) with an error; a write that fails is half done."""

    def __init__(self, error: int, *numbers: int) -> None:
        super().__init__()
        self.error = error
        self.numbers = numbers

    def before(self, name: str) -> None:
        super().before(name)
        if len(self.calls) in self.numbers:
            raise OSError(self.error, os.strerror(self.error))

    def write(self, descriptor: int, data: bytes) -> None:
        if len(self.calls) + 1 in self.numbers:
            write_all(descriptor, data[: len(data) // 2])
        super().write(descriptor, data)


class DyingDisk(CountingDisk):
    """The process dies before the call of this number; a write is half done then. What is on the disk stays as it is."""

    def __init__(self, dies_at: int) -> None:
        super().__init__()
        self.dies_at = dies_at

    def before(self, name: str) -> None:
        super().before(name)
        if len(self.calls) == self.dies_at:
            self.die()
        if len(self.calls) >= self.dies_at:
            raise Died

    def write(self, descriptor: int, data: bytes) -> None:
        if len(self.calls) + 1 == self.dies_at:
            write_all(descriptor, data[: len(data) // 2])
        super().write(descriptor, data)

    def die(self) -> None:
        """Locks go with the descriptors; whoever closes one afterwards closes nothing of anybody else's."""
        for descriptor in self.open:
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, descriptor)
            os.close(nothing)


class PowerCutDisk(DyingDisk):
    """The machine dies as well: bytes that were not flushed are gone, and names that their directory did not sync."""

    def __init__(self, dies_at: int, directory: Path) -> None:
        super().__init__(dies_at)
        self.directory = directory
        self.flushed: dict[int, bytes] = {}
        self.names: dict[str, int] = {}
        self._note_names()

    def flush(self, descriptor: int) -> None:
        super().flush(descriptor)
        status = os.fstat(descriptor)
        self.flushed[status.st_ino] = os.pread(descriptor, status.st_size, 0)

    def sync_directory(self, directory: Path) -> None:
        super().sync_directory(directory)
        self._note_names()

    def _note_names(self) -> None:
        self.names = {path.name: path.stat().st_ino for path in self.directory.iterdir() if path.is_file()}
        for path in self.directory.iterdir():
            if path.is_file():
                self.flushed.setdefault(path.stat().st_ino, b"" if self.calls else path.read_bytes())

    def die(self) -> None:
        super().die()
        for path in list(self.directory.iterdir()):
            if path.is_file():
                path.unlink()
        for name, inode in self.names.items():
            (self.directory / name).write_bytes(self.flushed.get(inode, b""))
