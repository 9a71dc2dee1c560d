"""The outbox: what this delegate owes the manager, on disk before it is sent and until the manager has it.

Two kinds of things are owed: an end for every attempt that began, and delivery of every result. A result is durable (written and
flushed to the disk) when `keep` returns; many that arrive together share one flush. Starts and settlements are written without
waiting: losing one costs a repetition, never a result.

When the disk refuses, nothing is lost: results stay in memory, `keep` goes on waiting, the write is tried again, and
`full_reason` says why no further task should be taken.
"""

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import structlog

from delegate.daemon.connection.journal import Began, Ended, Kept, Line, decode_line, encode_record
from delegate.daemon.connection.journal_disk import JournalDisk
from delegate.daemon.connection.journal_files import JournalFile, Orphan, Place, adopted, read_journals, remove_leftovers
from delegate.daemon.connection.large_results import LargeResults
from delegate.daemon.directories import explain_fault, prepare_directory
from delegate.model.resources import JsonObject
from delegate.protocol.blobs import BlobReference
from delegate.protocol.work import ResultItem

log = structlog.get_logger(__name__)
_FIRST_RETRY_SECONDS = 0.25
_LAST_RETRY_SECONDS = 5.0
_REWRITE_BYTES = 16 * 2**20
_REWRITE_RATIO = 3
_REMEMBERED_BYTES = 8 * 2**20


@dataclass(frozen=True, kw_only=True)
class OutboxLimits:
    """At `entries` or `bytes` of undelivered results no further task is taken."""

    entries: int = 10_000
    bytes: int = 64 * 2**20


@dataclass
class _Owed:
    """One attempt that something is owed for. `line` is held for starts, `record` for results while memory allows.

    `large` is the whole of a result that is a file of its own; `has_task`: it becomes a dead letter when the result is delivered.
    """

    began: Began | None = None
    line: bytes | None = None
    place: Place | None = None
    record: Kept | None = None
    size: int = 0
    large: BlobReference | None = None
    has_task: bool = False

    @property
    def all_bytes(self) -> int:
        return self.size + (self.large.size if self.large is not None else 0)


@dataclass
class _Write:
    """A line on its way to the disk, and who waits for it."""

    line: bytes
    attempt_id: str = ""
    owed: _Owed | None = None
    durable: "asyncio.Future[None] | None" = None
    large: BlobReference | None = None  # goes when the line is written


