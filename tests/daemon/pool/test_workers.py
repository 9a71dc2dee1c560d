"""Every attempt that is submitted ends exactly once, and its slot comes back."""

import asyncio
import random

import pytest
from structlog.testing import capture_logs

from delegate.daemon.pool.workers import PoolRules
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.stopping import StopVerdict, outcome_of
from delegate.foundation.errors import Category, DelegateError
from delegate.model.results import Outcome, TaskResult
from delegate.model.rollouts.pauses import Pause
from delegate.model.tasks import Task
from delegate.protocol.control import PauseReport
from delegate.protocol.work import ReleaseReason
from tests.daemon.pool.harness import leased, result_of, running_pool, succeed
from tests.daemon.waiting import eventually

QUICK = PoolRules(kill_grace=0.05, turn_wait=0.05)


async def cooperate(task: Task, context: AttemptContext) -> TaskResult:
    """Works until it is told to stop."""
    verdict = await context.stop.wait()
    return result_of(task, context, outcome_of(verdict))


async def sleep_on(task: Task, context: AttemptContext) -> TaskResult:
    """Hears no word to stop, but can be cancelled."""
    await asyncio.sleep(3600)
    return result_of(task, context)


async def test_runs_no_more_than_its_capacity() -> None:
    """With three slots, three run and the fourth reservation waits."""
    async with running_pool(cooperate, capacity=3) as harness:
        await harness.submit(leased("a"), leased("b"), leased("c"))
        await eventually(lambda: len(harness.told.began) == 3)
        waiting = asyncio.create_task(harness.pool.slots.reserve())
        await asyncio.sleep(0)
        assert not waiting.done()

        harness.pool.stop("b", StopVerdict.CANCEL)

        (await waiting).give_back()
        assert harness.told.outcomes == {"b": "cancelled"}
        for attempt in ("a", "c"):
            harness.pool.stop(attempt, StopVerdict.CANCEL)
        await eventually(lambda: len(harness.told.results) == 3)


async def test_the_slot_is_held_until_the_result_is_safe() -> None:
    """A task whose result is not on disk yet counts against the capacity."""
    safe = asyncio.Event()

    async def keep(attempt: str) -> None:
        await safe.wait()

    async with running_pool(succeed, capacity=1, on_result=keep) as harness:
        await harness.submit(leased("a"))
        await eventually(lambda: [each.state for each in harness.pool.roster.held()] == ["finished"])
        assert harness.pool.slots.free == 0

        safe.set()

        await eventually(lambda: harness.pool.slots.free == 1)
        assert harness.pool.roster.held() == ()


@pytest.mark.parametrize(
    ("error", "outcome", "category"),
    [(ZeroDivisionError("boom"), "failed", Category.INTERNAL), (DelegateError("no such thing"), "failed", Category.INTERNAL)],
    ids=["any exception", "an error of ours"],
)
async def test_whatever_a_task_raises_becomes_a_result(error: Exception, outcome: str, category: Category) -> None:
    """An exception of any kind ends its own task alone, as a failed result with its words."""

    async def crash(task: Task, context: AttemptContext) -> TaskResult:
        raise error

    async with running_pool(crash) as harness:
        await harness.submit(leased("a"))
        await eventually(lambda: harness.told.results)

        result = harness.told.results["a"]
        assert (result.outcome.value, result.error and result.error.category) == (outcome, category.value)
        assert str(error) in result.message
        assert harness.told.crashes == []


async def test_a_fault_of_the_pool_itself_costs_no_slot() -> None:
    """Case 15: after 10,000 crashes outside of any task, free and used slots are still the capacity."""

    def crash(attempt: str) -> None:
        raise RuntimeError("a worker slot crashed")

    async with running_pool(succeed, capacity=8, on_began=crash) as harness:
        with capture_logs():
            for number in range(1250):
                await harness.submit(*(leased(f"a{number}-{each}") for each in range(8)))
                await eventually(lambda: harness.pool.slots.free == 8, every=0)

        assert len(harness.told.crashes) == len(harness.told.results) == 10_000
        assert harness.pool.slots.free == 8


@pytest.mark.parametrize("verdict", list(StopVerdict))
async def test_a_stop_is_told_to_the_task(verdict: StopVerdict) -> None:
    """Each verdict reaches the task, and the heartbeat says that it is being stopped."""
    async with running_pool(cooperate) as harness:
        await harness.submit(leased("a"))
        await eventually(lambda: harness.told.began)

        assert harness.pool.stop("a", verdict, "because")
        assert [each.state for each in harness.pool.roster.held()] == ["cancelling"]

        await eventually(lambda: harness.told.results)
        assert harness.told.results["a"].outcome is outcome_of(verdict)
        assert not harness.pool.stop("a", verdict)


