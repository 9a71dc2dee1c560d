"""How often the judge is wrong, and how soon it is right: a simulation with one seed, so that everybody gets the same figures.

The peer is the judge of Kayenta as its sources have it (a rank test's interval at 98 %, clamped to the data, tolerance 25 %), written
down here by its formulas; its root search is a bisection. Only a rise is looked for, by either.
"""

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.machine import load_average
from benchmarks.reports import Figure, Report, Target, of_samples
from delegate.engine.verification.judge.comparisons import compare_counts, compare_samples
from delegate.engine.verification.judge.counts import count_test
from delegate.engine.verification.judge.families import holm
from delegate.engine.verification.judge.ranks import rank_test
from delegate.engine.verification.judge.sequential import Bounds, Decision, weight_of
from delegate.model.verification.checks import Compare, ComparisonKind
from delegate.model.verification.readings import Verdict
from delegate.model.verification.records import Batch

_SEED = 20260302
_SPREAD = 0.2
"""Of the logarithm of latencies."""
_ALPHA = 0.01


class Sizes(NamedTuple):
    runs: int
    samples: tuple[int, ...]
    timed: int


FULL = Sizes(runs=4000, samples=(5, 10, 15, 30, 50), timed=400)
QUICK = Sizes(runs=20, samples=(5,), timed=20)
_PEER_SHARE = 10
"""Its bisections are slow: it gets a tenth of the runs."""