class Outbox:
    """`open` first; everything but `open` and `owed_attempts` is for the one loop that runs then."""

    def __init__(
        self,
        directory: Path,
        name: str,
        *,
        limits: OutboxLimits | None = None,
        disk: JournalDisk | None = None,
        rewrite_bytes: int = _REWRITE_BYTES,
        retry_seconds: float = _FIRST_RETRY_SECONDS,
    ) -> None:
        """`name` is this process's own: its journal is called so. `disk` and what follows are seams of tests."""
        self.directory = directory
        self.on_kept: Callable[[str], None] = lambda attempt_id: None
        self._limits = limits or OutboxLimits()
        self._path = directory / f"{name}.journal"
        self._disk = disk or JournalDisk()
        self._large = LargeResults(directory, self._disk)
        self._rewrite_bytes = rewrite_bytes
        self._file: JournalFile | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="outbox")
        self._lock = threading.Lock()
        self._starts: dict[str, _Owed] = {}
        self._results: dict[str, _Owed] = {}
        self._lost: dict[str, Began] = {}
        self._newly_lost = 0
        self._bytes = 0
        self._remembered = 0
        self._queue: list[_Write] = []
        self._writing = False
        self._first_retry_seconds = self._retry_seconds = retry_seconds
        self._retry: asyncio.TimerHandle | None = None
        self._fault = ""
        self._free = asyncio.Event()
        self._free.set()

    # What is owed.

    @property
    def entries(self) -> int:
        return len(self._results)

    @property
    def stored_bytes(self) -> int:
        return self._bytes

    @property
    def full_reason(self) -> str:
        """Why no further task should be taken; empty when there is room."""
        if self._fault:
            return self._fault
        if len(self._results) >= self._limits.entries:
            return f"the outbox holds {len(self._results)} results that the manager has not taken; its limit is {self._limits.entries}"
        if self._bytes >= self._limits.bytes:
            return f"the outbox holds {self._bytes} bytes that the manager has not taken; its limit is {self._limits.bytes}"
        return ""

    def unsent(self) -> list[str]:
        """Attempts whose results are durable and not yet settled, oldest first."""
        return [attempt_id for attempt_id, owed in self._results.items() if owed.place is not None]

    def size_of(self, attempt_id: str) -> int:
        """Bytes of a result on disk, the whole of a large one included; 0 where there is none."""
        owed = self._results.get(attempt_id)
        return owed.all_bytes if owed is not None else 0

    def has_task(self, attempt_id: str) -> bool:
        """Whether a task's document is kept with this result, for a dead letter."""
        owed = self._results.get(attempt_id)
        return owed is not None and owed.has_task

    def owed_attempts(self) -> tuple[list[Began], list[Began]]:
        """Attempts whose results are kept, and attempts that earlier processes began and never ended. For any thread."""
        with self._lock:
            finished = [owed.began for owed in self._results.values() if owed.began is not None]
            return finished, list(self._lost.values())

    # Changes.

    def open(self) -> None:
        """Takes over what earlier processes left. Blocks. Raises StateDirectoryError."""
        prepare_directory(self.directory)
        try:
            remove_leftovers(self.directory)
            self._large.tidy(_named_large(self.directory))
            self._file = JournalFile(self._path, disk=self._disk)
            with adopted(self.directory, self._path, disk=self._disk) as orphans:
                lines = [line for orphan in orphans for line in orphan.lines]
                self._file.append((line.raw for line in lines), durable=True)
        except OSError as error:
            raise explain_fault(self.directory, error) from error
        offset = 0
        for line in lines:
            self._take_over(line, Place(offset, len(line.raw)))
            offset += len(line.raw)
        _report_damages(orphans)
        if lines:
            log.info("outbox.recovered", results=len(self._results), lost_attempts=len(self._lost))

    async def adopt(self) -> int:
        """Takes over what a process left that ended meanwhile. How many attempts are lost since the last time: that it began and never
        ended, or whose result was found damaged here."""
        while self._writing:
            await self._free.wait()
        self._take_turn()
        lost = len(self._lost)
        try:
            for line, place in await asyncio.get_running_loop().run_in_executor(self._thread, self._adopt):
                self._take_over(line, place)
                if isinstance(line.record, Kept):
                    self.on_kept(line.record.item.attempt_id)
        except OSError as error:
            log.warning("outbox.adoption_failed", error=str(explain_fault(self.directory, error)))
        finally:
            self._end_turn()
            self._write_on()
        newly, self._newly_lost = self._newly_lost, 0
        return len(self._lost) - lost + newly

    def began(self, began: Began) -> None:
        """An attempt was taken on: should this process die, the next one says so."""
        line = encode_record(began)
        owed = _Owed(began=began, line=line)
        with self._lock:
            self._starts[began.attempt_id] = owed
        self._enqueue(_Write(line, began.attempt_id, owed))

    async def keep(self, kept: Kept) -> None:
        """Returns when the result is on disk; waits as long as the disk refuses."""
        item = kept.item
        line = encode_record(kept)
        owed = _Owed(began=_began_of(kept), record=kept, size=len(line), large=item.blob, has_task=kept.task is not None)
        durable = asyncio.get_running_loop().create_future()
        with self._lock:
            self._results[item.attempt_id] = owed
        self._bytes += owed.all_bytes
        self._enqueue(_Write(line, item.attempt_id, owed, durable))
        await durable  # nobody else's: whoever stops waiting for it stops nothing

    async def keep_large(self, pieces: Callable[[], Iterable[bytes]]) -> BlobReference:
        """Keeps the whole of a large result, and returns when it is on disk; waits as long as the disk refuses. `keep` the short form
        that names it next."""
        wait = self._first_retry_seconds
        while True:
            try:
                reference = await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._large.keep(pieces()))
            except OSError as error:
                self._note_fault(error)
                await asyncio.sleep(wait)
                wait = min(2 * wait, _LAST_RETRY_SECONDS)
            else:
                self._note_success()
                return reference

    async def read_large(self, sha256: str, offset: int, size: int) -> bytes:
        """A piece of the whole of a large result. Raises OSError."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._large.read(sha256, offset, size))

    async def load_whole(self, kept: Kept) -> Kept:
        """The record with its result as it was, where that is a file of its own and still is what was written."""
        blob = kept.item.blob
        if blob is None:
            return kept
        whole: JsonObject | None = await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._large.load(blob.sha256))
        if whole is None:
            log.error("outbox.large_result_damaged", attempt=kept.item.attempt_id, sha256=blob.sha256)
            return kept
        return msgspec.structs.replace(kept, item=msgspec.structs.replace(kept.item, result=whole, blob=None))

    async def load(self, attempt_ids: Iterable[str]) -> list[ResultItem]:
        """The results of these attempts; those settled meanwhile are left out."""
        return [record.item for record in await self.load_records(attempt_ids)]

    async def load_records(self, attempt_ids: Iterable[str]) -> list[Kept]:
        """The same with what is known beside the results."""
        wanted = [(attempt_id, self._results[attempt_id]) for attempt_id in attempt_ids if attempt_id in self._results]
        absent = {attempt_id: owed for attempt_id, owed in wanted if owed.record is None}
        read: dict[str, Kept] = {}
        if absent:
            read = await asyncio.get_running_loop().run_in_executor(self._thread, self._read, absent)
            self._lose(set(absent) - set(read))
        records = [owed.record or read.get(attempt_id) for attempt_id, owed in wanted]
        return [record for record in records if record is not None]

    def settle(self, attempt_id: str) -> None:
        """Nothing is owed for this attempt any more: its result was taken, or it ended without one."""
        with self._lock:
            owed = self._results.pop(attempt_id, None)
            known = [owed, self._starts.pop(attempt_id, None), self._lost.pop(attempt_id, None)]
        if owed is not None:
            self._bytes -= owed.all_bytes
            self._forget_copy(owed)
        if any(each is not None for each in known):
            self._enqueue(_Write(encode_record(Ended(attempt_id)), large=owed.large if owed is not None else None))

    async def close(self, *, within_seconds: float = 5.0) -> None:
        """Writes what is still queued, and gives the journal up; what is owed stays on disk."""
        try:
            async with asyncio.timeout(within_seconds):
                while self._writing or self._queue:
                    self._free.clear()
                    self._write_on()
                    await self._free.wait()
        except TimeoutError:
            log.error("outbox.not_written", lines=len(self._queue), error=self._fault)
        if self._retry is not None:
            self._retry.cancel()
        self._thread.shutdown(wait=True)
        if self._file is not None:
            self._file.close(remove=not (self._results or self._starts or self._lost or self._queue))
            self._file = None

    # Steps.

    def _take_over(self, line: Line, place: Place) -> None:
        with self._lock:
            match line.record:
                case Began() as began:
                    self._lost[began.attempt_id] = began
                case Kept(item=item) as kept:
                    before = self._results.get(item.attempt_id)  # an adoption that was cut short has it in two journals
                    owed = _Owed(began=_began_of(kept), place=place, size=place.length, large=item.blob, has_task=kept.task is not None)
                    self._results[item.attempt_id] = owed
                    self._bytes += owed.all_bytes - (before.all_bytes if before is not None else 0)
                case Ended():
                    pass

    def _lose(self, attempt_ids: Iterable[str]) -> None:
        """Results that the disk gave back as something else: their attempts ended without one, which the manager has to know."""
        for attempt_id in attempt_ids:
            with self._lock:
                owed = self._results.get(attempt_id)
                if owed is None or owed.place is None or owed.began is None:
                    continue
                del self._results[attempt_id]
                self._lost[attempt_id] = owed.began
                self._newly_lost += 1
            self._bytes -= owed.all_bytes

    def _enqueue(self, write: _Write) -> None:
        self._queue.append(write)
        self._write_on()

    def _take_turn(self) -> None:
        """Critical section: one thing at a time changes the journal, so that a rewrite knows all that is in it."""
        self._writing = True
        self._free.clear()

    def _end_turn(self) -> None:
        self._writing = False
        self._free.set()

    def _write_on(self) -> None:
        if self._writing or not self._queue or self._retry is not None:
            return
        batch, self._queue = self._queue, []
        self._take_turn()
        durable = any(write.durable is not None for write in batch)
        lines = [write.line for write in batch]
        done = asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._open_file().append(lines, durable=durable))
        done.add_done_callback(lambda future: self._written(batch, future))

    def _written(self, batch: list[_Write], future: "asyncio.Future[list[Place]]") -> None:
        self._end_turn()
        error = future.exception()
        if error is not None:
            self._queue[:0] = batch
            self._put_off(error)
            return
        self._note_success()
        for write, place in zip(batch, future.result(), strict=True):
            if write.owed is not None:
                write.owed.place = place
                self._remember(write.owed)
            if write.durable is not None:
                with self._lock:
                    self._starts.pop(write.attempt_id, None)
                if not write.durable.done():
                    write.durable.set_result(None)
                self.on_kept(write.attempt_id)
        ended = [write.large.sha256 for write in batch if write.large is not None]
        if ended:
            asyncio.get_running_loop().run_in_executor(self._thread, self._remove_large, ended)
        if not self._rewrite_if_wasteful():
            self._write_on()

    def _put_off(self, error: BaseException) -> None:
        if not isinstance(error, OSError):
            raise error
        self._note_fault(error)
        self._retry = asyncio.get_running_loop().call_later(self._retry_seconds, self._try_again)
        self._retry_seconds = min(2 * self._retry_seconds, _LAST_RETRY_SECONDS)

    def _note_fault(self, error: OSError) -> None:
        explained = explain_fault(self.directory, error)
        if not self._fault:
            log.error("outbox.unwritable", error=str(explained), hint=explained.hint)
        self._fault = f"{explained.message}; {explained.hint}"

    def _note_success(self) -> None:
        if self._fault:
            log.info("outbox.writable_again")
        self._fault, self._retry_seconds = "", self._first_retry_seconds

    def _try_again(self) -> None:
        self._retry = None
        self._write_on()

    def _rewrite_if_wasteful(self) -> bool:
        """Starts the journal afresh with what is owed when most of it is history; whether that is under way."""
        if self._open_file().size < max(self._rewrite_bytes, _REWRITE_RATIO * self._bytes):
            return False
        owed = [each for each in (*self._starts.values(), *self._results.values()) if each.place is not None]
        lost = [encode_record(began) for began in self._lost.values()]
        self._take_turn()
        done = asyncio.get_running_loop().run_in_executor(self._thread, self._rewrite, owed, lost)
        done.add_done_callback(self._rewritten)
        return True

    def _rewritten(self, future: "asyncio.Future[None]") -> None:
        self._end_turn()
        error = future.exception()
        if error is None:
            self._write_on()
        else:
            self._put_off(error)

    def _remember(self, owed: _Owed) -> None:
        if owed.record is not None:
            if self._remembered + owed.size > _REMEMBERED_BYTES:
                owed.record = None
            else:
                self._remembered += owed.size

    def _forget_copy(self, owed: _Owed) -> None:
        if owed.record is not None and owed.place is not None:
            self._remembered -= owed.size

    def _open_file(self) -> JournalFile:
        assert self._file is not None, "open() comes first"
        return self._file

    # In the outbox's thread.

    def _remove_large(self, ended: Iterable[str]) -> None:
        for each in ended:
            self._large.remove(each)

    def _rewrite(self, owed: list[_Owed], lost: list[bytes]) -> None:
        file = self._open_file()
        kept = (each.line or file.read(each.place) for each in owed if each.place is not None)
        places = file.rewrite([*kept, *lost])
        for each, place in zip(owed, places[: len(owed)], strict=True):
            each.place = place

    def _read(self, wanted: dict[str, _Owed]) -> dict[str, Kept]:
        file = self._open_file()
        found: dict[str, Kept] = {}
        for attempt_id, owed in wanted.items():
            try:
                record = decode_line(file.read(owed.place)) if owed.place is not None else None
            except (ValueError, OSError) as error:
                log.error("outbox.record_damaged", attempt=attempt_id, error=str(error))
                continue
            if isinstance(record, Kept):
                found[attempt_id] = record
        return found

    def _adopt(self) -> list[tuple[Line, Place]]:
        file = self._open_file()
        with adopted(self.directory, self._path, disk=self._disk) as orphans:
            lines = [line for orphan in orphans for line in orphan.lines]
            places = file.append((line.raw for line in lines), durable=True) if lines else []
        _report_damages(orphans)
        return list(zip(lines, places, strict=True))


def _began_of(kept: Kept) -> Began:
    return Began(kept.item.attempt_id, kept.item.task_id, kept.item.fence, kept.kind, kept.application)


def _named_large(directory: Path) -> set[str]:
    """The large results that journals name, of living processes and of those that are gone."""
    return {
        line.record.item.blob.sha256
        for _, reading, _ in read_journals(directory)
        for line in reading.lines
        if isinstance(line.record, Kept) and line.record.item.blob is not None
    }


def _report_damages(orphans: Iterable[Orphan]) -> None:
    for orphan in orphans:
        for damage in orphan.damages:
            facts: dict[str, Any] = {"file": orphan.path.name, "offset": damage.offset, "bytes": damage.length}
            if damage.torn:
                log.warning("outbox.torn_tail_cut", **facts)
            else:
                log.error("outbox.record_damaged", error=damage.reason, **facts)
