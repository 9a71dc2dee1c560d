"""Why and how the process is asked to stop. Asked once it drains; asked again it hurries; nothing is ever taken back."""

import asyncio
import enum
from dataclasses import dataclass

from delegate.foundation.clocks import SYSTEM_CLOCK, Clock


class StopReason(enum.StrEnum):
    SIGTERM = "sigterm"
    SIGINT = "sigint"
    REVOKED = "revoked"
    SUPERSEDED = "superseded"
    OUTDATED = "outdated"
    PART_FAILED = "part_failed"
    DONE = "done"  # there is nothing left to do: commands that end by themselves


_SIGNALS = frozenset({StopReason.SIGTERM, StopReason.SIGINT})


@dataclass(frozen=True)
class StopRequest:
    """One wish to stop; `hurry` means: interrupt what runs instead of letting it finish. `detail` is for people."""

    reason: StopReason
    detail: str = ""
    hurry: bool = False


class StopRequests:
    """Collects wishes to stop and wakes whoever waits for them. Belongs to one event loop.

    From another thread: `loop.call_soon_threadsafe(stops.request, reason)`.
    """

    def __init__(self) -> None:
        self._requests: list[StopRequest] = []
        self._requested = asyncio.Event()
        self._hurried = asyncio.Event()

    def request(self, reason: StopReason, detail: str = "", *, hurry: bool = False) -> None:
        """Asks to stop. The second signal hurries even if it doesn't say so."""
        again = reason in _SIGNALS and any(each.reason in _SIGNALS for each in self._requests)
        self._requests.append(StopRequest(reason, detail, hurry or again))
        self._requested.set()
        if hurry or again:
            self._hurried.set()

    @property
    def requested(self) -> bool:
        return self._requested.is_set()

    @property
    def hurried(self) -> bool:
        return self._hurried.is_set()

    @property
    def decisive(self) -> StopRequest | None:
        """The request that says most about why: the first that is no signal, else the first; None before any."""
        told = (each for each in self._requests if each.reason not in _SIGNALS)
        return next(told, self._requests[0] if self._requests else None)

    async def wait(self) -> StopRequest:
        """Waits until somebody asks to stop."""
        await self._requested.wait()
        return self._requests[0]

    async def wait_until_hurried(self) -> None:
        """Waits until running work is to be interrupted."""
        await self._hurried.wait()

    async def sleep(self, seconds: float, clock: Clock = SYSTEM_CLOCK) -> bool:
        """Sleeps, but not beyond a stop. Whether a stop was requested."""
        if self.requested or seconds <= 0:
            await asyncio.sleep(0)
            return self.requested
        waits = [asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(self._requested.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        return self.requested
