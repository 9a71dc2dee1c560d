"""The pool: runs attempts, at most as many at once as there are slots, and turns each into one result.

An attempt that was submitted ends in exactly one of two ways: `on_result` with its result, or `on_release` where it never
began. Whatever a task does, its slot comes back. A stop is told to the task first; one that does not end in its grace is
cancelled; one that does not end then either is reported, and its slot shown as held.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from delegate.daemon.pool.attempts import Attempt, Phase, Roster
from delegate.daemon.pool.exclusivity import ApplicationKey, Exclusivity
from delegate.daemon.pool.leases import LeaseKeeper
from delegate.daemon.pool.masking import mask_result, mask_step
from delegate.daemon.pool.slots import Reservation, Slots
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.stopping import StopVerdict, outcome_of
from delegate.foundation.errors import DelegateError, ErrorGroup
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, TaskResult, failed_result
from delegate.model.tasks import WINDING_KINDS, Task, TaskKind, read_task
from delegate.protocol.work import LeasedTask, ReleaseReason

log = structlog.get_logger(__name__)
_LOGGED_CHARACTERS = 1000
Execute = Callable[[Task, AttemptContext], Awaitable[TaskResult]]


@dataclass(frozen=True, kw_only=True)
class PoolRules:
    """Seconds. `kill_grace`: from the word to stop until the task is cancelled. `turn_wait`: how long a task waits for the
    application that another holds here, before it is handed back. `unfenced_kinds`: their writes are fenced by nothing but
    the manager's lease, so they stop when it can't be confirmed; all others go on until another attempt takes over. `winding_kinds`
    take back what they did when they are cancelled or out of time, for which they have `winding_grace`."""

    kill_grace: float = 12.0
    turn_wait: float = 10.0
    unfenced_kinds: frozenset[str] = frozenset({TaskKind.GIT_UPDATE.value})
    winding_kinds: frozenset[str] = WINDING_KINDS
    winding_grace: float = 1800.0


@dataclass(frozen=True, kw_only=True)
class PoolHooks:
    """What the pool tells others.

    `on_began` before an attempt runs; `on_result` when it ended, awaited until the result is safe; `on_release` for one that
    did not begin; `on_progress` for a step, never blocking; `on_paused` when an attempt comes to a pause, or goes on from it;
    `on_crash` for a fault of the pool itself.
    """

    on_began: Callable[[LeasedTask], None]
    on_result: Callable[[LeasedTask, TaskResult, float], Awaitable[None]]
    on_release: Callable[[LeasedTask, ReleaseReason, str], None]
    on_progress: Callable[[LeasedTask, str, JsonObject], None]
    on_crash: Callable[[Exception], None]
    on_paused: Callable[[], None]


@dataclass(frozen=True)
class Drained:
    """How a drain went: attempts that were interrupted, and attempts that did not even end when cancelled."""

    interrupted: int
    stuck: int


class WorkerPool:
    """`run` for as long as there is work; everything else on the same loop, but for the roster."""

    def __init__(self, capacity: int, execute: Execute, hooks: PoolHooks, rules: PoolRules | None = None) -> None:
        self.slots = Slots(capacity)
        self.roster = Roster()
        self._execute = execute
        self._hooks = hooks
        self._rules = rules or PoolRules()
        self._exclusivity = Exclusivity()
        self._keeper = LeaseKeeper(self.roster, self._doubt)
        self._workers: asyncio.TaskGroup | None = None
        self._draining = False
        self._interrupted = 0
        self._empty = asyncio.Event()
        self._empty.set()

    async def run(self) -> None:
        """Until cancelled; running attempts are cancelled with it."""
        async with asyncio.TaskGroup() as workers:
            self._workers = workers
            try:
                await asyncio.Event().wait()
            finally:
                self._workers = None

    async def keep_leases(self) -> None:
        """Until cancelled: notices leases that can't be confirmed."""
        await self._keeper.run()

    def submit(self, reservation: Reservation, leased: LeasedTask) -> None:
        """Takes an attempt on, in a slot that was reserved for it; never blocks. What can't be taken is released."""
        if self._draining or self._workers is None:
            self._hooks.on_release(leased, ReleaseReason.DRAINING, "the delegate stops")
            return
        if self.roster.get(leased.attempt_id) is not None:
            log.info("task.handed_out_twice", attempt=leased.attempt_id)
            return
        try:
            task = read_task(leased.document)
        except DelegateError as error:
            self._hooks.on_release(leased, ReleaseReason.UNSUPPORTED, _words(error))
            return
        if not reservation.take():
            self._hooks.on_release(leased, ReleaseReason.BUSY, "the slot went to a task that was waiting")
            return
        now = asyncio.get_running_loop().time()
        attempt = Attempt(
            leased=leased, task=task, deadline=now + leased.deadline_seconds, confirmed_at=now, lease_seconds=leased.lease_seconds
        )
        attempt.has_slot = True
        self.roster.add(attempt)
        self._empty.clear()
        self._keeper.look_again()
        attempt.worker = self._workers.create_task(self._work(attempt), name=f"attempt {attempt.id}")
        # Not in a `finally` of the worker: one that is cancelled before its first step never gets there.
        attempt.worker.add_done_callback(lambda worker: self._clear(attempt))

    def stop(self, attempt_id: str, verdict: StopVerdict, reason: str = "") -> bool:
        """Has an attempt stop. Whether it is held here; said again, it does nothing."""
        attempt = self.roster.get(attempt_id)
        if attempt is None:
            return False
        self._stop(attempt, verdict, reason, self._grace(attempt, verdict))
        return True

    def resume(self, attempt_id: str, pause: int = 0) -> bool:
        """Tells an attempt that its pause of this number (0: whichever it stands at) is over. Whether it is held here."""
        attempt = self.roster.get(attempt_id)
        if attempt is not None:
            attempt.resume.request(pause)
        return attempt is not None

    async def drain(
        self,
        *,
        finish_seconds: float,
        end_seconds: float,
        hurry: Callable[[], Awaitable[object]],
        verdict: Callable[[], StopVerdict] = lambda: StopVerdict.INTERRUPTED,
    ) -> Drained:
        """Ends all work: releases what has not begun, lets the rest finish for `finish_seconds` or until `hurry` returns, then
        stops it (as interrupted, or as `verdict` says by then) and gives it `end_seconds` to end; in the last quarter of those it
        is cancelled."""
        self._draining = True
        for attempt in self.roster.all():
            if attempt.phase is Phase.WAITING:
                self._stop(attempt, StopVerdict.INTERRUPTED, "the delegate stops", 0.0)
        await self._wait_until_empty(finish_seconds, hurry)
        for attempt in self.roster.all():
            self._stop(attempt, verdict(), "the delegate stops", min(self._rules.kill_grace, 0.75 * end_seconds))
        await self._wait_until_empty(end_seconds, None)
        return Drained(self._interrupted, len(self.roster))

    # An attempt's way.

    async def _work(self, attempt: Attempt) -> None:
        key = attempt.key
        structlog.contextvars.bind_contextvars(
            task=attempt.leased.task_id, attempt=attempt.id, application=key.application, cluster=key.cluster
        )
        attempt.began = True
        try:
            if attempt.killed:
                self._release_stopped(attempt)
            else:
                await self._take_turn(attempt)
        except Exception as error:
            log.error("pool.worker_crashed", exc_info=error)
            self._hooks.on_crash(error)
            await self._tell_crash(attempt, error)

    async def _tell_crash(self, attempt: Attempt, error: Exception) -> None:
        """The attempt still gets its one ending, if whoever keeps results is not what is broken."""
        if attempt.phase is Phase.FINISHED:
            return
        attempt.phase = Phase.FINISHED
        try:
            await self._hooks.on_result(attempt.leased, _fault(attempt, _own_fault(error)), 0.0)
        except Exception as again:
            log.error("pool.crash_not_kept", exc_info=again)

    def _clear(self, attempt: Attempt) -> None:
        attempt.cancel_timers()
        self.roster.remove(attempt)
        if attempt.has_slot:
            attempt.has_slot = False
            self.slots.release()
        if not len(self.roster):
            self._empty.set()

    async def _take_turn(self, attempt: Attempt) -> None:
        """Runs it when no other attempt here holds its application."""
        key = attempt.key
        if not self._exclusivity.take(key) and not await self._wait_for_turn(attempt, key):
            return
        try:
            await self._run(attempt)
        finally:
            self._exclusivity.pass_on(key)

    async def _wait_for_turn(self, attempt: Attempt, key: ApplicationKey) -> bool:
        """Whether it came; otherwise the attempt is released."""
        try:
            async with asyncio.timeout(self._rules.turn_wait):
                await self._exclusivity.wait_for(key)
        except TimeoutError:
            self._release(attempt, ReleaseReason.BUSY, "another task of this application runs here")
            return False
        except asyncio.CancelledError:
            if not attempt.killed:
                raise
            _not_cancelled_any_more(attempt)
            self._release_stopped(attempt)
            return False
        return True

    def _release_stopped(self, attempt: Attempt) -> None:
        self._release(attempt, ReleaseReason.DRAINING if self._draining else ReleaseReason.INTERRUPTED, attempt.stop.reason)

    def _release(self, attempt: Attempt, reason: ReleaseReason, message: str) -> None:
        log.info("task.released", reason=reason.value, message=message)
        self._hooks.on_release(attempt.leased, reason, message)

    async def _run(self, attempt: Attempt) -> None:
        loop = asyncio.get_running_loop()
        attempt.phase, attempt.started_at = Phase.RUNNING, loop.time()
        self._hooks.on_began(attempt.leased)
        log.debug("task.started", kind=attempt.task.kind.value, number=attempt.leased.attempt_number, fence=attempt.leased.fence)
        attempt.timers.append(loop.call_at(attempt.deadline, self._run_out_of_time, attempt))
        result = mask_result(await self._execute_guarded(attempt))
        _not_cancelled_any_more(attempt)
        attempt.cancel_timers()
        attempt.phase = Phase.FINISHED
        seconds = loop.time() - attempt.started_at
        log.info(
            "task.ended",
            kind=attempt.task.kind.value,
            outcome=result.outcome.value,
            message=_cut(result.message),
            seconds=round(seconds, 3),
        )
        if result.outcome is Outcome.INTERRUPTED and attempt.stop.requested is StopVerdict.INTERRUPTED:
            self._interrupted += 1
        await self._hooks.on_result(attempt.leased, result, seconds)

    async def _execute_guarded(self, attempt: Attempt) -> TaskResult:
        """The worker boundary: whatever the task does becomes a result; only a cancellation that is not ours passes."""
        try:
            return await self._execute(attempt.task, self._context_of(attempt))
        except asyncio.CancelledError:
            if not attempt.killed:
                raise
            verdict = attempt.stop.requested or StopVerdict.CANCEL
            return _stopped_result(attempt, outcome_of(verdict), attempt.stop.reason)
        except DelegateError as error:
            return _fault(attempt, error)
        except Exception as error:
            log.error("task.crashed", exc_info=error)
            return _fault(attempt, _own_fault(error))

    def _context_of(self, attempt: Attempt) -> AttemptContext:
        leased = attempt.leased
        return AttemptContext(
            task_id=leased.task_id,
            attempt_id=leased.attempt_id,
            fence=leased.fence,
            deadline=attempt.deadline,
            stop=attempt.stop,
            resume=attempt.resume,
            report=lambda event, data: self._hooks.on_progress(leased, event, mask_step(data)),
            paused=lambda pause: self._hooks.on_paused() if attempt.stand_at(pause) else None,
            parked=lambda: self._parked(attempt),
        )

    @asynccontextmanager
    async def _parked(self, attempt: Attempt) -> AsyncIterator[None]:
        """Gives the slot back while inside. Waits for one at the end, but not when the attempt ends there or is stopped."""
        if not attempt.has_slot:
            yield
            return
        attempt.has_slot, attempt.phase = False, Phase.PARKED
        self.slots.release()
        yield
        if await self._retake(attempt):
            attempt.has_slot = True
        attempt.phase = Phase.RUNNING

    async def _retake(self, attempt: Attempt) -> bool:
        slot, stop = asyncio.ensure_future(self.slots.retake()), asyncio.ensure_future(attempt.stop.wait())
        try:
            await asyncio.wait({slot, stop}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled():
                self.slots.release()
            raise
        finally:
            for each in (slot, stop):
                each.cancel()
        return slot.done() and not slot.cancelled()

    # Stopping.

    def _stop(self, attempt: Attempt, verdict: StopVerdict, reason: str, grace: float) -> None:
        if attempt.phase is Phase.FINISHED:
            return
        repeated = attempt.stop.requested is not None
        attempt.stop_asked = True
        attempt.stop.request(verdict, reason)
        loop = asyncio.get_running_loop()
        if attempt.phase is Phase.WAITING:
            self._kill(attempt)
        elif not repeated:
            log.info("attempt.stopping", attempt=attempt.id, verdict=verdict.value, reason=reason, grace_seconds=grace)
            attempt.timers.append(loop.call_later(grace, self._kill, attempt))
        elif self._draining:
            attempt.timers.append(loop.call_later(grace, self._kill, attempt))  # a drain may leave less grace than the first word did

    def _run_out_of_time(self, attempt: Attempt) -> None:
        verdict = StopVerdict.DEADLINE
        self._stop(attempt, verdict, f"it was given {attempt.leased.deadline_seconds:g} s", self._grace(attempt, verdict))

    def _grace(self, attempt: Attempt, verdict: StopVerdict) -> float:
        """What winds down takes back what it did, and drains before; only the word of a person or the clock asks for that."""
        winds_down = verdict in (StopVerdict.CANCEL, StopVerdict.DEADLINE) and attempt.task.kind.value in self._rules.winding_kinds
        return self._rules.winding_grace if winds_down else self._rules.kill_grace

    def _doubt(self, attempt: Attempt) -> None:
        if attempt.task.kind.value in self._rules.unfenced_kinds:
            self._stop(
                attempt, StopVerdict.LOST, "the lease could not be confirmed", min(self._rules.kill_grace, attempt.lease_seconds / 6)
            )

    def _kill(self, attempt: Attempt) -> None:
        if attempt.killed or attempt.worker is None or attempt.phase is Phase.FINISHED:
            return
        attempt.killed = True
        if attempt.phase is not Phase.WAITING:
            log.warning("attempt.cancelled", attempt=attempt.id, verdict=str(attempt.stop.requested))
            attempt.timers.append(asyncio.get_running_loop().call_later(self._rules.kill_grace, self._report_stuck, attempt))
        if attempt.began:
            attempt.worker.cancel()

    def _report_stuck(self, attempt: Attempt) -> None:
        log.error("attempt.not_responding", attempt=attempt.id, verdict=str(attempt.stop.requested), slot="held")

    async def _wait_until_empty(self, seconds: float, hurry: Callable[[], Awaitable[object]] | None) -> None:
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._empty.wait())]
        if hurry is not None:
            waits.append(asyncio.ensure_future(hurry()))
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()