async def measure(directory: Path, *, quick: bool) -> Report:
    del directory
    sizes = QUICK if quick else FULL
    return Report(
        subject="judge",
        title=f"false alarms and misses of the judge, {sizes.runs:,} runs each, seed {_SEED}",
        circumstances=(load_average(),),
        figures=(*_streams(sizes.runs), *_minutes(sizes.runs), *_latencies(sizes), *_families(sizes.runs // 4), *_times(sizes.timed)),
    )


def _percent(name: str, wrong: int, runs: int, **more: object) -> Figure:
    return Figure(name=name, value=100.0 * wrong / runs, unit="%", **more)  # type: ignore[arg-type]


def _streams(runs: int) -> list[Figure]:
    """Events one by one, both versions with the same number of requests."""
    found = {ratio: [_decide(random.Random(f"{_SEED} {ratio} {run}"), ratio) for run in range(runs)] for ratio in (1, 3, 10)}
    events = {ratio: [number for _, number in each] for ratio, each in found.items()}
    wrong = {
        ratio: sum(decision is (Decision.CONVICTED if ratio == 1 else Decision.ACQUITTED) for decision, _ in each)
        for ratio, each in found.items()
    }
    acquitted = Figure(
        name="errors until an equal version is acquitted",
        value=statistics.fmean(events[1]),
        unit="events",
        target=Target("value", at_most=24),
        note=f"mean; median {statistics.median(events[1]):g}",
    )
    return [
        Figure(
            name="errors until a tenfold rise is convicted",
            value=statistics.median(events[10]),
            unit="events",
            against=acquitted.name,
            ratio=statistics.median(events[10]) / statistics.fmean(events[1]),
            target=Target("value", at_most=16),
            note=f"median; mean {statistics.fmean(events[10]):.1f}, 95 of 100 runs {sorted(events[10])[int(0.95 * runs)]}",
        ),
        Figure(
            name="  a threefold rise", value=statistics.median(events[3]), unit="events", note=f"mean {statistics.fmean(events[3]):.1f}"
        ),
        acquitted,
        _percent("an equal version is convicted", wrong[1], runs, target=Target("value", at_most=1)),
        _percent("a tenfold rise is acquitted", wrong[10], runs, target=Target("value", at_most=1)),
        _percent("a threefold rise is acquitted", wrong[3], runs, target=Target("value", at_most=5)),
    ]


def _decide(chance: random.Random, ratio: float) -> tuple[Decision, int]:
    bounds, evidence, number = Bounds(_ALPHA), 0.0, 0
    while (decision := bounds.decide(evidence)) is Decision.OPEN:
        number += 1
        new = chance.random() < ratio / (1 + ratio)
        evidence += weight_of(new, not new, 1, 1, allowed=0, worse=3)
    return decision, number


def _minutes(runs: int) -> list[Figure]:
    """Errors a minute, 0.05 of the old version. Looking every minute must cost little against looking once, when all is over."""
    compare = Compare(baseline="old", kind=ComparisonKind.COUNTS, requests="n")

    def judged(ratio: float, seed: str) -> bool:
        chance = random.Random(f"{_SEED} {seed}")
        rows = [Batch(60.0 * minute, _poisson(chance, 0.05 * ratio), 100, _poisson(chance, 0.05), 100) for minute in range(1, 31)]
        for minute in range(1, 31):
            found = compare_counts(rows[:minute], compare, level=_ALPHA, is_over=minute == 30)
            if found is not None:
                return found.verdict is Verdict.FAIL
        return False

    def once(ratio: float, seed: str) -> bool:
        chance = random.Random(f"{_SEED} {seed}")
        new, old = zip(*((_poisson(chance, 0.05 * ratio), _poisson(chance, 0.05)) for _ in range(30)), strict=True)
        return count_test(sum(new), sum(old), 0.5, alpha=_ALPHA).p <= _ALPHA

    missed, once_missed = (sum(not judge(10, f"rise {run}") for run in range(runs)) for judge in (judged, once))
    alarms, once_alarms = (sum(judge(1, f"same {run}") for run in range(runs)) for judge in (judged, once))
    name = "0.05 to 0.5 errors a minute, 30 minutes: missed by one binomial test in the end"
    return [
        _percent(name, once_missed, runs),
        _percent("  missed", missed, runs, against=name, ratio=missed / once_missed if once_missed else None),
        _percent("  an equal version is convicted", alarms, runs, target=Target("value", at_most=1), note=f"the test: {once_alarms} runs"),
    ]


def _latencies(sizes: Sizes) -> list[Figure]:
    """Lognormal values, one a minute and side."""
    figures = []
    compare = Compare(baseline="old", alpha=_ALPHA)
    for points in (2, 3, *sizes.samples):
        fewer = max(10, sizes.runs // _PEER_SHARE)
        peer = sum(_kayenta(*_pair(f"same {points} {run}", points, 1.0)) for run in range(fewer))
        name = f"{points} latencies a side, equal: convicted by the peer"
        figures.append(_percent(name, peer, fewer))
        wrong = sum(_convicts(compare, *_pair(f"same {points} {run}", points, 1.0)) for run in range(sizes.runs))
        share, theirs = wrong / sizes.runs, peer / fewer
        ratio = share / theirs if theirs else None
        note = "" if points >= compare.points else "never judged"
        bound = Target("value", at_most=1)
        figures.append(_percent("  convicted", wrong, sizes.runs, against=name, ratio=ratio, target=bound, note=note))
        if points < compare.points:
            continue
        for factor in (1.25, 1.5):
            runs = max(10, sizes.runs // 4)
            missed = sum(not _convicts(compare, *_pair(f"{factor} {points} {run}", points, factor)) for run in range(runs))
            peer = sum(not _kayenta(*_pair(f"{factor} {points} {run}", points, factor)) for run in range(fewer))
            note = f"the peer: {100 * peer / fewer:.0f} %"
            figures.append(_percent(f"  {factor - 1:.0%} slower: missed", missed, runs, note=note))
    return figures


def _families(runs: int) -> list[Figure]:
    """Ten comparisons of equal versions at once."""
    plain = corrected = 0
    for run in range(runs):
        found = [rank_test(*_pair(f"family {run} {member}", 15, 1.0)).p for member in range(10)]
        plain += min(found) <= _ALPHA
        corrected += any(holm([(p, _ALPHA) for p in found]))
    name = "ten comparisons of equal versions, uncorrected: any convicted"
    ratio = corrected / plain if plain else 0.0
    return [
        _percent(name, plain, runs),
        _percent("  with Holm's correction", corrected, runs, against=name, ratio=ratio, target=Target("value", at_most=1.5)),
    ]


def _times(points: int) -> list[Figure]:
    """How long the loop is held by the largest comparison that there is, and by an exact one."""
    compare = Compare(baseline="old")
    figures = []
    for count in (points, 20):
        new, old = _pair("timed", count, 1.1)
        samples = []
        for _ in range(5):
            began = time.perf_counter()
            compare_samples(new, old, compare, level=_ALPHA)
            samples.append(1000 * (time.perf_counter() - began))
        figures.append(of_samples(f"one comparison of {count} values a side", samples, "ms"))
    return figures


def _convicts(compare: Compare, new: Sequence[float], old: Sequence[float]) -> bool:
    return compare_samples(new, old, compare, level=_ALPHA).verdict is Verdict.FAIL


def _pair(seed: str, points: int, factor: float) -> tuple[list[float], list[float]]:
    chance = random.Random(f"{_SEED} {seed}")
    new = [200 * factor * math.exp(chance.gauss(0, _SPREAD)) for _ in range(points)]
    return new, [200 * math.exp(chance.gauss(0, _SPREAD)) for _ in range(points)]


def _poisson(chance: random.Random, mean: float) -> int:
    limit, product, count = math.exp(-mean), chance.random(), 0
    while product > limit:
        product *= chance.random()
        count += 1
    return count


def _kayenta(new: Sequence[float], old: Sequence[float]) -> bool:
    """Whether the peer calls the new side High."""
    if sorted(new) == sorted(old) or len({*new, *old}) == 1:
        return False
    low, high = min(new) - max(old), max(new) - min(old)
    quantile = statistics.NormalDist().inv_cdf(0.99)
    bound = _crossing(lambda shift: _statistic(new, old, shift) - quantile, low, high)
    estimate = _crossing(lambda shift: _statistic(new, old, shift), low, high)
    return bound > 0.25 * abs(estimate) and statistics.fmean(new) >= statistics.fmean(old)


def _statistic(new: Sequence[float], old: Sequence[float], shift: float) -> float:
    n, m = len(new), len(old)
    values = sorted([x - shift for x in new] + [*old])
    total, rank_sum, tied, position = n + m, 0.0, 0.0, 0
    shifted = sorted(x - shift for x in new)
    taken = 0
    while position < total:
        size = 1
        while position + size < total and values[position + size] == values[position]:
            size += 1
        members = 0
        while taken < n and shifted[taken] == values[position]:
            members, taken = members + 1, taken + 1
        rank_sum += members * (2 * position + size + 1) / 2
        tied += size**3 - size
        position += size
    distance = rank_sum - n * (n + 1) / 2 - n * m / 2
    spread = math.sqrt(n * m / 12 * ((total + 1) - tied / (total * (total - 1))))
    if not spread:
        return 0.0
    return (distance - math.copysign(0.5, distance) * bool(distance)) / spread


def _crossing(falling: Callable[[float], float], low: float, high: float) -> float:
    """Where it becomes negative; an end, where it doesn't between them."""
    if falling(low) < 0:
        return low
    if falling(high) > 0:
        return high
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return (low + high) / 2
