"""Disks that fail: with an error at one call, by the death of the process, or by a power cut."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from delegate.daemon.deadletters.disk import Disk, Found


class Died(BaseException):
    """The process is no more: nothing that it would have done afterwards happens."""


class CountingDisk(Disk):
    """Counts the calls that change something, and hands each to `before` with its number (from 1) and name."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.open: dict[int, Path] = {}

    def before(self, name: str) -> None:
        self.calls.append(name)

    def make_directory(self, directory: Path) -> None:
        self.before("make_directory")
        super().make_directory(directory)

    def create(self, path: Path) -> int:
        self.before("create")
        descriptor = super().create(path)
        self.open[descriptor] = path
        return descriptor

    def write(self, descriptor: int, data: memoryview) -> int:
        self.before("write")
        return super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self.before("sync")
        super().sync(descriptor)

    def close(self, descriptor: int) -> None:
        self.open.pop(descriptor, None)
        super().close(descriptor)
        self.before("close")

    def rename(self, old: Path, new: Path) -> None:
        self.before("rename")
        super().rename(old, new)

    def unlink(self, path: Path) -> None:
        self.before("unlink")
        super().unlink(path)

    def sync_directory(self, directory: Path) -> None:
        self.before("sync_directory")
        super().sync_directory(directory)

    def list_files(self, directory: Path) -> list[Found]:
        self.before("list_files")
        return super().list_files(directory)


class FailingDisk(CountingDisk):
    """Fails the call of this number with an error; with `only`, calls of this name are counted, and with `for_good` all later ones fail."""

    def __init__(self, fails_at: int, error: int, *, only: str = "", for_good: bool = False) -> None:
        super().__init__()
        self.fails_at = fails_at
        self.error = error
        self.only = only
        self.for_good = for_good

    def before(self, name: str) -> None:
        super().before(name)
        if self.only and name != self.only:
            return
        number = self.calls.count(self.only) if self.only else len(self.calls)
        if number == self.fails_at or (self.for_good and number > self.fails_at):
            raise OSError(self.error, os.strerror(self.error))


class ShortDisk(CountingDisk):
    """Writes only so many bytes at a time."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def write(self, descriptor: int, data: memoryview) -> int:
        return super().write(descriptor, data[: self.most])


class DyingDisk(CountingDisk):
    """The process dies before the call of this number; a write is half done then. What is on the disk stays as it is."""

    def __init__(self, dies_at: int) -> None:
        super().__init__()
        self.dies_at = dies_at

    def before(self, name: str) -> None:
        super().before(name)
        if len(self.calls) == self.dies_at:
            self.die()
        if len(self.calls) > self.dies_at:
            raise Died

    def write(self, descriptor: int, data: memoryview) -> int:
        if len(self.calls) + 1 == self.dies_at:
            os.write(descriptor, data[: len(data) // 2])
        return super().write(descriptor, data)

    def close(self, descriptor: int) -> None:
        if descriptor in self.open:
            super().close(descriptor)

    def die(self) -> None:
        for descriptor in list(self.open):
            os.close(descriptor)
        self.open.clear()
        raise Died


class Flushed:
    """What of a file's content would outlive a power cut."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = content


class PowerCutDisk(DyingDisk):
    """As DyingDisk, and the disk forgets all that was not flushed: contents without `sync`, names without `sync_directory`."""

    def __init__(self, dies_at: int, directory: Path) -> None:
        super().__init__(dies_at)
        self.directory = directory
        self.living = {path.stat().st_ino: Flushed(path.read_bytes()) for path in _files(directory)}
        self.names = self._names()

    def create(self, path: Path) -> int:
        descriptor = super().create(path)
        self.living[os.fstat(descriptor).st_ino] = Flushed()
        return descriptor

    def sync(self, descriptor: int) -> None:
        super().sync(descriptor)
        self.living[os.fstat(descriptor).st_ino].content = self.open[descriptor].read_bytes()

    def sync_directory(self, directory: Path) -> None:
        super().sync_directory(directory)
        if directory == self.directory:
            self.names = self._names()

    def die(self) -> None:
        for path in _files(self.directory):
            path.unlink()
        for name, flushed in self.names.items():
            (self.directory / name).write_bytes(flushed.content)
        super().die()

    def _names(self) -> dict[str, Flushed]:
        return {path.name: self.living[path.stat().st_ino] for path in _files(self.directory)}


def calls_of(work: Callable[[Disk], None]) -> int:
    """How many calls a piece of work makes on a disk that never fails."""
    disk = CountingDisk()
    work(disk)
    return len(disk.calls)


def until_it_dies(work: Callable[[], None]) -> None:
    with contextlib.suppress(Died):
        work()


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.iterdir() if path.is_file()] if directory.exists() else []
