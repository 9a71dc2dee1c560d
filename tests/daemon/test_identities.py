"""Case 39: one identity, one process that may work: restarts settle at once, and of two the later one wins."""

from pathlib import Path

import pytest

from delegate.daemon.service import Ending
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.stopping import outcome_of
from delegate.foundation.lifecycle import StopReason
from delegate.model.results import TaskResult
from delegate.model.tasks import Task
from delegate.protocol import routes
from tests.daemon.harness import TestEngine, result_of, running_behind_proxy, running_daemon, running_manager, settings_for
from tests.daemon.waiting import eventually
from tests.fakes.fault_proxy import Fault, fault_proxy


async def until_stopped(task: Task, context: AttemptContext) -> TaskResult:
    return result_of(task, context, outcome_of(await context.stop.wait()))


async def test_the_later_of_two_processes_wins(tmp_path: Path) -> None:
    """A copy with the same state directory supersedes the first one, which stops by itself; the work goes on in the copy."""
    state = tmp_path / "state"
    first, second = TestEngine(until_stopped), TestEngine()
    async with running_manager(tmp_path) as operator:
        settings = settings_for(operator.manager.url, await operator.token(), state)
        async with running_daemon(settings, first) as original:
            await original.registered()
            task = await operator.submit("shop")
            await eventually(lambda: first.began)
            async with running_daemon(settings, second) as copy:
                await copy.registered()
                ending = await original.task

                decisive = original.stops.decisive
                assert decisive is not None
                assert decisive.reason is StopReason.SUPERSEDED
                assert isinstance(ending, Ending)
                shown = await operator.finished(task)
                assert shown["task"]["outcome"] == "succeeded"
                assert shown["attempts"][-1]["id"] in second.began
                assert len(await operator.delegates()) == 1


async def test_a_restart_sends_what_the_last_process_could_not(tmp_path: Path) -> None:
    """Case 14: with the manager away during the drain the result waits on disk, and the next start delivers it."""
    engine = TestEngine()
    async with running_manager(tmp_path) as operator, fault_proxy(operator.manager.url) as proxy:
        settings = settings_for(proxy.url, await operator.token(), tmp_path / "state")
        async with running_daemon(settings, engine) as running:
            await running.registered()
            for route in (routes.RESULTS, routes.HEARTBEAT):
                proxy.inject(Fault.CUT, route, count=1000)
            task = await operator.submit("shop")
            await eventually(lambda: running.daemon._outbox.entries)
            await running.stop()
        proxy.rules.clear()
        assert (await operator.show(task))["task"]["state"] != "finished"

        async with running_daemon(settings, TestEngine()):
            shown = await operator.finished(task)

        assert shown["task"]["outcome"] == "succeeded"
        assert [attempt["id"] for attempt in shown["attempts"]] == engine.began
        assert list((tmp_path / "state" / "outbox").glob("*.journal")) == []


async def test_the_identity_outlives_the_process(tmp_path: Path) -> None:
    """The second start needs no bootstrap token, is the same delegate, and is counted."""
    async with running_manager(tmp_path) as operator:
        for token in (await operator.token(), ""):
            async with running_daemon(settings_for(operator.manager.url, token, tmp_path / "state"), TestEngine()) as running:
                await running.registered()
                await running.stop()

        assert len(await operator.delegates()) == 1
        identity = (tmp_path / "state" / "identity.json").read_text()
        assert '"bootCount":2' in identity
        assert (tmp_path / "state" / "identity.json").stat().st_mode & 0o777 == 0o600


async def test_a_cluster_that_is_found_later_is_announced(tmp_path: Path) -> None:
    """The delegate is registered at once, and handed the tasks of a cluster as soon as it reaches it."""
    engine = TestEngine(clusters=())
    async with running_behind_proxy(tmp_path, engine) as (operator, _, _):
        task = await operator.submit("shop")
        assert "no connected delegate knows a cluster" in (await operator.show(task))["whyQueued"]
        assert engine.began == []

        engine.clusters = TestEngine().clusters

        assert (await operator.finished(task))["task"]["outcome"] == "succeeded"


@pytest.mark.parametrize("damage", ["", "{", '{"instance": 5}'], ids=["empty", "cut", "of another kind"])
async def test_a_damaged_identity_is_named_with_the_remedy(tmp_path: Path, damage: str) -> None:
    """The file is named, and what happens when it is removed."""
    state = tmp_path / "state"
    state.mkdir()
    (state / "identity.json").write_text(damage)
    async with running_daemon(settings_for("http://127.0.0.1:1", "t", state), TestEngine()) as running:
        with pytest.raises(Exception, match=r"identity\.json holds no identity") as caught:
            await running.task

        assert "DELEGATE_TOKEN" in getattr(caught.value, "hint", "")
