"""How old an answer was when it came, by what HTTP says of it (RFC 9111 §4.2.3); pure."""

import datetime as dt
import email.utils
import re
from collections.abc import Mapping
from typing import NamedTuple

_CLOCKS_SECONDS = 5.0
"""So far apart may two clocks be without anything being old: `Date` counts whole seconds of the other side's clock."""
_STALE = re.compile(r"(?:^|,)\s*11[01]\b")


class Freshness(NamedTuple):
    """`age_seconds`: None where nothing says that a cache was asked. `stale`: the cache could not ask (Warning 110 or 111)."""

    age_seconds: float | None
    stale: bool


def freshness_of(headers: Mapping[str, str], now: dt.datetime) -> Freshness:
    """`headers` have names in lower case."""
    ages = [age for age in (_age(headers.get("age")), _apparent_age(headers.get("date"), now)) if age is not None]
    return Freshness(max(ages, default=None), _STALE.search(headers.get("warning", "")) is not None)


def seconds_until(text: str | None, now: dt.datetime) -> float | None:
    """A `Retry-After` (RFC 9110 §10.2.3: seconds or a date) or a reset header (seconds, or a time since 1970); None for nonsense."""
    if text is None:
        return None
    text = text.strip()
    try:
        seconds = float(text)
    except ValueError:
        when = _date(text)
        return None if when is None else max(0.0, (when - now).total_seconds())
    if not 0.0 <= seconds < 1e11:
        return None
    return max(0.0, seconds - now.timestamp()) if seconds > 1e9 else seconds


def _age(text: str | None) -> float | None:
    return float(text) if text is not None and text.strip().isascii() and text.strip().isdigit() else None


def _apparent_age(text: str | None, now: dt.datetime) -> float | None:
    when = _date(text) if text is not None else None
    age = (now - when).total_seconds() if when is not None else 0.0
    return age if age > _CLOCKS_SECONDS else None


def _date(text: str) -> dt.datetime | None:
    try:
        when = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return when if when.tzinfo is not None else when.replace(tzinfo=dt.UTC)
