"""The rank test of Wilcoxon, Mann and Whitney: exact for small samples, ties included; normal with tie correction beyond.

Ranks are doubled, so that mid-ranks of ties are whole numbers.
"""

import functools
import math
from collections.abc import Sequence
from itertools import accumulate, groupby
from statistics import NormalDist

import msgspec

EXACT_UP_TO = 20
"""Values of the larger side up to which every arrangement is counted."""
_SLOT = 48
"""Bits for one count: there are fewer than 2^38 ways to choose 20 of 40."""


class RankTest(msgspec.Struct, frozen=True):
    """`u` counts pairs in which the new value is larger (ties half). `p` is two-sided. `exact`: no approximation was made."""

    u: float
    p: float
    exact: bool

    @property
    def name(self) -> str:
        return "Mann-Whitney, exact" if self.exact else "Mann-Whitney, normal with tie correction"


def rank_test(new: Sequence[float], old: Sequence[float]) -> RankTest:
    """Whether two samples (neither of them empty, all finite) come from one distribution."""
    n, m = len(new), len(old)
    ranks, ties = _doubled_ranks(new, old)
    doubled_sum = sum(ranks[:n])
    u = (doubled_sum - n * (n + 1)) / 2
    if max(n, m) <= EXACT_UP_TO:
        return RankTest(u, _exact_p(tuple(ranks), n, doubled_sum), exact=True)
    return RankTest(u, _normal_p(n, m, u, ties), exact=False)


def superiority(test: RankTest, n: int, m: int) -> float:
    """How often a new value is larger than an old one, ties counted half: the common language effect size."""
    return test.u / (n * m)


def _doubled_ranks(new: Sequence[float], old: Sequence[float]) -> tuple[list[int], list[int]]:
    values = [*new, *old]
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks, ties, position = [0] * len(values), [], 0
    for _, group in groupby(order, key=values.__getitem__):
        members = list(group)
        for index in members:
            ranks[index] = 2 * position + len(members) + 1  # twice the mean of position+1 .. position+size
        ties.append(len(members))
        position += len(members)
    return ranks, ties


def _exact_p(ranks: tuple[int, ...], n: int, doubled_sum: int) -> float:
    counts = _sums(tuple(sorted(ranks)), n)
    total = sum(counts)
    low = sum(counts[: doubled_sum + 1])
    high = sum(counts[doubled_sum:])
    return min(1.0, 2 * min(low, high) / total)


@functools.lru_cache(maxsize=64)
def _sums(ranks: tuple[int, ...], n: int) -> list[int]:
    """How many choices of `n` ranks have each sum.

    Row k holds, as one large number with a slot for each sum, the choices of k ranks; to take a further rank is a shift and an addition.
    """
    rows = [1] + [0] * n
    for taken, rank in enumerate(ranks, start=1):
        for k in range(min(n, taken), 0, -1):
            rows[k] += rows[k - 1] << (_SLOT * rank)
    step = _SLOT // 8
    data = rows[n].to_bytes(step * (sum(ranks) + 1), "little")
    return [int.from_bytes(data[start : start + step], "little") for start in range(0, len(data), step)]


def _normal_p(n: int, m: int, u: float, ties: Sequence[int]) -> float:
    total = n + m
    distance = max(0.0, abs(u - n * m / 2) - 0.5)
    tied = sum(t**3 - t for t in ties)
    variance = n * m / 12 * ((total + 1) - tied / (total * (total - 1)))
    if variance <= 0:  # all values are the same
        return 1.0
    return min(1.0, 2 * NormalDist().cdf(-distance / math.sqrt(variance)))


def rank_of_bound(n: int, m: int, alpha: float) -> int:
    """Which of the ordered differences (from 1) is the lower end of an interval at the confidence 1 - alpha; 0: none reaches it."""
    if max(n, m) <= EXACT_UP_TO:
        counts = _sums(tuple(range(2, 2 * (n + m) + 1, 2)), n)
        # Of U without ties: sums of doubled ranks, from the least possible on, every second.
        of_u = counts[n * (n + 1) :: 2]
        limit = alpha / 2 * math.comb(n + m, n)
        return sum(1 for below in accumulate(of_u) if below <= limit)
    spread = math.sqrt(n * m * (n + m + 1) / 12)
    return max(0, math.floor(n * m / 2 - NormalDist().inv_cdf(1 - alpha / 2) * spread))
