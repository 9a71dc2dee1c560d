"""The time of a past window: what waits for it is there at once."""

import asyncio
import datetime as dt


class PastClock:
    """Begins at a moment and is moved by whoever sleeps on it; one for each check."""

    def __init__(self, start: float) -> None:
        self._seconds = start

    def now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self._seconds, dt.UTC)

    def monotonic(self) -> float:
        return self._seconds

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)  # a wait that is given up in the same moment moves nothing
        self._seconds += max(0.0, seconds)
