"""Whatever happens at whichever system call: a letter that was acknowledged is there and whole, and nothing else counts as one."""

import errno
import hashlib
import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from delegate.daemon.deadletters.disk import Disk
from delegate.daemon.deadletters.entries import entry_of
from delegate.daemon.deadletters.errors import SpoolError, SpoolFullError, SpoolUnusableError
from delegate.daemon.deadletters.letter import Reason
from delegate.daemon.deadletters.spool import Spool, SpoolLimits
from tests.daemon.deadletters.disks import CountingDisk, DyingDisk, FailingDisk, PowerCutDisk, ShortDisk, calls_of, until_it_dies
from tests.daemon.deadletters.letters import sealed

LIMITS = SpoolLimits(bytes=5000, entries=100)


def spool_on(disk: Disk, directory: Path) -> Spool:
    return Spool(directory, limits=LIMITS, disk=disk)


def one_life(directory: Path, disk: Disk, acknowledge: Callable[[str, bool], None]) -> None:
    """A process that keeps letters, sends one, and gives one up; `acknowledge` hears of each that is promised, or owed no more."""
    spool = spool_on(disk, directory)
    spool.open()
    for number in range(3):
        [letter] = sealed(number, reason=Reason.SUPERSEDED if number == 1 else Reason.INVALID, size=700)
        spool.put([letter])
        acknowledge(letter.letter.id, True)
    sent = spool.snapshot()[0]
    spool.load(sent)
    acknowledge(sent.id, False)
    spool.remove(sent)
    given_up = spool.snapshot()[0]
    assert given_up.reason == "superseded"
    acknowledge(given_up.id, False)
    [large] = sealed(4, size=2200)
    spool.put([large])
    acknowledge(large.letter.id, True)


def calls_of_one_life(tmp_path: Path) -> int:
    return calls_of(lambda disk: one_life(tmp_path / "dry", disk, lambda letter, owed: None))


def check_what_is_left(directory: Path, promised: set[str], possible: set[str]) -> None:
    """Every promised letter is there and whole; whatever else is there was possible, and whole too."""
    spool = spool_on(Disk(), directory)
    spool.open()
    found = {entry.id for entry in spool.snapshot()}
    assert promised <= found <= possible
    for entry in spool.snapshot():
        assert hashlib.sha256(spool.load(entry)).hexdigest() == entry.sha256
    assert not [path.name for path in directory.iterdir() if entry_of(path.name, 0) is None]


ALL_IDS = {
    sealed(number, reason=reason, size=700)[0].letter.id for number in range(3) for reason in (Reason.INVALID, Reason.SUPERSEDED)
} | {sealed(4, size=2200)[0].letter.id}


@pytest.mark.parametrize("kind", ["killed", "power cut"])
def test_acknowledged_letters_survive_a_death_before_each_system_call(tmp_path: Path, kind: str) -> None:
    """Also when the disk forgets everything that was not flushed."""
    calls = calls_of_one_life(tmp_path)
    assert calls > 20
    for dies_at in range(1, calls + 1):
        directory = tmp_path / f"{dies_at}"
        directory.mkdir()
        disk = DyingDisk(dies_at) if kind == "killed" else PowerCutDisk(dies_at, directory)
        promised: set[str] = set()

        def acknowledge(letter: str, owed: bool, promised: set[str] = promised) -> None:
            (promised.add if owed else promised.discard)(letter)

        until_it_dies(lambda directory=directory, disk=disk, acknowledge=acknowledge: one_life(directory, disk, acknowledge))  # type: ignore[misc]

        assert len(disk.calls) >= dies_at
        check_what_is_left(directory, promised, ALL_IDS)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
def test_a_put_that_fails_at_any_system_call_can_be_repeated(tmp_path: Path, error: int) -> None:
    """The error has words, nothing counts as kept, no file is left behind, and the next try succeeds."""

    def put_two(disk: Disk) -> None:
        spool = spool_on(disk, tmp_path / "dry")
        spool.open()
        spool.put(sealed(1))
        spool.put(sealed(2))

    before = calls_of(lambda disk: spool_on(disk, tmp_path / "dry").open())
    calls = calls_of(put_two)
    both = {sealed(1)[0].letter.id, sealed(2)[0].letter.id}
    for fails_at in range(before + 1, calls + 1):
        directory = tmp_path / f"{fails_at}"
        spool = spool_on(FailingDisk(fails_at, error), directory)
        spool.open()
        faults = [fault for number in (1, 2) if (fault := put_twice_if_need_be(spool, number, directory)) is not None]
        [fault] = faults
        assert isinstance(fault, SpoolFullError if error in (errno.ENOSPC, errno.EDQUOT) else SpoolUnusableError)
        assert str(directory) in str(fault)
        assert "DELEGATE_DLQ_DIR" in fault.hint
        check_what_is_left(directory, both, both)


