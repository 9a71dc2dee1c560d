"""Tasks that do nothing, through a manager that keeps everything on disk and one delegate, each a process of its own.

The raw limit is what the same libraries reach when every post is on disk before it is answered (`posting`), with as many posts in
flight. Throughput is measured twice: with the whole backlog submitted before the delegate starts, and with tasks submitted while
it works. Latency is from the moment a task is submitted until its work begins, one task at a time, while the delegate's poll is open.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import msgspec

from benchmarks import processes
from benchmarks.errors import BrokenRunError
from benchmarks.machine import file_system_of, load_average
from benchmarks.operators import Operator, delegate_settings, managing
from benchmarks.reports import Figure, Report, Target, percentile
from benchmarks.standins import TIMED

_READY_SECONDS = 60.0
_FINISH_SECONDS = 120.0
_LOOK_SECONDS = 0.05
_IN_FLIGHT = 64
_CAPACITY = 256
POSTS = "bare durable posts"


@dataclass(frozen=True)
class Sizes:
    tasks: int
    posts: int
    timed: int


FULL = Sizes(tasks=5000, posts=20_000, timed=300)
QUICK = Sizes(tasks=20, posts=50, timed=3)


async def measure(directory: Path, *, quick: bool) -> Report:
    sizes = QUICK if quick else FULL
    circumstances = (load_average(), f"SQLite on {file_system_of(directory)}")
    posts = sizes.posts / await _post(directory, sizes.posts)
    async with managing(directory) as (operator, manager):
        token = await operator.create_token()
        settings = delegate_settings(directory / "delegate", operator, token, capacity=_CAPACITY)
        # Once, so that the manager knows a delegate that reaches the destination.
        async with _delegate(directory, settings) as child:
            await child.hear("ready", within=_READY_SECONDS)
        submitting = await _submit_all(operator, "backlog", sizes.tasks)
        before = await _finished(operator)
        async with _delegate(directory, settings) as child:
            await child.hear("ready", within=_READY_SECONDS)
            ends = {"the manager": manager, "the delegate": child}
            used = {name: each.usage().cpu_seconds for name, each in ends.items()}
            draining = await _until_finished(operator, before + sizes.tasks)
            used = {name: each.usage().cpu_seconds - used[name] for name, each in ends.items()}
            before = await _finished(operator)
            through = time.monotonic()
            await _submit_all(operator, "through", sizes.tasks)
            await _until_finished(operator, before + sizes.tasks)
            through = time.monotonic() - through
            latencies = [await _start_latency(operator, child, number) for number in range(sizes.timed)]
    rates = {
        "submitted, nobody working": sizes.tasks / submitting,
        "backlog worked off": sizes.tasks / draining,
        "submitted and worked off at once": sizes.tasks / through,
    }
    return Report(
        subject="queue",
        title=f"{sizes.tasks:,} tasks that do nothing, capacity {_CAPACITY}; {_IN_FLIGHT} requests in flight",
        circumstances=circumstances,
        figures=(
            Figure(name=POSTS, value=posts, unit="/s"),
            *(
                Figure(
                    name=name,
                    value=rate,
                    unit="tasks/s",
                    against=POSTS,
                    ratio=rate / posts,
                    target=Target("value", at_least=5000.0) if name == "backlog worked off" else None,
                )
                for name, rate in rates.items()
            ),
            *(
                Figure(name=f"  CPU of {name} for one of the backlog", value=1000 * seconds / sizes.tasks, unit="ms")
                for name, seconds in used.items()
            ),
            Figure(name="start latency, p50", value=percentile(latencies, 0.50), unit="ms", target=Target("value", at_most=5.0)),
            Figure(name="start latency, p99", value=percentile(latencies, 0.99), unit="ms", target=Target("value", at_most=25.0)),
        ),
    )


def _delegate(directory: Path, settings: dict[str, str]) -> AbstractAsyncContextManager[processes.Child]:
    arguments = ["-m", "benchmarks.standins", "delegate", settings["DELEGATE_STATE_DIR"]]
    return processes.running(arguments, environment=settings, log=directory / "delegate.log")


async def _post(directory: Path, count: int) -> float:
    """Seconds that durable posts take that carry as much as a task."""
    body = msgspec.json.encode({"application": "posts-000000", "padding": "x" * 200})
    async with (
        processes.running(["-m", "benchmarks.standins", "posts", str(directory / "posts.db")], log=directory / "posts.log") as child,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        ready, _ = await child.hear("ready", within=_READY_SECONDS)

        async def post(number: int) -> None:
            async with session.post(str(ready["url"]), data=body) as response:
                await response.read()
                if response.status != 201:
                    raise BrokenRunError(f"a post was answered {response.status}")

        return await _timed(count, post)


async def _submit_all(operator: Operator, name: str, count: int) -> float:
    # An application each: tasks of one application wait for each other.
    return await _timed(count, lambda number: operator.submit(f"{name}-{number:06d}"))


async def _timed(count: int, call: Callable[[int], Awaitable[None]]) -> float:
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await call(number)

    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for _ in range(_IN_FLIGHT):
            group.create_task(work())
    return time.monotonic() - began


async def _finished(operator: Operator) -> int:
    outcomes = await operator.finished()
    if outcomes.keys() - {"succeeded"}:
        raise BrokenRunError(f"tasks that do nothing ended as {outcomes}")
    return outcomes.get("succeeded", 0)


async def _until_finished(operator: Operator, wanted: int) -> float:
    """Seconds until so many tasks have ended."""
    began = time.monotonic()
    while (done := await _finished(operator)) < wanted:
        if time.monotonic() - began > _FINISH_SECONDS:
            raise BrokenRunError(f"{done} of {wanted} tasks ended within {_FINISH_SECONDS:g} s")
        await asyncio.sleep(_LOOK_SECONDS)
    return time.monotonic() - began


async def _start_latency(operator: Operator, child: processes.Child, number: int) -> float:
    """Milliseconds."""
    submitted_at = time.monotonic()
    application = f"{TIMED}{number:06d}"
    await operator.submit(application)
    began, _ = await child.hear("began", within=30.0)
    if began["application"] != application:
        raise BrokenRunError(f"{began['application']} began where {application} was submitted")
    await asyncio.sleep(0.01)  # for its result to be taken, and the next poll to be open
    return 1000 * (float(began["at"]) - submitted_at)
