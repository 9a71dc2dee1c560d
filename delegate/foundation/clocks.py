"""Time as an argument, so that tests need not wait for it."""

import asyncio
import datetime as dt
import time
from typing import Protocol


class Clock(Protocol):
    """What parts of the program know of time."""

    def now(self) -> dt.datetime:
        """The time of day, aware, in UTC: for certificates, records and people."""

    def monotonic(self) -> float:
        """Seconds that never go back: for deadlines and durations. Comparable to the running loop's `time()`."""

    async def sleep(self, seconds: float) -> None:
        """Waits at least so long."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


SYSTEM_CLOCK = SystemClock()
