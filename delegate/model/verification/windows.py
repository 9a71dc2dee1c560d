"""From when to when evidence counts: from when the new version was ready and its share in force, to the last complete bucket."""

import datetime as dt
import math
import re
from collections.abc import Iterable

import msgspec

from delegate.foundation.quantities import parse_duration

_DURATION = r"((?:\d+(?:ms|[smhdwy]))+)"
_RANGE = re.compile(rf"\[\s*{_DURATION}\s*(:[^\]]*)?\]|\boffset\s+{_DURATION}")
_SINCE_AGO = re.compile(r"\bSINCE\s+(\d+)\s+(SECOND|MINUTE|HOUR|DAY|WEEK)S?\s+AGO\b", re.IGNORECASE)
_EARLIEST = re.compile(r"\bearliest\s*=\s*\"?-(\d+)(s|m|h|d|w)", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_LONG_UNITS = re.compile(r"(\d+)([wy])")
_SKEW_SECONDS = 1.0
"""So far into the future may a source's clock be."""


class Span(msgspec.Struct, frozen=True):
    """Seconds since 1970."""

    start: float
    end: float

    def is_empty(self, bucket: float) -> bool:
        """Whether there is nothing in it: no time at all, or not a single whole bucket."""
        return self.end < self.start + bucket


def evidence_span(*, now: float, since: float, over: float, bucket: float) -> Span:
    """What a reading at `now` is about: at most `over` seconds back, never from before `since`, never an unfinished bucket."""
    end = math.floor(now / bucket) * bucket if bucket else now
    start = max(since, end - over)
    if bucket:
        start = math.ceil(start / bucket) * bucket  # a bucket that began before counts the old version too
    return Span(start, end)


def counts(at: float, span: Span, bucket: float) -> bool:
    """Whether a point is evidence. Points of buckets carry the time at which their bucket begins."""
    if bucket:
        return span.start <= at and at + bucket <= span.end
    return span.start <= at <= span.end + _SKEW_SECONDS


def complete_points(points: Iterable[tuple[float, float | None]], span: Span, bucket: float) -> list[tuple[float, float | None]]:
    """The points that count, oldest first."""
    return sorted((point for point in points if counts(point[0], span, bucket)), key=lambda point: point[0])


def settling_seconds(query: str) -> float:
    """How far back a query itself looks: before that much of the new version's time, it also sees the old one's.

    In PromQL and LogQL by ranges (`rate(x[5m])`), with subqueries and offsets that may stand around them; in NRQL by `SINCE ... ago`, in
    SPL by `earliest=-...`.
    """
    ranges, around = [0.0], 0.0
    for selector, subquery, offset in _RANGE.findall(query):
        if offset or subquery:
            around += _prometheus_seconds(selector or offset)
        else:
            ranges.append(_prometheus_seconds(selector))
    ranges += [float(number) * _SECONDS[unit[0].lower()] for number, unit in _SINCE_AGO.findall(query) + _EARLIEST.findall(query)]
    return max(ranges) + around


def range_seconds(query: str) -> float:
    """The longest range in PromQL or LogQL that no subquery is."""
    ranges = [selector for selector, subquery, offset in _RANGE.findall(query) if selector and not subquery]
    return max(map(_prometheus_seconds, ranges), default=0.0)


def _prometheus_seconds(text: str) -> float:
    """Of a duration in PromQL, which knows weeks and years."""
    return float(parse_duration(_LONG_UNITS.sub(lambda part: f"{int(part[1]) * (7 if part[2] == 'w' else 365)}d", text)))


def parse_time(text: str) -> float:
    """Seconds since 1970 of a time as RFC 3339 has it. Raises ValueError, also where it doesn't say its zone."""
    try:
        when = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time; write such as 2026-03-02T10:00:00Z") from None
    if when.tzinfo is None:
        raise ValueError(f"{text!r} doesn't say in which zone; write such as 2026-03-02T10:00:00Z")
    return when.timestamp()
