"""From a provider's answer to samples: what of it is evidence at all. Pure; the values are judged in the model."""

import math
from collections.abc import Sequence

import msgspec

from delegate.engine.verification.answers import Answer, Series
from delegate.model.verification.checks import Check, Direction, PartialPolicy, Reducer
from delegate.model.verification.judging import judge_samples
from delegate.model.verification.readings import Reading, Sample, Verdict, written_number
from delegate.model.verification.units import UnknownUnitError, parse_unit
from delegate.model.verification.windows import Span, complete_points

_MOST_WARNINGS = 5
_LONGEST_WARNING = 300


class Look(msgspec.Struct, frozen=True):
    """The circumstances of one reading: the window asked about, when the answer came, and from when on evidence counts."""

    span: Span
    now: float
    since: float
    seen: float = -math.inf
    """The newest point that an earlier reading has counted: a bucket is evidence once."""


def read_answer(check: Check, answer: Answer, look: Look, *, requests: float | None = None) -> Reading:
    """The reading of an answer to a check with a threshold."""
    unfit = unfitness(check, answer, look)
    if unfit is not None:
        return unfit
    notes = _notes(answer)
    if answer.wrong:
        return Reading(Verdict.FAIL, reason=answer.wrong, notes=notes)
    series = _or_declared(check, answer.series, look)
    samples, aside = newest_samples(check, series, look)
    if aside:
        notes = (*notes, f"{aside} points from outside the evidence window or of unfinished buckets were left out")
    if series and not samples:
        return Reading(Verdict.NO_DATA, reason="no complete point inside the evidence window", notes=notes)
    if samples and max(sample.at for sample in samples) <= look.seen:
        return Reading(Verdict.NO_DATA, reason="no new complete bucket since the last reading", notes=notes, samples=tuple(samples[:1]))
    return judge_samples(check, samples, requests=requests, lower_bound=answer.at_least, notes=notes)


def _or_declared(check: Check, series: tuple[Series, ...], look: Look) -> tuple[Series, ...]:
    """The series of an answer; of one without any, the number that the check declares for that."""
    if series or check.empty_is is None:
        return series
    return (Series(((look.span.end - check.bucket_seconds, check.empty_is),)),)


def unfitness(check: Check, answer: Answer, look: Look) -> Reading | None:
    """The reading of an answer that proves nothing, whatever it says; None where it may be read."""
    notes = _notes(answer)
    if answer.stale:
        return Reading(Verdict.NO_DATA, reason="a cache says that this answer is stale", notes=notes)
    if answer.age_seconds is not None and look.now - answer.age_seconds < look.since:
        reason = f"the answer is {answer.age_seconds:g} s old, from before what is verified"
        return Reading(Verdict.NO_DATA, reason=reason, notes=notes)
    if check.partial is PartialPolicy.ERROR and (answer.partial or answer.warnings):
        words = "; ".join(each[:_LONGEST_WARNING] for each in answer.warnings[:_MOST_WARNINGS]) or "the source calls it incomplete"
        return Reading(Verdict.ERROR, reason=f"partial answer: {words}", notes=notes)
    contradicted = _contradiction(check, answer.unit)
    if contradicted:
        return Reading(Verdict.ERROR, reason=contradicted, notes=notes, final=True)
    return None


def _contradiction(check: Check, unit: str) -> str:
    """Where the source itself knows its unit, the check has to say the same."""
    if not unit or not check.unit:
        return ""
    try:
        theirs = parse_unit(unit)
    except UnknownUnitError:
        return ""
    return "" if theirs == check.source_unit else f"the source answers in {theirs.symbol}, the check says {check.source_unit.symbol}"


def newest_samples(check: Check, series: Sequence[Series], look: Look) -> tuple[list[Sample], int]:
    """The newest point that counts of each series, and how many points did not count."""
    samples, aside = [], 0
    for each in series:
        points = complete_points(each.points, look.span, check.bucket_seconds)
        aside += len(each.points) - len(points)
        valued = [point for point in points if point[1] is not None] or points
        if valued:
            at, value = valued[-1]
            samples.append(Sample(at, written_number(value), each.labels))
    return samples, aside


def new_values(check: Check, answer: Answer, look: Look) -> Reading | tuple[list[float], float]:
    """For comparisons: the values that are new since the last reading, and the time of the newest; or a reading without a value."""
    unfit = unfitness(check, answer, look)
    if unfit is not None:
        return unfit
    series = _or_declared(check, answer.series, look)
    if len(series) > 1 and check.reduce is None:
        return Reading(Verdict.ERROR, reason=f"{len(series)} series, no reducer declared", final=True)
    columns = []
    for each in series:
        points = complete_points(each.points, look.span, check.bucket_seconds)
        fresh = [(at, value) for at, value in points if value is not None and math.isfinite(value) and at > look.seen]
        if fresh:
            columns.append(fresh)
    if not columns:
        return Reading(Verdict.NO_DATA, reason="no new value inside the evidence window")
    newest = max(column[-1][0] for column in columns)
    if len(series) == 1:
        return [value for _, value in columns[0]], newest
    return [_reduced(check, [column[-1][1] for column in columns])], newest


def _reduced(check: Check, values: Sequence[float]) -> float:
    reducer = check.reduce
    if reducer is Reducer.WORST:
        rising = check.compare is None or check.compare.direction is not Direction.DECREASE
        reducer = Reducer.MAX if rising else Reducer.MIN
    ordered = sorted(values)
    match reducer:
        case Reducer.MIN:
            return ordered[0]
        case Reducer.MAX:
            return ordered[-1]
        case Reducer.SUM:
            return math.fsum(ordered)
        case Reducer.MEDIAN:
            middle = len(ordered) // 2
            return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
        case _:
            return math.fsum(ordered) / len(ordered)


def total_of(answer: Answer, look: Look, bucket: float) -> float | None:
    """How much there was to measure: all of it, of all series; None where nothing says so."""
    found: list[float] = []
    for each in answer.series:
        points = [value for _, value in complete_points(each.points, look.span, bucket) if value is not None and not math.isnan(value)]
        if points:
            found.append(points[-1] if not bucket else math.fsum(points))
    return math.fsum(found) if found else None


def _notes(answer: Answer) -> tuple[str, ...]:
    warnings = (f"the source warns: {each[:_LONGEST_WARNING]}" for each in answer.warnings[:_MOST_WARNINGS])
    return (*warnings, *(f"the source remarks: {each[:_LONGEST_WARNING]}" for each in answer.infos[:_MOST_WARNINGS]))
