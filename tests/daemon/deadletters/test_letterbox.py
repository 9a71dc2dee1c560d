"""The rest of the daemon puts letters in, and learns whether there is room."""

import asyncio
import errno
from pathlib import Path

import pytest

from delegate.daemon.deadletters.disk import Disk
from delegate.daemon.deadletters.errors import SpoolFullError, SpoolUnusableError
from delegate.daemon.deadletters.letter import Reason
from delegate.daemon.deadletters.letterbox import DeadLetters
from delegate.daemon.deadletters.sealing import read
from delegate.daemon.deadletters.spool import SpoolLimits
from delegate.foundation.redaction import KnownSecrets
from delegate.foundation.telemetry.metrics import DelegateMetrics
from tests.daemon.deadletters.disks import FailingDisk
from tests.daemon.deadletters.letters import letter, sealed


def exposed(metrics: DelegateMetrics) -> dict[str, float]:
    text = metrics.expose()[0].decode()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if not line.startswith("#")}


def contents(directory: Path) -> list[bytes]:
    return [path.read_bytes() for path in directory.iterdir()]


async def test_a_letter_is_on_disk_when_put_returns(tmp_path: Path) -> None:
    """With its secrets masked."""
    known = KnownSecrets()
    known.add("hunter22")
    letters = DeadLetters(tmp_path, known=known)
    letters.open()

    await letters.put(letter(1, text="the password was hunter22"))

    [content] = contents(tmp_path)
    assert b"hunter22" not in content
    [entry] = letters.snapshot()
    assert read(await letters.load(entry)).redaction.masked == 1
    await letters.close()


async def test_metrics_tell_what_there_is_and_what_came(tmp_path: Path) -> None:
    """Each letter is counted once, by its reason; the gauges are read when they are scraped."""
    metrics = DelegateMetrics("edge-1")
    letters = DeadLetters(tmp_path, on_put=metrics.record_dead_letter)
    metrics.watch(metrics.dlq_spool_entries, lambda: letters.entries)
    metrics.watch(metrics.dlq_spool_bytes, lambda: letters.stored_bytes)
    letters.open()

    for number in (1, 2, 1):
        await letters.put(letter(number, reason=Reason.CONFLICT))

    samples = exposed(metrics)
    assert samples['dlq_entries_total{delegate="edge-1",reason="conflict"}'] == 2
    assert samples['dlq_entries_total{delegate="edge-1",reason="invalid"}'] == 0
    assert samples["harness_delegate_dlq_spool_entries"] == 2
    assert samples["harness_delegate_dlq_spool_bytes"] == sum(map(len, contents(tmp_path)))
    await letters.close()


async def test_a_full_spool_says_so_before_and_when_it_refuses(tmp_path: Path) -> None:
    """First no further tasks, then an error; why letters don't leave is part of the words."""
    letters = DeadLetters(tmp_path, limits=SpoolLimits(entries=8))
    letters.why_kept = lambda: "the bucket is away"
    letters.open()
    for number in range(7):
        await letters.put(letter(number))
    assert letters.is_full() == ""

    await letters.put(letter(7))

    assert letters.is_full() == f"spool_full: the dead-letter spool {tmp_path} holds 8 letters; its limit is 8 (the bucket is away)"
    with pytest.raises(SpoolFullError):
        await letters.put(letter(8))
    await letters.remove(letters.snapshot()[0])
    assert letters.is_full() == ""
    await letters.put(letter(8))
    await letters.close()


async def test_what_is_given_up_is_told(tmp_path: Path) -> None:
    """Superseded results that made room are counted."""
    given_up: list[str] = []
    letters = DeadLetters(tmp_path, limits=SpoolLimits(entries=2), on_given_up=given_up.append)
    letters.open()
    for number in range(2):
        await letters.put(letter(number, reason=Reason.SUPERSEDED))

    await letters.put(letter(2))

    assert given_up == ["superseded"]
    await letters.close()


async def test_a_disk_that_works_again_is_noticed(tmp_path: Path) -> None:
    """By the next look, without anybody putting a letter."""
    disk = FailingDisk(10**9, errno.ENOSPC, only="write", for_good=True)
    letters = DeadLetters(tmp_path, disk=disk)
    letters.open()
    disk.fails_at = 0
    with pytest.raises(SpoolFullError):
        await letters.put(letter(1))
    await letters.look_again()
    assert "No space left on device" in letters.is_full()

    disk.fails_at = 10**9
    await letters.look_again()

    assert letters.is_full() == ""
    await letters.close()


async def test_a_directory_that_can_not_be_written_ends_the_start(tmp_path: Path) -> None:
    """With the setting that names it."""
    (tmp_path / "file").write_text("")

    with pytest.raises(SpoolUnusableError) as unusable:
        DeadLetters(tmp_path / "file").open()

    assert "DELEGATE_DLQ_DIR" in unusable.value.hint


async def test_many_letters_at_once_are_all_kept(tmp_path: Path) -> None:
    """Whoever puts waits for its own; the loop goes on meanwhile."""
    letters = DeadLetters(tmp_path)
    letters.open()
    heard: list[str] = []
    letters.on_added = lambda entry: heard.append(entry.id)

    await asyncio.gather(*(letters.put(letter(number, size=1000)) for number in range(100)))
    await asyncio.sleep(0)

    assert letters.entries == 100
    assert sorted(heard) == sorted(sealed(number, size=1000)[0].letter.id for number in range(100))
    await letters.close()


async def test_a_cancelled_put_may_be_repeated(tmp_path: Path) -> None:
    """The letter is there once in the end."""
    letters = DeadLetters(tmp_path, disk=Disk())
    letters.open()
    put = asyncio.create_task(letters.put(letter(1)))
    await asyncio.sleep(0)
    put.cancel()
    with pytest.raises(asyncio.CancelledError):
        await put

    await letters.put(letter(1))

    assert letters.entries == 1
    await letters.close()
