"""The checker can fail: a good history passes, and every way of breaking it is seen."""

import dataclasses
from collections.abc import Callable, Sequence

import pytest

from tests.manager.history import Checker, Event

GOOD: tuple[Event, ...] = (
    Event(0.0, "submitted", "t1", key="a@c", rank=0.0, limits=("environment/prod",)),
    Event(1.0, "submitted", "t2", key="a@c", rank=1.0),
    Event(2.0, "submitted", "t3", key="b@c", rank=2.0, limits=("key/db",)),
    Event(3.0, "handed_out", "t1", "t1-1", fence=1, lease=10.0),
    Event(3.0, "handed_out", "t3", "t3-1", fence=1, lease=10.0),
    Event(8.0, "renewed", "t1", "t1-1", lease=10.0),
    Event(18.5, "handed_out", "t1", "t1-2", fence=2, lease=10.0),
    Event(19.0, "result_accepted", "t1", "t1-2", outcome="succeeded"),
    Event(19.0, "finished", "t1", "t1-2", outcome="succeeded"),
    Event(20.0, "handed_out", "t2", "t2-1", fence=1, lease=10.0),
    Event(21.0, "released", "t2", "t2-1"),
    Event(22.0, "handed_out", "t2", "t2-2", fence=2, lease=10.0),
    Event(23.0, "stop_requested", "t2", "t2-2", outcome="cancel"),
    Event(24.0, "lost", "t2", "t2-2"),
    Event(24.0, "finished", "t2", outcome="cancelled"),
    Event(25.0, "renewed", "t3", "t3-1", lease=10.0),
    Event(26.0, "result_accepted", "t3", "t3-1", outcome="failed"),
    Event(26.0, "finished", "t3", "t3-1", outcome="failed"),
)

Mutation = Callable[[list[Event]], None]


def _change(index: int, **changes: object) -> Mutation:
    def mutate(events: list[Event]) -> None:
        events[index] = dataclasses.replace(events[index], **changes)  # type: ignore[arg-type]

    return mutate


def _insert(index: int, event: Event) -> Mutation:
    def mutate(events: list[Event]) -> None:
        events.insert(index, event)

    return mutate


def _remove(*indexes: int) -> Mutation:
    def mutate(events: list[Event]) -> None:
        for index in sorted(indexes, reverse=True):
            del events[index]

    return mutate


def _check(events: Sequence[Event]) -> list[str]:
    return Checker(limits={"key/db": 1, "environment/prod": 1}).read(events).expect_all_final().violations


def test_a_good_history_passes() -> None:
    """Leases that ran out, renewals after that, releases, a cancelled task: all as promised."""
    assert _check(GOOD) == []


@pytest.mark.parametrize(
    ("mutate", "words"),
    [
        pytest.param(_insert(9, Event(19.5, "finished", "t1", outcome="failed")), "after the task was succeeded", id="two final states"),
        pytest.param(
            _insert(9, Event(19.5, "result_accepted", "t1", "t1-2", outcome="failed")), "after the task was succeeded", id="second result"
        ),
        pytest.param(
            _insert(9, Event(19.5, "handed_out", "t1", "t1-3", fence=3)), "after the task was succeeded", id="hand-out of a final task"
        ),
        pytest.param(_change(7, attempt="t1-1"), "from a stale attempt; the latest is t1-2", id="stale result"),
        pytest.param(_change(6, at=17.9), "while another attempt (t1-1) has authority for a@c", id="hand-out within the lease of another"),
        pytest.param(_change(6, fence=1), "fence 1 after 1", id="fence does not grow"),
        pytest.param(_change(6, attempt="t1-1"), "the attempt was handed out before", id="attempt handed out twice"),
        pytest.param(
            _insert(4, Event(3.5, "handed_out", "t2", "t2-0", fence=1, lease=10.0)),
            "while task t1 (t1-1) has authority for a@c",
            id="two tasks of one application",
        ),
        pytest.param(_change(0, limits=("key/db",)), "while t1-1 use all of key/db (1)", id="two tasks under a limit of one"),
        pytest.param(_remove(10), "while another attempt (t2-1) has authority", id="hand-out of what was not released"),
        pytest.param(_remove(16, 17), "task t3 is lost: it never became final", id="lost task"),
        pytest.param(_remove(7), "as succeeded, which nobody reported or wished", id="final state out of nothing"),
        pytest.param(_change(12, outcome="deadline"), "", id="still explained by being queued"),
        pytest.param(_change(17, outcome="succeeded"), "as succeeded, which nobody reported or wished", id="another outcome than reported"),
        pytest.param(_change(1, rank=-1.0), "before task t2, which comes first in a@c", id="wrong order"),
        pytest.param(
            _insert(7, Event(18.6, "renewed", "t1", "t1-1", lease=10.0)), "though the task was handed out again", id="revived too late"
        ),
        pytest.param(_insert(3, Event(2.5, "handed_out", "t9", "t9-1", fence=1)), "of a task that was never submitted", id="unknown task"),
        pytest.param(_insert(3, Event(2.5, "submitted", "t1", key="a@c")), "twice", id="submitted twice"),
        pytest.param(_insert(9, Event(19.5, "renewed", "t2", "t2-1")), "of an attempt that was never handed out", id="unknown attempt"),
    ],
)
def test_each_way_of_breaking_it_is_seen(mutate: Mutation, words: str) -> None:
    """One change of the good history, one violation that names it."""
    events = list(GOOD)
    mutate(events)

    violations = _check(events)

    assert any(words in violation for violation in violations) if words else not violations, violations
