"""How long to leave a route alone: `Retry-After` as answers give it, and what this side makes of it."""

import datetime as dt
import email.utils
import random
import re
import time
from collections.abc import Callable, Mapping

LONGEST_SECONDS = 600.0
_SECONDS = re.compile(r"\d{1,9}(?:\.\d{1,6})?", re.ASCII)
_JITTER = 0.2


def read_retry_after(value: str, date: str, now: dt.datetime) -> float | None:
    """Seconds that a `Retry-After` header (RFC 9110 §10.2.3) asks for; None where there is none or it is nonsense.

    A date counts from the answer's own `Date`, so that no two clocks need to agree; `now` stands in where there is none.
    """
    text = value.strip()
    if _SECONDS.fullmatch(text):
        return float(text)
    until = _read_date(text)
    if until is None:
        return None
    return max(0.0, (until - (_read_date(date) or now)).total_seconds())


def _read_date(text: str) -> dt.datetime | None:
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError, IndexError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)


class Patience:
    """Until when each route is to be left alone. A wish of one route slows no other.

    A wait is never shorter than asked and at most a fifth longer, so that those who were told the same come back apart;
    `caps` bounds it by route (ten minutes where nothing is said).
    """

    def __init__(
        self,
        caps: Mapping[str, float] | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._caps = dict(caps or {})
        self._monotonic = monotonic
        self._jitter = jitter
        self._until: dict[str, float] = {}

    def cap(self, route: str, seconds: float) -> None:
        self._caps[route] = seconds

    def ask(self, route: str, seconds: float) -> None:
        """The other side wants this route left alone for so long."""
        wait = min(seconds * (1 + _JITTER * self._jitter()), self._caps.get(route, LONGEST_SECONDS))
        self._until[route] = max(self._until.get(route, 0.0), self._monotonic() + wait)

    def remaining(self, route: str) -> float:
        """Seconds that this route still has to be left alone."""
        until = self._until.get(route)
        if until is None:
            return 0.0
        left = until - self._monotonic()
        if left <= 0:
            del self._until[route]
            return 0.0
        return left
