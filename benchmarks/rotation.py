"""Certificates that live seconds, under load: how many rotations, how many calls meanwhile, how many of those failed.

Delegates, all in one process, work for a manager in another one that speaks TLS and gives certificates. Tasks are submitted all the time,
and heartbeats go twice a second. First the certificates live two days; then they live four seconds, until 1,000 have been replaced.
A call has failed if the delegate got no answer to it or the manager's answer was no success. Latency is from the moment a task is
submitted until its work begins, with polls open, one task at a time beside the load.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks import processes
from benchmarks.fleets import SIZE_VARIABLE, Status
from benchmarks.machine import load_average
from benchmarks.operators import Operator, authorities_of, delegate_settings, managing
from benchmarks.reports import Figure, Report, Target, percentile
from benchmarks.standins import TIMED

_READY_SECONDS = 60.0
_MEBIBYTE = 2**20
_SILENCE_SECONDS = 15.0
_LOAD_SECONDS = 0.1
_LATENCIES_A_LOOK = 5
BASE = "certificates that live days"


@dataclass(frozen=True)
class Sizes:
    delegates: int
    rotations: int
    base_seconds: float


FULL = Sizes(delegates=16, rotations=1000, base_seconds=30.0)
QUICK = Sizes(delegates=2, rotations=4, base_seconds=2.0)


@dataclass(frozen=True)
class _Phase:
    """What one phase came to. `latencies` in milliseconds; `early` is the status at a fifth of it."""

    seconds: float
    calls: int
    refused: int
    early: Status
    late: Status
    latencies: list[float]
    cpu_seconds: float


async def measure(directory: Path, *, quick: bool) -> Report:
    sizes = QUICK if quick else FULL
    circumstances = (load_average(),)
    async with managing(directory, secured=True) as (operator, manager):
        token = await operator.create_token()
        base = await _run(directory, operator, manager, token, sizes, interval="24h", rotations=0)
        short = await _run(directory, operator, manager, token, sizes, interval="2s", rotations=sizes.rotations)
    rotated = short.late.rotated
    none = Target("value", at_most=0.0)

    def latency(share: float) -> Figure:
        value, before = percentile(short.latencies, share), percentile(base.latencies, share)
        return Figure(name=f"start latency, p{100 * share:.0f}", value=value, unit="ms", against=BASE, ratio=value / before)

    return Report(
        subject="rotation",
        title=f"{sizes.delegates} delegates whose certificates live four seconds, under load, until {sizes.rotations:,} were replaced",
        circumstances=circumstances,
        figures=(
            Figure(name="rotations", value=rotated, unit="", target=Target("value", at_least=float(sizes.rotations))),
            Figure(name="  that failed and were made again", value=short.late.failed, unit="", target=none),
            Figure(name="calls to the manager meanwhile", value=short.calls, unit=""),
            Figure(name="  without an answer", value=short.late.faults, unit="", target=none),
            Figure(name="  answered by other than success", value=short.refused, unit="", target=none),
            Figure(name="seconds", value=short.seconds, unit="s", note=f"{rotated / short.seconds:.1f} rotations a second"),
            Figure(name=f"{BASE}: start latency, p50", value=percentile(base.latencies, 0.5), unit="ms"),
            Figure(name=f"{BASE}: start latency, p99", value=percentile(base.latencies, 0.99), unit="ms"),
            latency(0.5),
            latency(0.99),
            Figure(name="CPU of both ends for each rotation", value=_cpu_of_one(base, short), unit="ms", note="above the load alone"),
            *_growth(short),
        ),
    )


def _cpu_of_one(base: _Phase, short: _Phase) -> float:
    """Milliseconds, of both processes together."""
    above = short.cpu_seconds - base.cpu_seconds / base.seconds * short.seconds
    return 1000 * above / short.late.rotated


def _growth(short: _Phase) -> tuple[Figure, ...]:
    early, late = short.early, short.late
    since = f"after {early.rotated:,} rotations it was "
    return (
        Figure(name="TLS contexts", value=late.contexts, unit="", note=f"{since}{early.contexts}"),
        Figure(name="descriptors", value=late.descriptors, unit="", note=f"{since}{early.descriptors}"),
        Figure(name="threads", value=late.threads, unit="", note=f"{since}{early.threads}"),
        Figure(name="memory", value=late.rss_bytes / _MEBIBYTE, unit="MiB", note=f"{since}{early.rss_bytes / _MEBIBYTE:.0f}"),
    )


async def _run(
    directory: Path, operator: Operator, manager: processes.Child, token: str, sizes: Sizes, *, interval: str, rotations: int
) -> _Phase:
    """For as long as the base takes, or until there were so many rotations."""
    environment = {
        **delegate_settings(directory / "fleet", operator, token),
        "DELEGATE_MANAGER_CA_FILE": str(authorities_of(directory)),
        "DELEGATE_ROTATE_INTERVAL": interval,
        SIZE_VARIABLE: str(sizes.delegates),
    }
    arguments = ["-m", "benchmarks.standins", "fleet", str(directory / f"fleet-{interval}")]
    async with processes.running(arguments, environment=environment, log=directory / f"fleet-{interval}.log") as child:
        while (await _status(child)).registered < sizes.delegates:
            pass
        calls, refused = await operator.answers()
        used, began = _cpu_of(manager, child), time.monotonic()
        latencies: list[float] = []
        early = status = await _status(child)
        async with _loaded(operator):
            while status.rotated < rotations if rotations else time.monotonic() - began < sizes.base_seconds:
                for _ in range(_LATENCIES_A_LOOK):
                    latencies.append(await _start_latency(operator, child, len(latencies)))
                status = await _status(child)
                if early.rotated < rotations / 5:
                    early = status
            seconds = time.monotonic() - began
            cpu = _cpu_of(manager, child) - used
        after, after_refused = await operator.answers()
        status = await _status(child)
    return _Phase(seconds, after - calls, after_refused - refused, early, status, latencies, cpu)


def _cpu_of(*children: processes.Child) -> float:
    return sum(each.usage().cpu_seconds for each in children)


async def _status(child: processes.Child) -> Status:
    body, _ = await child.hear("status", within=_SILENCE_SECONDS)
    return msgspec.convert(body, Status)


@contextlib.asynccontextmanager
async def _loaded(operator: Operator) -> AsyncIterator[None]:
    """Submits tasks all the time while inside."""

    async def submit() -> None:
        number = 0
        while True:
            await operator.submit(f"load-{number % 50:02d}")
            number += 1
            await asyncio.sleep(_LOAD_SECONDS)

    submitting = asyncio.create_task(submit())
    try:
        yield
        if submitting.done():
            submitting.result()
    finally:
        submitting.cancel()
        await asyncio.wait([submitting])


async def _start_latency(operator: Operator, child: processes.Child, number: int) -> float:
    """Milliseconds."""
    application = f"{TIMED}{number:06d}"
    submitted_at = time.monotonic()
    await operator.submit(application)
    while True:
        began, _ = await child.hear("began", within=_SILENCE_SECONDS)
        if began["application"] == application:  # an earlier one may begin again on a machine that is too busy
            return 1000 * (float(began["at"]) - submitted_at)
