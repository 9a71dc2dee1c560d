"""A hundred thousand tasks through one manager and one delegate: memory, descriptors, threads and child processes stay as they were.

What grows for good is the manager's database, as far as what has ended is kept. Both processes are compared with themselves after the first
tenth, when caches are full and every path was gone.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import processes
from benchmarks.errors import BrokenRunError
from benchmarks.machine import load_average
from benchmarks.operators import Operator, delegate_settings, managing
from benchmarks.reports import Figure, Report, Target

_MEBIBYTE = 2**20
_CAPACITY = 256
_IN_FLIGHT = 64
_APPLICATIONS = 500
_READY_SECONDS = 60.0
_IDLE_SECONDS = 120.0
FIRST = "after the first tenth"


@dataclass(frozen=True)
class Holdings:
    """What a process holds."""

    rss_bytes: int
    descriptors: int
    threads: int
    children: int

    @classmethod
    def of(cls, child: processes.Child) -> "Holdings":
        process = Path("/proc") / str(child.pid)
        children = (process / "task" / str(child.pid) / "children").read_text().split()
        return cls(child.usage().rss_bytes, len(os.listdir(process / "fd")), len(os.listdir(process / "task")), len(children))


@dataclass(frozen=True)
class Pair:
    manager: Holdings
    delegate: Holdings


async def measure(directory: Path, *, quick: bool) -> Report:
    tasks = 100 if quick else 100_000
    circumstances = (load_average(),)
    first, last = [pair async for pair in soak(directory, tasks)]
    return Report(
        subject="soak",
        title=f"{tasks:,} tasks that do nothing, of {_APPLICATIONS} applications, capacity {_CAPACITY}",
        circumstances=circumstances,
        figures=(*_figures("manager", first.manager, last.manager), *_figures("delegate", first.delegate, last.delegate)),
    )


def _figures(name: str, first: Holdings, last: Holdings) -> list[Figure]:
    def figure(what: str, before: float, after: float, unit: str, most: float) -> Figure:
        words = f"{name}: {what}"
        ratio = after / before if before else None
        return Figure(
            name=words, value=after, unit=unit, against=FIRST, ratio=ratio, target=Target("ratio", at_most=most) if before else None
        )

    return [
        figure("memory", first.rss_bytes / _MEBIBYTE, last.rss_bytes / _MEBIBYTE, "MiB", 1.1),
        figure("descriptors", first.descriptors, last.descriptors, "", 1.1),
        figure("threads", first.threads, last.threads, "", 1.1),
        figure("child processes", first.children, last.children, "", 1.0),
    ]


async def soak(directory: Path, tasks: int) -> AsyncIterator[Pair]:
    """What both hold after the first tenth and in the end, each time with nothing left to do."""
    async with managing(directory) as (operator, manager):
        token = await operator.create_token()
        settings = delegate_settings(directory / "delegate", operator, token, capacity=_CAPACITY)
        arguments = ["-m", "benchmarks.standins", "delegate", settings["DELEGATE_STATE_DIR"]]
        async with processes.running(arguments, environment=settings, log=directory / "delegate.log") as child:
            await child.hear("ready", within=_READY_SECONDS)
            for part in (range(tasks // 10), range(tasks // 10, tasks)):
                await _submit(operator, part)
                await _until_finished(operator, part.stop)
                yield Pair(Holdings.of(manager), Holdings.of(child))


async def _submit(operator: Operator, wanted: range) -> None:
    numbers = iter(wanted)

    async def work() -> None:
        for number in numbers:
            await operator.submit(f"soak-{number % _APPLICATIONS:03d}")

    async with asyncio.TaskGroup() as group:
        for _ in range(_IN_FLIGHT):
            group.create_task(work())


async def _until_finished(operator: Operator, wanted: int) -> None:
    """Raises BrokenRunError when nothing ends for a while."""
    idle, before = 0.0, -1
    while (done := sum((await operator.finished()).values())) < wanted:
        idle = 0.0 if done != before else idle + 0.2
        before = done
        if idle > _IDLE_SECONDS:
            raise BrokenRunError(f"{done} of {wanted} tasks have ended, and no more do")
        await asyncio.sleep(0.2)
