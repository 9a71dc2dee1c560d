"""The spool: a bounded directory with one file for each letter. Everything here blocks; `letterbox` calls it in a thread of its own.

A file is written under a passing name, flushed, and renamed; then the directory is flushed. So a name that looks like a letter's is a
whole letter, and `put` returns only when it would outlive a power cut. The name tells all that is needed to keep order without reading
a file, and the digest of its bytes, which every reading checks. A file that is not what its name says is moved to `damaged/` beside
the letters, never dropped and never in the way.

Room. What the spool holds, damaged files included, stays under its limits. When a letter doesn't fit, superseded results make way,
oldest first: another attempt's result stands for them. Nothing else ever does. `full_reason` asks for no further tasks
earlier than that, while the letters of work under way still fit, and while a letter that didn't fit waits.
"""

import contextlib
import errno
import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from delegate.daemon.deadletters.disk import Disk
from delegate.daemon.deadletters.entries import Entry, Index, entry_for, entry_of
from delegate.daemon.deadletters.errors import (
    LetterDamagedError,
    LetterGoneError,
    LetterTooLargeError,
    SpoolError,
    SpoolFullError,
    SpoolUnusableError,
)
from delegate.daemon.deadletters.sealing import Sealed
from delegate.daemon.directories import explain_fault

