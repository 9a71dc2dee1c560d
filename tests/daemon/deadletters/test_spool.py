"""The spool keeps letters within its limits, in order, and tells what is wrong with it."""

import os
from pathlib import Path

import pytest

from delegate.daemon.deadletters.entries import Entry
from delegate.daemon.deadletters.errors import (
    LetterDamagedError,
    LetterGoneError,
    LetterTooLargeError,
    SpoolFullError,
    SpoolUnusableError,
)
from delegate.daemon.deadletters.letter import Reason
from delegate.daemon.deadletters.sealing import Sealed
from delegate.daemon.deadletters.spool import Spool, SpoolLimits
from tests.daemon.deadletters.letters import sealed


def opened(directory: Path, *, size: int = 2**20, entries: int = 100) -> Spool:
    spool = Spool(directory, limits=SpoolLimits(bytes=size, entries=entries))
    spool.open()
    return spool


def ids(entries: list[Entry]) -> list[str]:
    return [entry.id for entry in entries]


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.is_file())


def test_a_letter_is_a_readable_file_for_its_owner_alone(tmp_path: Path) -> None:
    """One JSON document a letter, with 0600 in a directory with 0700."""
    directory = tmp_path / "made" / "dlq"
    [letter] = sealed(1)

    assert opened(directory).put([letter])

    [path] = directory.iterdir()
    assert path.read_bytes() == letter.body
    assert path.name == f"20260304T050608.000089Z_invalid_{letter.letter.id}_{letter.sha256}.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert directory.stat().st_mode & 0o777 == 0o700


def test_letters_outlive_the_process_in_order_of_age(tmp_path: Path) -> None:
    """Whatever order they were written in."""
    spool = opened(tmp_path)
    letters = [sealed(number)[0] for number in range(5)]
    for number in (3, 0, 4, 1, 2):
        spool.put([letters[number]])

    again = opened(tmp_path)

    assert ids(again.snapshot()) == [each.letter.id for each in letters]
    assert [again.load(entry) for entry in again.snapshot()] == [each.body for each in letters]
    assert (again.entries, again.stored_bytes) == (5, sum(len(each.body) for each in letters))


def test_a_letter_is_kept_once_however_often_it_is_put(tmp_path: Path) -> None:
    """Whoever is not sure that it was kept puts it again."""
    spool = opened(tmp_path)

    news = [spool.put(sealed(1)), spool.put(sealed(1)), spool.put(sealed(1, age=60)), opened(tmp_path).put(sealed(1))]

    assert news == [True, False, False, False]
    assert len(files(tmp_path)) == 1


def test_a_removed_letter_is_gone(tmp_path: Path) -> None:
    """And so is its room."""
    spool = opened(tmp_path)
    spool.put(sealed(1))
    [entry] = spool.snapshot()

    spool.remove(entry)
    spool.remove(entry)

    assert (spool.entries, spool.stored_bytes, files(tmp_path)) == (0, 0, [])
    with pytest.raises(LetterGoneError):
        spool.load(entry)


def test_a_full_spool_refuses_with_words_and_keeps_what_it_has(tmp_path: Path) -> None:
    """Whoever gave the letter still has it, and knows what to do."""
    [letter] = sealed(1, size=500)
    spool = opened(tmp_path, size=2 * len(letter.body) + 10)
    spool.put(sealed(1, size=500))
    spool.put(sealed(2, size=500))

    with pytest.raises(SpoolFullError, match=r"holds 2 letters in \d+ bytes") as full:
        spool.put(sealed(3, size=500))

    assert "DELEGATE_DLQ_MAX_BYTES" in full.value.hint
    assert full.value.retryable
    assert spool.entries == 2

    spool.remove(spool.snapshot()[0])

    assert spool.put(sealed(3, size=500))


def test_the_number_of_letters_is_bounded_too(tmp_path: Path) -> None:
    """Many small files are as bad as a few large ones."""
    spool = opened(tmp_path, entries=3)
    for number in range(3):
        spool.put(sealed(number))

    with pytest.raises(SpoolFullError):
        spool.put(sealed(3))


def test_asks_for_no_further_tasks_while_letters_of_running_ones_still_fit(tmp_path: Path) -> None:
    """The last eighth is for work that is under way; what says so goes when room returns."""
    spool = opened(tmp_path, entries=16)
    for number in range(14):
        spool.put(sealed(number))
    assert spool.full_reason == ""

    spool.put(sealed(14))

    assert spool.full_reason == f"the dead-letter spool {tmp_path} holds 15 letters; its limit is 16"
    assert spool.put(sealed(15))
    for entry in spool.snapshot()[:2]:
        spool.remove(entry)
    assert spool.full_reason == ""


def test_a_letter_that_waits_for_room_stops_the_taking_of_tasks(tmp_path: Path) -> None:
    """Also when little letters would still fit; the reason goes when it fits, or when there is room."""
    spool = Spool(tmp_path, limits=SpoolLimits(bytes=4000))
    spool.open()
    spool.put(sealed(1, size=2000))
    large = sealed(2, size=1500)
    with pytest.raises(SpoolFullError):
        spool.put(large)
    assert "waits for room" in spool.full_reason

    spool.remove(spool.snapshot()[0])
    assert spool.full_reason == ""
    assert spool.put(large)
    spool.put(sealed(3))
    assert spool.full_reason == ""


def test_bytes_count_for_the_reason_as_letters_do(tmp_path: Path) -> None:
    """A few large letters fill the spool."""
    [large] = sealed(1, size=900)
    spool = opened(tmp_path, size=len(large.body) + 100)

    spool.put([large])

    assert spool.full_reason == f"the dead-letter spool {tmp_path} holds {len(large.body)} bytes; its limit is {len(large.body) + 100}"