def _not_cancelled_any_more(attempt: Attempt) -> None:
    """A cancellation by the pool has done its work, whether the task heeded it or not: what follows may wait again."""
    worker = attempt.worker
    while worker is not None and worker.cancelling():
        worker.uncancel()


def _fault(attempt: Attempt, error: DelegateError) -> TaskResult:
    return failed_result(
        task=attempt.leased.task_id, attempt=attempt.id, kind=attempt.task.kind, application=attempt.task.application, error=error
    )


def _own_fault(error: Exception) -> DelegateError:
    words = f"the delegate's own code failed: {type(error).__name__}: {error}"
    return DelegateError(words, hint="see the delegate's log at this attempt, and report it")


def _stopped_result(attempt: Attempt, outcome: Outcome, reason: str) -> TaskResult:
    return TaskResult(
        task=attempt.leased.task_id,
        attempt=attempt.id,
        kind=attempt.task.kind,
        application=attempt.task.application,
        outcome=outcome,
        message=f"cancelled after its grace{': ' + reason if reason else ''}",
    )


def _cut(message: str) -> str:
    """For a log line; the result has all of it."""
    return message if len(message) <= _LOGGED_CHARACTERS else f"{message[:_LOGGED_CHARACTERS]} … ({len(message)} characters)"


def _words(error: DelegateError) -> str:
    return "; ".join(str(each) for each in error.errors) if isinstance(error, ErrorGroup) else str(error)
