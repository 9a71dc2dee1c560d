"""The simulated cluster by itself: its start, 1,000 server-side applies, and a list of 1,000 Deployments.

It is the command that people start, and has one core for itself where there are two. What is compared is a request to the same server
that does nothing (`/version`): what of a figure is HTTP, and what is the cluster.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec

from benchmarks.bare import IN_FLIGHT, bare_client
from benchmarks.errors import BrokenRunError
from benchmarks.machine import load_average
from benchmarks.reports import Figure, Report, Target, of_samples
from benchmarks.sets import application_objects

_OBJECTS = 1_000
_ROUNDS = 5
_TOKEN = "bench"  # of a server that lives as long as the benchmark
_START_SECONDS = 30.0
_REST_SECONDS = 30.0
_NOTHING = "requests that do nothing"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments"


class _Server(msgspec.Struct, frozen=True):
    url: str
    kubeconfig: Path
    start_seconds: float
    pid: int

    def processor_seconds(self) -> float:
        """Of all its threads since its start, by fields 14 and 15 of proc_pid_stat(5)."""
        fields = (Path("/proc") / str(self.pid) / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def _started(directory: Path) -> AsyncIterator[_Server]:
    kubeconfig = directory / "kubeconfig"
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "delegate", "simulator", "--admin-token", _TOKEN, "--kubeconfig-out", str(kubeconfig)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_START_SECONDS):
            line = await process.stdout.readline()
        seconds = time.monotonic() - began
        if not line:
            raise BrokenRunError("delegate simulator ended before it had an address")
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(process.pid, cores[-1:])
        yield _Server(line.decode().strip(), kubeconfig, seconds, process.pid)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def _nothing(session: aiohttp.ClientSession, url: str, count: int) -> float:
    """So many requests that the server answers from memory, as many in flight as applies."""
    left = iter(range(count))
    began = time.monotonic()

    async def send() -> None:
        for _ in left:
            async with session.get(f"{url}/version") as response:
                await response.read()

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(send())
    return time.monotonic() - began


async def _list(session: aiohttp.ClientSession, url: str, namespace: str, count: int) -> float:
    began = time.monotonic()
    async with session.get(url + _DEPLOYMENTS.format(namespace)) as response:
        body = await response.read()
    seconds = time.monotonic() - began
    if len(msgspec.json.decode(body)["items"]) != count:
        raise BrokenRunError("a list of Deployments was not whole")
    return seconds


class _Measured(msgspec.Struct):
    starts: list[float] = []
    nothing: list[float] = []
    mixed: list[float] = []
    mixed_processor: list[float] = []
    deployments: list[float] = []
    deployments_processor: list[float] = []
    lists: list[float] = []


async def measure(directory: Path, *, quick: bool) -> Report:
    objects, rounds = (20, 1) if quick else (_OBJECTS, _ROUNDS)
    circumstances = (load_average(),)
    measured = _Measured()
    for number in range(rounds):
        home = directory / str(number)
        home.mkdir()
        await _round(home, objects, measured)
    title = "the simulated cluster alone, on one core"
    return Report(subject="simulated", title=title, circumstances=circumstances, figures=_figures(objects, measured))


async def _round(home: Path, objects: int, measured: _Measured) -> None:
    """On a server of its own, whose controllers come to rest between two figures."""
    headers = {"Authorization": f"Bearer {_TOKEN}"}
    async with _started(home) as server, bare_client(server.kubeconfig) as client, aiohttp.ClientSession(headers=headers) as session:
        measured.starts.append(server.start_seconds)
        for namespace in ("mixed", "all"):
            await client.create_namespace(namespace)
        measured.nothing.append(await _nothing(session, server.url, objects))
        before = server.processor_seconds()
        measured.mixed.append(await client.apply_all(application_objects(objects, namespace="mixed")))
        measured.mixed_processor.append(server.processor_seconds() - before)
        await client.until_quiet(_REST_SECONDS)
        deployments = [each for each in application_objects(objects * 4, namespace="all") if each["kind"] == "Deployment"]
        before = server.processor_seconds()
        measured.deployments.append(await client.apply_all(deployments))
        measured.deployments_processor.append(server.processor_seconds() - before)
        await client.until_quiet(_REST_SECONDS)
        measured.lists.append(await _list(session, server.url, "all", objects))


def _figures(objects: int, measured: _Measured) -> tuple[Figure, ...]:
    def compared(name: str, samples: list[float], target: Target) -> Figure:
        return of_samples(name, samples, "s", against=_NOTHING, base=measured.nothing, target=target)

    return (
        of_samples("start, until its address is printed", measured.starts, "s", target=Target("value", at_most=0.5)),
        of_samples(f"{objects:,} {_NOTHING}", measured.nothing, "s"),
        compared(f"{objects:,} applies, four kinds", measured.mixed, Target("value", at_most=1.5)),
        of_samples("  the server's processor time", measured.mixed_processor, "s"),
        compared(f"{objects:,} applies of Deployments", measured.deployments, Target("value", at_most=1.5)),
        of_samples(
            "  the server's processor time", measured.deployments_processor, "s", note="with its controllers, which begin meanwhile"
        ),
        compared(f"list of {objects:,} Deployments", measured.lists, Target("value", at_most=0.06)),
    )
