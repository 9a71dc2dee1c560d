"""A lease that can't be confirmed is noticed before the manager may give the attempt away."""

import asyncio

from delegate.daemon.pool.workers import PoolRules
from delegate.engine.tasks.contexts import AttemptContext
from delegate.model.results import TaskResult
from delegate.model.tasks import Task
from tests.daemon.pool.harness import leased, running_pool
from tests.daemon.pool.test_workers import cooperate
from tests.daemon.waiting import eventually

UNFENCED = PoolRules(unfenced_kinds=frozenset({"rollback"}))


async def test_work_that_only_the_lease_fences_stops_with_a_third_left() -> None:
    """Case 11: without a renewal it is told to stop while the manager still holds the lease for it."""
    lease = 0.6
    times: list[float] = []

    async def work(task: Task, context: AttemptContext) -> TaskResult:
        started = asyncio.get_running_loop().time()
        result = await cooperate(task, context)
        times.append(asyncio.get_running_loop().time() - started)
        return result

    async with running_pool(work, rules=UNFENCED) as harness:
        await harness.submit(leased("a", kind="rollback", lease=lease))

        await eventually(lambda: harness.told.results)

        assert harness.told.outcomes == {"a": "interrupted"}
        assert lease / 2 < times[0] < lease


async def test_renewals_keep_it_running() -> None:
    """As long as renewals are confirmed in time nothing is stopped; when they end, it is."""
    async with running_pool(cooperate, rules=UNFENCED) as harness:
        await harness.submit(leased("a", kind="rollback", lease=0.3))
        await eventually(lambda: harness.told.began)
        for _ in range(10):
            harness.pool.roster.renewed(["a"], asyncio.get_running_loop().time(), 0.3)
            await asyncio.sleep(0.05)
        assert harness.told.results == {}

        await eventually(lambda: harness.told.outcomes == {"a": "interrupted"})


async def test_fenced_work_goes_on_without_the_manager() -> None:
    """A sync has its authority from the cluster: the doubt is told once, and the task runs on."""
    async with running_pool(cooperate, rules=UNFENCED) as harness:
        await harness.submit(leased("a", lease=0.1))
        await eventually(lambda: [attempt.doubted for attempt in harness.pool.roster.all()] == [True])
        assert harness.told.results == {}

        harness.pool.roster.renewed(["a"], asyncio.get_running_loop().time(), 30.0)

        assert [attempt.doubted for attempt in harness.pool.roster.all()] == [False]
        await harness.pool.drain(finish_seconds=0.0, end_seconds=5.0, hurry=asyncio.Event().wait)
        assert harness.told.outcomes == {"a": "interrupted"}
