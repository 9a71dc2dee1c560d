"""The judge: what the baseline and the new version had, in; a verdict with its numbers, out. The same numbers give the same verdict."""

import math
import statistics
from collections.abc import Sequence

import msgspec

from delegate.engine.verification.judge.counts import count_test, share_of
from delegate.engine.verification.judge.estimates import estimate_shift, relative_to
from delegate.engine.verification.judge.ranks import rank_test, superiority
from delegate.engine.verification.judge.sequential import Bounds, Decision, chance_of_conviction, weight_of
from delegate.foundation.quantities import parse_duration
from delegate.model.verification.checks import Compare, Direction
from delegate.model.verification.readings import Verdict, written_number
from delegate.model.verification.records import Batch, Comparison
from delegate.model.verification.rules import parse_share


def compare_samples(new: Sequence[float], old: Sequence[float], compare: Compare, *, level: float) -> Comparison:
    """Two samples by rank. A difference convicts if equal versions would show it in less than `level` of cases, if it is in the bad
    direction, and if it is larger than allowed."""
    fewest = min(len(new), len(old))
    if fewest < compare.points:
        return Comparison(Verdict.NO_DATA, f"too few points: {fewest} of at least {compare.points}", level=level)
    test = rank_test(new, old)
    shift = estimate_shift(new, old, level)
    notes: tuple[str, ...] = ()
    estimate = shift.estimate
    if not estimate and test.p <= level:
        estimate = statistics.fmean(new) - statistics.fmean(old)
        notes = ("most pairs are equal: the means are compared for size",)
    relative = relative_to(estimate, old)
    found = Comparison(
        Verdict.PASS,
        "",
        test=test.name,
        p=test.p,
        level=level,
        estimate=estimate,
        interval=(_written(shift.low), _written(shift.high)),
        relative=written_number(relative),
        superiority=superiority(test, len(new), len(old)),
        notes=notes,
    )
    return msgspec.structs.replace(found, **_sized(test.p, level, relative, compare))


def _sized(p: float, level: float, relative: float, compare: Compare) -> dict[str, object]:
    words = f"{abs(relative):.3g} times the baseline" if abs(relative) >= 10 else f"{abs(relative):.1%}"
    words += " larger" if relative > 0 else " smaller"
    allowed = parse_share(compare.allowed_increase if relative > 0 else compare.allowed_decrease)
    if p > level:
        return {"reason": f"no difference that chance would not explain: p = {p:.3g}, above {level:.3g}"}
    if not _is_bad(relative, compare.direction):
        return {"reason": f"{words}, p = {p:.3g}: not the bad direction"}
    if abs(relative) <= allowed:
        return {"reason": f"{words}, p = {p:.3g}: within the allowed {allowed:.3g}", "notes": ("significant, but too small to matter",)}
    return {"verdict": Verdict.FAIL, "reason": f"{words}, p = {p:.3g}, at most {level:.3g} by chance; allowed {allowed:.3g}"}


def _is_bad(relative: float, direction: Direction) -> bool:
    if direction is Direction.EITHER:
        return relative != 0
    return relative > 0 if direction is Direction.INCREASE else relative < 0


def compare_counts(batches: Sequence[Batch], compare: Compare, *, level: float, is_over: bool, began: float = 0.0) -> Comparison | None:
    """Events of both versions, in the order of time. None: not decided, and there is more to come.

    Batches that begin within the warm-up after `began` are set aside.
    """
    warm = parse_duration(compare.warm_up)
    counted = [each for each in batches if each.at > began + warm or not warm]
    notes = _start_up(batches, counted)
    sides = (False, True) if compare.direction is Direction.EITHER else (compare.direction is Direction.DECREASE,)
    per_side = level / len(sides)
    found = [_one_side(counted, compare, per_side, fewer=fewer, is_over=is_over, notes=notes) for fewer in sides]
    known = [each for each in found if each is not None]
    bad = [each for each in known if each.verdict is not Verdict.PASS]
    if bad:
        return bad[0]
    return known[-1] if len(known) == len(sides) else None


def _one_side(
    batches: Sequence[Batch], compare: Compare, level: float, *, fewer: bool, is_over: bool, notes: tuple[str, ...]
) -> Comparison | None:
    oriented = [_swapped(each) for each in batches] if fewer else list(batches)
    allowed = parse_share(compare.allowed_decrease if fewer else compare.allowed_increase)
    bounds, evidence, decision = Bounds(level), 0.0, Decision.OPEN
    considered: list[Batch] = []
    for each in oriented:
        considered.append(each)
        evidence += weight_of(*_sides(each), allowed=allowed, worse=compare.worse)
        decision = bounds.decide(evidence)
        if decision is not Decision.OPEN:
            break
    new, old = round(sum(each.new_events for each in considered)), round(sum(each.old_events for each in considered))
    new_requests, old_requests = sum(each.new_requests for each in considered), sum(each.old_requests for each in considered)
    share = share_of(new_requests, old_requests, 1 + allowed) if new_requests > 0 and old_requests > 0 else 0.0
    if not 0 < share < 1 or share_of(new_requests, old_requests, (1 + allowed) * compare.worse) >= 1:
        return Comparison(Verdict.NO_DATA, "no requests on one side", level=level, notes=notes) if is_over else None
    if decision is Decision.OPEN and not is_over:
        return None
    test = count_test(new, old, share, alpha=level)
    p = test.p
    if decision is Decision.OPEN:
        looks = [round(each.new_events + each.old_events) for each in considered]
        p = max(p, chance_of_conviction(looks, new, share, worse=compare.worse, bounds=bounds))
    words = f"{new} of {new_requests:g} against {old} of {old_requests:g}"
    if fewer:
        words = f"{old} of {old_requests:g} against {new} of {new_requests:g}"
    factor = (1 + allowed) ** (-1 if fewer else 1)
    ratios = (test.ratio, test.low, test.high) if not fewer else tuple(_inverse(each) for each in (test.ratio, test.high, test.low))
    found = Comparison(
        Verdict.PASS,
        f"{words}: p = {p:.3g}",
        test="conditional binomial, sequential",
        p=p,
        level=level,
        ratio=_written(ratios[0] * factor),
        interval=(_written(ratios[1] * factor), _written(ratios[2] * factor)),
        evidence=evidence,
        notes=notes,
    )
    if decision is Decision.CONVICTED or (decision is Decision.OPEN and p <= level):
        return msgspec.structs.replace(found, verdict=Verdict.FAIL)
    if decision is Decision.OPEN:
        return msgspec.structs.replace(found, reason=f"{found.reason}, not enough to convict")
    return found


def _sides(batch: Batch) -> tuple[float, float, float, float]:
    return batch.new_events, batch.old_events, batch.new_requests, batch.old_requests


def _swapped(batch: Batch) -> Batch:
    return Batch(batch.at, batch.old_events, batch.old_requests, batch.new_events, batch.new_requests)


def _start_up(batches: Sequence[Batch], counted: Sequence[Batch]) -> tuple[str, ...]:
    aside = len(batches) - len(counted)
    if not aside:
        return ()
    events = sum(each.new_events for each in batches) - sum(each.new_events for each in counted)
    return (f"start-up: {events:g} events in {aside} intervals of the warm-up were set aside",)


def _inverse(value: float) -> float:
    return math.inf if not value else 1 / value


def _written(value: float) -> float | str:
    written = written_number(value)
    assert written is not None
    return written
