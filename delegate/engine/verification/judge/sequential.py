"""Wald's sequential test on a stream of events: decides as soon as the evidence is enough, either way.

Each event is the new version's with the probability of its part of the requests, were both equally good, and with a greater one were
the new version `worse` times as bad. The sum of the logarithms of those likelihoods' ratios is weighed after each batch.
"""

import enum
import math
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from delegate.engine.verification.judge.counts import at_least, exactly, share_of

BETA = 0.05
"""How often a version that is exactly `worse` is taken for a good one."""


class Decision(enum.StrEnum):
    CONVICTED = "convicted"
    ACQUITTED = "acquitted"
    OPEN = "open"


class Bounds(msgspec.Struct, frozen=True):
    """The evidence at which a decision is made: `alpha` bounds false convictions, `beta` false acquittals.

    Both are kept exactly, however far a last event oversteps: a likelihood ratio of two ever exceeds 1/alpha under the one with a
    chance of alpha at most (Ville). Wald's own bounds, a little nearer, keep them approximately.
    """

    alpha: float
    beta: float = BETA

    @property
    def convict(self) -> float:
        return -math.log(self.alpha)

    @property
    def acquit(self) -> float:
        return math.log(self.beta)

    def decide(self, evidence: float) -> Decision:
        if evidence >= self.convict:
            return Decision.CONVICTED
        return Decision.ACQUITTED if evidence <= self.acquit else Decision.OPEN


def weight_of(new: float, old: float, new_exposure: float, old_exposure: float, *, allowed: float, worse: float) -> float:
    """The evidence in a batch: positive where it speaks for a rise of `worse` beyond the `allowed` one.

    Without exposure on both sides there is nothing to be learned.
    """
    if new_exposure <= 0 or old_exposure <= 0:
        return 0.0
    good = share_of(new_exposure, old_exposure, 1 + allowed)
    bad = share_of(new_exposure, old_exposure, (1 + allowed) * worse)
    if not good > 0 or not bad < 1:  # beside so much the other side's exposure is nothing
        return 0.0
    return new * math.log(bad / good) + old * math.log((1 - bad) / (1 - good))


def chance_of_conviction(looks: Iterable[int], new: int, share: float, *, worse: float, bounds: Bounds) -> float:
    """How often versions that are equally good are convicted at one of these looks, or come to an end as bad as this one.

    `looks`: how many events each brought, of both sides; `new` of all were the new version's, whose `share` of them is what exposure
    explains. So one more test in the end does not add its own false alarms to those of the looks before it. Exact for a share that
    stays the same.
    """
    bad = worse * share / (worse * share + 1 - share)
    up, down = math.log(bad / share), math.log((1 - bad) / (1 - share))
    undecided, convicted, seen = {0: 1.0}, 0.0, 0
    for events in looks:
        seen += events
        fewest = math.ceil((bounds.convict - seen * down) / (up - down) - 1e-9)
        most = math.floor((bounds.acquit - seen * down) / (up - down) + 1e-9)
        after: defaultdict[int, float] = defaultdict(float)
        for had, chance in undecided.items():
            convicted += chance * at_least(max(0, fewest - had), events, share)
            for more in range(max(0, most + 1 - had), min(events, fewest - 1 - had) + 1):
                after[had + more] += chance * exactly(more, events, share)
        undecided = after
    return convicted + math.fsum(chance for had, chance in undecided.items() if had >= new)
