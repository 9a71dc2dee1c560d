"""Stopping: nothing that was handed out is lost, and what the process ends with says how it went."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from delegate.cli.exits import exit_code_of_stop
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.stopping import outcome_of
from delegate.foundation.lifecycle import StopReason
from delegate.model.results import TaskResult
from delegate.model.tasks import Task
from delegate.protocol import routes
from tests.daemon.harness import (
    PATIENT_RULES,
    QUICK_RHYTHM,
    Running,
    TestEngine,
    result_of,
    running_behind_proxy,
    running_daemon,
    settings_for,
)
from tests.daemon.waiting import eventually
from tests.fakes.fault_proxy import Fault, Point


async def short_or_long(task: Task, context: AttemptContext) -> TaskResult:
    if task.application.startswith("short"):
        await asyncio.sleep(0.3)
        return result_of(task, context)
    return result_of(task, context, outcome_of(await context.stop.wait()))


def exit_code(running: Running) -> int:
    return int(exit_code_of_stop(running.stops.decisive, interrupted=running.task.result().interrupted))


async def test_short_work_finishes_and_long_work_is_handed_on(tmp_path: Path) -> None:
    """Case 14: short tasks succeed, long ones are interrupted and queued again for another; the exit code is 3."""
    engine = TestEngine(short_or_long)
    async with running_behind_proxy(tmp_path, engine) as (operator, _, running):
        short, long = await operator.submit("short"), await operator.submit("long")
        await eventually(lambda: len(engine.began) == 2)

        await running.stop()

        assert exit_code(running) == 3
        assert (await operator.show(short))["task"]["outcome"] == "succeeded"
        shown = await operator.show(long)
        assert (shown["task"]["state"], shown["task"]["outcome"]) == ("queued", "")
        assert "interrupted" in shown["task"]["message"]


async def test_a_drained_delegate_ends_with_nothing_owed(tmp_path: Path) -> None:
    """With nothing running the drain is over at once, the exit code is 0, and the manager knows that it left."""
    async with running_behind_proxy(tmp_path, TestEngine()) as (operator, _, running):
        await operator.finished(await operator.submit("shop"))

        async with asyncio.timeout(2.5):
            await running.stop()

        assert exit_code(running) == 0
        assert [each["connection"] for each in await operator.delegates()] == ["Disconnected"]


async def test_no_lane_undoes_the_farewell(tmp_path: Path) -> None:
    """The poll for commands that the bye cuts short finds no session any more, and opens none."""
    async with running_behind_proxy(tmp_path, TestEngine(), rules=PATIENT_RULES) as (operator, proxy, running):
        proxy.inject(Fault.DELAY, routes.BYE, point=Point.AFTER, seconds=1.0)

        await running.stop()

        assert proxy.injected(routes.BYE) == 1
        assert [each["connection"] for each in await operator.delegates()] == ["Disconnected"]


async def test_a_second_signal_hurries(tmp_path: Path) -> None:
    """It does not wait for the drain timeout."""
    engine = TestEngine(short_or_long)
    async with running_behind_proxy(tmp_path, engine) as (operator, proxy, _):
        settings = settings_for(proxy.url, "", tmp_path / "delegate", DELEGATE_DRAIN_TIMEOUT="1h")
        async with running_daemon(settings, engine) as patient:
            await patient.registered()
            await operator.submit("long")
            await eventually(lambda: engine.began)
            patient.stops.request(StopReason.SIGTERM)
            await eventually(lambda: patient.daemon.conditions.draining)

            async with asyncio.timeout(10.0):
                await patient.stop()

            assert exit_code(patient) == 3


@pytest.mark.parametrize("fault", [None, Fault.CUT, Fault.RESET, Fault.HTML, Fault.FREEZE])
async def test_a_batch_on_its_way_is_handed_back(tmp_path: Path, fault: Fault | None) -> None:
    """Case 14: handed out while the poll is being cancelled, it is released, or found missing; it costs no attempt."""
    first, second = TestEngine(short_or_long), TestEngine()
    long_polls = msgspec.structs.replace(QUICK_RHYTHM, poll_seconds=3.0)  # enough for the task to be there
    async with running_behind_proxy(tmp_path, first, rules=PATIENT_RULES, rhythm=long_polls) as (operator, proxy, running):
        proxy.inject(Fault.DELAY, routes.ACQUIRE, point=Point.AFTER, seconds=30.0, count=1)
        if fault is not None:
            proxy.inject(fault, routes.RELEASE)
            proxy.inject(fault, routes.BYE)
        await eventually(lambda: proxy.injected(routes.ACQUIRE))
        task = await operator.submit("shop")
        await operator.until(task, lambda shown: shown["task"]["state"] == "running")

        await running.stop()

        assert exit_code(running) == 0
        assert first.began == []
        settings = settings_for(operator.manager.url, "", tmp_path / "delegate")
        async with running_daemon(settings, second):
            shown = await operator.finished(task)
        assert shown["task"]["attempts"] == 1
        assert len(second.began) == 1


async def test_what_has_no_authority_any_more_stops_at_once(tmp_path: Path) -> None:
    """Case 08: a delegate that was revoked cancels what runs, stops asking, and ends with 4."""
    engine = TestEngine(short_or_long)
    async with running_behind_proxy(tmp_path, engine) as (operator, proxy, running):
        await operator.submit("long")
        await eventually(lambda: engine.began)
        [delegate] = await operator.delegates()

        await operator.ask("POST", f"/delegates/{delegate['id']}/revoke")

        async with asyncio.timeout(10.0):
            await running.task
        assert exit_code(running) == 4
        calls = len(proxy.passed)
        await asyncio.sleep(0.3)
        assert len(proxy.passed) == calls


async def test_a_part_that_dies_once_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 15: a fault in the poller costs a restart, which is counted by name, and no task."""
    engine = TestEngine()
    async with running_behind_proxy(tmp_path, engine) as (operator, _, running):
        poller = running.daemon._lanes.poller
        healthy = poller._take
        broken = [True]

        async def take(reservation: object, answer: object) -> None:
            if broken.pop() if broken else False:
                raise RuntimeError("a fault in the poller")
            await healthy(reservation, answer)  # type: ignore[arg-type]

        monkeypatch.setattr(poller, "_take", take)
        task = await operator.submit("shop")

        shown = await operator.finished(task)

        assert shown["task"]["outcome"] == "succeeded"
        body, _ = running.daemon.metrics.expose()
        assert 'harness_delegate_part_deaths_total{part="poller"} 1.0' in body.decode()
        assert running.daemon._pool.slots.taken == 0


