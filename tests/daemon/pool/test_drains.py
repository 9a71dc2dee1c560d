"""Draining: what has not begun goes back, what can finish does, the rest is interrupted and says so."""

import asyncio
from collections.abc import Awaitable

from delegate.daemon.pool.workers import PoolRules
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.stopping import outcome_of
from delegate.model.results import TaskResult
from delegate.model.tasks import Task
from delegate.protocol.work import ReleaseReason
from tests.daemon.pool.harness import leased, result_of, running_pool
from tests.daemon.waiting import eventually


async def short_or_long(task: Task, context: AttemptContext) -> TaskResult:
    """A short one ends soon by itself; a long one only when it is stopped."""
    if context.attempt_id.startswith("short"):
        await asyncio.sleep(0.05)
        return result_of(task, context)
    return result_of(task, context, outcome_of(await context.stop.wait()))


def never() -> Awaitable[object]:
    return asyncio.Event().wait()


async def test_short_tasks_finish_and_long_ones_are_interrupted() -> None:
    """Case 14: the short ones succeed, the long ones are interrupted at the end of the grace, the unstarted are released."""
    async with running_pool(short_or_long, capacity=8) as harness:
        await harness.submit(leased("short-1"), leased("short-2"), leased("long-1", "shop"), leased("long-2"), leased("waits", "shop"))
        await eventually(lambda: len(harness.told.began) == 4)

        drained = await harness.pool.drain(finish_seconds=0.5, end_seconds=5.0, hurry=never)

        assert (drained.interrupted, drained.stuck) == (2, 0)
        assert harness.told.outcomes == {
            "short-1": "succeeded",
            "short-2": "succeeded",
            "long-1": "interrupted",
            "long-2": "interrupted",
        }
        assert harness.told.released == {"waits": ReleaseReason.DRAINING}


async def test_a_batch_that_arrives_while_draining_is_handed_back() -> None:
    """What is submitted after the word to drain never begins."""
    async with running_pool(short_or_long) as harness:
        reservation = await harness.pool.slots.reserve()
        await harness.pool.drain(finish_seconds=0.0, end_seconds=0.0, hurry=never)

        harness.pool.submit(reservation, leased("late"))
        reservation.give_back()

        assert harness.told.released == {"late": ReleaseReason.DRAINING}
        assert harness.told.began == []


async def test_hurrying_skips_to_the_interruption() -> None:
    """A second signal does not wait for the short ones."""
    hurry = asyncio.Event()
    async with running_pool(short_or_long) as harness:
        await harness.submit(leased("long-1"))
        await eventually(lambda: harness.told.began)
        draining = asyncio.create_task(harness.pool.drain(finish_seconds=3600.0, end_seconds=5.0, hurry=hurry.wait))
        await asyncio.sleep(0)

        hurry.set()

        assert (await draining).interrupted == 1


async def test_deaf_tasks_are_cancelled_within_the_time_that_is_left() -> None:
    """A task that ignores the word is cancelled before the drain ends, and reported as interrupted."""

    async def deaf(task: Task, context: AttemptContext) -> TaskResult:
        await asyncio.sleep(3600)
        return result_of(task, context)

    async with running_pool(deaf, rules=PoolRules(kill_grace=3600.0)) as harness:
        await harness.submit(leased("a"))
        await eventually(lambda: harness.told.began)

        drained = await harness.pool.drain(finish_seconds=0.0, end_seconds=0.4, hurry=never)

        assert (drained.interrupted, drained.stuck) == (1, 0)
        assert harness.told.outcomes == {"a": "interrupted"}
