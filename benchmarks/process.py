"""The delegate as a process: how long from its start until it is registered, and what it takes while it has nothing to do.

Beside it runs the least that a client of this kind is: Python with aiohttp that makes one call to the same manager, and waits.
The delegate reaches a simulated cluster by kubeconfig, so that its cluster libraries are in memory as they are in real use.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from benchmarks import processes
from benchmarks.errors import BrokenRunError
from benchmarks.machine import load_average
from benchmarks.operators import Operator, delegate_settings, managing
from benchmarks.reports import Figure, Report, Target, of_samples

_MEBIBYTE = 2**20
_READY_SECONDS = 60.0
BARE = "bare client"


@dataclass(frozen=True)
class Sizes:
    starts: int
    settle_seconds: float
    idle_seconds: float


@dataclass(frozen=True)
class _Start:
    seconds: float
    cpu_seconds: float


FULL = Sizes(starts=5, settle_seconds=5.0, idle_seconds=20.0)
QUICK = Sizes(starts=1, settle_seconds=0.2, idle_seconds=0.5)


async def measure(directory: Path, *, quick: bool) -> Report:
    sizes = QUICK if quick else FULL
    kubeconfig = directory / "kubeconfig"
    simulator = processes.running(["-m", "benchmarks.standins", "simulator", str(kubeconfig)], log=directory / "simulator.log")
    async with managing(directory) as (operator, _), simulator as cluster:
        await cluster.hear("ready", within=_READY_SECONDS)
        circumstances = (load_average(),)
        token = await operator.create_token()
        bare, first, again = list[_Start](), list[_Start](), list[_Start]()
        for number in range(sizes.starts):
            settings = delegate_settings(directory / f"state-{number}", operator, token, kubeconfig=str(kubeconfig))
            bare.append(await _start_bare(operator))
            first.append(await _start(settings))
            again.append(await _start(settings))
        settings = delegate_settings(directory / "idle", operator, token, kubeconfig=str(kubeconfig))
        idle = await _idle(operator, settings, sizes)
    soon = Target("value", at_most=1.0)

    def seconds(starts: list[_Start]) -> list[float]:
        return [each.seconds for each in starts]

    def cpu(starts: list[_Start]) -> list[float]:
        return [each.cpu_seconds for each in starts]

    return Report(
        subject="process",
        title=f"a delegate's process, median of {sizes.starts} starts; idle for {sizes.idle_seconds:g} s",
        circumstances=circumstances,
        figures=(
            of_samples(f"{BARE}: start to first answer", seconds(bare), "s"),
            of_samples("delegate: start to registered, enrolling", seconds(first), "s", against=BARE, base=seconds(bare), target=soon),
            of_samples("  enrolled before", seconds(again), "s", against=BARE, base=seconds(bare), target=soon),
            of_samples(f"{BARE}: CPU until then", cpu(bare), "s"),
            of_samples("delegate: CPU until then", cpu(again), "s", against=BARE, base=cpu(bare)),
            *idle,
        ),
    )


async def _start(settings: dict[str, str]) -> _Start:
    """From the start of the process until its session is open."""
    async with processes.running(["-m", "delegate", "run"], environment=settings, hears="stderr") as child:
        return await _started(child, "session.opened")


async def _start_bare(operator: Operator) -> _Start:
    async with processes.running(["-m", "benchmarks.standins", "waiting", operator.url + "/healthz"]) as child:
        return await _started(child, "ready")


async def _started(child: processes.Child, event: str) -> _Start:
    _, at = await child.hear(event, within=_READY_SECONDS)
    return _Start(at - child.started_at, child.usage().cpu_seconds)


async def _idle(operator: Operator, settings: dict[str, str], sizes: Sizes) -> list[Figure]:
    async with (
        processes.running(["-m", "benchmarks.standins", "waiting", operator.url + "/healthz"]) as bare,
        processes.running(["-m", "delegate", "run"], environment=settings, hears="stderr") as child,
    ):
        await bare.hear("ready", within=_READY_SECONDS)
        await child.hear("clusters.found", within=_READY_SECONDS)
        async with child.drained():
            await asyncio.sleep(sizes.settle_seconds)
            if await operator.connected() < 1:
                raise BrokenRunError("the delegate is not connected, so it does not idle as it should")
            before, bare_before = child.usage(), bare.usage()
            await asyncio.sleep(sizes.idle_seconds)
            after, bare_after = child.usage(), bare.usage()
    memory, bare_memory = after.rss_bytes / _MEBIBYTE, bare_after.rss_bytes / _MEBIBYTE
    cpu = _share(before, after, sizes.idle_seconds)
    bare_cpu = _share(bare_before, bare_after, sizes.idle_seconds)
    return [
        Figure(name=f"{BARE}: resident memory", value=bare_memory, unit="MiB"),
        Figure(
            name="delegate: resident memory, idle",
            value=memory,
            unit="MiB",
            against=BARE,
            ratio=memory / bare_memory,
            target=Target("value", at_most=100.0),
        ),
        Figure(name=f"{BARE}: CPU", value=bare_cpu, unit="% of a core"),
        Figure(name="delegate: CPU, idle", value=cpu, unit="% of a core", target=Target("value", at_most=0.5)),
    ]


def _share(before: processes.Usage, after: processes.Usage, seconds: float) -> float:
    """Percent of one core."""
    return 100 * (after.cpu_seconds - before.cpu_seconds) / seconds
