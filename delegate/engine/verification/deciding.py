"""Comparisons in the course of a verification: when they are decided, and all of them together in the end. Pure."""

from collections.abc import Sequence

import msgspec

from delegate.engine.verification.judge.comparisons import compare_counts, compare_samples
from delegate.engine.verification.judge.families import holm, levels
from delegate.model.verification.checks import Check, ComparisonKind
from delegate.model.verification.outcomes import Ending
from delegate.model.verification.readings import Verdict
from delegate.model.verification.records import Batch, CheckRecord, Comparison


class Gathered(msgspec.Struct, frozen=True):
    """What a comparison has to go by. `family`: how many comparisons the verification makes. `began`: seconds since 1970."""

    new: tuple[float, ...] = ()
    old: tuple[float, ...] = ()
    batches: tuple[Batch, ...] = ()
    family: int = 1
    began: float = 0.0


def decide_comparison(check: Check, gathered: Gathered, *, is_over: bool) -> Comparison | None:
    """None: not decided, and there is more to come.

    Each is held to its part of alpha here, which Holm's procedure grants in any case, so that a conviction stands at once; what
    more it grants is given in `settle`.
    """
    compare = check.compare
    assert compare is not None
    level = compare.alpha / gathered.family
    if compare.kind is ComparisonKind.SAMPLES:
        return compare_samples(gathered.new, gathered.old, compare, level=level) if is_over else None
    requests = sum(each.new_requests for each in gathered.batches)
    found = compare_counts(gathered.batches, compare, level=level, is_over=is_over, began=gathered.began)
    if found is not None and found.verdict is Verdict.PASS and check.min_requests is not None and requests < check.min_requests:
        if not is_over:
            return None
        return msgspec.structs.replace(
            found, verdict=Verdict.NO_DATA, reason=f"{requests:g} requests of at least {check.min_requests:g}; {found.reason}"
        )
    return found


def ending_of_comparison(comparison: Comparison) -> Ending:
    return Ending(comparison.verdict, comparison.reason)


def settle(records: Sequence[CheckRecord]) -> list[CheckRecord]:
    """The same with Holm's procedure over the comparisons of samples: some that passed at the strictest level may not pass at theirs."""
    family = sum(1 for record in records if record.check.compare is not None)
    members = [
        index
        for index, record in enumerate(records)
        if record.check.compare is not None
        and record.check.compare.kind is ComparisonKind.SAMPLES
        and record.comparison is not None
        and record.comparison.p is not None
    ]
    settled = list(records)
    if len(members) < 2:
        return settled
    tests = [(_p(records[index]), _alpha(records[index]) * len(members) / family) for index in members]
    for index, rejected, level in zip(members, holm(tests), levels(tests), strict=True):
        record = records[index]
        assert record.check.compare is not None
        if not rejected or record.verdict is not Verdict.PASS:
            continue
        again = compare_samples(record.new, record.old, record.check.compare, level=level)
        settled[index] = msgspec.structs.replace(record, verdict=again.verdict, reason=again.reason, comparison=again)
    return settled


def _p(record: CheckRecord) -> float:
    assert record.comparison is not None
    assert record.comparison.p is not None
    return record.comparison.p


def _alpha(record: CheckRecord) -> float:
    assert record.check.compare is not None
    return record.check.compare.alpha
