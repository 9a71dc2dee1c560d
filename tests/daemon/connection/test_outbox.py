"""The outbox keeps every result until the manager has it, whatever disk and processes do."""

import asyncio
import errno
import fcntl
import multiprocessing
import os
import signal
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from delegate.daemon.connection.journal import Began, Kept, encode_record
from delegate.daemon.connection.journal_disk import JournalDisk
from delegate.daemon.connection.journal_files import JournalFile, adopted, read_journals
from delegate.daemon.connection.outbox import Outbox, OutboxLimits
from delegate.daemon.directories import StateDirectoryError, write_all
from delegate.protocol.codec import result_digest
from delegate.protocol.work import ResultItem
from tests.daemon.waiting import eventually


def kept(attempt: str, text: str = "") -> Kept:
    result = {"attempt": attempt, "text": text}
    item = ResultItem(
        attempt_id=attempt, task_id=f"task-{attempt}", fence=1, attempt_token="token", digest=result_digest(result), result=result
    )
    return Kept(item, kind="sync", application="shop", outcome="succeeded")


def began(attempt: str) -> Began:
    return Began(attempt, f"task-{attempt}", 1, "sync", "shop")


def file_names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def opened(directory: Path, name: str = "first", limits: OutboxLimits | None = None) -> Outbox:
    outbox = Outbox(directory, name, limits=limits)
    outbox.open()
    return outbox


async def test_a_kept_result_is_on_disk_before_keep_returns(tmp_path: Path) -> None:
    """Another process that reads the directory finds the result as soon as `keep` has returned."""
    outbox = opened(tmp_path)

    await outbox.keep(kept("a"))

    [(_, reading, living)] = list(read_journals(tmp_path))
    assert [line.record for line in reading.lines] == [kept("a")]
    assert living
    await outbox.close()


async def test_results_outlive_the_process(tmp_path: Path) -> None:
    """The next process sends what the last one could not, and reports what it began and never ended."""
    first = opened(tmp_path)
    first.began(began("lost"))
    first.began(began("sent"))
    await first.keep(kept("kept"))
    await first.keep(kept("sent"))
    first.settle("sent")
    await first.close()

    second = opened(tmp_path, "second")

    finished, lost = second.owed_attempts()
    assert [each.attempt_id for each in finished] == ["kept"]
    assert [each.attempt_id for each in lost] == ["lost"]
    assert await second.load(second.unsent()) == [kept("kept").item]
    await second.close()


async def test_leaves_no_file_when_nothing_is_owed(tmp_path: Path) -> None:
    """A clean end leaves the directory empty."""
    outbox = opened(tmp_path)
    outbox.began(began("a"))
    await outbox.keep(kept("a"))
    outbox.settle("a")
    await outbox.close()

    assert file_names(tmp_path) == []


