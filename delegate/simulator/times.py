"""Times as the server reads and writes them: RFC 3339 in UTC, whole seconds or microseconds, with Go's words for a wrong one."""

import re
from datetime import UTC, datetime, timedelta

SECONDS = "2006-01-02T15:04:05Z07:00"
MICROSECONDS = "2006-01-02T15:04:05.000000Z07:00"
_CANONICAL = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])T([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ")
_CHUNKS = re.compile(r"2006|01|02|15|04|05|\.000000|Z07:00|[-T:]")
_RANGES = {"01": (1, 12, "month"), "02": (1, 31, "day"), "15": (0, 23, "hour"), "04": (0, 59, "minute"), "05": (0, 59, "second")}
_ZONE = re.compile(r"Z|[+-]\d\d:\d\d")


def canonical(text: str, *, micro: bool = False) -> str:
    """The time as it is stored. Raises ValueError with Go's message."""
    if not micro and _CANONICAL.fullmatch(text):
        return text
    layout = MICROSECONDS if micro else SECONDS
    numbers: dict[str, int] = {}
    rest, zone, fraction = text, "Z", 0
    for chunk in _CHUNKS.findall(layout):
        match chunk:
            case "-" | "T" | ":":
                if not rest.startswith(chunk):
                    raise ValueError(_cannot(text, layout, rest, chunk))
                rest = rest[1:]
            case ".000000":
                found = re.match(r"\.\d{6}", rest)
                if found is None:
                    raise ValueError(_cannot(text, layout, rest, chunk))
                fraction, rest = int(rest[1:7]), rest[7:]
            case "Z07:00":
                found = _ZONE.match(rest)
                if found is None:
                    raise ValueError(_cannot(text, layout, rest, chunk))
                zone, rest = found[0], rest[found.end() :]
            case _:
                width = len(chunk)
                if not re.match(rf"\d{{{width}}}", rest):
                    raise ValueError(_cannot(text, layout, rest, chunk))
                numbers[chunk], rest = int(rest[:width]), rest[width:]
                _check_range(text, chunk, numbers[chunk])
                if chunk == "05" and not micro:
                    rest = re.sub(r"^[.,]\d+", "", rest)
    if rest:
        raise ValueError(f'parsing time "{text}": extra text: "{rest}"')
    return _written(text, numbers, fraction if micro else None, zone)


def _check_range(text: str, chunk: str, number: int) -> None:
    if chunk in _RANGES:
        low, high, name = _RANGES[chunk]
        if not low <= number <= high:
            raise ValueError(f'parsing time "{text}": {name} out of range')


def _written(text: str, numbers: dict[str, int], fraction: int | None, zone: str) -> str:
    try:
        year, month, day, hour, minute, second = (numbers[chunk] for chunk in ("2006", "01", "02", "15", "04", "05"))
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
        if zone != "Z":
            offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
            moment = moment - offset if zone[0] == "+" else moment + offset
    except (ValueError, OverflowError):
        raise ValueError(f'parsing time "{text}": day out of range') from None
    whole = moment.strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    return f"{whole}Z" if fraction is None else f"{whole}.{fraction:06d}Z"


def _cannot(text: str, layout: str, rest: str, chunk: str) -> str:
    return f'parsing time "{text}" as "{layout}": cannot parse "{rest}" as "{chunk}"'


def elapsed(since: str | None, now: str) -> str:
    """How long ago, as kubectl shows ages: `42s`, `3m5s`, `7h12m`, `5d`."""
    if not since:
        return "<unknown>"
    return span(int((_moment(now) - _moment(since)).total_seconds()))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def span(seconds: int) -> str:
    """A duration as apimachinery's `HumanDuration` shows it."""
    if seconds < -1:
        return "<invalid>"
    minutes, hours = max(seconds, 0) // 60, max(seconds, 0) // 3600
    days = hours // 24
    parts = (
        (seconds < 120, max(seconds, 0), "s", 0, ""),
        (minutes < 10, minutes, "m", seconds % 60, "s"),
        (minutes < 180, minutes, "m", 0, ""),
        (hours < 8, hours, "h", minutes % 60, "m"),
        (hours < 48, hours, "h", 0, ""),
        (days < 8, days, "d", hours % 24, "h"),
        (days < 730, days, "d", 0, ""),
        (days < 2920, days // 365, "y", days % 365, "d"),
        (True, days // 365, "y", 0, ""),
    )
    _, whole, unit, rest, smaller = next(part for part in parts if part[0])
    return f"{whole}{unit}{rest}{smaller}" if rest else f"{whole}{unit}"
