"""Attempts that did not begin go back to the manager, in batches, for as long as that makes sense."""

import asyncio
from collections import deque
from collections.abc import Callable

import structlog

from delegate.daemon.connection.calling import Caller
from delegate.daemon.connection.errors import InvalidError, RefusalError, TooLargeError, TransportError
from delegate.daemon.connection.faults import Faults
from delegate.daemon.connection.sessions import Session, new_request_id
from delegate.foundation.lifecycle import backoff
from delegate.protocol import routes
from delegate.protocol.work import ReleaseAnswer, ReleaseItem, ReleaseRequest

log = structlog.get_logger(__name__)
_BATCH = 256
_MOST_WAITING = 10_000
_MESSAGE_CHARACTERS = 1_000


class Releaser:
    """What it can't tell the manager in time, the manager finds out by heartbeats that don't name the attempt."""

    def __init__(self, caller: Caller, faults: Faults, on_released: Callable[[str], None] = lambda attempt_id: None) -> None:
        self._caller = caller
        self._faults = faults
        self._on_released = on_released
        self._waiting: deque[ReleaseItem] = deque(maxlen=_MOST_WAITING)
        self._some = asyncio.Event()
        self._none = asyncio.Event()
        self._none.set()

    def release(self, attempt_id: str, fence: int, reason: str, message: str = "") -> None:
        """Never blocks."""
        self._waiting.append(ReleaseItem(attempt_id=attempt_id, fence=fence, reason=reason, message=message[:_MESSAGE_CHARACTERS]))
        self._some.set()
        self._none.clear()

    async def wait_until_told(self) -> None:
        await self._none.wait()

    async def run(self) -> None:
        waits = backoff(0.25, 15.0)
        while True:
            await self._some.wait()
            batch = [self._waiting[number] for number in range(min(_BATCH, len(self._waiting)))]
            try:
                await self._tell(batch)
            except (InvalidError, TooLargeError) as error:
                log.warning("work.release_refused", error=str(error), attempts=len(batch))
            except (TransportError, RefusalError) as error:
                wait = next(waits)
                self._faults.failed(routes.RELEASE, error, wait)
                await asyncio.sleep(wait)
                continue
            else:
                self._faults.worked(routes.RELEASE)
            waits = backoff(0.25, 15.0)
            self._forget(batch)

    async def _tell(self, batch: list[ReleaseItem]) -> None:
        request_id = new_request_id()

        def build(session: Session) -> ReleaseRequest:
            return ReleaseRequest(request_id=request_id, epoch=session.epoch, attempts=tuple(batch))

        await self._caller.call(routes.RELEASE, build, ReleaseAnswer)

    def _forget(self, batch: list[ReleaseItem]) -> None:
        for item in batch:
            if self._waiting and self._waiting[0] is item:
                self._waiting.popleft()
            self._on_released(item.attempt_id)
        if not self._waiting:
            self._some.clear()
            self._none.set()
