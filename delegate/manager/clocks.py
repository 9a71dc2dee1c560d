"""The manager's own time: the only clock that leases and deadlines are decided by.

Seconds since the Unix epoch. It is read once from the system at the start and then runs with the monotonic clock, so that a
step of the system's clock (NTP, a person) neither ends all leases at once nor makes them last for ever. Nor does a start with a clock
that was set back: then time goes on from the latest moment that was written down.
"""

import datetime as dt
import time
from collections.abc import Callable

Clock = Callable[[], float]


class SteadyClock:
    """A clock that is right at the start and never jumps, but for once, forward, when it is told what time it has been already."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def __call__(self) -> float:
        return self._offset + time.monotonic()

    def not_before(self, seconds: float) -> float:
        """From now on it is later than that. How many seconds it was behind; 0 where it wasn't."""
        behind = max(0.0, seconds - self())
        self._offset += behind
        return behind


def to_rfc3339(seconds: float | None) -> str:
    """A time for people and programs, in UTC, to the millisecond; empty for None."""
    if seconds is None:
        return ""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