async def test_many_results_share_a_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred results that arrive together cost a few flushes, not a hundred."""
    outbox = opened(tmp_path)
    flushes = 0
    flush = os.fdatasync

    def counting(descriptor: int) -> None:
        nonlocal flushes
        flushes += 1
        flush(descriptor)

    monkeypatch.setattr(os, "fdatasync", counting)
    await asyncio.gather(*(outbox.keep(kept(f"a{number}")) for number in range(100)))

    assert 1 <= flushes <= 3
    assert len(outbox.unsent()) == 100
    await outbox.close()


async def test_a_full_disk_keeps_the_result_and_says_why(tmp_path: Path) -> None:
    """While the disk is full `keep` waits and no task should be taken; with room again it goes on by itself."""
    full = True

    def write(descriptor: int, data: bytes) -> None:
        if full:
            os.write(descriptor, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_all(descriptor, data)

    outbox = Outbox(tmp_path, "first", disk=JournalDisk(write))
    full = False
    outbox.open()
    full = True
    keeping = asyncio.create_task(outbox.keep(kept("a")))
    await eventually(lambda: "No space left on device" in outbox.full_reason)
    assert str(tmp_path) in outbox.full_reason
    assert not keeping.done()
    assert outbox.unsent() == []

    full = False
    await keeping

    assert outbox.full_reason == ""
    [(_, reading, _)] = list(read_journals(tmp_path))
    assert [line.record for line in reading.lines] == [kept("a")]
    assert reading.damages == ()
    await outbox.close()


@pytest.mark.parametrize(
    ("limits", "words"),
    [(OutboxLimits(entries=2), "its limit is 2"), (OutboxLimits(bytes=300), "its limit is 300")],
    ids=["entries", "bytes"],
)
async def test_is_full_at_its_bounds(tmp_path: Path, limits: OutboxLimits, words: str) -> None:
    """At the bound of entries or bytes the outbox says so, still keeps what running tasks bring, and is free after settling."""
    outbox = opened(tmp_path, limits=limits)
    for attempt in ("a", "b", "c"):
        await outbox.keep(kept(attempt))
    assert words in outbox.full_reason

    for attempt in ("a", "b", "c"):
        outbox.settle(attempt)

    assert outbox.full_reason == ""
    assert outbox.stored_bytes == 0
    await outbox.close()


async def test_the_journal_does_not_grow_with_what_is_settled(tmp_path: Path) -> None:
    """History is dropped by a rewrite; what is owed is in the new journal, and still readable at its new place."""
    outbox = Outbox(tmp_path, "first", rewrite_bytes=4096)
    outbox.open()
    outbox.began(began("running"))
    big = "x" * 3 * 2**20
    for attempt in ("big-1", "big-2", "big-3"):  # more than is held in memory
        await outbox.keep(kept(attempt, big))
    for number in range(200):
        await outbox.keep(kept(f"a{number}", "y" * 200))
        outbox.settle(f"a{number}")
    for attempt in ("big-1", "big-2"):
        outbox.settle(attempt)
    await outbox.keep(kept("last"))

    await eventually(lambda: (tmp_path / "first.journal").stat().st_size < 4 * 2**20)
    assert [item.attempt_id for item in await outbox.load(outbox.unsent())] == ["big-3", "last"]
    await outbox.close()
    again = opened(tmp_path, "second")
    finished, lost = again.owed_attempts()
    assert [each.attempt_id for each in finished] == ["big-3", "last"]
    assert [each.attempt_id for each in lost] == ["running"]
    assert [len(str(item.result["text"])) for item in await again.load(["big-3"])] == [len(big)]
    await again.close()


async def test_two_processes_share_a_directory_without_harm(tmp_path: Path) -> None:
    """A second outbox leaves the first one's journal alone, and adopts it once the first is gone."""
    first, second = opened(tmp_path, "first"), opened(tmp_path, "second")
    await asyncio.gather(first.keep(kept("a")), second.keep(kept("b")))
    assert second.unsent() == ["b"]
    assert await second.adopt() == 0
    assert second.unsent() == ["b"]

    first.began(began("dropped"))
    await first.close()
    announced: list[str] = []
    second.on_kept = announced.append

    assert await second.adopt() == 1
    assert announced == ["a"]
    assert second.unsent() == ["b", "a"]
    assert file_names(tmp_path) == ["second.journal"]
    await second.close()


async def test_damage_is_set_aside_and_the_rest_goes_on(tmp_path: Path) -> None:
    """A record that rotted on disk is kept for a person; the others of the file are delivered."""
    first = opened(tmp_path)
    for attempt in ("a", "b", "c"):
        await first.keep(kept(attempt))
    await first.close()
    path = tmp_path / "first.journal"
    data = bytearray(path.read_bytes())
    data[data.index(b'"b"')] ^= 1
    path.write_bytes(data)

    second = opened(tmp_path, "second")

    assert second.unsent() == ["a", "c"]
    assert (tmp_path / "first.damaged").exists()
    await second.close()