log = structlog.get_logger(__name__)
DAMAGED = "damaged"
_VARIABLE = "DELEGATE_DLQ_DIR"
_UNFINISHED = ".writing"
_RESERVE = 8
"""The last eighth of the spool is for letters of work that is under way when it fills up."""
_REMEMBERED_SECONDS = 120.0
"""A letter that found no room is waited for so long: whoever has it tries again sooner than that."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, kw_only=True)
class SpoolLimits:
    bytes: int = 256 * 2**20
    entries: int = 20_000


class Spool:
    """`open` first. One thread changes it; counts, `full_reason` and `snapshot` may be asked for from any.

    `on_added` hears of each letter that is new to the spool, whoever wrote it; `on_given_up` of each that made room. Both in the thread
    that the change happens in.
    """

    def __init__(self, directory: Path, *, limits: SpoolLimits | None = None, disk: Disk | None = None) -> None:
        self.directory = directory
        self.limits = limits or SpoolLimits()
        self.on_added: Callable[[Entry], None] = lambda entry: None
        self.on_given_up: Callable[[Entry], None] = lambda entry: None
        self._disk = disk or Disk()
        self._lock = threading.Lock()
        self._index = Index()
        self._damaged_bytes = 0
        self._fault = ""
        self._refused_bytes = 0
        self._refused_at = -_REMEMBERED_SECONDS

    @property
    def entries(self) -> int:
        return len(self._index)

    @property
    def stored_bytes(self) -> int:
        """Of letters and of damaged files."""
        return self._index.bytes + self._damaged_bytes

    @property
    def full_reason(self) -> str:
        """Why there is no room for the letters of further tasks; empty while there is."""
        if self._fault:
            return self._fault
        index, limits = self._index, self.limits
        held = index.bytes - index.yielding_bytes + self._damaged_bytes
        if held > limits.bytes - max(1, limits.bytes // _RESERVE):
            damaged = f", {self._damaged_bytes} of them in {self.directory / DAMAGED}" if self._damaged_bytes else ""
            return f"the dead-letter spool {self.directory} holds {held} bytes{damaged}; its limit is {limits.bytes}"
        if self._refused_bytes + held > limits.bytes and time.monotonic() - self._refused_at < _REMEMBERED_SECONDS:
            return (
                f"the dead-letter spool {self.directory} holds {held} bytes, and a letter of {self._refused_bytes} waits for room; "
                f"its limit is {limits.bytes}"
            )
        count = len(index) - index.yielding
        if count > limits.entries - max(1, limits.entries // _RESERVE):
            return f"the dead-letter spool {self.directory} holds {count} letters; its limit is {limits.entries}"
        return ""

    def snapshot(self) -> list[Entry]:
        """Every letter, oldest first."""
        with self._lock:
            return sorted(self._index.by_name.values())

    def open(self) -> None:
        """Makes the directory, proves that it keeps files, clears what was never finished, and takes over what is there.

        A disk that is full is no reason not to start: `full_reason` says so until there is room. Raises SpoolError.
        """
        try:
            self._disk.make_directory(self.directory)
            for found in self._disk.list_files(self.directory):
                if found.name.endswith(_UNFINISHED) and not self._disk.is_in_use(self.directory / found.name):
                    self._remove_file(found.name)
                    log.warning("dead_letters.unfinished_removed", file=found.name, bytes=found.size)
            self._disk.sync_directory(self.directory)
            self._look()
        except OSError as error:
            raise explain_spool_fault(self.directory, error) from error
        try:
            self.probe()
        except SpoolFullError as error:
            log.warning("dead_letters.spool_full", error=str(error), hint=error.hint)

    def put(self, letters: Sequence[Sealed]) -> bool:
        """Keeps letters that belong together; they are durable when it returns. Whether any of them is new: none is kept twice.

        Raises LetterTooLargeError, SpoolFullError, SpoolUnusableError: then whoever gave them still has to keep them. Giving them
        again is always safe.
        """
        needed = sum(len(sealed.body) for sealed in letters)
        if needed > self.limits.bytes or len(letters) > self.limits.entries:
            raise LetterTooLargeError(
                f"a dead letter of {needed} bytes is larger than the whole spool may be ({self.limits.bytes} bytes)",
                hint="raise DELEGATE_DLQ_MAX_BYTES",
            )
        fresh = [sealed for sealed in letters if not self._index.holds(sealed.letter.id)]
        try:
            if len(fresh) < len(letters):
                self._disk.sync_directory(self.directory)  # a process that died may have renamed it, and no more
            self._find_room(sum(len(sealed.body) for sealed in fresh), len(fresh))
            for sealed in fresh:
                self._write_somehow(sealed)
        except OSError as error:
            raise self._failed(error) from error
        self._works()
        return bool(fresh)

    def load(self, entry: Entry) -> bytes:
        """A letter's bytes. Raises LetterDamagedError (it is set aside then), LetterGoneError, SpoolUnusableError."""
        path = self.directory / entry.name
        try:
            body = self._disk.read(path)
        except FileNotFoundError as error:
            self._forget(entry)
            raise LetterGoneError(f"the dead letter {entry.id} is not in the spool any more", file=str(path)) from error
        except OSError as error:
            raise SpoolUnusableError(
                f"a dead letter can't be read: {error.strerror}", hint="check the disk under it", file=str(path)
            ) from error
        if hashlib.sha256(body).hexdigest() != entry.sha256:
            self._set_aside(entry)
            raise LetterDamagedError(
                f"the dead letter {entry.id} is not what was written", hint=f"what is left of it is in {self.directory / DAMAGED}"
            )
        return body

    def remove(self, entry: Entry) -> None:
        """Takes a letter out. After a power cut it may be back; sending it again changes nothing. Raises SpoolUnusableError."""
        try:
            self._remove_file(entry.name)
        except OSError as error:
            raise explain_spool_fault(self.directory, error) from error
        self._forget(entry)

    def rescan(self) -> None:
        """Looks at the directory anew, for other processes write, send and purge too. Raises SpoolUnusableError."""
        try:
            self._look()
        except OSError as error:
            raise explain_spool_fault(self.directory, error) from error

    def probe(self) -> None:
        """Tries whether the directory keeps files, and begins or ends the fault that it has. Raises SpoolError."""
        path = self.directory / f".{secrets.token_hex(4)}{_UNFINISHED}"
        try:
            self._write_file(path, bytes(4096))
            self._disk.unlink(path)
        except OSError as error:
            raise self._failed(error) from error
        self._works()

    @property
    def faulty(self) -> bool:
        """Whether the last write failed. `probe` finds out whether that has passed."""
        return bool(self._fault)

    # Steps.

    def _look(self) -> None:
        found = (entry_of(each.name, each.size) for each in self._disk.list_files(self.directory))
        now = Index(entry for entry in found if entry is not None)
        damaged = sum(each.size for each in self._disk.list_files(self.directory / DAMAGED))
        with self._lock:
            before, self._index, self._damaged_bytes = self._index, now, damaged
        for name in sorted(now.by_name.keys() - before.by_name.keys()):
            self.on_added(now.by_name[name])

    def _find_room(self, size: int, count: int) -> None:
        """Raises SpoolFullError, and then remembers for how much there was no room; OSError."""
        try:
            self._make_room(size, count)
        except SpoolFullError:
            self._refused_bytes, self._refused_at = size, time.monotonic()
            raise
        if size >= self._refused_bytes:
            self._refused_bytes = 0

    def _make_room(self, size: int, count: int) -> None:
        """Raises SpoolFullError, and then nothing was given up; OSError."""
        over_bytes = self.stored_bytes + size - self.limits.bytes
        over_entries = len(self._index) + count - self.limits.entries
        if over_bytes <= 0 and over_entries <= 0:
            return
        if over_bytes > self._index.yielding_bytes or over_entries > self._index.yielding:
            raise SpoolFullError(
                f"the dead-letter spool {self.directory} has no room: it holds {len(self._index)} letters in {self.stored_bytes} bytes, "
                f"its limits are {self.limits.entries} and {self.limits.bytes}",
                hint="let the courier send them (DLQ_BUCKET), purge some (`delegate dlq purge`), or raise DELEGATE_DLQ_MAX_BYTES",
            )
        self._give_up(over_bytes, over_entries)

    def _give_up(self, size: int, count: int) -> None:
        for entry in self.snapshot():
            if size <= 0 and count <= 0:
                return
            if entry.gives_way:
                self._remove_file(entry.name)
                self._forget(entry)
                size, count = size - entry.size, count - 1
                log.warning("dead_letters.superseded_given_up", letter=entry.id, bytes=entry.size)
                self.on_given_up(entry)

    def _write_somehow(self, sealed: Sealed) -> None:
        try:
            self._write(sealed)
        except OSError as error:
            if error.errno not in _NO_ROOM or not self._index.yielding:
                raise
            self._give_up(len(sealed.body), 1)
            self._write(sealed)

    def _write(self, sealed: Sealed) -> None:
        entry = entry_for(sealed)
        path = self.directory / entry.name
        unfinished = self.directory / f".{entry.id}.{secrets.token_hex(4)}{_UNFINISHED}"
        self._write_file(unfinished, sealed.body)
        try:
            self._disk.rename(unfinished, path)
            self._disk.sync_directory(self.directory)
        except OSError:
            self._try_to_remove(unfinished, path)
            raise
        with self._lock:
            self._index.add(entry)
        self.on_added(entry)

    def _write_file(self, path: Path, data: bytes) -> None:
        descriptor = self._disk.create(path)
        try:
            try:
                view = memoryview(data)
                while view:
                    written = self._disk.write(descriptor, view)
                    if not written:
                        raise OSError(errno.EIO, os.strerror(errno.EIO))
                    view = view[written:]
                self._disk.sync(descriptor)
            finally:
                self._disk.close(descriptor)
        except OSError:
            self._try_to_remove(path)
            raise

    def _try_to_remove(self, *paths: Path) -> None:
        for path in paths:
            with contextlib.suppress(OSError):
                self._disk.unlink(path)

    def _remove_file(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._disk.unlink(self.directory / name)

    def _set_aside(self, entry: Entry) -> None:
        log.error("dead_letters.damaged", letter=entry.id, file=entry.name)
        try:
            self._disk.make_directory(self.directory / DAMAGED)
            self._disk.rename(self.directory / entry.name, self.directory / DAMAGED / entry.name)
        except OSError as error:  # it stays where it is, and is met again
            log.warning("dead_letters.not_set_aside", file=entry.name, error=str(error))
            return
        self._forget(entry)
        self._damaged_bytes += entry.size

    def _forget(self, entry: Entry) -> None:
        with self._lock:
            self._index.discard(entry)

    def _failed(self, error: OSError) -> SpoolError:
        explained = explain_spool_fault(self.directory, error)
        if not self._fault:
            log.error("dead_letters.spool_unwritable", error=str(explained), hint=explained.hint)
        self._fault = f"{explained.message}; {explained.hint}"
        return explained

    def _works(self) -> None:
        if self._fault:
            log.info("dead_letters.spool_writable_again", directory=str(self.directory))
        self._fault = ""


def explain_spool_fault(directory: Path, error: OSError) -> SpoolError:
    """What stands in the way of keeping letters here, and what to do about it."""
    explained = explain_fault(directory, error, called="dead-letter spool", variable=_VARIABLE)
    kind = SpoolFullError if error.errno in _NO_ROOM else SpoolUnusableError
    return kind(explained.message, hint=explained.hint)
