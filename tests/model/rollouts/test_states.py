"""What may follow what."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.model.rollouts.errors import IllegalMoveError
from delegate.model.rollouts.journals import Journal, journal_config_map, read_journal
from delegate.model.rollouts.states import ENDED, Move, Phase, after, may

_JOURNAL = Journal(application="shop", task="t", attempt="a", fence=1, workload="web", uid="u", release="r")


@given(st.lists(st.sampled_from(Move), max_size=60))
def test_whatever_happens_an_abort_never_turns_forward(moves: list[Move]) -> None:
    """After the first abort there is nothing but aborting and restored; what is promoted was never aborted."""
    phase, seen = Phase.STARTING, [Phase.STARTING]
    for move in moves:
        if may(phase, move):
            phase = after(phase, move)
            seen.append(phase)

    if Phase.ABORTING in seen:
        assert set(seen[seen.index(Phase.ABORTING) :]) <= {Phase.ABORTING, Phase.RESTORED}
    if phase is Phase.PROMOTED:
        assert Phase.ABORTING not in seen
        assert Phase.PROMOTING in seen


@pytest.mark.parametrize("phase", [each for each in Phase if each not in ENDED])
def test_every_open_phase_has_a_way_to_an_end(phase: Phase) -> None:
    """By an abort, or where the new version is the stable one already, by clearing up."""
    assert may(phase, Move.ABORT) or may(phase, Move.CLEARED)


@pytest.mark.parametrize("phase", sorted(ENDED))
@pytest.mark.parametrize("move", list(Move))
def test_an_end_is_an_end(phase: Phase, move: Move) -> None:
    """Nothing follows it."""
    with pytest.raises(IllegalMoveError):
        after(phase, move)


@given(st.lists(st.sampled_from(["step", "note"]), max_size=400))
def test_a_journal_stays_small_and_is_read_back_as_it_was(events: list[str]) -> None:
    """Its steps only go up, and its first entries are kept."""
    journal = _JOURNAL.moved(Move.STEP, "2026-03-02T10:00:00Z", "begins")
    for number, event in enumerate(events):
        before = journal.step
        words = str(number)
        journal = journal.stepped("2026-03-02T10:00:00Z", words) if event == "step" else journal.noted("2026-03-02T10:00:00Z", words)
        assert journal.step == before + (event == "step")

    assert len(journal.entries) <= 200
    assert journal.entries[0].words == "begins"
    assert read_journal(journal_config_map("shop", "Deployment", "web", journal)) == journal
    assert journal.is_open == (journal.phase not in ENDED)
    assert msgspec.structs.replace(journal, phase=Phase.PROMOTED).is_open is False
