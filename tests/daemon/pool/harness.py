"""A pool with everything that it tells written down."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from delegate.daemon.pool.workers import Execute, PoolHooks, PoolRules, WorkerPool
from delegate.engine.tasks.contexts import AttemptContext
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, TaskResult
from delegate.model.tasks import Task
from delegate.protocol.work import LeasedTask, ReleaseReason


def leased(
    attempt: str, application: str = "", *, kind: str = "sync", lease: float = 45.0, deadline: float = 60.0, cluster: str = "c"
) -> LeasedTask:
    application = application or f"app-{attempt}"
    return LeasedTask(
        task_id=f"task-{attempt}",
        attempt_id=attempt,
        fence=1,
        kind=kind,
        application=application,
        cluster_uid=cluster,
        document={"kind": kind, "application": application},
        lease_seconds=lease,
        deadline_seconds=deadline,
        attempt_token="token",
    )


def result_of(task: Task, context: AttemptContext, outcome: Outcome = Outcome.SUCCEEDED) -> TaskResult:
    return TaskResult(task=context.task_id, attempt=context.attempt_id, kind=task.kind.value, application=task.application, outcome=outcome)


async def succeed(task: Task, context: AttemptContext) -> TaskResult:
    return result_of(task, context)


@dataclass
class Told:
    """What the pool told, in order."""

    began: list[str] = field(default_factory=list)
    results: dict[str, TaskResult] = field(default_factory=dict)
    released: dict[str, ReleaseReason] = field(default_factory=dict)
    progress: list[tuple[str, str, JsonObject]] = field(default_factory=list)
    crashes: list[Exception] = field(default_factory=list)

    @property
    def outcomes(self) -> dict[str, str]:
        return {attempt: result.outcome.value for attempt, result in self.results.items()}


@dataclass
class Harness:
    pool: WorkerPool
    told: Told

    async def submit(self, *attempts: LeasedTask) -> None:
        """Submits all of them in slots reserved for them."""
        reservation = await self.pool.slots.reserve(len(attempts))
        for each in attempts:
            self.pool.submit(reservation, each)
        reservation.give_back()


@asynccontextmanager
async def running_pool(
    execute: Execute,
    *,
    capacity: int = 4,
    rules: PoolRules | None = None,
    on_result: Callable[[str], Awaitable[None]] | None = None,
    on_began: Callable[[str], None] | None = None,
) -> AsyncIterator[Harness]:
    told = Told()

    def note_start(attempt: LeasedTask) -> None:
        told.began.append(attempt.attempt_id)
        if on_began is not None:
            on_began(attempt.attempt_id)

    async def note_result(attempt: LeasedTask, result: TaskResult, seconds: float) -> None:
        if on_result is not None:
            await on_result(attempt.attempt_id)
        assert attempt.attempt_id not in told.results, "two results of one attempt"
        told.results[attempt.attempt_id] = result

    hooks = PoolHooks(
        on_began=note_start,
        on_result=note_result,
        on_release=lambda attempt, reason, message: told.released.__setitem__(attempt.attempt_id, reason),
        on_progress=lambda attempt, event, data: told.progress.append((attempt.attempt_id, event, data)),
        on_crash=told.crashes.append,
        on_paused=lambda: None,
    )
    pool = WorkerPool(capacity, execute, hooks, rules)
    parts = [asyncio.create_task(pool.run()), asyncio.create_task(pool.keep_leases())]
    await asyncio.sleep(0)
    try:
        yield Harness(pool, told)
    finally:
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        assert pool.slots.free + pool.slots.reserved + pool.slots.taken == capacity
        assert pool.slots.taken == 0
