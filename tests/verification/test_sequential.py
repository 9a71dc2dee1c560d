"""The sequential test on seeded streams of events: how soon, and how often wrongly."""

import random
from statistics import median

from delegate.engine.verification.judge.sequential import Bounds, Decision, weight_of

RUNS = 2000


def decide(generator: random.Random, ratio: float, longest: int = 2000) -> tuple[Decision, int]:
    """Events one by one, equal exposure: on the new side with the odds of the ratio of rates."""
    bounds, evidence = Bounds(alpha=0.01), 0.0
    for number in range(1, longest + 1):
        new = generator.random() < ratio / (1 + ratio)
        evidence += weight_of(new, not new, 1, 1, allowed=0, worse=3)
        decision = bounds.decide(evidence)
        if decision is not Decision.OPEN:
            return decision, number
    return Decision.OPEN, longest


def runs(ratio: float, seed: int) -> list[tuple[Decision, int]]:
    generator = random.Random(seed)
    return [decide(generator, ratio) for _ in range(RUNS)]


def test_a_tenfold_rise_is_convicted_after_15_events() -> None:
    """In the median, and hardly ever acquitted."""
    found = runs(10, seed=1)

    assert median(number for _, number in found) <= 16
    assert sum(decision is Decision.CONVICTED for decision, _ in found) >= 0.99 * RUNS


def test_no_rise_is_hardly_ever_convicted() -> None:
    """In at most 1 % of runs, and acquitted after about 22 events."""
    found = runs(1, seed=2)

    assert sum(decision is Decision.CONVICTED for decision, _ in found) <= 0.01 * RUNS
    assert sum(number for _, number in found) / RUNS <= 24


def test_a_rise_as_large_as_looked_for_is_found() -> None:
    """A threefold one is convicted in at least 95 % of runs, after about 34 events."""
    found = runs(3, seed=3)

    assert sum(decision is Decision.CONVICTED for decision, _ in found) >= 0.95 * RUNS
    assert sum(number for _, number in found) / RUNS <= 38


def test_without_exposure_nothing_is_learned() -> None:
    """Errors of a side that nobody compares with weigh nothing."""
    assert weight_of(40, 0, 100, 0, allowed=0, worse=3) == 0.0
    assert weight_of(0, 40, 0, 100, allowed=0, worse=3) == 0.0
