"""Whatever the network does to a call, before or after the manager committed it: one final state, nothing lost."""

import asyncio
from pathlib import Path

import pytest

from delegate.engine.tasks.contexts import AttemptContext
from delegate.model.results import TaskResult
from delegate.model.tasks import Task
from delegate.protocol import routes
from tests.daemon.harness import QUICK_RULES, Json, TestEngine, result_of, running_daemon, running_manager, settings_for
from tests.daemon.waiting import eventually
from tests.fakes.fault_proxy import Fault, Point, fault_proxy

WORK_ROUTES = (routes.ACQUIRE, routes.RESULTS, routes.EVENTS, routes.HEARTBEAT, routes.COMMANDS)
START_ROUTES = (routes.ENROL, routes.SESSION)
SPOILING = [
    (fault, point)
    for fault in Fault
    for point in Point
    if not (point is Point.MIDDLE and fault in (Fault.DELAY, Fault.TRICKLE, Fault.DUPLICATE, Fault.HTML, Fault.GATEWAY_TIMEOUT))
]
NAMES = [f"{fault.value} {point.value}" for fault, point in SPOILING]


async def work_a_little(task: Task, context: AttemptContext) -> TaskResult:
    context.report("step", {"number": 1})
    await asyncio.sleep(0.05)
    return result_of(task, context)


def check_one_ending(shown: Json) -> None:
    """Exactly one attempt brought the result, and it is the task's."""
    assert shown["task"]["outcome"] == "succeeded"
    finished = [attempt for attempt in shown["attempts"] if attempt["state"] == "finished"]
    assert len(finished) == 1
    assert shown["result"]["attempt"] == finished[0]["id"]


@pytest.mark.parametrize(("fault", "point"), SPOILING, ids=NAMES)
async def test_every_call_of_the_work_survives(tmp_path: Path, fault: Fault, point: Point) -> None:
    """Each call of both lanes meets the fault once while a task runs; each task ends once, and succeeds."""
    engine = TestEngine(work_a_little)
    async with running_manager(tmp_path) as operator, fault_proxy(operator.manager.url) as proxy:
        settings = settings_for(proxy.url, await operator.token(), tmp_path / "delegate")
        async with running_daemon(settings, engine, rules=QUICK_RULES) as running:
            await running.registered()
            for route in WORK_ROUTES:
                proxy.inject(fault, route, point=point)
                task = await operator.submit("shop")
                check_one_ending(await operator.finished(task))
                await eventually(lambda route=route: proxy.injected(route))  # type: ignore[misc]
            last = await operator.submit("shop")
            check_one_ending(await operator.finished(last))
            await eventually(lambda: running.daemon.conditions.report().unready == ())
            await eventually(lambda: running.daemon._outbox.entries == 0)


@pytest.mark.parametrize(("fault", "point"), SPOILING, ids=NAMES)
async def test_every_call_of_the_start_survives(tmp_path: Path, fault: Fault, point: Point) -> None:
    """Enrolment and session meet the fault; the delegate is registered once, and works."""
    async with running_manager(tmp_path) as operator, fault_proxy(operator.manager.url) as proxy:
        for route in START_ROUTES:
            proxy.inject(fault, route, point=point)
        settings = settings_for(proxy.url, await operator.token(), tmp_path / "delegate")
        async with running_daemon(settings, TestEngine(work_a_little), rules=QUICK_RULES) as running:
            await running.registered()
            check_one_ending(await operator.finished(await operator.submit("shop")))

            assert [proxy.injected(route) for route in START_ROUTES] == [1, 1]
            assert len(await operator.delegates()) == 1
