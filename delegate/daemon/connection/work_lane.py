"""The work lane's way down: asks for as many tasks as slots are reserved, and hands what comes to the pool.

A request keeps its id until it is answered, so that a batch whose answer got lost comes again. A poll that is given up (the
process drains, the disk is full, its slots went to work that resumed) is asked once more without waiting: what the manager had
already handed out then arrives and is handed back, instead of lying idle until its lease ends.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Generic, Protocol, TypeVar

import structlog

from delegate.daemon.connection.calling import Caller
from delegate.daemon.connection.cuts import IdleCuts
from delegate.daemon.connection.errors import RefusalError, TransportError
from delegate.daemon.connection.faults import Faults
from delegate.daemon.connection.keeper import SessionKeeper
from delegate.daemon.connection.sessions import Session, new_request_id
from delegate.daemon.connection.waits import Waits
from delegate.protocol import codec, routes
from delegate.protocol.codec import UndecodableTask
from delegate.protocol.work import AcquireAnswer, AcquireRequest, LeasedTask

log = structlog.get_logger(__name__)
_RECLAIM_SECONDS = 3.0
_BLOCKED_SECONDS = 0.5
_LONGEST_WAIT_SECONDS = 30.0


class Reserved(Protocol):
    """Slots that are held for the answer of one poll."""

    count: int
    exhausted: asyncio.Event

    def give_back(self) -> None: ...


R = TypeVar("R", bound=Reserved)


class Poller(Generic[R]):
    """`run` until `stop` is called; it then returns when nothing that was handed out is still on its way."""

    def __init__(
        self,
        caller: Caller,
        keeper: SessionKeeper,
        faults: Faults,
        *,
        reserve: Callable[[], Coroutine[Any, Any, R]],
        submit: Callable[[R, LeasedTask], None],
        refuse: Callable[[UndecodableTask], Awaitable[None]],
        running: Callable[[], Sequence[str]],
        blocked: Callable[[], str],
    ) -> None:
        """`blocked` says why no task should be taken now; empty when one may be."""
        self._caller = caller
        self._keeper = keeper
        self._faults = faults
        self._reserve = reserve
        self._submit = submit
        self._refuse = refuse
        self._running = running
        self._blocked = blocked
        self._cuts = IdleCuts()
        self._wait = 0.0
        self._stopping = asyncio.Event()
        self._blocked_by = ""
        self._asked = False
        self._contact = asyncio.Event()
        self.waits_for_contact = False

    def stop(self) -> None:
        self._stopping.set()

    def wake(self) -> None:
        """The manager was reached another way: no reason to wait any longer before the next try."""
        self._contact.set()

    async def run(self) -> None:
        while not self._stopping.is_set():
            if self._is_blocked():
                await self._unless_stopped(asyncio.sleep(_BLOCKED_SECONDS))
                continue
            reservation = await self._unless_stopped(self._reserve())
            if reservation is None:
                return
            try:
                await self._fill(reservation)
            finally:
                reservation.give_back()

    def _is_blocked(self) -> bool:
        reason = self._blocked()
        if reason != self._blocked_by:
            self._blocked_by = reason
            if reason:
                log.warning("work.not_acquiring", reason=reason)
            else:
                log.info("work.acquiring_again")
        return bool(reason)

    async def _fill(self, reservation: R) -> None:
        """One request, until it is answered or given up."""
        request_id, slots = new_request_id(), reservation.count
        self._asked = False
        waits = Waits(0.25, _LONGEST_WAIT_SECONDS, self._keeper.reconnect_schedule)
        while True:
            try:
                answer = await self._unless_given_up(reservation, self._poll(request_id, slots))
            except (TransportError, RefusalError) as error:
                if isinstance(error, TransportError) and self._was_idle_cut(error):
                    continue
                wait = waits.after(error)
                self._faults.failed(routes.ACQUIRE, error, wait)
                if await self._unless_given_up(reservation, self._wait_for_contact(wait)):
                    continue
                answer = None
            else:
                self._faults.worked(routes.ACQUIRE)
            if answer is None and self._asked and self._keeper.ended is None:
                answer = await self._reclaim(request_id)
            if answer is not None:
                await self._take(reservation, answer)
                if answer.after_seconds > 0:
                    await self._unless_stopped(asyncio.sleep(min(answer.after_seconds, _LONGEST_WAIT_SECONDS)))
            return

    async def _poll(self, request_id: str, slots: int) -> AcquireAnswer:
        session = await self._keeper.session()
        self._wait = wait = self._cuts.bound(session.settings.poll_seconds)
        return await self._ask(request_id, slots, wait)

    async def _ask(self, request_id: str, slots: int, wait: float, within: float | None = None) -> AcquireAnswer:
        def build(session: Session) -> AcquireRequest:
            self._asked = True
            return AcquireRequest(
                request_id=request_id, epoch=session.epoch, free_slots=slots, wait_seconds=wait, running=tuple(self._running())
            )

        return await self._caller.call(routes.ACQUIRE, build, AcquireAnswer, wait_seconds=wait, within_seconds=within)

    async def _reclaim(self, request_id: str) -> AcquireAnswer | None:
        """What the manager has handed out to a poll that was given up."""
        try:
            async with asyncio.timeout(_RECLAIM_SECONDS):
                return await self._ask(request_id, 1, 0.0)
        except (TransportError, RefusalError, TimeoutError) as error:
            log.info("work.poll_given_up_unheard", error=str(error))  # the manager finds out by the next heartbeats
            return None

    async def _take(self, reservation: R, answer: AcquireAnswer) -> None:
        tasks, unreadable = codec.decode_tasks(answer.tasks)
        for task in tasks:
            self._submit(reservation, task)
        for each in unreadable:
            log.error("work.task_unreadable", attempt=each.attempt_id, task=each.task_id, error=each.reason)
            await self._refuse(each)

    def _was_idle_cut(self, error: TransportError) -> bool:
        if error.cut_after is None or not self._cuts.is_idle_cut(error.cut_after, self._wait):
            return False
        self._faults.cut(error.cut_after)
        limit = self._cuts.learn(error.cut_after)
        if limit is not None:
            log.warning("connection.poll_shortened", lane="work", cut_after_seconds=round(error.cut_after, 1), wait_seconds=round(limit, 1))
        return True

    async def _wait_for_contact(self, seconds: float) -> bool:
        self._contact.clear()
        self.waits_for_contact = True
        try:
            async with asyncio.timeout(seconds):
                await self._contact.wait()
        except TimeoutError:
            return True
        finally:
            self.waits_for_contact = False
        return True

    async def _unless_stopped(self, doing: Coroutine[Any, Any, Any]) -> Any:
        return await _first(doing, self._stopping)

    async def _unless_given_up(self, reservation: R, doing: Coroutine[Any, Any, Any]) -> Any:
        return await _first(doing, self._stopping, reservation.exhausted, unless=lambda: bool(self._blocked()))


async def _first(doing: Coroutine[Any, Any, Any], *events: asyncio.Event, unless: Callable[[], bool] | None = None) -> Any:
    """What the coroutine returns; None when one of the events comes before, or `unless` holds, and it is cancelled then."""
    work = asyncio.ensure_future(doing)
    signals = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        done: set[asyncio.Future[Any]] = set()
        timeout = None if unless is None else _BLOCKED_SECONDS
        while not done and not (unless is not None and unless()):
            done, _ = await asyncio.wait([work, *signals], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        work.cancel()
        await asyncio.wait([work])
        return None if work.cancelled() else work.result()
    finally:
        for each in (work, *signals):
            each.cancel()
