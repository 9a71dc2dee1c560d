"""The manager's own time: the only clock that leases and deadlines are decided by.

Seconds since the Unix epoch. It is read once from the system at the start and then runs with the monotonic clock, so that a
step of the system's clock (NTP, a person) neither ends all leases at once nor makes them last for ever.
"""

import datetime as dt
import time
from collections.abc import Callable

Clock = Callable[[], float]


def steady_clock() -> Clock:
    """A clock that is right at the start and never jumps."""
    offset = time.time() - time.monotonic()
    return lambda: offset + time.monotonic()


def to_rfc3339(seconds: float | None) -> str:
    """A time for people and programs, in UTC, to the millisecond; empty for None."""
    if seconds is None:
        return ""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
