"""What canaries of one group know of each other."""

import datetime as dt

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from delegate.model.rollouts.storms import (
    CLEARED_ANNOTATION,
    BadVersion,
    Conviction,
    Group,
    StormSpec,
    changed,
    convicted,
    faults_of_storm,
    group_config_map,
    may_abort,
    read_group,
    still_bad,
    with_alarm,
    with_bad,
    without_cleared,
)

NOW = dt.datetime(2026, 3, 2, 10, tzinfo=dt.UTC)
SPEC = StormSpec()


def conviction(number: int, at: float = 0.0, *, shared: bool = False, heard_of: float = 600.0) -> Conviction:
    moment = NOW + dt.timedelta(seconds=at)
    until = (moment + dt.timedelta(seconds=heard_of)).isoformat()
    return Conviction(f"Deployment svc-{number}", f"task-{number}", moment.isoformat(), until, shared=shared)


def storm(*convictions: Conviction, spec: StormSpec = SPEC) -> Group:
    group = Group()
    for each in convictions:
        group = convicted(group, each, spec, dt.datetime.fromisoformat(each.at))
    return group


def turns(group: Group, now: dt.datetime = NOW) -> list[str]:
    """Who may be taken back now."""
    return [each.workload for each in group.convictions if may_abort(group, each.workload, each.task, SPEC, now)]


def test_the_fifth_within_the_window_stops_the_group() -> None:
    """Not the fourth, nor five over a longer time, nor one workload five times."""
    assert not storm(*(conviction(n, n) for n in range(4))).stopped
    assert "5 workloads were convicted within 120s" in storm(*(conviction(n, n) for n in range(5))).stopped
    assert not storm(*(conviction(n, 40.0 * n) for n in range(5))).stopped
    assert not storm(*(msgspec.structs.replace(conviction(1, n), task=f"task-{n}") for n in range(5))).stopped


def test_they_are_taken_back_three_at_a_time_in_order() -> None:
    """Whoever ends makes room for the next; what is held makes none."""
    group = storm(*(conviction(n, n) for n in range(6)))
    assert turns(group) == [f"Deployment svc-{n}" for n in range(3)]
    group = changed(group, "Deployment svc-1", "task-1", ended=True)
    assert turns(group)[-1] == "Deployment svc-3"
    held = storm(conviction(0, shared=True), *(conviction(n, n) for n in range(1, 5)))
    assert turns(held)[1:] == [f"Deployment svc-{n}" for n in range(1, 4)]


def test_who_has_died_is_not_waited_for() -> None:
    """Neither in the order nor at work."""
    group = storm(*(conviction(n, n, heard_of=30.0) for n in range(3)), conviction(3, 3.0))
    assert "Deployment svc-3" not in turns(group)
    assert "Deployment svc-3" in turns(group, NOW + dt.timedelta(seconds=40))


def test_an_attempt_after_a_crash_keeps_its_place() -> None:
    """It is convicted again, and counted once."""
    group = storm(conviction(0), conviction(1, 1), conviction(0, 9))
    assert [each.workload for each in group.convictions] == ["Deployment svc-0", "Deployment svc-1"]


def test_one_alarm_for_a_storm() -> None:
    """However many there are in it; one more where the group is stopped."""
    group, alarms = Group(), 0
    for number in range(8):
        now = NOW + dt.timedelta(seconds=number)
        group, alarmed = with_alarm(convicted(group, conviction(number, number, shared=True), SPEC, now), group, SPEC, now)
        alarms += alarmed
    assert alarms == 2
    assert group.stopped


@given(st.lists(st.tuples(st.integers(0, 20), st.floats(0, 1000), st.booleans()), max_size=60))
def test_never_more_than_may_be_at_once(told: list[tuple[int, float, bool]]) -> None:
    """Whatever the order of convictions: it is bounded, and read back as it was written."""
    group = storm(*(conviction(number, at, shared=shared) for number, at, shared in told))
    at_work = [each for each in group.convictions if not each.shared and each.workload in turns(group)]
    assert len(at_work) <= SPEC.aborts_at_once
    assert read_group(group_config_map("shop", "canaries", group)) == group


def bad(digest: str) -> BadVersion:
    return BadVersion(digest, NOW.isoformat(), "task-1", "errors: 22% > 1%")


def test_a_bad_version_is_known_until_it_is_cleared() -> None:
    """By its digest, or all of them; each is kept once, and not for ever."""
    known = with_bad(with_bad((bad("aaaa"),), bad("bbbb")), bad("aaaa"))
    assert [each.digest for each in known] == ["bbbb", "aaaa"]

    def cleared(mark: str) -> list[str]:
        journal = {"metadata": {"annotations": {CLEARED_ANNOTATION: mark}}}
        return [each.digest for each in without_cleared(known, journal)]

    assert (cleared(""), cleared("aa"), cleared("all")) == (["bbbb", "aaaa"], ["bbbb"], [])
    assert [each.digest for each in still_bad(known, {}, but="bbbb")] == ["aaaa"]
    many: tuple[BadVersion, ...] = ()
    for number in range(50):
        many = with_bad(many, bad(f"{number:04}"))
    assert (len(many), many[-1].digest) == (20, "0049")


def test_what_can_not_be_meant_is_said() -> None:
    """Field by field."""
    assert [field for field, _, _ in faults_of_storm(StormSpec(group="Über", within="soon"))] == ["storm.group", "storm.within"]
    assert not list(faults_of_storm(SPEC))
