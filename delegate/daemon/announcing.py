"""Which clusters this delegate reaches, found out again and again, and told when it changes."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from delegate.protocol.enrolment import ClusterName

log = structlog.get_logger(__name__)
_FIRST_SECONDS = 1.0
_LATER_SECONDS = 60.0


class Announcer:
    """`tell` gives what was found last to whoever opens a session; when that is out of date, `on_change` asks for a new one."""

    def __init__(self, find: Callable[[], Awaitable[tuple[ClusterName, ...]]], on_change: Callable[[], Awaitable[None]]) -> None:
        self._find = find
        self._on_change = on_change
        self._found: tuple[ClusterName, ...] = ()
        self._told: tuple[ClusterName, ...] | None = None
        self._wake = asyncio.Event()

    def tell(self) -> tuple[ClusterName, ...]:
        """For any thread; nobody finds out anything here."""
        self._told = self._found
        return self._told

    def compare(self) -> None:
        """A session is open: has what it was told compared with what is known by now."""
        self._wake.set()

    async def run(self) -> None:
        wait = _FIRST_SECONDS
        while True:
            found = tuple(sorted(await self._find(), key=lambda cluster: (cluster.name, cluster.uid)))
            if found != self._found:
                self._found = found
                log.info("clusters.found", clusters={cluster.name: cluster.uid for cluster in found})
            await self._wait_and_tell(wait)
            wait = min(2 * wait, _LATER_SECONDS)

    async def _wait_and_tell(self, seconds: float) -> None:
        """Waits until it is time to look again; whenever somebody compares, what is not told yet is."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    if self._told is not None and self._told != self._found:
                        await self._on_change()
                    await self._wake.wait()
                    self._wake.clear()
        except TimeoutError:
            return
