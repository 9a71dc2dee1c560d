"""Many delegates that have nothing to do, and their manager: what two thousand cost it, and how a thousand come back when it was away.

Each crowd is one process (`crowds`), the manager another, as people start it, on SQLite. For the second figure the manager is killed, stays
away for twenty seconds, and starts again; who is heard when is counted in the crowd. With two thousand its process, not the manager,
would be what is measured: it needs a whole core for six seconds.
"""

import asyncio
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from benchmarks import processes
from benchmarks.crowds import SIZE_VARIABLE, TOKEN_VARIABLE, URL_VARIABLE
from benchmarks.errors import BrokenRunError
from benchmarks.machine import load_average
from benchmarks.operators import Operator
from benchmarks.reports import Figure, Report, Target

_MEBIBYTE = 2**20
_READY_SECONDS = 60.0
_GATHER_SECONDS = 400.0
_BACK_SECONDS = 90.0
_SERVE = ["-m", "delegate", "manager", "serve"]


@dataclass(frozen=True)
class Sizes:
    """Delegates that idle, and that come back; and seconds."""

    idling: int
    returning: int
    settle: float
    idle: float
    away: float


FULL = Sizes(2000, 1000, 20.0, 60.0, 20.0)
QUICK = Sizes(20, 20, 0.5, 1.0, 1.0)


async def measure(directory: Path, *, quick: bool) -> Report:
    sizes = QUICK if quick else FULL
    circumstances = (load_average(),)
    return Report(
        subject="crowd",
        title=(
            f"{sizes.idling:,} delegates with nothing to do, idle for {sizes.idle:g} s; "
            f"then {sizes.returning:,} whose manager is killed, and away for {sizes.away:g} s"
        ),
        circumstances=circumstances,
        figures=(*await _measure_idling(directory / "idling", sizes), *await _measure_return(directory / "returning", sizes)),
    )


async def _measure_idling(directory: Path, sizes: Sizes) -> list[Figure]:
    async with _managed_crowd(directory, sizes.idling) as (_, manager, crowd), crowd.drained():
        await asyncio.sleep(sizes.settle)
        before = manager.usage()
        await asyncio.sleep(sizes.idle)
        after = manager.usage()
    cpu = 100 * (after.cpu_seconds - before.cpu_seconds) / sizes.idle
    return [
        Figure(name="manager: resident memory", value=after.rss_bytes / _MEBIBYTE, unit="MiB", target=Target("value", at_most=600.0)),
        Figure(name="manager: CPU", value=cpu, unit="% of a core", target=Target("value", at_most=50.0)),
    ]


async def _measure_return(directory: Path, sizes: Sizes) -> list[Figure]:
    size = sizes.returning
    async with _managed_crowd(directory, size) as (environment, manager, crowd):
        async with crowd.drained():
            await asyncio.sleep(sizes.settle)
            os.kill(manager.pid, signal.SIGKILL)
            await asyncio.sleep(sizes.away)
        async with processes.running(_SERVE, environment=environment, hears="stderr") as again:
            _, started_at = await again.hear("manager.started", within=_READY_SECONDS)
            async with again.drained():
                back = await _come_back(crowd, size, started_at)
    ordered = sorted(at - started_at for at in back.values())
    by_second = Counter(int(seconds) for seconds in ordered)
    mean = size / (max(by_second) + 1)
    soon = Target("value", at_most=30.0)
    return [
        Figure(name="95 of 100 are heard again after", value=ordered[int(0.95 * (size - 1))], unit="s", target=soon),
        Figure(name="all are heard again after", value=ordered[-1], unit="s", target=soon),
        Figure(name="heard again in the mean second", value=mean, unit=""),
        Figure(
            name="heard again in the busiest second",
            value=max(by_second.values()),
            unit="",
            against="heard again in the mean second",
            ratio=max(by_second.values()) / mean,
            target=Target("ratio", at_most=3.0),
        ),
    ]


@asynccontextmanager
async def _managed_crowd(directory: Path, size: int) -> AsyncIterator[tuple[dict[str, str], processes.Child, processes.Child]]:
    """A manager that keeps its state and its address in that environment, and a crowd of which all have a session."""
    port = _free_port()
    environment = {"DELEGATE_MANAGER_LISTEN": f"127.0.0.1:{port}", "DELEGATE_MANAGER_STATE_DIR": str(directory / "manager")}
    url = f"http://127.0.0.1:{port}"
    async with processes.running(_SERVE, environment=environment, hears="stderr") as manager, aiohttp.ClientSession() as session:
        await manager.hear("manager.started", within=_READY_SECONDS)
        secret = (directory / "manager" / "admin-token").read_text().strip()
        token = await Operator(session, url, secret).create_token()
        crowd_environment = {SIZE_VARIABLE: str(size), URL_VARIABLE: url, TOKEN_VARIABLE: token}
        async with processes.running(["-m", "benchmarks.standins", "crowd", ""], environment=crowd_environment) as crowd, manager.drained():
            await crowd.hear("gathered", within=_GATHER_SECONDS)
            yield environment, manager, crowd


async def _come_back(crowd: processes.Child, size: int, started_at: float) -> dict[int, float]:
    """When each was first heard after the manager had started. Raises BrokenRunError when some never are."""
    back: dict[int, float] = {}
    until = time.monotonic() + _BACK_SECONDS
    while len(back) < size:
        if time.monotonic() > until:
            raise BrokenRunError(f"{len(back)} of {size} came back within {_BACK_SECONDS:g} s")
        heard, _ = await crowd.hear("heard", within=_READY_SECONDS)
        for number, at in zip(heard["delegates"], heard["times"], strict=True):
            if at >= started_at - 0.5:
                back.setdefault(number, max(at, started_at))
    return back


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        return int(reserved.getsockname()[1])