async def test_a_task_that_hears_nothing_is_cancelled_after_its_grace() -> None:
    """Case 44: cancelled twice, it still ends once, as cancelled."""
    async with running_pool(sleep_on, rules=QUICK) as harness:
        await harness.submit(leased("a"))
        await eventually(lambda: harness.told.began)

        harness.pool.stop("a", StopVerdict.CANCEL, "by a person")
        harness.pool.stop("a", StopVerdict.CANCEL, "by a person")

        await eventually(lambda: harness.told.results)
        assert harness.told.results["a"].outcome is Outcome.CANCELLED
        assert "by a person" in harness.told.results["a"].message


async def test_a_task_that_can_not_be_cancelled_is_reported_and_holds_its_slot() -> None:
    """Case 44 d: a handler that does not respond is logged as such; its slot is shown as held until it ends."""
    ended = asyncio.Event()

    async def deaf(task: Task, context: AttemptContext) -> TaskResult:
        while not ended.is_set():
            try:
                await ended.wait()
            except asyncio.CancelledError:
                continue
        return result_of(task, context, Outcome.CANCELLED)

    async with running_pool(deaf, capacity=1, rules=QUICK) as harness:
        with capture_logs() as logs:
            await harness.submit(leased("a"))
            await eventually(lambda: harness.told.began)
            harness.pool.stop("a", StopVerdict.CANCEL)
            await eventually(lambda: any(entry["event"] == "attempt.not_responding" for entry in logs))
        assert [each.state for each in harness.pool.roster.held()] == ["cancelling"]
        assert harness.pool.slots.free == 0

        ended.set()

        await eventually(lambda: harness.pool.slots.free == 1)
        assert harness.told.outcomes == {"a": "cancelled"}


async def test_the_deadline_ends_a_task() -> None:
    """A task that ran out of its time is told so, and reported as timed out."""
    async with running_pool(cooperate) as harness:
        await harness.submit(leased("a", deadline=0.05))

        await eventually(lambda: harness.told.results)

        assert harness.told.outcomes == {"a": "timed_out"}


async def test_one_task_per_application_and_cluster() -> None:
    """The second task of an application waits for the first; in another cluster it runs beside it."""
    gate = asyncio.Event()
    running: list[str] = []

    async def work(task: Task, context: AttemptContext) -> TaskResult:
        running.append(context.attempt_id)
        await gate.wait()
        return result_of(task, context)

    async with running_pool(work) as harness:
        await harness.submit(leased("a", "shop"), leased("b", "shop"), leased("c", "shop", cluster="other"))
        await eventually(lambda: len(running) == 2)
        await asyncio.sleep(0)
        assert running == ["a", "c"]

        gate.set()

        await eventually(lambda: len(harness.told.results) == 3)
        assert running == ["a", "c", "b"]


async def test_a_task_whose_application_stays_held_is_handed_back() -> None:
    """It is released as busy without having begun."""
    async with running_pool(cooperate, rules=QUICK) as harness:
        await harness.submit(leased("a", "shop"), leased("b", "shop"))

        await eventually(lambda: harness.told.released)

        assert harness.told.released == {"b": ReleaseReason.BUSY}
        assert harness.told.began == ["a"]
        harness.pool.stop("a", StopVerdict.CANCEL)
        await eventually(lambda: harness.told.results)


@pytest.mark.parametrize("steps", [0, 1, 2], ids=["before its first step", "at its first step", "in line"])
async def test_a_task_stopped_before_it_began_is_released(steps: int) -> None:
    """Case 44 b: cancelled between hand-out and start it is given back at once, however early the word comes."""
    async with running_pool(cooperate) as harness:
        await harness.submit(leased("a", "shop"), leased("b", "shop"))
        for _ in range(steps):
            await asyncio.sleep(0)

        harness.pool.stop("b", StopVerdict.CANCEL)

        await eventually(lambda: harness.told.released)
        assert harness.told.released == {"b": ReleaseReason.INTERRUPTED}
        harness.pool.stop("a", StopVerdict.CANCEL)
        await eventually(lambda: len(harness.pool.roster) == 0)


async def test_a_task_that_can_not_be_read_is_handed_back() -> None:
    """A kind or a document of a newer version is released as unsupported; its neighbours run."""
    unknown = leased("a", kind="teleport")
    async with running_pool(succeed) as harness:
        await harness.submit(unknown, leased("b"))
        await eventually(lambda: harness.told.results)

        assert harness.told.released == {"a": ReleaseReason.UNSUPPORTED}
        assert list(harness.told.results) == ["b"]