def test_superseded_results_make_room_oldest_first(tmp_path: Path) -> None:
    """Another attempt's result stands for them; a first copy of anything else is never given up."""
    [one] = sealed(0)
    spool = opened(tmp_path, size=4 * len(one.body) + 200)
    given_up: list[str] = []
    spool.on_given_up = lambda entry: given_up.append(entry.id)
    old, kept, young = sealed(0, reason=Reason.SUPERSEDED), sealed(1), sealed(2, reason=Reason.SUPERSEDED)
    for each in (old, kept, young):
        spool.put(each)
    assert spool.full_reason == ""

    for number in range(3, 6):
        spool.put(sealed(number))

    assert given_up == [old[0].letter.id, young[0].letter.id]
    assert [entry.reason for entry in spool.snapshot()] == ["invalid"] * 4
    with pytest.raises(SpoolFullError):
        spool.put(sealed(7, reason=Reason.SUPERSEDED))


def test_nothing_is_given_up_for_a_letter_that_does_not_fit_then_either(tmp_path: Path) -> None:
    """Giving up is for something."""
    [small] = sealed(0, reason=Reason.SUPERSEDED)
    spool = opened(tmp_path, size=5 * len(small.body))
    spool.put(sealed(1, size=2 * len(small.body)))
    spool.put([small])

    with pytest.raises(SpoolFullError):
        spool.put(sealed(2, size=2 * len(small.body)))

    assert [entry.reason for entry in spool.snapshot()] == ["superseded", "invalid"]


def test_superseded_results_alone_stop_no_work(tmp_path: Path) -> None:
    """They can always make room."""
    spool = opened(tmp_path, entries=8)
    for number in range(20):
        spool.put(sealed(number, reason=Reason.SUPERSEDED))

    assert spool.entries == 8
    assert spool.full_reason == ""


def test_what_can_never_fit_is_told_apart_from_what_has_to_wait(tmp_path: Path) -> None:
    """No waiting makes room for a letter that is larger than the spool."""
    spool = opened(tmp_path, size=1000)

    with pytest.raises(LetterTooLargeError, match="larger than the whole spool") as refused:
        spool.put(sealed(1, size=1000))

    assert not refused.value.retryable


@pytest.mark.parametrize("damage", [lambda body: body[:-1], lambda body: b"", lambda body: b"X" + body[1:], lambda body: body + b" "])
def test_a_damaged_letter_is_set_aside(tmp_path: Path, damage: object) -> None:
    """It is neither sent as whole, nor lost, nor in the way of the others; it still counts as bytes."""
    assert callable(damage)
    spool = opened(tmp_path)
    spool.put(sealed(1))
    spool.put(sealed(2))
    entry = spool.snapshot()[0]
    path = tmp_path / entry.name
    path.write_bytes(damage(path.read_bytes()))
    left = path.read_bytes()

    with pytest.raises(LetterDamagedError):
        spool.load(entry)

    assert (tmp_path / "damaged" / entry.name).read_bytes() == left
    assert spool.entries == 1
    again = opened(tmp_path)
    assert again.entries == 1
    assert again.stored_bytes == spool.snapshot()[0].size + len(left)


def test_unfinished_files_of_a_process_that_died_are_removed(tmp_path: Path) -> None:
    """They were never acknowledged. One that a living process is writing is left to it, as is whatever is not ours."""
    spool = opened(tmp_path)
    (tmp_path / ".aa.bb.writing").write_bytes(b"torn")
    (tmp_path / "notes.txt").write_bytes(b"mine")
    living = spool._disk.create(tmp_path / ".cc.dd.writing")

    again = opened(tmp_path)

    assert files(tmp_path) == [".cc.dd.writing", "notes.txt"]
    assert again.entries == 0
    os.close(living)


def test_sees_what_other_processes_do(tmp_path: Path) -> None:
    """Letters that another delegate wrote are found, purged ones forgotten."""
    ours, theirs = opened(tmp_path), opened(tmp_path)
    heard: list[str] = []
    ours.on_added = lambda entry: heard.append(entry.id)
    [mine], [other] = sealed(1), sealed(2)
    ours.put([mine])
    theirs.put([other])

    ours.rescan()

    assert heard == [mine.letter.id, other.letter.id]
    for entry in ours.snapshot():
        theirs.remove(entry)
    ours.rescan()
    assert (ours.entries, ours.stored_bytes) == (0, 0)


def test_pieces_of_a_letter_are_kept_together_or_refused(tmp_path: Path) -> None:
    """Room is looked for before the first of them is written."""
    from delegate.daemon.deadletters.sealing import seal
    from delegate.foundation.redaction import KnownSecrets
    from tests.daemon.deadletters.letters import letter

    pieces: tuple[Sealed, ...] = seal(letter(1, size=5000), known=KnownSecrets(), piece_bytes=1000)
    total = sum(len(piece.body) for piece in pieces)
    spool = opened(tmp_path, size=total + 100)
    spool.put(sealed(9))

    with pytest.raises(SpoolFullError):
        spool.put(pieces)
    assert spool.entries == 1

    spool.remove(spool.snapshot()[0])
    assert spool.put(pieces)
    assert spool.entries == len(pieces)


@pytest.mark.parametrize("obstacle", ["a file", "a file in the way"])
def test_a_directory_that_can_not_be_is_named_at_the_start(tmp_path: Path, obstacle: str) -> None:
    """With the setting that names it."""
    (tmp_path / "obstacle").write_text("")
    directory = tmp_path / "obstacle" if obstacle == "a file" else tmp_path / "obstacle" / "dlq"

    with pytest.raises(SpoolUnusableError, match=str(directory)) as unusable:
        opened(directory)

    assert "DELEGATE_DLQ_DIR" in unusable.value.hint
