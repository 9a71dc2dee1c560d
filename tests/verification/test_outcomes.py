"""How readings add up: never to success without positive evidence, whatever the order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.model.verification.checks import Check
from delegate.model.verification.outcomes import (
    Ending,
    Tally,
    ending_at_deadline,
    ending_of,
    ending_when_stopped,
    is_lost,
    score_of,
    verdict_of,
)
from delegate.model.verification.readings import Reading, Verdict, worst_verdict
from tests.verification.running import check

READINGS = st.lists(st.sampled_from(list(Verdict)), max_size=25)


def fold(wanted: Check, verdicts: list[Verdict]) -> tuple[Tally, Ending | None, Reading | None]:
    tally, reading = Tally(), None
    for number, verdict in enumerate(verdicts):
        reading = Reading(verdict, at=float(number), reason="so it is")
        tally = tally.with_reading(reading)
        ending = ending_of(wanted, tally, reading)
        if ending is not None:
            return tally, ending, reading
    return tally, None, reading


def checks() -> st.SearchStrategy[Check]:
    return st.builds(
        lambda fails, errors, lasting, policy, stopped: check(
            every="1s",
            failsAllowed=fails,
            consecutiveErrors=errors,
            noData=policy,
            **{"for": "until-stopped" if stopped else f"{lasting}s"},
        ),
        st.integers(0, 4),
        st.integers(0, 4),
        st.integers(1, 8),
        st.sampled_from(["hold", "fail"]),
        st.booleans(),
    )


@given(checks(), READINGS)
def test_a_pass_has_evidence(wanted: Check, verdicts: list[Verdict]) -> None:
    """At least one reading passed, no more failed than allowed, and the evidence lasted as long as wanted."""
    tally, ending, _ = fold(wanted, verdicts)

    if ending is not None and ending.verdict is Verdict.PASS:
        assert tally.passes >= 1
        assert tally.fails <= wanted.fails_allowed
        assert tally.lasted_seconds >= wanted.for_seconds
        assert tally.informative >= wanted.wanted_readings


@given(st.lists(st.floats(0, 0.04), min_size=5, max_size=5))
def test_ticks_that_begin_a_little_late_are_enough(late: list[float]) -> None:
    """Four seconds of ticks each second are five ticks, wherever in the machine's jitter each of them began; four are too few."""
    wanted, tally, endings = check(every="1s", **{"for": "4s"}), Tally(), []
    for number, seconds in enumerate(late):
        reading = Reading(Verdict.PASS, at=number + seconds)
        tally = tally.with_reading(reading)
        endings.append(ending_of(wanted, tally, reading))

    assert [ending is not None for ending in endings] == [False, False, False, False, True]


@given(checks(), READINGS)
def test_more_fails_than_allowed_always_fail(wanted: Check, verdicts: list[Verdict]) -> None:
    """Good readings in between make none of them undone."""
    tally, ending, _ = fold(wanted, verdicts)

    assert tally.fails <= wanted.fails_allowed or (ending is not None and ending.verdict is Verdict.FAIL)


@given(checks(), READINGS)
def test_the_deadline_is_never_good(wanted: Check, verdicts: list[Verdict]) -> None:
    """Nor is a stop, of a check that was not to last until then."""
    tally, ending, last = fold(wanted, verdicts)

    if ending is None:
        assert ending_at_deadline(wanted, tally, last).verdict in (Verdict.ERROR, Verdict.NO_DATA)
        stopped = ending_when_stopped(wanted, tally, last).verdict
        if stopped is Verdict.PASS:
            assert wanted.until_stopped
            assert tally.passes
            assert last is not None
            assert last.verdict is Verdict.PASS


def test_final_errors_end_at_once() -> None:
    """With the word configuration, so that nobody blames the release."""
    reading = Reading(Verdict.ERROR, reason="403", final=True)
    ending = ending_of(check(consecutiveErrors=10), Tally().with_reading(reading), reading)

    assert ending == Ending(Verdict.ERROR, "configuration: 403", configuration=True)


def test_only_allowed_fails_are_no_pass() -> None:
    """All of the wanted readings failed, none more than allowed: nothing was ever good."""
    wanted = check(every="1s", failsAllowed=5, **{"for": "2s"})
    _, ending, _ = fold(wanted, [Verdict.FAIL] * 3)

    assert ending is not None
    assert ending.verdict is Verdict.FAIL


def test_errors_in_a_row_are_forgotten() -> None:
    """By any reading in between that is none."""
    wanted = check(every="1s", consecutiveErrors=2, **{"for": "1m"})
    tally, ending, _ = fold(wanted, [Verdict.ERROR, Verdict.ERROR, Verdict.NO_DATA, Verdict.ERROR, Verdict.ERROR])
    assert (ending, tally.errors_in_a_row) == (None, 2)

    _, ending, _ = fold(wanted, [Verdict.ERROR] * 3)
    assert ending is not None
    assert (ending.verdict, ending.configuration) == (Verdict.ERROR, False)


@given(st.lists(st.sampled_from(list(Verdict)), max_size=6))
def test_the_worst_of_all(verdicts: list[Verdict]) -> None:
    """fail > error > no_data > pass; of nothing: no data."""
    order = [Verdict.FAIL, Verdict.ERROR, Verdict.NO_DATA, Verdict.PASS]
    expected = next((verdict for verdict in order if verdict in verdicts), Verdict.NO_DATA)

    assert worst_verdict(verdicts) is expected
    assert verdict_of([(check(name=f"c{number}"), verdict) for number, verdict in enumerate(verdicts)]) is expected


@pytest.mark.parametrize(
    ("verdicts", "score", "pass_score", "expected"),
    [
        ([Verdict.PASS, Verdict.PASS, Verdict.FAIL], 75.0, 75.0, Verdict.PASS),
        ([Verdict.PASS, Verdict.PASS, Verdict.FAIL], 75.0, 80.0, Verdict.FAIL),
        ([Verdict.PASS, Verdict.PASS, Verdict.NO_DATA], 75.0, 100.0, Verdict.NO_DATA),
        ([Verdict.FAIL, Verdict.PASS, Verdict.PASS], 50.0, 50.0, Verdict.FAIL),
        ([Verdict.NO_DATA, Verdict.PASS, Verdict.PASS], 50.0, 50.0, Verdict.NO_DATA),
    ],
)
def test_weights_and_criticality(verdicts: list[Verdict], score: float, pass_score: float, expected: Verdict) -> None:
    """Missing data weighs as much as a fail, and a critical check decides for all."""
    members = [check(name="a", weight=2), check(name="b", critical=False), check(name="c", critical=False)]
    judged = list(zip(members, verdicts, strict=True))

    assert score_of(judged) == score
    assert verdict_of(judged, pass_score) is expected
    assert is_lost(judged, pass_score) == (expected is not Verdict.PASS)


def test_what_is_open_may_still_pass() -> None:
    """As long as the rest is enough."""
    members = [check(name="a"), check(name="b", critical=False)]

    assert not is_lost([(members[0], None), (members[1], Verdict.PASS)])
    assert not is_lost([(members[0], None), (members[1], Verdict.FAIL)], 50)
    assert is_lost([(members[0], None), (members[1], Verdict.FAIL)])
