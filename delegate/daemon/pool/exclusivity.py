"""One task per application and cluster at a time; who comes later waits in line."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple


class ApplicationKey(NamedTuple):
    cluster: str
    application: str


class Exclusivity:
    """For one event loop."""

    def __init__(self) -> None:
        self._lines: dict[ApplicationKey, deque[asyncio.Future[None]]] = {}

    def is_held(self, key: ApplicationKey) -> bool:
        return key in self._lines

    @asynccontextmanager
    async def holding(self, key: ApplicationKey) -> AsyncIterator[None]:
        """Waits for its turn; the caller bounds the wait."""
        line = self._lines.get(key)
        if line is None:
            self._lines[key] = deque()
        else:
            await self._wait_in(line, key)
        try:
            yield
        finally:
            self._pass_on(key)

    async def _wait_in(self, line: "deque[asyncio.Future[None]]", key: ApplicationKey) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._pass_on(key)
            raise

    def _pass_on(self, key: ApplicationKey) -> None:
        line = self._lines[key]
        while line:
            turn = line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._lines[key]
