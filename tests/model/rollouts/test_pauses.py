"""Where a canary pauses, as its journal says."""

from delegate.model.rollouts.journals import Journal
from delegate.model.rollouts.pauses import Pause, pause_of
from delegate.model.rollouts.states import Move
from delegate.model.rollouts.steps import Pause as PauseStep
from delegate.model.rollouts.steps import Step

_AT = "2026-12-01T02:17:00+00:00"
_STEPS = (Step(set_weight=20), Step(pause=PauseStep()), Step(pause=PauseStep(duration="2m")))
_BEGUN = Journal("shop", "task-1", "attempt-1", 1, "web", "uid", "release").moved(Move.STEP, _AT)


def test_it_pauses_at_the_steps_that_say_so() -> None:
    """Each with a number of its own; one with a duration says when it is over."""
    first = _BEGUN.stepped(_AT, "setWeight").paused(_AT, "pauses")
    second = first.stepped(_AT, "resumed").paused(_AT, "pauses for 120 s")

    assert pause_of(_BEGUN, _STEPS) is None
    assert pause_of(first, _STEPS) == Pause(1, 1, _AT)
    assert pause_of(first.stepped(_AT, "resumed"), _STEPS) is None
    assert pause_of(second, _STEPS) == Pause(2, 2, _AT, until="2026-12-01T02:19:00+00:00")


def test_a_hold_is_one_more_and_a_drain_is_none() -> None:
    """Held again at the same step, it is another."""
    held = _BEGUN.moved(Move.HOLD, _AT).paused(_AT, "held: a foreign hand")
    again = held.moved(Move.RESUME, _AT, "resumed").moved(Move.HOLD, _AT).paused(_AT, "held: a foreign hand")

    shown = [pause_of(each, _STEPS) for each in (held, again)]

    assert [(each.number, each.held) for each in shown if each is not None] == [(1, True), (2, True)]
    assert pause_of(again.moved(Move.ABORT, _AT), _STEPS) is None
