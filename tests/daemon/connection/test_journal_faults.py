"""Case 21: whatever happens at whichever system call, a result that was promised is there once, and torn ends are cut."""

import asyncio
import contextlib
import errno
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from delegate.daemon.connection.journal import Ended, Kept, encode_record
from delegate.daemon.connection.journal_disk import JournalDisk
from delegate.daemon.connection.journal_files import JournalFile, adopted
from delegate.daemon.connection.large_results import LargeResults
from delegate.daemon.connection.outbox import Outbox
from delegate.daemon.directories import write_all
from tests.daemon.connection.disks import CountingDisk, Died, DyingDisk, FailingDisk, PowerCutDisk
from tests.daemon.connection.test_outbox import began, kept
from tests.daemon.waiting import eventually


def one_life(directory: Path, disk: JournalDisk, promise: Callable[[str, bool], None]) -> None:
    """A process that takes over an orphan, keeps results, settles some and rewrites; `promise` hears of what is owed from then on."""
    journal = JournalFile(directory / "second.journal", disk=disk)
    with adopted(directory, journal.path, disk=disk) as orphans:
        journal.append([line.raw for orphan in orphans for line in orphan.lines], durable=True)
    journal.append([encode_record(began("running"))], durable=False)
    for name in ("a", "b", "c"):
        journal.append([encode_record(kept(name))], durable=True)
        promise(name, True)
    promise("a", False)
    journal.append([encode_record(Ended("a"))], durable=False)
    journal.rewrite([encode_record(kept(name)) for name in ("old", "b", "c")])
    journal.append([encode_record(kept("d"))], durable=True)
    promise("d", True)
    journal.append([encode_record(began("next"))], durable=True)
    journal.close()


def with_an_orphan(directory: Path) -> Path:
    """The directory, with a result in it that an earlier process owed."""
    directory.mkdir()
    journal = JournalFile(directory / "first.journal")
    journal.append([encode_record(kept("old"))], durable=True)
    journal.close()
    return directory


def found_after(directory: Path) -> list[str]:
    """The results that the next process finds, each as often as it does; all of them whole."""
    with adopted(directory) as orphans:
        for orphan in orphans:
            assert all(damage.torn for damage in orphan.damages)
        return [line.record.item.attempt_id for orphan in orphans for line in orphan.lines if isinstance(line.record, Kept)]


def test_calls_are_counted(tmp_path: Path) -> None:
    """The life below makes calls of every kind but one that only a fault brings."""
    disk = CountingDisk()
    one_life(with_an_orphan(tmp_path / "dry"), disk, lambda name, owed: None)

    assert set(disk.calls) == {"create", "write", "flush", "replace", "unlink", "sync_directory"}
    assert len(disk.calls) > 20


@pytest.mark.parametrize("kind", ["killed", "power cut"])
def test_promised_results_survive_a_death_before_each_system_call(tmp_path: Path, kind: str) -> None:
    """Also when the disk forgets everything that was not flushed."""
    dry = CountingDisk()
    one_life(with_an_orphan(tmp_path / "dry"), dry, lambda name, owed: None)
    for dies_at in range(1, len(dry.calls) + 1):
        directory = with_an_orphan(tmp_path / str(dies_at))
        disk = DyingDisk(dies_at) if kind == "killed" else PowerCutDisk(dies_at, directory)
        promised = {"old"}

        def promise(name: str, owed: bool, promised: set[str] = promised) -> None:
            (promised.add if owed else promised.discard)(name)

        with contextlib.suppress(Died):
            one_life(directory, disk, promise)

        found = found_after(directory)
        assert promised <= set(found) <= {"old", "a", "b", "c", "d"}, dies_at


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS])
async def test_a_fault_at_any_system_call_is_waited_out(tmp_path: Path, error: int) -> None:
    """Also two in a row: the result is kept once the disk works again, is read as it was, and nothing of the fault is left."""
    dry = CountingDisk()
    await keep_three(tmp_path / "dry", dry)
    calls = len(dry.calls)
    opening = await calls_of_opening(tmp_path / "opening")
    for fails_at, more in itertools.product(range(opening + 1, calls + 1), (0, 1)):
        directory = tmp_path / f"{fails_at}-{more}"

        await keep_three(directory, FailingDisk(error, *range(fails_at, fails_at + more + 1)))

        assert sorted(found_after(directory)) == ["b", "c"]


async def calls_of_opening(directory: Path) -> int:
    disk = CountingDisk()
    outbox = Outbox(directory, "first", disk=disk)
    outbox.open()
    await outbox.close()
    return len(disk.calls) - disk.calls.count("unlink")


async def keep_three(directory: Path, disk: JournalDisk) -> None:
    """Three results are kept, one is settled, the journal is rewritten; each is read from the disk as it was."""
    outbox = Outbox(directory, "first", disk=disk, rewrite_bytes=500, retry_seconds=0.001)
    outbox.open()
    for name in ("a", "b", "c"):
        await outbox.keep(kept(name))
        if name == "b":
            outbox.settle("a")
    for owed in outbox._results.values():
        owed.record = None
    assert await outbox.load(["b", "c"]) == [kept("b").item, kept("c").item]
    await eventually(lambda: outbox.full_reason == "" or not outbox._queue)
    await outbox.close()


async def test_short_writes_go_on_where_they_stopped(tmp_path: Path) -> None:
    """A disk may take a line in any number of bites."""

    class ShortDisk(JournalDisk):
        def write(self, descriptor: int, data: bytes) -> None:
            for start in range(0, len(data), 7):
                write_all(descriptor, data[start : start + 7])

    await keep_three(tmp_path, ShortDisk())

    assert sorted(found_after(tmp_path)) == ["b", "c"]


async def test_a_result_that_the_disk_changed_is_lost_and_said_to_be(tmp_path: Path) -> None:
    """A broken checksum is no fault of the others, nor of the process: the manager hears that the attempt has no result."""
    outbox = Outbox(tmp_path, "first")
    outbox.open()
    await asyncio.gather(*(outbox.keep(kept(name)) for name in ("a", "b", "c")))
    place = outbox._results["b"].place
    assert place is not None
    with (tmp_path / "first.journal").open("r+b") as file:
        file.seek(place.offset + 40)
        file.write(b"\0")
    for owed in outbox._results.values():
        owed.record = None

    assert await outbox.load(["a", "b", "c"]) == [kept("a").item, kept("c").item]

    finished, lost = outbox.owed_attempts()
    assert ([each.attempt_id for each in finished], [each.attempt_id for each in lost]) == (["a", "c"], ["b"])
    assert await outbox.adopt() == 1
    assert await outbox.adopt() == 0
    await outbox.close()


def test_large_results_survive_a_death_before_each_system_call(tmp_path: Path) -> None:
    """A file with its name is whole; what was never finished is removed when it is old."""
    pieces = [b"[", b"1" * 300_000, b"]"]
    dry = CountingDisk()
    (tmp_path / "dry").mkdir()
    LargeResults(tmp_path / "dry", dry).keep(pieces)
    for dies_at in range(1, len(dry.calls) + 1):
        directory = tmp_path / str(dies_at)
        directory.mkdir()
        with contextlib.suppress(Died):
            LargeResults(directory, DyingDisk(dies_at)).keep(pieces)
        for path in (directory / "large").iterdir():
            assert path.suffix == ".writing" or path.stat().st_size == 300_002
