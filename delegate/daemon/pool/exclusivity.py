"""One task per application and cluster at a time; who comes later waits in line."""

import asyncio
from collections import deque
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

    def take(self, key: ApplicationKey) -> bool:
        """Whether nobody held it: then it is the caller's, who says `pass_on` in the end."""
        if key in self._lines:
            return False
        self._lines[key] = deque()
        return True

    async def wait_for(self, key: ApplicationKey) -> None:
        """Waits for its turn, and has it then as by `take`; the caller bounds the wait."""
        if not self.take(key):
            await self._wait_in(self._lines[key], key)

    async def _wait_in(self, line: "deque[asyncio.Future[None]]", key: ApplicationKey) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.pass_on(key)
            raise

    def pass_on(self, key: ApplicationKey) -> None:
        """It is the next one's, or nobody's."""
        line = self._lines[key]
        while line:
            turn = line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        del self._lines[key]