def put_twice_if_need_be(spool: Spool, number: int, directory: Path) -> SpoolError | None:
    """The error of the first try, after which nothing may be kept and the second has to succeed."""
    fault: SpoolError | None = None
    try:
        spool.put(sealed(number))
    except SpoolError as error:
        fault = error
    if fault is not None:
        assert spool.full_reason
        assert (spool.entries, len(list(directory.iterdir()))) == (number - 1, number - 1)
        assert spool.put(sealed(number))
    assert spool.full_reason == ""
    return fault


def test_short_writes_go_on_where_they_stopped(tmp_path: Path) -> None:
    """A disk may take a letter in any number of bites."""
    disk = ShortDisk(7)
    spool = spool_on(disk, tmp_path)
    spool.open()

    spool.put(sealed(1))

    [entry] = spool.snapshot()
    assert spool.load(entry) == sealed(1)[0].body
    assert disk.calls.count("write") > 50


def test_a_letter_that_is_there_already_is_flushed_before_it_is_promised(tmp_path: Path) -> None:
    """Whoever renamed it may have died before the directory was flushed."""
    disk = CountingDisk()
    spool = spool_on(disk, tmp_path)
    spool.open()
    spool_on(Disk(), tmp_path).put(sealed(1))
    spool.rescan()
    before = disk.calls.count("sync_directory")

    assert not spool.put(sealed(1))

    assert disk.calls.count("sync_directory") == before + 1


def test_a_disk_that_takes_nothing_is_a_fault(tmp_path: Path) -> None:
    """And no endless loop."""
    spool = spool_on(ShortDisk(0), tmp_path)

    with pytest.raises(SpoolUnusableError):
        spool.open()


def test_a_full_disk_takes_superseded_results_first(tmp_path: Path) -> None:
    """Room on the disk is found as room in the spool is."""
    spool = spool_on(CountingDisk(), tmp_path)
    spool.open()
    spool.put(sealed(1, reason=Reason.SUPERSEDED))
    spool._disk = FailingDisk(1, errno.ENOSPC, only="write")

    assert spool.put(sealed(2))

    assert [entry.reason for entry in spool.snapshot()] == ["invalid"]
    assert spool.full_reason == ""


def test_a_full_disk_is_no_reason_not_to_start(tmp_path: Path) -> None:
    """What is there can be sent; until there is room, no task is taken. Room that returns is noticed without a letter."""
    disk = FailingDisk(1, errno.ENOSPC, only="write", for_good=True)
    spool_on(Disk(), tmp_path).open()
    spool = spool_on(disk, tmp_path)

    spool.open()

    assert "No space left on device" in spool.full_reason
    assert spool.faulty
    with pytest.raises(SpoolFullError):
        spool.probe()
    disk.fails_at = 10**9
    spool.probe()
    assert spool.full_reason == ""


def _put_until_killed(directory: Path, told: Connection) -> None:
    spool = Spool(directory)
    spool.open()
    number = 0
    while True:
        [letter] = sealed(number, size=number * 37 % 5000)
        spool.put([letter])
        told.send(letter.letter.id)
        number += 1


@pytest.mark.parametrize("after", [1, 7, 20])
def test_acknowledged_letters_survive_a_real_kill(tmp_path: Path, after: int) -> None:
    """SIGKILL in the middle of writing, a real process and a real file system."""
    context = multiprocessing.get_context("spawn")
    hears, tells = context.Pipe(duplex=False)
    process = context.Process(target=_put_until_killed, args=(tmp_path, tells))
    process.start()
    tells.close()
    promised = {hears.recv() for _ in range(after)}
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    try:
        while True:
            promised.add(hears.recv())
    except EOFError:
        hears.close()

    spool = Spool(tmp_path)
    spool.open()

    found = {entry.id for entry in spool.snapshot()}
    assert promised <= found
    assert len(found) <= len(promised) + 1
    for entry in spool.snapshot():
        spool.load(entry)
