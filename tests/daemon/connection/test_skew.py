"""How far the clock is from the manager's: learned from answers, whatever time they took."""

import datetime as dt

import pytest

from delegate.daemon.connection.skew import ClockSkew
from delegate.foundation.clocks import SystemClock

NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)


class SetClock(SystemClock):
    """Says what it was set to."""

    def __init__(self) -> None:
        self.at = NOON

    def now(self) -> dt.datetime:
        return self.at

    def wait(self, seconds: float) -> None:
        self.at += dt.timedelta(seconds=seconds)


def asked(skew: ClockSkew, clock: SetClock, *, takes: float, ahead: float = 0.0, answered_after: float = 0.0) -> float:
    """What is known after a call that took so long, whose answer was made so long after it was sent; `ahead` is the truth."""
    asked_at = clock.now()
    theirs = asked_at + dt.timedelta(seconds=answered_after - ahead)
    clock.wait(takes)
    skew.hear(theirs.isoformat(), asked_at)
    return skew.known_seconds


@pytest.mark.parametrize(("takes", "answered_after"), [(45.0, 45.0), (45.0, 0.0), (3600.0, 0.1), (0.0, 0.0)])
def test_a_right_clock_is_not_doubted_over_slow_answers(takes: float, answered_after: float) -> None:
    """Case 04: a long poll, or an answer that waited here through a suspend, says nothing against it."""
    clock = SetClock()
    skew = ClockSkew(clock)
    assert asked(skew, clock, takes=takes, answered_after=answered_after) == 0.0


@pytest.mark.parametrize("ahead", [1200.0, -1200.0, 3600.0])
def test_a_wrong_clock_is_known_to_about_the_time_of_a_call(ahead: float) -> None:
    """Case 03: and stays known over slow answers, until it is set right."""
    clock = SetClock()
    skew = ClockSkew(clock)
    assert abs(asked(skew, clock, takes=0.1, ahead=ahead) - ahead) <= 0.1
    known = skew.known_seconds
    assert asked(skew, clock, takes=45.0, answered_after=20.0, ahead=ahead) == known
    clock.wait(-ahead)  # somebody sets it
    assert abs(asked(skew, clock, takes=0.1)) <= 0.1


def test_a_jump_in_the_middle_of_a_call_is_learned_from_the_next_one() -> None:
    """An hour ahead, and back."""
    clock = SetClock()
    skew = ClockSkew(clock)
    asked(skew, clock, takes=0.1)
    assert asked(skew, clock, takes=3600.0, answered_after=0.05) == 0.0  # jumped meanwhile
    assert abs(asked(skew, clock, takes=0.1, ahead=3600.0) - 3600.0) <= 0.1
    assert abs(asked(skew, clock, takes=-3600.0, ahead=3600.0) - 3600.0) <= 0.1
    assert abs(asked(skew, clock, takes=0.1)) <= 0.1


@pytest.mark.parametrize("said", ["", "noon", "2030-01-01T12:00:00"])
def test_what_says_no_time_changes_nothing(said: str) -> None:
    """Older managers, and whatever else answers."""
    skew = ClockSkew(SetClock())
    skew.hear(said, NOON)
    assert skew.ahead_seconds is None