async def test_parking_gives_the_slot_to_others() -> None:
    """While one task waits, another runs in its slot; it goes on only when it has a slot again."""
    order: list[str] = []
    go_on = asyncio.Event()

    async def work(task: Task, context: AttemptContext) -> TaskResult:
        if context.attempt_id == "parks":
            async with context.parked():
                order.append("parked")
                await go_on.wait()
            order.append("resumed")
        else:
            order.append("other runs")
            go_on.set()
            for _ in range(5):
                await asyncio.sleep(0)
            order.append("other ends")
        return result_of(task, context)

    async with running_pool(work, capacity=1) as harness:
        await harness.submit(leased("parks"))
        await eventually(lambda: order == ["parked"])
        assert [each.state for each in harness.pool.roster.held()] == ["parked"]
        await harness.submit(leased("other"))
        await eventually(lambda: len(harness.told.results) == 2)

        assert order == ["parked", "other runs", "other ends", "resumed"]


async def test_a_pause_is_told_of_and_ended_by_its_number() -> None:
    """In durations, and no longer when it is over; a word about another one is none."""
    pause = Pause(2, 1, "2026-01-01T00:00:00+00:00", held=True, reason="somebody moved the partition")
    taken: list[bool] = []
    go_on = asyncio.Event()

    async def work(task: Task, context: AttemptContext) -> TaskResult:
        context.paused(pause)
        await go_on.wait()
        taken.append(context.resume.take(2))
        context.paused(None)
        return result_of(task, context)

    async with running_pool(work) as harness:
        await harness.submit(leased("a"))
        await eventually(lambda: harness.pool.roster.held()[0].pause is not None)
        held = harness.pool.roster.held()[0].pause
        harness.pool.resume("a", 1)
        harness.pool.resume("a", 2)
        go_on.set()
        await eventually(lambda: "a" in harness.told.results)

    assert isinstance(held, PauseReport)
    assert (held.number, held.held, held.left_seconds) == (2, True, None)
    assert held.ago_seconds > 0
    assert taken == [True]


async def test_a_stop_reaches_a_task_that_waits_for_its_slot() -> None:
    """A parked task that is stopped need not wait for a slot in order to end."""
    resuming = asyncio.Event()

    async def work(task: Task, context: AttemptContext) -> TaskResult:
        if context.attempt_id != "parks":
            return await cooperate(task, context)
        async with context.parked():
            resuming.set()
            await asyncio.sleep(0)
        return result_of(task, context, Outcome.CANCELLED if context.stop.requested else Outcome.SUCCEEDED)

    async with running_pool(work, capacity=1) as harness:
        await harness.submit(leased("parks"))
        await resuming.wait()
        await harness.submit(leased("holds"))
        await eventually(lambda: "holds" in harness.told.began)

        harness.pool.stop("parks", StopVerdict.CANCEL)

        await eventually(lambda: harness.told.outcomes == {"parks": "cancelled"})
        harness.pool.stop("holds", StopVerdict.CANCEL)
        await eventually(lambda: harness.pool.slots.free == 1)


async def test_progress_reaches_whoever_sends_it() -> None:
    """What a task reports is passed on with its attempt."""

    async def work(task: Task, context: AttemptContext) -> TaskResult:
        context.report("planned", {"changes": 2})
        return result_of(task, context)

    async with running_pool(work) as harness:
        await harness.submit(leased("a"))
        await eventually(lambda: harness.told.results)

        assert harness.told.progress == [("a", "planned", {"changes": 2})]


async def test_any_storm_of_stops_and_parking_leaks_nothing() -> None:
    """Two hundred tasks that park, crash, sleep and are stopped at random each end once, and every slot comes back."""
    seed = random.randrange(2**32)
    dice = random.Random(seed)

    async def work(task: Task, context: AttemptContext) -> TaskResult:
        for _ in range(dice.randrange(4)):
            async with context.parked():
                await asyncio.sleep(dice.random() * 0.002)
            if dice.random() < 0.1:
                raise RuntimeError("boom")
        if dice.random() < 0.2:
            await asyncio.sleep(3600)
        return result_of(task, context)

    async with running_pool(work, capacity=5, rules=PoolRules(kill_grace=0.001, turn_wait=0.01)) as harness:
        names = [f"a{number}" for number in range(200)]

        async def stop_at_random() -> None:
            while True:
                for attempt in harness.pool.roster.all():
                    if dice.random() < 0.3:
                        harness.pool.stop(attempt.id, dice.choice(list(StopVerdict)))
                await asyncio.sleep(0.001)

        stopping = asyncio.create_task(stop_at_random())
        for name in names:
            await harness.submit(leased(name, f"app-{dice.randrange(8)}"))
        await eventually(lambda: len(harness.pool.roster) == 0)
        stopping.cancel()

        told = harness.told
        assert sorted([*told.results, *told.released]) == sorted(names), f"seed {seed}"
        assert told.crashes == []
