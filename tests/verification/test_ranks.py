"""The rank test against counting every arrangement; estimates and intervals; Holm; binomials."""

import itertools
import math
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delegate.engine.verification.judge.counts import at_least, at_most, count_test, share_of
from delegate.engine.verification.judge.estimates import estimate_shift, relative_to
from delegate.engine.verification.judge.families import holm
from delegate.engine.verification.judge.ranks import rank_of_bound, rank_test, superiority

VALUES = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=5)


def by_hand(new: list[float], old: list[float]) -> tuple[float, float]:
    """U and the exact two-sided p, from all ways to choose which of the values are the new ones."""

    def u(left: list[float], right: list[float]) -> float:
        return sum((x > y) + (x == y) / 2 for x in left for y in right)

    values, observed = [*new, *old], u(new, old)
    found = []
    for chosen in itertools.combinations(range(len(values)), len(new)):
        rest = [values[index] for index in range(len(values)) if index not in chosen]
        found.append(u([values[index] for index in chosen], rest))
    low = sum(each <= observed for each in found) / len(found)
    high = sum(each >= observed for each in found) / len(found)
    return observed, min(1.0, 2 * min(low, high))


@given(VALUES, VALUES)
@settings(max_examples=150, deadline=None)
def test_it_is_exact_with_ties(new: list[float], old: list[float]) -> None:
    """U and p are those of counting every arrangement."""
    found = rank_test(new, old)

    u, p = by_hand(new, old)
    assert (found.u, found.exact) == (u, True)
    assert found.p == pytest.approx(p)


@given(VALUES, VALUES, st.sampled_from([1e-6, 0.25, 1000.0]))
@settings(max_examples=100, deadline=None)
def test_units_and_sides_make_no_difference(new: list[float], old: list[float], factor: float) -> None:
    """Scaling changes nothing, and swapping the sides only the sign."""
    found = rank_test(new, old)

    assert rank_test([x * factor for x in new], [y * factor for y in old]) == found
    swapped = rank_test(old, new)
    assert swapped.p == pytest.approx(found.p)
    assert superiority(swapped, len(old), len(new)) == pytest.approx(1 - superiority(found, len(new), len(old)))


@pytest.mark.parametrize("shift", [0.0, 0.3, 1.0])
def test_exact_and_normal_meet(shift: float) -> None:
    """At the limit of the exact test the approximation says about the same."""
    new = [math.sin(3.7 * k) + shift for k in range(20)]
    old = [math.sin(2.3 * k + 1) for k in range(20)]
    exact, normal = rank_test(new, old), rank_test([*new, 0.31 + shift / 2], old)

    assert (exact.exact, normal.exact) == (True, False)
    assert normal.p == pytest.approx(exact.p, abs=0.08)


def test_known_values() -> None:
    """Critical values of U as tables have them (two-sided 5 %): 23 for 10 and 10, 2 for 5 and 5, none for 3 and 3."""
    assert rank_of_bound(10, 10, 0.05) - 1 == 23
    assert rank_of_bound(5, 5, 0.05) - 1 == 2
    assert rank_of_bound(3, 3, 0.05) == 0
    assert rank_of_bound(30, 30, 0.05) == pytest.approx(318, abs=2)


@given(VALUES, VALUES)
@settings(max_examples=100, deadline=None)
def test_the_estimate_is_the_median_of_differences(new: list[float], old: list[float]) -> None:
    """And lies in its interval."""
    shift = estimate_shift(new, old, 0.1)

    assert shift.estimate == median(x - y for x in new for y in old)
    assert shift.low <= shift.estimate <= shift.high


def test_so_few_values_bound_nothing() -> None:
    """Two points a side have no interval at all: they are not clamped to what was seen."""
    shift = estimate_shift([212, 215], [205, 208], 0.02)

    assert (shift.low, shift.high) == (-math.inf, math.inf)


def test_relative_to_nothing() -> None:
    """Any shift from zero is infinite, none is none."""
    assert relative_to(2.0, [0.0]) == math.inf
    assert relative_to(-2.0, [0.0, 0.0]) == -math.inf
    assert relative_to(0.0, [0.0]) == 0.0
    assert relative_to(-1.0, [-4.0]) == -0.25


def test_holm_step_by_step() -> None:
    """The smallest is held to alpha / 3, the next to alpha / 2, and where one is kept all larger ones are."""
    assert holm([(0.01, 0.05), (0.04, 0.05), (0.02, 0.05)]) == [True, True, True]
    assert holm([(0.01, 0.05), (0.06, 0.05), (0.03, 0.05)]) == [True, False, False]
    assert holm([(0.03, 0.05), (0.001, 0.001)]) == [False, False]
    assert holm([]) == []


@given(st.lists(st.tuples(st.floats(0, 1), st.just(0.05)), min_size=1, max_size=8))
def test_holm_is_between_bonferroni_and_none(tests: list[tuple[float, float]]) -> None:
    """It rejects all that Bonferroni does, and nothing that would not be rejected alone."""
    for (p, alpha), rejected in zip(tests, holm(tests), strict=True):
        assert rejected or p > alpha / len(tests)
        assert not rejected or p <= alpha


@given(st.integers(0, 30), st.integers(0, 30), st.floats(0.05, 0.95))
@settings(max_examples=100, deadline=None)
def test_tails_of_the_binomial(events: int, more: int, share: float) -> None:
    """Both tails are those of its definition."""
    total = events + more
    terms = [math.comb(total, k) * share**k * (1 - share) ** (total - k) for k in range(total + 1)]

    assert at_least(events, total, share) == pytest.approx(sum(terms[events:]))
    assert at_most(events, total, share) == pytest.approx(sum(terms[: events + 1]))


@given(st.integers(0, 40), st.integers(0, 40), st.floats(1, 1000), st.floats(1, 1000))
@settings(max_examples=100, deadline=None)
def test_the_ratio_lies_in_its_interval(new: int, old: int, new_exposure: float, old_exposure: float) -> None:
    """And is the ratio of the rates."""
    found = count_test(new, old, share_of(new_exposure, old_exposure), alpha=0.05)

    assert found.low <= found.ratio * (1 + 1e-9)
    assert found.ratio <= found.high * (1 + 1e-9)
    if new and old:
        assert found.ratio == pytest.approx(new / new_exposure / (old / old_exposure))
