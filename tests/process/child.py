"""A daemon as `delegate run` starts it, with work of the test's own in place of the engine's.

What a task does is in its application's name: `quick`, `big` (a large result), `sleep-5` (hears a stop), `deaf-5` (hears none),
`burn-5` (computes in the event loop), `hold-5` (holds the interpreter in long slices), `child-60` (a child process), `orphan-7` (one
that leaves orphans behind and ends with this code). Each step
is a line in the file that EFFECTS_FILE names.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from delegate.cli import running
from delegate.cli.program import main
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.stopping import StopVerdict, outcome_of
from delegate.model.results import Outcome, TaskResult
from delegate.model.tasks import Task
from delegate.protocol.enrolment import ClusterName

EFFECTS = Path(os.environ["EFFECTS_FILE"])


def note(text: str) -> None:
    with EFFECTS.open("a") as file:
        file.write(text + "\n")


class ChildEngine:
    kinds = ("sync", "diff")

    async def run(self, task: Task, context: AttemptContext) -> TaskResult:
        note(f"began {context.attempt_id} {os.getpid()}")
        work, _, seconds = task.application.partition("-")
        outcome = await WORK[work](float(seconds or 0), context)
        note(f"ended {context.attempt_id} {outcome.value}")
        return TaskResult(
            task=context.task_id,
            attempt=context.attempt_id,
            kind=task.kind.value,
            application=task.application,
            outcome=outcome,
            message="x" * 20_000 if work == "big" else "",
        )

    async def announce_clusters(self) -> tuple[ClusterName, ...]:
        return (ClusterName(name="in-cluster", uid="u-1"),)

    async def close(self) -> None:
        return None


async def quick(seconds: float, context: AttemptContext) -> Outcome:
    return Outcome.SUCCEEDED


async def sleep(seconds: float, context: AttemptContext) -> Outcome:
    try:
        async with asyncio.timeout(seconds):
            return outcome_of(await context.stop.wait())
    except TimeoutError:
        return Outcome.SUCCEEDED


async def deaf(seconds: float, context: AttemptContext) -> Outcome:
    await asyncio.sleep(seconds)
    return Outcome.SUCCEEDED


async def burn(seconds: float, context: AttemptContext) -> Outcome:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(1000))
    await asyncio.sleep(0.05)  # the loop gets to hear what was said meanwhile
    return outcome_of(context.stop.requested) if context.stop.requested else Outcome.SUCCEEDED


async def hold(seconds: float, context: AttemptContext) -> Outcome:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(10_000_000))  # one call, in which no other thread gets the interpreter
    return Outcome.SUCCEEDED


async def child(seconds: float, context: AttemptContext) -> Outcome:
    process = await asyncio.create_subprocess_exec("sleep", str(seconds), start_new_session=True)
    note(f"child {process.pid}")
    ended = asyncio.ensure_future(process.wait())
    stop = asyncio.ensure_future(context.stop.wait())
    await asyncio.wait({ended, stop}, return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if process.returncode is None:
        process.terminate()
        await ended
        return outcome_of(context.stop.requested or StopVerdict.CANCEL)
    return Outcome.SUCCEEDED


async def orphan(seconds: float, context: AttemptContext) -> Outcome:
    """A child that leaves orphans behind, which end a moment later, and has an exit code of its own."""
    code = int(seconds)
    process = await asyncio.create_subprocess_exec("sh", "-c", f"(sleep 0.1 &) ; (sleep 0.2 &) ; exit {code}", start_new_session=True)
    return Outcome.SUCCEEDED if await process.wait() == code else Outcome.FAILED


WORK = {"orphan": orphan, "quick": quick, "big": quick, "sleep": sleep, "deaf": deaf, "burn": burn, "hold": hold, "child": child}

if __name__ == "__main__":
    running._build_engine = lambda settings, metrics: ChildEngine()
    main(sys.argv[1:])
