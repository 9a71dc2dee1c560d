"""What a verification leaves behind: enough to explain each verdict, and to come to it again from the record alone. Bounded."""

from collections import deque
from collections.abc import Sequence

import msgspec

from delegate.model.verification.checks import Check
from delegate.model.verification.outcomes import Tally
from delegate.model.verification.readings import Reading, Verdict, worst_verdict

MOST_READINGS = 120
ALL_READINGS = 600
"""Of all checks of a verification together."""
FEWEST_READINGS = 10
MOST_SAMPLES = 8
MOST_COMPARED = 400
"""Values of each side that a comparison keeps."""


class Batch(msgspec.Struct, frozen=True, array_like=True):
    """What both versions had in one interval: events, and requests to have them in."""

    at: float
    new_events: float
    new_requests: float
    old_events: float
    old_requests: float


class Comparison(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A comparison with the baseline, and its numbers.

    `p` is how often equal versions would look so different. `estimate` is by how much the new version's values are larger, with the
    `interval` that holds the true number at the confidence of 1 - alpha; infinities are texts. `relative` is the estimate to the
    baseline, `superiority` how often a new value is larger than an old one. Of counts: `ratio` of the rates.
    """

    verdict: Verdict
    reason: str
    test: str = ""
    p: float | None = None
    level: float = 0.0
    estimate: float | None = None
    interval: tuple[float | str, float | str] | None = None
    relative: float | str | None = None
    superiority: float | None = None
    ratio: float | str | None = None
    evidence: float | None = None
    notes: tuple[str, ...] = ()


class CheckRecord(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A check as it was wanted, asked and decided. `query` is what was sent, `others` are the queries beside it (requests, baseline,
    baseline requests). `new`, `old` and `batches` are what was compared. `nearest`: the rule at which it would have come out otherwise."""

    check: Check
    verdict: Verdict
    reason: str
    query: str = ""
    others: dict[str, str] = {}
    configuration: bool = False
    tally: Tally = Tally()
    readings: tuple[Reading, ...] = ()
    new: tuple[float, ...] = ()
    old: tuple[float, ...] = ()
    batches: tuple[Batch, ...] = ()
    comparison: Comparison | None = None
    nearest: str = ""


class VerificationRecord(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The whole. Times are seconds since 1970; `since`: evidence from before was not counted."""

    verdict: Verdict
    reason: str
    score: float = 0.0
    began: float = 0.0
    ended: float = 0.0
    since: float = 0.0
    pass_score: float = 100.0
    checks: tuple[CheckRecord, ...] = ()


def reason_of(records: Sequence[CheckRecord], verdict: Verdict) -> str:
    """The words of the whole: those of the checks that make it what it is."""
    worst = [record for record in records if record.verdict is verdict] if verdict is not Verdict.PASS else []
    if worst:
        return "; ".join(f"{record.check.name}: {record.reason}" for record in worst[:5])
    passed = sum(1 for record in records if record.verdict is Verdict.PASS)
    return f"{passed} of {len(records)} checks passed" if records else "no check"


def joined(records: Sequence[VerificationRecord]) -> VerificationRecord:
    """Several verifications of one release, in their order, as one: of each check what it came to last. There is at least one."""
    latest = {record.check.name: record for each in records for record in each.checks}
    checks = tuple(latest.values())
    verdict = worst_verdict([record.verdict for record in checks])
    return msgspec.structs.replace(
        records[-1],
        verdict=verdict,
        reason=reason_of(checks, verdict),
        score=min(each.score for each in records),
        began=min(each.began for each in records),
        ended=max(each.ended for each in records),
        since=min(each.since for each in records),
        checks=checks,
    )


def readings_kept(checks: int) -> int:
    """How many readings of each of so many checks are kept."""
    return min(MOST_READINGS, max(FEWEST_READINGS, ALL_READINGS // max(1, checks)))


class Journal:
    """Keeps the first few readings and the latest ones."""

    def __init__(self, limit: int = MOST_READINGS) -> None:
        self._first: list[Reading] = []
        self._room = max(1, limit // 4)
        self._latest: deque[Reading] = deque(maxlen=max(1, limit - self._room))

    def add(self, reading: Reading) -> None:
        if len(self._first) < self._room:
            self._first.append(reading)
        else:
            self._latest.append(reading)

    @property
    def readings(self) -> tuple[Reading, ...]:
        return (*self._first, *self._latest)


class Thinned:
    """Values, every one of them until there are too many, then evenly every second, fourth, eighth."""

    def __init__(self, limit: int = MOST_COMPARED) -> None:
        self._limit = limit
        self._stride = 1
        self._seen = 0
        self._kept: list[float] = []

    def add(self, value: float) -> None:
        if self._seen % self._stride == 0:
            self._kept.append(value)
        self._seen += 1
        if len(self._kept) > self._limit:
            self._kept = self._kept[::2]
            self._stride *= 2

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(self._kept)
