"""Runs one attempt of any kind to its result, whatever happens on the way: success, fault, stop or deadline."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

import structlog

from delegate.engine.clusters.retrying import LAST_RETRY, LastRetry
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.errors import UnsupportedTaskError
from delegate.engine.tasks.stopping import StopVerdict, outcome_of
from delegate.foundation.errors import Category, DelegateError
from delegate.model.results import Outcome, TaskResult, failed_result
from delegate.model.tasks import Task, TaskKind

log = structlog.get_logger(__name__)
_CLEANUP_SECONDS = 10.0
_WOUND_DOWN = (StopVerdict.CANCEL, StopVerdict.DEADLINE)


class Run(Protocol):
    """One attempt of one kind. `execute` does the work; `conclude` says, at any moment, what has come of it so far."""

    async def execute(self) -> None: ...

    def conclude(self, outcome: Outcome | None = None, error: DelegateError | None = None, message: str = "") -> TaskResult:
        """The result; without an outcome or an error: that of work which ended well."""
        ...


@runtime_checkable
class WindingDown(Protocol):
    """A run that must not be left as it stands when it is cancelled or runs out of time: `wind_down` follows the cancelled `execute`."""

    wind_down_seconds: float

    async def wind_down(self, verdict: StopVerdict) -> None: ...


RunFactory = Callable[[Task, AttemptContext], Run]


class Executor:
    """Hands a task to the run of its kind and turns every ending into a frozen result.

    `run` raises nothing but CancelledError (and faults of the program itself, which the caller's worker boundary turns into
    an internal error).
    """

    def __init__(self, factories: Mapping[TaskKind, RunFactory]) -> None:
        self._factories = factories
        self.kinds: tuple[str, ...] = tuple(kind.value for kind in factories)

    async def run(self, task: Task, context: AttemptContext) -> TaskResult:
        try:
            factory = self._factories[task.kind]
        except KeyError:
            known = ", ".join(self.kinds)
            return _fault(task, context, UnsupportedTaskError(f"this delegate runs no {task.kind} tasks", hint=f"it runs: {known}"))
        try:
            run = factory(task, context)
        except DelegateError as error:
            return _fault(task, context, error)
        return await _run_to_an_end(run, context)


def _fault(task: Task, context: AttemptContext, error: DelegateError) -> TaskResult:
    return failed_result(task=context.task_id, attempt=context.attempt_id, kind=task.kind, application=task.application, error=error)


async def _run_to_an_end(run: Run, context: AttemptContext) -> TaskResult:
    retry = LastRetry()
    LAST_RETRY.set(retry)  # of this attempt's own context: the tasks that it starts inherit it
    work = asyncio.create_task(run.execute())
    stop = asyncio.create_task(context.stop.wait())
    try:
        remaining = max(0.0, context.deadline - asyncio.get_running_loop().time())
        await asyncio.wait({work, stop}, timeout=remaining, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return _concluded(run, work)
        verdict = context.stop.requested or StopVerdict.DEADLINE
        reason = context.stop.reason if context.stop.requested else retry.fault and f"it was still being tried again: {retry.fault}"
        await _end(work)
        if work.done() and not work.cancelled() and work.exception() is None:
            return run.conclude()  # it ended well in the same moment: what was done counts
        if isinstance(run, WindingDown) and verdict in _WOUND_DOWN:
            work = asyncio.create_task(run.wind_down(verdict))
            await asyncio.wait({work}, timeout=run.wind_down_seconds)
            if work.done() and work.exception() is not None:
                return _concluded(run, work)
        return run.conclude(outcome_of(verdict), message=_words(verdict, reason))
    finally:
        stop.cancel()
        if not work.done():
            await _end(work)


def _concluded(run: Run, work: "asyncio.Task[None]") -> TaskResult:
    try:
        work.result()
    except DelegateError as error:
        outcome = Outcome.TIMED_OUT if error.category is Category.TIMEOUT else Outcome.FAILED
        return run.conclude(outcome, error)
    return run.conclude()


async def _end(work: "asyncio.Task[None]") -> None:
    """Cancels the work and gives it a bounded time to put things in order."""
    work.cancel()
    done, _ = await asyncio.wait({work}, timeout=_CLEANUP_SECONDS)
    if not done:
        log.warning("attempt.cleanup_unfinished", seconds=_CLEANUP_SECONDS)
    elif not work.cancelled() and work.exception() is not None:
        log.info("attempt.ended_while_stopping", error=str(work.exception()))


def _words(verdict: StopVerdict, reason: str) -> str:
    words = {
        StopVerdict.CANCEL: "cancelled",
        StopVerdict.SUPERSEDED: "superseded by a newer task of this application",
        StopVerdict.LOST: "stopped: the attempt's lease is no longer ours",
        StopVerdict.DEADLINE: "the task's timeout ran out",
        StopVerdict.INTERRUPTED: "interrupted by the stop of the delegate",
    }[verdict]
    return f"{words}: {reason}" if reason else words
