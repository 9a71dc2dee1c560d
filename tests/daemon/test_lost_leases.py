"""Case 11: a delegate that was cut off for longer than its lease. The other one's result stands; the first one stops and is refused."""

import asyncio
import dataclasses
from pathlib import Path

import pytest

from delegate.daemon.pool.workers import PoolRules
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.stopping import outcome_of
from delegate.model.results import Outcome, TaskResult
from delegate.model.tasks import Task
from tests.daemon.harness import (
    QUICK_RULES,
    TestEngine,
    list_letters,
    result_of,
    running_behind_proxy,
    running_daemon,
    running_manager,
    settings_for,
)
from tests.daemon.waiting import eventually
from tests.fakes.fault_proxy import Fault, fault_proxy


async def until_stopped(task: Task, context: AttemptContext) -> TaskResult:
    verdict = await context.stop.wait()
    return result_of(task, context, outcome_of(verdict), "the first one's result")


async def succeed(task: Task, context: AttemptContext) -> TaskResult:
    return result_of(task, context, message="the second one's result")


@pytest.mark.parametrize("fault", [Fault.CUT, Fault.FREEZE], ids=["cut off", "frozen"])
async def test_the_one_that_has_the_lease_wins(tmp_path: Path, fault: Fault) -> None:
    """Two attempts, one result, the second one's; the first one is told, stops, and its result becomes a dead letter."""
    first, second = TestEngine(until_stopped), TestEngine(succeed)
    async with running_manager(tmp_path) as operator, fault_proxy(operator.manager.url) as proxy:
        token = await operator.token()
        async with running_daemon(settings_for(proxy.url, token, tmp_path / "first"), first, rules=QUICK_RULES) as cut_off:
            await cut_off.registered()
            task = await operator.submit("shop")
            await eventually(lambda: first.began)
            proxy.partition(fault)
            async with running_daemon(settings_for(operator.manager.url, token, tmp_path / "second"), second):
                shown = await operator.finished(task)
                assert shown["result"]["message"] == "the second one's result"
                assert not cut_off.daemon._outbox.entries  # it goes on: its authority is the cluster's, not the manager's

                proxy.heal()

                await eventually(lambda: list_letters(tmp_path / "first" / "dead-letters"))
        again = await operator.show(task)
        assert again["result"] == shown["result"]
        assert [attempt["id"] for attempt in again["attempts"]] == [first.began[0], second.began[0]]
        [letter] = list_letters(tmp_path / "first" / "dead-letters")
        assert (letter.reason, letter.task, letter.attempt, letter.fence) == ("superseded", task, first.began[0], 1)
        assert isinstance(letter.payload.content, dict)
        assert letter.payload.content["message"] == "the first one's result"


async def test_unfenced_work_stops_before_the_lease_ends(tmp_path: Path) -> None:
    """Work that nothing but the lease fences is stopped while the manager still holds the lease for it."""
    stopped_at: list[float] = []

    async def note_the_stop(task: Task, context: AttemptContext) -> TaskResult:
        await context.stop.wait()
        stopped_at.append(asyncio.get_running_loop().time())
        return result_of(task, context, Outcome.INTERRUPTED)

    engine = TestEngine(note_the_stop)
    rules = dataclasses.replace(QUICK_RULES, pool=PoolRules(kill_grace=0.5, unfenced_kinds=frozenset({"sync"})))
    async with running_behind_proxy(tmp_path, engine, rules=rules) as (operator, proxy, _):
        task = await operator.submit("shop")
        await eventually(lambda: engine.began)

        proxy.partition()

        await eventually(lambda: stopped_at)
        shown = await operator.show(task)
        assert [attempt["state"] for attempt in shown["attempts"]] == ["active"]
        proxy.heal()


async def test_a_short_outage_costs_nothing(tmp_path: Path) -> None:
    """A partition within the lease, and one beyond it with nobody else to take over: the same attempt ends the task."""
    go_on = asyncio.Event()

    async def wait(task: Task, context: AttemptContext) -> TaskResult:
        await go_on.wait()
        return result_of(task, context)

    engine = TestEngine(wait)
    async with running_behind_proxy(tmp_path, engine) as (operator, proxy, running):
        task = await operator.submit("shop")
        await eventually(lambda: engine.began)
        proxy.partition()
        await eventually(lambda: not running.daemon.conditions.link_fresh)
        await eventually(lambda: [attempt.doubted for attempt in running.daemon._pool.roster.all()] == [True])
        await operator.until(task, lambda shown: bool(shown["task"]["state"] == "queued"))  # beyond the lease
        assert [each.state for each in running.daemon._pool.roster.held()] == ["running"]

        proxy.heal()
        go_on.set()

        shown = await operator.finished(task)
        assert shown["task"]["outcome"] == "succeeded"
        assert engine.began == [shown["attempts"][0]["id"]]
