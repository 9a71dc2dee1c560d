"""A clock that a test turns: sleeping takes no time, it only moves the hands."""

import asyncio
import datetime as dt


class ManualClock:
    def __init__(self) -> None:
        self.seconds = 1000.0
        self.slept: list[float] = []

    def now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self.seconds, dt.UTC)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds
        await asyncio.sleep(0)
