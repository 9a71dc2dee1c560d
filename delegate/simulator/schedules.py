"""Cron schedules: five fields, names, steps and the usual `@` words (but `@every`), in UTC or a named zone."""

import datetime as dt
import re
import zoneinfo

import msgspec

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
HORIZON_DAYS = 5 * 366


def zone_of(name: str) -> dt.tzinfo | None:
    """The zone of an IANA name; None where there is none."""
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return dt.UTC if name == "UTC" else None


class Schedule(msgspec.Struct, frozen=True):
    """The minutes at which a CronJob starts."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    @classmethod
    def parse(cls, text: str) -> "Schedule":
        """Raises ValueError for anything that is no schedule."""
        fields = _WORDS.get(text.strip(), text).split()
        if len(fields) != 5:
            raise ValueError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
        names: tuple[list[str], ...] = ([], [], [], _MONTHS, _DAYS)
        parsed = [_field(field, low, high, named) for field, (low, high), named in zip(fields, _RANGES, names, strict=True)]
        weekdays = frozenset(day % 7 for day in parsed[4])
        minutes, hours, days, months = parsed[:4]
        any_day, any_weekday = fields[2][0] in "*?", fields[4][0] in "*?"
        return cls(minutes, hours, days, months, weekdays, any_day=any_day, any_weekday=any_weekday)

    def after(self, moment: dt.datetime, zone: dt.tzinfo = dt.UTC) -> dt.datetime | None:
        """The next start strictly after a moment, None where there is none within five years."""
        local = moment.astimezone(zone).replace(second=0, microsecond=0, tzinfo=None)
        found = self._after(local + dt.timedelta(minutes=1))
        return found.replace(tzinfo=zone).astimezone(dt.UTC) if found is not None else None

    def _after(self, at: dt.datetime) -> dt.datetime | None:
        end = at + dt.timedelta(days=HORIZON_DAYS)
        while at < end:
            if at.month not in self.months or not self._day(at):
                at = at.replace(hour=0, minute=0) + dt.timedelta(days=1)
            elif at.hour not in self.hours:
                at = at.replace(minute=0) + dt.timedelta(hours=1)
            elif at.minute not in self.minutes:
                at += dt.timedelta(minutes=1)
            else:
                return at
        return None

    def _day(self, at: dt.datetime) -> bool:
        day, weekday = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        return day and weekday if self.any_day or self.any_weekday else day or weekday


def _field(text: str, low: int, high: int, names: list[str]) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step_text = part.partition("/")
        step = int(step_text) if re.fullmatch(r"[0-9]+", step_text) else 0 if step_text else 1
        if step == 0:
            raise ValueError(f"step of range should be a positive number: {part}")
        start, end = _span(span, low, high, names, single=not step_text)
        if start > end or start < low or end > high:
            raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
        found.update(range(start, end + 1, step))
    return frozenset(found)


def _span(span: str, low: int, high: int, names: list[str], *, single: bool) -> tuple[int, int]:
    if span in ("*", "?"):
        return low, high
    first, dash, last = span.partition("-")
    start = _number(first, names, low)
    return start, _number(last, names, low) if dash else start if single else high


def _number(text: str, names: list[str], low: int) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not re.fullmatch(r"[0-9]+", text):
        raise ValueError(f"failed to parse int from {text}")
    return int(text)