@pytest.mark.parametrize("part", ["poller", "reporter", "heartbeats", "worker"])
async def test_a_part_that_dies_again_and_again_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Case 15: after five deaths the delegate drains and ends with 7, naming the part; what ran is not lost."""
    engine = TestEngine(short_or_long)
    async with running_behind_proxy(tmp_path, engine) as (operator, _, running):
        short = await operator.submit("short-1")
        await eventually(lambda: engine.began)

        def fail(*arguments: object, **named: object) -> None:
            raise RuntimeError("always")

        broken = {
            "poller": (running.daemon._lanes.poller, "_take"),
            "reporter": (running.daemon._lanes.reporter, "_deliver"),
            "heartbeats": (running.daemon._lanes.control, "_take_decisions"),
            "worker": (running.daemon._outbox, "began"),
        }[part]
        monkeypatch.setattr(*broken, fail)
        for number in range(6):
            await operator.submit(f"short-other-{number}")

        async with asyncio.timeout(20.0):
            ending = await running.task

        assert exit_code(running) == 7
        assert ending.failed_part == part
        monkeypatch.undo()
        async with running_daemon(settings_for(operator.manager.url, "", tmp_path / "delegate"), TestEngine()):
            assert (await operator.finished(short))["task"]["outcome"] == "succeeded"
