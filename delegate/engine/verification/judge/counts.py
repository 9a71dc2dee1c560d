"""Counts of events on two sides with different exposure: given their sum, the new side's part is binomial."""

import math
from collections.abc import Callable

import msgspec


class CountTest(msgspec.Struct, frozen=True):
    """`p`: how often the new side would get so many of the events, or more (of `fewer`: or fewer), by exposure alone."""

    p: float
    ratio: float
    low: float
    high: float


def share_of(new_exposure: float, old_exposure: float, ratio: float = 1.0) -> float:
    """The part of all events that the new side has, where its rate is `ratio` times the other's."""
    return ratio * new_exposure / (ratio * new_exposure + old_exposure)


def at_least(events: int, total: int, share: float) -> float:
    """P(X >= events) of a binomial."""
    return math.fsum(exactly(k, total, share) for k in range(events, total + 1)) if events else 1.0


def at_most(events: int, total: int, share: float) -> float:
    """P(X <= events) of a binomial."""
    return math.fsum(exactly(k, total, share) for k in range(events + 1)) if events < total else 1.0


def exactly(k: int, total: int, share: float) -> float:
    """P(X = k) of a binomial."""
    if share <= 0.0 or share >= 1.0:
        return float(k == (total if share >= 1.0 else 0))
    log = math.lgamma(total + 1) - math.lgamma(k + 1) - math.lgamma(total - k + 1) + k * math.log(share) + (total - k) * math.log1p(-share)
    return math.exp(log)


def count_test(new: int, old: int, share: float, *, alpha: float, fewer: bool = False) -> CountTest:
    """Whether the new side has more (or fewer) events than its `share` of exposure explains, and the ratio of the rates.

    The interval of the ratio holds it at the confidence 1 - alpha (Clopper, Pearson).
    """
    total = new + old
    p = min(1.0, at_most(new, total, share) if fewer else at_least(new, total, share))
    if not total:
        return CountTest(1.0, 1.0, 0.0, math.inf)
    low = _solve(lambda part: at_least(new, total, part) - alpha / 2) if new else 0.0
    high = _solve(lambda part: alpha / 2 - at_most(new, total, part)) if old else 1.0
    return CountTest(p, _ratio(new / total, share), _ratio(low, share), _ratio(high, share))


def _ratio(part: float, share: float) -> float:
    if part >= 1.0:
        return math.inf
    return part / (1 - part) * (1 - share) / share


def _solve(rising: Callable[[float], float]) -> float:
    """Where a rising function on (0, 1) crosses zero."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2
