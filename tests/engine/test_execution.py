"""How one attempt ends: by success, fault, stop, deadline or cancellation."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.errors import HealthTimeoutError, UnhealthyError
from delegate.engine.tasks.execution import Executor
from delegate.engine.tasks.stopping import StopSignal, StopVerdict
from delegate.foundation.errors import DelegateError
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.model.resource_types import NAMESPACES
from delegate.model.results import Outcome, TaskResult, failed_result
from delegate.model.tasks import Task, TaskKind, read_task
from tests.cluster.servers import client_of
from tests.fakes.flaky_api import flaky_api, reset

TASK = read_task({"kind": "sync", "application": "shop"})


class ScriptedRun:
    """A run that does what it is told and notes how it was ended."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self.cleaned_up = False

    async def execute(self) -> None:
        try:
            await self._work()
        finally:
            self.cleaned_up = True

    def conclude(self, outcome: Outcome | None = None, error: DelegateError | None = None, message: str = "") -> TaskResult:
        if error is not None:
            return failed_result(task="t", attempt="a", kind="sync", application="shop", error=error, outcome=outcome)
        return TaskResult(task="t", attempt="a", kind="sync", application="shop", outcome=outcome or Outcome.SUCCEEDED, message=message)


def executor(run: ScriptedRun) -> Executor:
    def factory(task: Task, context: AttemptContext) -> ScriptedRun:
        del task, context
        return run

    return Executor({TaskKind.SYNC: factory})


def context(*, seconds: float = 30.0, stop: StopSignal | None = None) -> AttemptContext:
    return AttemptContext(task_id="t", attempt_id="a", deadline=asyncio.get_running_loop().time() + seconds, stop=stop or StopSignal())


async def nothing() -> None:
    return


async def for_ever() -> None:
    await asyncio.Event().wait()


async def test_work_that_ends_well_succeeds() -> None:
    """A run that returns has succeeded."""
    result = await executor(ScriptedRun(nothing)).run(TASK, context())

    assert result.outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(UnhealthyError("it crashes"), Outcome.FAILED), (HealthTimeoutError("too slow"), Outcome.TIMED_OUT)],
)
async def test_a_fault_becomes_the_result(error: DelegateError, outcome: Outcome) -> None:
    """A fault ends as failed, or as timed out where it is one of time."""

    async def fail() -> None:
        raise error

    result = await executor(ScriptedRun(fail)).run(TASK, context())

    assert (result.outcome, result.error and result.error.message) == (outcome, error.message)


@pytest.mark.parametrize(
    ("verdict", "outcome"),
    [
        (StopVerdict.CANCEL, Outcome.CANCELLED),
        (StopVerdict.SUPERSEDED, Outcome.SUPERSEDED),
        (StopVerdict.LOST, Outcome.INTERRUPTED),
        (StopVerdict.DEADLINE, Outcome.TIMED_OUT),
        (StopVerdict.INTERRUPTED, Outcome.INTERRUPTED),
    ],
)
async def test_a_stop_ends_the_work_and_says_why(verdict: StopVerdict, outcome: Outcome) -> None:
    """Each stop verdict cancels the work, lets it clean up, and has an outcome of its own."""
    stop, run = StopSignal(), ScriptedRun(for_ever)
    running = asyncio.create_task(executor(run).run(TASK, context(stop=stop)))
    stop.request(verdict, "because")

    result = await running

    assert (result.outcome, run.cleaned_up) == (outcome, True)
    assert "because" in result.message


async def test_the_first_stop_counts() -> None:
    """A cancel that was asked for stays a cancel when the process is stopped a moment later."""
    stop = StopSignal()
    stop.request(StopVerdict.CANCEL)
    stop.request(StopVerdict.INTERRUPTED)

    result = await executor(ScriptedRun(for_ever)).run(TASK, context(stop=stop))

    assert result.outcome is Outcome.CANCELLED


async def test_the_deadline_ends_the_work() -> None:
    """Work that outlasts its deadline has timed out and was cleaned up."""
    run = ScriptedRun(for_ever)

    result = await executor(run).run(TASK, context(seconds=0.05))

    assert (result.outcome, run.cleaned_up) == (Outcome.TIMED_OUT, True)


@pytest.mark.parametrize("comes_back", [False, True])
async def test_a_deadline_says_what_was_still_being_tried(comes_back: bool) -> None:
    """A server that is dead for as long as there is time is named; one that answered in the end has nothing to do with it."""
    patient = Retrying(max_attempts=1_000, base_seconds=0.01, max_seconds=0.05, max_duration_seconds=60.0)

    async def work() -> None:
        async with flaky_api() as api, client_of(api.url, policy=patient) as client:
            api.add(reset, method="GET", times=3 if comes_back else 1_000)
            with contextlib.suppress(NotFoundError):
                await client.get(NAMESPACES, "", "nothing")
            await for_ever()

    result = await executor(ScriptedRun(work)).run(TASK, context(seconds=1.5))

    assert result.outcome is Outcome.TIMED_OUT
    assert ("still being tried again" in result.message) is not comes_back
    assert ("127.0.0.1" in result.message) is not comes_back


async def test_work_that_ends_while_it_is_stopped_counts_as_done() -> None:
    """What was finished in the moment of the stop is not reported as stopped."""
    begun = asyncio.Event()

    async def finish_anyway() -> None:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await for_ever()

    stop = StopSignal()
    running = asyncio.create_task(executor(ScriptedRun(finish_anyway)).run(TASK, context(stop=stop)))
    await begun.wait()
    stop.request(StopVerdict.CANCEL)

    assert (await running).outcome is Outcome.SUCCEEDED


async def test_cancellation_from_outside_is_passed_on_after_the_clean_up() -> None:
    """Cancelling the caller cancels the work, waits for its clean-up, and stays a cancellation."""
    begun = asyncio.Event()

    async def work() -> None:
        begun.set()
        await for_ever()

    run = ScriptedRun(work)
    running = asyncio.create_task(executor(run).run(TASK, context()))
    await begun.wait()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert run.cleaned_up


async def test_a_kind_that_nobody_runs_is_refused() -> None:
    """An unsupported kind is refused in words, with the kinds that there are."""
    task = read_task({"kind": "rollback", "application": "shop"})

    result = await executor(ScriptedRun(nothing)).run(task, context())

    assert result.outcome is Outcome.REFUSED
    assert result.error is not None
    assert "sync" in result.error.hint
