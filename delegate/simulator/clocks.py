"""The cluster's own time: the real one, or a multiple of it from when it was started."""

import datetime as dt
from collections.abc import Callable

Clock = Callable[[], dt.datetime]


def wall_clock() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def no_earlier(clock: Clock, than: dt.datetime) -> Clock:
    """The same clock, put forward where it would be behind a time that has been already."""
    behind = than - clock()
    return clock if behind <= dt.timedelta() else lambda: clock() + behind


def accelerated(speed: float, real: Clock = wall_clock) -> Clock:
    """A clock that starts at the real time and runs `speed` times as fast."""
    if speed == 1.0:
        return real
    start = real()

    def now() -> dt.datetime:
        return start + (real() - start) * speed

    return now
