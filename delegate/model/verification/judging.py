"""From the samples of one look to its reading: one number, in the rule's unit, and what the rule says of it."""

import math
import re
import statistics
from collections.abc import Mapping, Sequence

import msgspec

from delegate.model.verification.checks import Check, Reducer
from delegate.model.verification.readings import Reading, Sample, Verdict, read_number, written_number
from delegate.model.verification.records import MOST_SAMPLES
from delegate.model.verification.rules import Rule
from delegate.model.verification.units import parse_unit

_LONGEST_LABEL = 100
_MOST_LABELS = 8


class Reduced(msgspec.Struct, frozen=True):
    """One number of several series, in the source's unit. `origin` names whose it is, where it is one of theirs."""

    value: float
    origin: str = ""


def judge_samples(
    check: Check, samples: Sequence[Sample], *, requests: float | None = None, lower_bound: bool = False, notes: tuple[str, ...] = ()
) -> Reading:
    """The reading that one sample of each series makes. `lower_bound`: the source only knows that it is at least so much."""
    ours, foreign = _ours(check, samples)
    if foreign:
        notes = (*notes, f"{foreign} series are not of the new version and were left out")
    numbers = [(sample, number) for sample in ours if (number := read_number(sample.value)) is not None and not math.isnan(number)]
    if len(numbers) < len(ours):
        notes = (*notes, f"{len(ours) - len(numbers)} of {len(ours)} series had no value (NaN)")
    blank = Reading(
        Verdict.NO_DATA,
        samples=_bounded(ours),
        left_out=max(0, len(ours) - MOST_SAMPLES),
        requests=written_number(requests),
        notes=notes,
        at_least=lower_bound,
    )
    if len(ours) > 1 and check.reduce is None:
        names = ", ".join(_origin(sample) for sample in ours[:3])
        reason = f"{len(ours)} series, no reducer declared: {names}"
        return msgspec.structs.replace(blank, verdict=Verdict.ERROR, reason=reason, final=True)
    if not numbers:
        return msgspec.structs.replace(blank, reason="every value is NaN" if ours else "no series")
    if check.min_requests is not None and not _enough(requests, check.min_requests):
        asked = "unknown how many" if requests is None or math.isnan(requests) else f"{requests:g}"
        return msgspec.structs.replace(blank, reason=f"{asked} requests of at least {check.min_requests:g}")
    return _tested(check, numbers, lower_bound, blank)


def _tested(check: Check, numbers: Sequence[tuple[Sample, float]], lower_bound: bool, blank: Reading) -> Reading:
    rule = check.rule
    assert rule is not None, "comparisons are not judged value by value"
    reduced = reduce_series(check, numbers, rule)
    base = check.source_unit.to_base(reduced.value)
    verdict, words = _verdict(check, rule, base, lower_bound)
    shown = check.source_unit.convert(reduced.value, rule.unit)
    of = f" ({reduced.origin})" if reduced.origin else ""
    least = "at least " if lower_bound else ""
    reason = f"{least}{shown:g} {rule.unit.symbol}{of} {words} {rule.text}"
    if check.source_unit.symbol != rule.unit.symbol:
        reason += f"; {reduced.value:g} {check.source_unit.symbol} at the source"
    return msgspec.structs.replace(blank, verdict=verdict, value=written_number(shown), unit=rule.unit.symbol, reason=reason)


def _verdict(check: Check, rule: Rule, value: float, lower_bound: bool) -> tuple[Verdict, str]:
    failing = check.fail_rule
    if lower_bound:
        known = rule.accepts_at_least(value)
        if known is None:
            return Verdict.NO_DATA, "may or may not be"
        return (Verdict.PASS, "is") if known else (Verdict.FAIL, "is not")
    if rule.accepts(value):
        return Verdict.PASS, "is"
    if failing is not None and not failing.accepts(value):
        return Verdict.NO_DATA, f"is undecided between {failing.text} and"
    return Verdict.FAIL, "is not"


def reduce_series(check: Check, numbers: Sequence[tuple[Sample, float]], rule: Rule) -> Reduced:
    """One number of those of several series (never none)."""
    values = [number for _, number in numbers]
    if len(numbers) == 1:
        return Reduced(values[0], _origin(numbers[0][0]) if check.reduce in (Reducer.WORST, Reducer.MIN, Reducer.MAX) else "")
    to_base = check.source_unit.to_base
    match check.reduce:
        case Reducer.WORST:
            worst = max(numbers, key=lambda pair: rule.badness(to_base(pair[1])))
            return Reduced(worst[1], _origin(worst[0]))
        case Reducer.MIN | Reducer.MAX:
            pick = min if check.reduce is Reducer.MIN else max
            chosen = pick(numbers, key=lambda pair: pair[1])
            return Reduced(chosen[1], _origin(chosen[0]))
        case Reducer.SUM:
            return Reduced(math.fsum(values) if all(map(math.isfinite, values)) else sum(values), f"sum of {len(values)}")
        case Reducer.MEDIAN:
            return Reduced(statistics.median(values), f"median of {len(values)}")
        case Reducer.MEAN | None:
            mean = statistics.fmean(values) if all(map(math.isfinite, values)) else sum(values) / len(values)
            return Reduced(mean, f"mean of {len(values)}")


def judge_again(check: Check, reading: Reading) -> Reading:
    """A stored reading under the rules of a check as they are now. What ended before there was a value stays what it was."""
    if reading.value is None and not reading.samples:
        return reading
    if reading.value is None and reading.verdict is Verdict.ERROR and not (len(reading.samples) > 1 and reading.final):
        return reading
    if reading.left_out:
        return _judge_value(check, reading, reading.at_least)
    again = judge_samples(check, reading.samples, requests=read_number(reading.requests), lower_bound=reading.at_least)
    kept = ("at", "start", "end", "notes", "digest", "seconds", "retry_after")
    return msgspec.structs.replace(again, **{name: getattr(reading, name) for name in kept})


def _judge_value(check: Check, reading: Reading, lower_bound: bool) -> Reading:
    """From the one number that was kept, where not all of its samples were."""
    value, rule = read_number(reading.value), check.rule
    if value is None or rule is None:
        return reading
    base = parse_unit(reading.unit).to_base(value)
    verdict, words = _verdict(check, rule, base, lower_bound)
    reason = f"{value:g} {reading.unit} {words} {rule.text}; from the number alone"
    return msgspec.structs.replace(reading, verdict=verdict, reason=reason)


def _ours(check: Check, samples: Sequence[Sample]) -> tuple[list[Sample], int]:
    if not check.where:
        return list(samples), 0
    patterns = {label: re.compile(pattern) for label, pattern in check.where.items()}
    ours = [each for each in samples if all(pattern.fullmatch(each.labels.get(label, "")) for label, pattern in patterns.items())]
    return ours, len(samples) - len(ours)


def _enough(requests: float | None, least: float) -> bool:
    return requests is not None and requests >= least


def _origin(sample: Sample) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items())) or "without labels"


def _bounded(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    return tuple(Sample(each.at, each.value, _short_labels(each.labels)) for each in samples[:MOST_SAMPLES])


def _short_labels(labels: Mapping[str, str]) -> dict[str, str]:
    return {name[:_LONGEST_LABEL]: value[:_LONGEST_LABEL] for name, value in list(labels.items())[:_MOST_LABELS]}
