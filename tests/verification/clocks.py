"""Time that moves on by itself as soon as nobody has anything left to do at this moment."""

import asyncio
import datetime as dt
import heapq
from collections.abc import Coroutine
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")
_ROUNDS = 40
"""So many rounds of the loop let every callback run that waits for no time."""


class VirtualClock:
    """For one loop. Everything that waits has to wait on it: real I/O would be overtaken."""

    def __init__(self, start: float = 1_772_445_600.0) -> None:
        self._start = start
        self._now = 0.0
        self._numbers = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return self._now

    def now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self._start + self._now, dt.UTC)

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        wakes: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + max(0.0, seconds), next(self._numbers), wakes))
        await wakes

    async def run(self, body: Coroutine[Any, Any, T], *, longest: float = 1e7) -> T:
        """What `body` returns, however long that takes by this clock."""
        task = asyncio.ensure_future(body)
        while True:
            for _ in range(_ROUNDS):
                await asyncio.sleep(0)
            if task.done():
                return task.result()
            while self._sleepers and self._sleepers[0][2].done():
                heapq.heappop(self._sleepers)
            assert self._sleepers, "nobody waits for time, and nothing happens"
            at, _, wakes = heapq.heappop(self._sleepers)
            assert at <= longest, f"it goes on after {at:g} s"
            self._now = max(self._now, at)
            wakes.set_result(None)
