"""By how much values have shifted: the median of all differences (Hodges, Lehmann), and an interval of their order statistics.

Both are found by sorting, so that the unit of the values makes no difference.
"""

import math
import statistics
from collections.abc import Sequence

import msgspec

from delegate.engine.verification.judge.ranks import rank_of_bound


class Shift(msgspec.Struct, frozen=True):
    """`low` and `high` hold the true shift at the confidence asked for; infinite where so few values can't bound it."""

    estimate: float
    low: float
    high: float


def estimate_shift(new: Sequence[float], old: Sequence[float], alpha: float) -> Shift:
    """Of two samples, neither of them empty."""
    differences = sorted(x - y for x in new for y in old)
    bound = rank_of_bound(len(new), len(old), alpha)
    low = differences[bound - 1] if bound else -math.inf
    high = differences[-bound] if bound else math.inf
    return Shift(statistics.median(differences), low, high)


def relative_to(shift: float, old: Sequence[float]) -> float:
    """A shift in proportion to the baseline's median; of nothing any shift is infinitely much."""
    base = abs(statistics.median(old))
    if base:
        return shift / base
    return math.copysign(math.inf, shift) if shift else 0.0
