"""Journals on disk. Each process writes one of its own and holds a lock on it; a journal without a lock is an orphan, and adopted.

So two processes with the same state directory never write the same file, and whichever is left takes over what the other owed.
Everything here blocks: the outbox calls it in a thread of its own, commands call it directly.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import structlog

from delegate.daemon.connection.journal import Damage, Line, Reading, owed, read_records
from delegate.daemon.connection.journal_disk import JournalDisk

log = structlog.get_logger(__name__)
SUFFIX = ".journal"
_DAMAGED_SUFFIX = ".damaged"
_MOST_DAMAGED_KEPT = 4


class Place(NamedTuple):
    """Where a record lies in the journal of this process."""

    offset: int
    length: int


class JournalFile:
    """The journal that this process writes. A failed write leaves it as it was before."""

    def __init__(self, path: Path, *, disk: JournalDisk | None = None) -> None:
        """Makes the file, empty and locked. Raises OSError."""
        self.path = path
        self._disk = disk or JournalDisk()
        self._descriptor = self._create_locked(path)
        self.size = 0
        self._is_torn = False
        self._is_renamed = False
        try:
            self._disk.sync_directory(path.parent)
        except OSError:
            self.close(remove=True)
            raise

    def append(self, lines: Iterable[bytes], *, durable: bool) -> list[Place]:
        """Where each line lies now; all of them or none. `durable` waits for the disk. Raises OSError."""
        places: list[Place] = []
        offset = self.size
        pieces = []
        for line in lines:
            places.append(Place(offset, len(line)))
            offset += len(line)
            pieces.append(line)
        try:
            self._make_good()
            self._disk.write(self._descriptor, b"".join(pieces))
            if durable:
                self._disk.flush(self._descriptor)
        except OSError:
            self._take_back()
            raise
        self.size = offset
        return places

    def read(self, place: Place) -> bytes:
        return os.pread(self._descriptor, place.length, place.offset)

    def rewrite(self, lines: Iterable[bytes]) -> list[Place]:
        """Replaces everything by these lines, durably; on OSError nothing has changed."""
        temporary = self.path.with_suffix(".rewrite")
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        places: list[Place] = []
        offset = 0
        descriptor = self._create_locked(temporary)
        try:
            for line in lines:
                self._disk.write(descriptor, line)
                places.append(Place(offset, len(line)))
                offset += len(line)
            self._disk.flush(descriptor)
            self._disk.replace(temporary, self.path)
        except BaseException:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise
        os.close(self._descriptor)
        self._descriptor, self.size, self._is_torn, self._is_renamed = descriptor, offset, False, True
        return places

    def close(self, *, remove: bool = False) -> None:
        """Gives the lock up. `remove` where nothing is owed any more."""
        if remove:
            with contextlib.suppress(OSError):
                self.path.unlink()
        os.close(self._descriptor)

    def _take_back(self) -> None:
        self._is_torn = True
        with contextlib.suppress(OSError):  # a torn tail is recognised anyway when it is read
            self._make_good()

    def _make_good(self) -> None:
        """What a fault left undone comes before anything else is promised."""
        if self._is_torn:
            self._disk.truncate(self._descriptor, self.size)
            self._is_torn = False
        if self._is_renamed:
            self._disk.sync_directory(self.path.parent)
            self._is_renamed = False

    def _create_locked(self, path: Path) -> int:
        descriptor = self._disk.create(path)
        _try_lock(descriptor, fcntl.LOCK_EX)
        return descriptor


class Orphan(NamedTuple):
    """What a process that is gone still owed."""

    path: Path
    lines: tuple[Line, ...]
    damages: tuple[Damage, ...]


@contextlib.contextmanager
def adopted(directory: Path, own: Path | None = None, *, disk: JournalDisk | None = None) -> Iterator[list[Orphan]]:
    """The orphans of a directory, locked against others; removed at the end unless the block fails.

    A damaged one is set aside as `.damaged` for a person to look at, the newest few. Raises OSError.
    """
    disk = disk or JournalDisk()
    held: list[tuple[Orphan, int]] = []
    try:
        for path in sorted(directory.glob(f"*{SUFFIX}")):
            descriptor = _lock_orphan(path) if path != own else None
            if descriptor is not None:
                reading = read_records(_read_whole(descriptor))
                held.append((Orphan(path, tuple(owed(reading.lines).values()), reading.damages), descriptor))
        yield [orphan for orphan, _ in held]
        for orphan, _ in held:
            _put_away(orphan, disk)
        if held:
            disk.sync_directory(directory)
    finally:
        for _, descriptor in held:
            os.close(descriptor)


def read_journals(directory: Path) -> Iterator[tuple[Path, Reading, bool]]:
    """Each journal with its records, and whether a living process writes it; changes nothing. Raises OSError."""
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            living = not _try_lock(descriptor, fcntl.LOCK_SH)
            yield path, read_records(_read_whole(descriptor)), living
        finally:
            os.close(descriptor)


def remove_leftovers(directory: Path) -> None:
    """Rewrites that never became a journal. Raises OSError."""
    for path in directory.glob("*.rewrite"):
        descriptor = _lock_orphan(path)
        if descriptor is not None:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            os.close(descriptor)


def _lock_orphan(path: Path) -> int | None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    # Between opening and locking, its owner may have replaced or removed the file: then this is nobody's any more.
    if _try_lock(descriptor, fcntl.LOCK_EX) and os.fstat(descriptor).st_nlink > 0:
        return descriptor
    os.close(descriptor)
    return None


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # a file system without locks: its volume belongs to one process at a time
        log.warning("outbox.unlockable", error=str(error))
    return True


def _read_whole(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    pieces = []
    offset = 0
    while offset < size:
        piece = os.pread(descriptor, min(size - offset, 2**24), offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
    return b"".join(pieces)


def _put_away(orphan: Orphan, disk: JournalDisk) -> None:
    if all(damage.torn for damage in orphan.damages):
        disk.unlink(orphan.path)
        return
    disk.replace(orphan.path, orphan.path.with_suffix(_DAMAGED_SUFFIX))
    set_aside = sorted(orphan.path.parent.glob(f"*{_DAMAGED_SUFFIX}"), key=lambda path: path.stat().st_mtime)
    for path in set_aside[:-_MOST_DAMAGED_KEPT]:
        path.unlink()
