"""Progress of running attempts, for people to watch: sent soon, in batches; dropped rather than in anybody's way."""

import asyncio
import time
from collections import Counter, deque
from dataclasses import dataclass

import structlog

from delegate.daemon.connection.calling import Caller
from delegate.daemon.connection.errors import RefusalError, TransportError
from delegate.daemon.connection.faults import Faults
from delegate.daemon.connection.keeper import SessionKeeper
from delegate.daemon.connection.sessions import Session, new_request_id
from delegate.foundation.lifecycle import backoff
from delegate.model.resources import JsonObject
from delegate.protocol import routes
from delegate.protocol.work import EventsAnswer, EventsRequest, ProgressEvent

log = structlog.get_logger(__name__)
_MOST_WAITING = 2_000
_BATCH = 200
_GATHER_SECONDS = 0.1
_DROPPED = "events.dropped"


@dataclass(frozen=True)
class _Step:
    attempt_id: str
    fence: int
    sequence: int
    event: str
    data: JsonObject
    at: float


class ProgressSender:
    """`report` from the main loop at any rate; `run` sends."""

    def __init__(self, caller: Caller, keeper: SessionKeeper, faults: Faults) -> None:
        self._caller = caller
        self._keeper = keeper
        self._faults = faults
        self._waiting: deque[_Step] = deque()
        self._sequences: dict[str, int] = {}
        self._dropped: Counter[tuple[str, int]] = Counter()
        self._some = asyncio.Event()

    def report(self, attempt_id: str, fence: int, event: str, data: JsonObject) -> None:
        """Never blocks. Beyond the bound the oldest is dropped, and what is sent next says how many of its attempt were."""
        if len(self._waiting) >= _MOST_WAITING:
            oldest = self._waiting.popleft()
            self._dropped[oldest.attempt_id, oldest.fence] += 1
        self._waiting.append(self._step(attempt_id, fence, event, data))
        self._some.set()

    def forget(self, attempt_id: str) -> None:
        """The attempt has ended: no more of it will be reported."""
        self._sequences.pop(attempt_id, None)

    async def run(self) -> None:
        waits = backoff(0.5, 30.0)
        while True:
            await self._some.wait()
            await asyncio.sleep(_GATHER_SECONDS)
            session = await self._keeper.session()
            batch = self._next_batch()
            if "events" in session.features:
                try:
                    await self._send(batch)
                except TransportError as error:
                    wait = next(waits)
                    self._faults.failed(routes.EVENTS, error, wait)
                    self._waiting.extendleft(reversed(batch[max(0, len(batch) + len(self._waiting) - _MOST_WAITING) :]))
                    await asyncio.sleep(wait)
                    continue
                except RefusalError as error:
                    wait = next(waits)
                    self._faults.failed(routes.EVENTS, error, wait)  # these are lost; later ones may be taken
                    await asyncio.sleep(wait)
                else:
                    self._faults.worked(routes.EVENTS)
                    waits = backoff(0.5, 30.0)
            if not self._waiting:
                self._some.clear()

    def _next_batch(self) -> list[_Step]:
        dropped = [self._step(attempt_id, fence, _DROPPED, {"count": count}) for (attempt_id, fence), count in self._dropped.items()]
        self._dropped.clear()
        return dropped + [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]

    def _step(self, attempt_id: str, fence: int, event: str, data: JsonObject) -> _Step:
        sequence = self._sequences[attempt_id] = self._sequences.get(attempt_id, 0) + 1
        return _Step(attempt_id, fence, sequence, event, data, time.monotonic())

    async def _send(self, batch: list[_Step]) -> None:
        request_id = new_request_id()

        def build(session: Session) -> EventsRequest:
            now = time.monotonic()
            events = tuple(
                ProgressEvent(
                    attempt_id=step.attempt_id,
                    fence=step.fence,
                    sequence=step.sequence,
                    event=step.event,
                    data=step.data,
                    ago_seconds=round(now - step.at, 3),
                )
                for step in batch
            )
            return EventsRequest(request_id=request_id, epoch=session.epoch, events=events)

        await self._caller.call(routes.EVENTS, build, EventsAnswer)
