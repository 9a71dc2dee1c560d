"""The sequential test on seeded streams of events: how soon, and how often wrongly."""

import random
from statistics import median

import pytest

from delegate.engine.verification.judge.counts import exactly, share_of
from delegate.engine.verification.judge.sequential import Bounds, Decision, chance_of_conviction, weight_of

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


def undecided(events: int, exposure: float) -> tuple[float, dict[int, float]]:
    """Of equal versions, looked at after each event: how many are convicted, and how likely each number of the new side's is else."""
    bounds, share, convicted, chances = Bounds(alpha=0.01), share_of(1, exposure), 0.0, {0: 1.0}
    for seen in range(1, events + 1):
        after: dict[int, float] = {}
        for had, chance in chances.items():
            for more in (0, 1):
                new = had + more
                decision = bounds.decide(weight_of(new, seen - new, 1, exposure, allowed=0, worse=3))
                reached = chance * exactly(more, 1, share)
                if decision is Decision.CONVICTED:
                    convicted += reached
                elif decision is Decision.OPEN:
                    after[new] = after.get(new, 0.0) + reached
        chances = after
    return convicted, chances


@pytest.mark.parametrize("exposure", [1.0, 4.0, 9.0, 1 / 9])
def test_a_test_in_the_end_adds_no_false_alarms(exposure: float) -> None:
    """Whenever it is over: all looks and the last test together convict equal versions in 1 % of cases at most, counted exactly."""
    added = 0.0
    for events in range(1, 70):
        convicted, chances = undecided(events, exposure)
        for new in chances:
            found = chance_of_conviction([1] * events, new, share_of(1, exposure), worse=3, bounds=Bounds(alpha=0.01))
            assert found == pytest.approx(convicted + sum(chance for had, chance in chances.items() if had >= new))
        late = sum(
            chance
            for new, chance in chances.items()
            if chance_of_conviction([1] * events, new, share_of(1, exposure), worse=3, bounds=Bounds(alpha=0.01)) <= 0.01
        )
        assert convicted + late <= 0.01 + 1e-12
        added = max(added, late)
    assert added > 0


def test_looks_at_several_events_at_once() -> None:
    """Bounds that nobody looked at in between convict nobody: fewer looks, and so a smaller chance."""
    often, seldom = (chance_of_conviction(looks, 40, 0.5, worse=3, bounds=Bounds(alpha=0.01)) for looks in ([1] * 48, [16, 16, 16]))

    assert 0 < seldom < often < 0.02


def test_a_side_beside_which_the_other_is_nothing_teaches_nothing() -> None:
    """Its part of the events is all, as far as numbers go."""
    assert weight_of(1, 0, 1e18, 1, allowed=0, worse=3) == 0.0


def test_without_exposure_nothing_is_learned() -> None:
    """Errors of a side that nobody compares with weigh nothing."""
    assert weight_of(40, 0, 100, 0, allowed=0, worse=3) == 0.0
    assert weight_of(0, 40, 0, 100, allowed=0, worse=3) == 0.0
