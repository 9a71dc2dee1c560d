"""A verification for people: what each check asked, what was answered, and why that makes its verdict."""

import datetime as dt
from collections.abc import Iterator

import click

from delegate.foundation.redaction import redact
from delegate.model.verification.readings import Reading, Verdict
from delegate.model.verification.records import CheckRecord, Comparison, VerificationRecord

_COLOURS = {Verdict.PASS: "green", Verdict.FAIL: "red", Verdict.ERROR: "yellow", Verdict.NO_DATA: "yellow"}
_LATEST = 3


def show_verification(record: VerificationRecord) -> None:
    """On standard output."""
    for check in record.checks:
        head = click.style(check.verdict.value.ljust(7), fg=_COLOURS[check.verdict], bold=True)
        click.echo(redact(f"{head}  {check.check.name}  {check.reason}"))
        for line in _explain(check):
            click.echo(redact(f"    {line}"))


def _explain(record: CheckRecord) -> Iterator[str]:
    check = record.check
    source = check.provider or check.url or "the cluster"
    yield f"asked    {source} ({check.type}): {record.query or check.query}"
    for role, query in record.others.items():
        yield f"         {role}: {query}"
    if check.threshold:
        yield f"wanted   {check.threshold}, of a source in {check.unit}{_lasting(record)}"
    elif check.compare is not None:
        yield f"wanted   no bad difference to the baseline{_lasting(record)}"
    yield f"readings {record.tally}"
    if record.nearest:
        yield f"nearest  {record.nearest}"
    if record.comparison is not None:
        yield from _explain_comparison(record.comparison)
    for reading in record.readings[-_LATEST:]:
        yield f"{_time(reading.at)} {reading.verdict.value}: {reading.reason}{_window(reading)}"
        for note in reading.notes:
            yield f"         {note}"


def _explain_comparison(comparison: Comparison) -> Iterator[str]:
    parts = [comparison.test]
    if comparison.p is not None:
        parts.append(f"p = {comparison.p:.3g} against {comparison.level:.3g}")
    if comparison.estimate is not None:
        parts.append(f"shift {comparison.estimate:g}")
    if comparison.ratio is not None:
        parts.append(f"ratio {comparison.ratio:.3g}" if isinstance(comparison.ratio, float) else f"ratio {comparison.ratio}")
    if comparison.interval is not None:
        parts.append(f"between {' and '.join(_number(each) for each in comparison.interval)}")
    if comparison.superiority is not None:
        parts.append(f"larger in {comparison.superiority:.0%} of pairs")
    yield f"test     {', '.join(part for part in parts if part)}"
    for note in comparison.notes:
        yield f"         {note}"


def _lasting(record: CheckRecord) -> str:
    check = record.check
    return f", every {check.every or '30s'} for {check.duration}" if check.duration else ""


def _number(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"


def _window(reading: Reading) -> str:
    return f" (of {_time(reading.start)} to {_time(reading.end)})" if reading.end > reading.start else ""


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%H:%M:%S")
