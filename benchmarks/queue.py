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
from benchmarks.reports import Figure, Report, Target, of_samples, percentile
from benchmarks.standins import TIMED

_READY_SECONDS = 60.0
_FINISH_SECONDS = 120.0
_LOOK_SECONDS = 0.02
_IN_FLIGHT = 64
_CAPACITY = 256
POSTS = "bare durable posts"


@dataclass(frozen=True)
class Sizes:
    tasks: int
    posts: int
    timed: int
    rounds: int


FULL = Sizes(tasks=5000, posts=10_000, timed=300, rounds=3)
QUICK = Sizes(tasks=20, posts=50, timed=3, rounds=1)


@dataclass(frozen=True)
class _Round:
    """Tasks or posts a second, and milliseconds of processor time that one task of the backlog took."""

    posts: float
    submitted: float
    drained: float
    through: float
    manager_cpu: float
    delegate_cpu: float


async def measure(directory: Path, *, quick: bool) -> Report:
    sizes = QUICK if quick else FULL
    circumstances = (load_average(), f"SQLite on {file_system_of(directory)}")
    async with managing(directory) as (operator, manager):
        token = await operator.create_token()
        settings = delegate_settings(directory / "delegate", operator, token, capacity=_CAPACITY)
        # Once, so that the manager knows a delegate that reaches the destination.
        async with _delegate(directory, settings) as child:
            await child.hear("ready", within=_READY_SECONDS)
        rounds = [await _run_round(directory, operator, manager, settings, number=number, sizes=sizes) for number in range(sizes.rounds)]
        async with _delegate(directory, settings) as child:
            await child.hear("ready", within=_READY_SECONDS)
            latencies = [await _start_latency(operator, child, number) for number in range(sizes.timed)]
    posts = [each.posts for each in rounds]

    def against_posts(name: str, rates: list[float], target: Target | None = None) -> Figure:
        return of_samples(name, rates, "tasks/s", against=POSTS, base=posts, target=target)

    return Report(
        subject="queue",
        title=f"{sizes.tasks:,} tasks that do nothing, capacity {_CAPACITY}, {_IN_FLIGHT} requests in flight; median of {sizes.rounds}",
        circumstances=circumstances,
        figures=(
            of_samples(POSTS, posts, "/s"),
            against_posts("submitted, nobody working", [each.submitted for each in rounds]),
            against_posts("backlog worked off", [each.drained for each in rounds], Target("value", at_least=5000.0)),
            of_samples("  CPU of the manager for each", [each.manager_cpu for each in rounds], "ms"),
            of_samples("  CPU of the delegate for each", [each.delegate_cpu for each in rounds], "ms"),
            against_posts("submitted and worked off at once", [each.through for each in rounds]),
            Figure(name="start latency, p50", value=percentile(latencies, 0.50), unit="ms", target=Target("value", at_most=5.0)),
            Figure(name="start latency, p99", value=percentile(latencies, 0.99), unit="ms", target=Target("value", at_most=25.0)),
        ),
    )


async def _run_round(
    directory: Path, operator: Operator, manager: processes.Child, settings: dict[str, str], *, number: int, sizes: Sizes
) -> _Round:
    tasks = sizes.tasks
    posting = await _post(directory, number, sizes.posts)
    submitting = await _submit_all(operator, f"backlog-{number}", tasks)
    before = await _finished(operator)
    async with _delegate(directory, settings) as child:
        await child.hear("ready", within=_READY_SECONDS)
        ends = manager, child
        used = [each.usage().cpu_seconds for each in ends]
        draining = await _until_finished(operator, before + tasks)
        manager_cpu, delegate_cpu = (each.usage().cpu_seconds - earlier for each, earlier in zip(ends, used, strict=True))
        began = time.monotonic()
        await _submit_all(operator, f"through-{number}", tasks)
        await _until_finished(operator, before + 2 * tasks)
        through = time.monotonic() - began
    return _Round(
        posts=sizes.posts / posting,
        submitted=tasks / submitting,
        drained=tasks / draining,
        through=tasks / through,
        manager_cpu=1000 * manager_cpu / tasks,
        delegate_cpu=1000 * delegate_cpu / tasks,
    )


def _delegate(directory: Path, settings: dict[str, str]) -> AbstractAsyncContextManager[processes.Child]:
    arguments = ["-m", "benchmarks.standins", "delegate", settings["DELEGATE_STATE_DIR"]]
    return processes.running(arguments, environment=settings, log=directory / "delegate.log")


async def _post(directory: Path, number: int, count: int) -> float:
    """Seconds that durable posts take that carry as much as a task."""
    body = msgspec.json.encode({"application": "posts-000000", "padding": "x" * 200})
    async with (
        processes.running(
            ["-m", "benchmarks.standins", "posts", str(directory / f"posts-{number}.db")], log=directory / "posts.log"
        ) as child,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        ready, _ = await child.hear("ready", within=_READY_SECONDS)

        async def post(_: int) -> None:
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
    began, before = time.monotonic(), await _finished(operator)
    while (done := await _finished(operator)) < wanted:
        passed = time.monotonic() - began
        if passed > _FINISH_SECONDS:
            raise BrokenRunError(f"{done} of {wanted} tasks ended within {_FINISH_SECONDS:g} s")
        # A look costs the manager as much as thirty tasks, so there are few of them, most towards the end.
        rate = (done - before) / passed
        await asyncio.sleep(min(0.5, max(_LOOK_SECONDS, 0.7 * (wanted - done) / rate if rate else 0.2)))
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
