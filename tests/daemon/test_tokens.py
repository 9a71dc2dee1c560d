"""Case 08, and managers of other versions: what runs goes on, and what is owed is delivered, whatever became of the session."""

import asyncio
import dataclasses
from pathlib import Path

import msgspec

from delegate.cli.exits import exit_code_of_stop
from delegate.engine.tasks.contexts import AttemptContext
from delegate.model.results import TaskResult
from delegate.model.tasks import Task
from delegate.protocol import routes
from tests.daemon.harness import (
    QUICK_RHYTHM,
    QUICK_RULES,
    TestEngine,
    result_of,
    running_daemon,
    running_manager,
    settings_for,
)
from tests.daemon.waiting import eventually
from tests.fakes.fault_proxy import Fault, fault_proxy
from tests.fakes.scripted_manager import ScriptedManager, answer, problem, scripted_manager, task


async def test_a_task_outlives_its_session_token(tmp_path: Path) -> None:
    """While renewals fail for longer than the token lives, the task goes on, and its result is taken by its attempt token."""
    go_on = asyncio.Event()

    async def wait(task: Task, context: AttemptContext) -> TaskResult:
        await go_on.wait()
        return result_of(task, context)

    engine = TestEngine(wait)
    rhythm = msgspec.structs.replace(QUICK_RHYTHM, session_token_seconds=1.5)
    async with running_manager(tmp_path, rhythm=rhythm) as operator, fault_proxy(operator.manager.url) as proxy:
        settings = settings_for(proxy.url, await operator.token(), tmp_path / "delegate")
        async with running_daemon(settings, engine) as running:
            await running.registered()
            submitted = await operator.submit("shop")
            await eventually(lambda: engine.began)
            proxy.inject(Fault.GATEWAY_TIMEOUT, routes.REFRESH_TOKEN, count=1000)
            await eventually(lambda: not running.daemon.conditions.link_fresh, within=20.0)
            assert [each.state for each in running.daemon._pool.roster.held()] == ["running"]

            go_on.set()

            shown = await operator.finished(submitted)
            assert shown["task"]["outcome"] == "succeeded"
            assert engine.began == [shown["attempts"][0]["id"]]
            proxy.rules.clear()
            await eventually(lambda: running.daemon.conditions.report().unready == (), within=40.0)


def released(manager: ScriptedManager) -> set[tuple[str, str]]:
    """The attempts that were given back so far, and why."""
    return {(item["attemptId"], item["reason"]) for seen in manager.at(routes.RELEASE) for item in seen.body["attempts"]}


async def test_a_newer_manager_spoils_nothing(tmp_path: Path) -> None:
    """Case 25: novelties at every level, a command and a task of an unknown kind: what is understood works."""
    engine = TestEngine()
    async with scripted_manager() as manager:
        manager.on(
            routes.ENROL,
            answer(
                delegateId="d-1",
                refreshToken="r",
                sessionToken="s",
                sessionTokenSeconds=900,
                protocol=1,
                features=["telepathy"],
                tokenExpiresInSeconds=None,
                novelty={"a": [1]},
            ),
        )
        settings = {"leaseSeconds": 45, "heartbeatSeconds": 0.1, "pollSeconds": 1, "moodSeconds": 2**63}
        manager.on(
            routes.SESSION,
            answer(epoch=7, protocol=1, features=["commands", "events", "telepathy"], attempts=None, settings=settings, mood="good"),
        )
        async with running_daemon(settings_for(manager.url, "t", tmp_path / "delegate"), engine) as running:
            await running.registered()
            manager.command(id="c-1", kind="dance", data={"partner": 2**70})
            manager.hand_out(
                task("a", novelty={"deep": None}),
                task("b", kind="teleport", document={"kind": "teleport", "application": "shop"}),
                {"attemptId": "c", "fence": 1, "taskId": "t", "what": "is this"},
                task("d"),
            )
            await eventually(lambda: set(manager.results) == {"a", "d"})
            await eventually(lambda: len(released(manager)) >= 2)
            await eventually(lambda: not manager.commands)

            assert released(manager) == {("b", "unsupported"), ("c", "unsupported")}
            assert sorted(engine.began) == ["a", "d"]
            body, _ = running.daemon.metrics.expose()
            assert "harness_delegate_unknown_commands_total 1.0" in body.decode()


async def test_an_older_manager_that_says_less_is_enough(tmp_path: Path) -> None:
    """Case 25: without features, settings and verdicts the defaults of the contract hold, and nothing is asked that it can't."""
    async with scripted_manager() as manager:
        manager.on(routes.SESSION, answer(epoch=1, protocol=1))
        async with running_daemon(settings_for(manager.url, "t", tmp_path / "delegate"), TestEngine()) as running:
            await running.registered()
            manager.hand_out(task("a"))

            await eventually(lambda: "a" in manager.results)

            assert manager.at(routes.COMMANDS) == []
            assert manager.at(routes.EVENTS) == []


async def test_an_outdated_delegate_ends_only_when_it_is_told_to(tmp_path: Path) -> None:
    """Without a common protocol it stays, not ready and saying why; with --exit-on-outdated it ends with 6."""
    async with scripted_manager() as manager:
        manager.always[routes.ENROL] = problem(426, "outdated", hint="bring the delegate up to date")
        settings = settings_for(manager.url, "t", tmp_path / "delegate")
        async with running_daemon(settings, TestEngine()) as running:
            await eventually(lambda: any("426" in reason for reason in running.daemon.conditions.report().unready))
            assert not running.task.done()
        rules = dataclasses.replace(QUICK_RULES, exit_on_outdated=True)
        async with running_daemon(settings, TestEngine(), rules=rules) as running:
            ending = await running.task

            assert exit_code_of_stop(running.stops.decisive, interrupted=ending.interrupted) == 6


async def test_the_manager_may_have_a_delegate_drain(tmp_path: Path) -> None:
    """It finishes what runs, takes nothing more, says so, and stays."""
    go_on = asyncio.Event()

    async def wait(task: Task, context: AttemptContext) -> TaskResult:
        await go_on.wait()
        return result_of(task, context)

    engine = TestEngine(wait)
    async with scripted_manager() as manager, running_daemon(settings_for(manager.url, "t", tmp_path / "delegate"), engine) as running:
        await running.registered()
        manager.hand_out(task("a"))
        await eventually(lambda: engine.began)
        manager.command(id="c-1", kind="drain")
        await eventually(lambda: running.daemon._lanes.poller._blocked_by)
        manager.hand_out(task("b"))
        await eventually(lambda: manager.at(routes.HEARTBEAT)[-1].body["draining"])
        go_on.set()
        await eventually(lambda: "a" in manager.results)

        assert "drain" in running.daemon.conditions.report().unready[0]
        assert not running.task.done()
        assert engine.began == ["a"]