async def test_what_is_known_beside_a_result_is_the_same_after_a_restart(tmp_path: Path) -> None:
    """A record is read whole, from memory and from disk; one that was settled is not there."""
    first = opened(tmp_path)
    await first.keep(kept("a"))
    await first.keep(kept("b"))
    first.settle("b")
    assert await first.load_records(["a", "b"]) == [kept("a")]
    await first.close()

    second = opened(tmp_path, "second")

    assert await second.load_records(["a", "b"]) == [kept("a")]
    await second.close()


def test_an_unusable_directory_is_named_with_the_remedy(tmp_path: Path) -> None:
    """Where a file stands in the way, the error names the directory and what to set."""
    (tmp_path / "state").write_text("")

    with pytest.raises(StateDirectoryError, match="state") as caught:
        opened(tmp_path / "state")

    assert "DELEGATE_STATE_DIR" in caught.value.hint


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[tuple[multiprocessing.process.BaseProcess, "Connection[int, int]"]]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=keep_on_writing, args=(tmp_path, theirs))
    process.start()
    theirs.close()
    yield process, ours
    process.kill()
    process.join()
    ours.close()
    process.close()


def keep_on_writing(directory: Path, connection: "Connection[int, int]") -> None:
    async def write() -> None:
        outbox = Outbox(directory, "killed", rewrite_bytes=20_000)
        outbox.open()
        for number in range(100_000):
            await outbox.keep(kept(f"a{number}", "x" * 500))
            connection.send(number)
            if number % 2:
                outbox.settle(f"a{number}")

    asyncio.run(write())


async def test_sigkill_at_any_moment_loses_no_kept_result(
    tmp_path: Path, writer: "tuple[multiprocessing.process.BaseProcess, Connection[int, int]]"
) -> None:
    """A process that is killed in the middle of writing and rewriting leaves every result that `keep` returned for."""
    process, connection = writer
    last = 0
    while last < 150:
        last = await asyncio.to_thread(connection.recv)
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    await asyncio.to_thread(process.join)
    while True:
        try:
            last = connection.recv()
        except EOFError:
            break

    outbox = opened(tmp_path, "next")

    unsettled = {f"a{number}" for number in range(0, last + 1, 2)}
    assert unsettled <= set(outbox.unsent())
    await outbox.close()


async def test_adoption_and_rewrites_do_not_lose_each_other(tmp_path: Path) -> None:
    """What is adopted while the journal is being rewritten is in the new one."""
    outbox = Outbox(tmp_path, "first", rewrite_bytes=1)
    outbox.open()
    names: list[str] = []
    for number in range(20):
        orphan = opened(tmp_path, f"orphan-{number}")
        await orphan.keep(kept(f"orphaned-{number}"))
        await orphan.close()
        await outbox.keep(kept(f"own-{number}", "x" * 20_000))
        outbox.settle(f"own-{number}")  # most of the journal is history now, so this write is followed by a rewrite
        await outbox.adopt()
        names.append(f"orphaned-{number}")
    assert sorted(outbox.unsent()) == sorted(names)
    assert sorted(item.attempt_id for item in await outbox.load(outbox.unsent())) == sorted(names)
    await outbox.close()

    again = opened(tmp_path, "second")
    assert sorted(again.unsent()) == sorted(names)
    await again.close()


def test_a_journal_that_is_replaced_in_the_moment_of_adoption_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its owner gave the old file up by replacing it, not by dying: the lock on the old one means nothing."""
    living = JournalFile(tmp_path / "living.journal")
    line = encode_record(kept("a"))
    living.append([line], durable=True)
    lock = fcntl.flock

    def replace_first(descriptor: int, kind: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        living.rewrite([line])
        lock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", replace_first)
    with adopted(tmp_path) as orphans:
        assert orphans == []

    assert (tmp_path / "living.journal").read_bytes() == line
    living.close()
