"""Canaries on one delegate: what the engine adds to each step beyond the waits that were asked for, alone and 150 at once.

A step's lateness is the time between its entry in the journal and the one before, less the pause or the evidence that it had to wait
for. Pods of the simulated cluster are ready at once; the steps that wait for pods are left out all the same. The metrics are an HTTP
endpoint of this process.
"""

import asyncio
import datetime as dt
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from aiohttp import web

from benchmarks import processes
from benchmarks.bare import BareClient, bare_client
from benchmarks.errors import BrokenRunError
from benchmarks.machine import load_average
from benchmarks.operators import Operator, delegate_settings, managing
from benchmarks.reports import Figure, Report, Target, of_samples, percentile
from delegate.model.resources import JsonObject

_NAMESPACE = "bench-canaries"
_READY_SECONDS, _END_SECONDS, _LOOK_SECONDS = 60.0, 240.0, 0.25
_CAPACITY = 16
_MEBIBYTE = 2**20
_ENTRY = re.compile(r"^(\S+) step \d+: (paused|verified|setWeight)")
ALONE, SLOWEST, THREE = "one canary", "verify, the slowest check alone", "verify, three checks"


class Sizes(msgspec.Struct, frozen=True):
    rounds: int
    crowd: int
    pause: float
    evidence: float


class Late(msgspec.Struct, frozen=True):
    """By how many seconds a step ended later than it could have."""

    step: str
    seconds: float


FULL = Sizes(rounds=5, crowd=150, pause=20.0, evidence=4.0)
QUICK = Sizes(rounds=1, crowd=2, pause=0.5, evidence=0.4)


async def measure(directory: Path, *, quick: bool) -> Report:
    sizes = QUICK if quick else FULL
    kubeconfig = directory / "kubeconfig"
    simulator = processes.running(["-m", "benchmarks.standins", "simulator", str(kubeconfig)], log=directory / "simulator.log")
    async with managing(directory) as (operator, _), simulator as cluster, _metrics() as url:
        await cluster.hear("ready", within=_READY_SECONDS)
        circumstances = (load_average(),)
        settings = delegate_settings(
            directory / "delegate", operator, await operator.create_token(), capacity=_CAPACITY, kubeconfig=str(kubeconfig)
        )
        async with (
            bare_client(kubeconfig) as client,
            processes.running(["-m", "delegate", "run"], environment=settings, hears="stderr") as child,
        ):
            await child.hear("clusters.found", within=_READY_SECONDS)
            async with child.drained():
                figures = await _measure(operator, client, child, sizes, url)
    return Report(
        subject="canaries",
        title=f"canaries of Deployments on a delegate of {_CAPACITY} slots: one at a time, then {sizes.crowd} at once",
        circumstances=circumstances,
        figures=tuple(figures),
    )


async def _measure(operator: Operator, client: BareClient, child: processes.Child, sizes: Sizes, url: str) -> list[Figure]:
    await client.create_namespace(_NAMESPACE)
    names = [f"web-{number:03d}" for number in range(sizes.crowd)]
    await client.apply_all(body for name in names for body in _workload(name))
    await client.until_quiet(_READY_SECONDS)
    alone, slowest, three = list[Late](), list[float](), list[float]()
    for number in range(sizes.rounds):
        for checks, taken in ((1, slowest), (3, three)):
            version = f"{number}.{checks}"
            _, results = await _run_all(operator, child, [_canary(names[0], version, sizes, _checks(url, sizes, checks))])
            late = _lateness(results[0], sizes)
            taken += [sizes.evidence + each.seconds for each in late if each.step == "verified"]
            alone += late
    checks_of_one = _checks(url, sizes, 1)
    peak, results = await _run_all(operator, child, [_canary(name, "crowd", sizes, checks_of_one) for name in names])
    crowd = [each for result in results for each in _lateness(result, sizes)]
    return [*_figures_of_one(alone, slowest, three), *_figures_of_crowd(alone, crowd, peak)]


async def _run_all(operator: Operator, child: processes.Child, documents: Sequence[JsonObject]) -> tuple[float, list[JsonObject]]:
    """The delegate's largest memory meanwhile in MiB, and the results."""
    left = deque([await operator.submit_document(document) for document in documents])
    ends_at = time.monotonic() + _END_SECONDS
    peak, results = 0.0, list[JsonObject]()
    while left:
        await asyncio.sleep(_LOOK_SECONDS)
        peak = max(peak, child.usage().rss_bytes / _MEBIBYTE)
        if (result := await operator.result_of(left[0])) is None:
            if time.monotonic() > ends_at:
                raise BrokenRunError(f"{len(left)} canaries have not ended within {_END_SECONDS:g} s")
            continue
        left.popleft()
        results.append(result)
        if result["outcome"] != "succeeded":
            raise BrokenRunError(f"the canary of {result['application']} ended as {result['outcome']}: {result['message']}")
    return peak, results


def _lateness(result: JsonObject, sizes: Sizes) -> list[Late]:
    late: list[Late] = []
    asked = {"paused": sizes.pause, "verified": sizes.evidence, "setWeight": 0.0}
    before: dt.datetime | None = None
    for notice in result["notices"]:
        found = _ENTRY.match(notice)
        at = dt.datetime.fromisoformat(found[1]) if found else None
        if found and at is not None and before is not None:  # the first step waits for pods
            late.append(Late(found[2], (at - before).total_seconds() - asked[found[2]]))
        before = at or before
    return late


def _canary(name: str, version: str, sizes: Sizes, checks: list[JsonObject]) -> JsonObject:
    return {
        "kind": "canary",
        "application": name,
        "destination": {"name": "simulator", "namespace": _NAMESPACE},
        "timeout": f"{_END_SECONDS:g}s",
        "spec": {
            "workload": {"kind": "Deployment", "name": name},
            "images": {"main": f"registry.example/{name}:{version}"},
            "steps": [
                {"setWeight": 50},
                {"pause": {"duration": f"{sizes.pause:g}s"}},
                {"verify": [each["name"] for each in checks]},
                {"setWeight": 50},
            ],
            "verification": checks,
            "minReady": "0s",
            "drain": "0s",
        },
    }


def _checks(url: str, sizes: Sizes, number: int) -> list[JsonObject]:
    """The first takes as long as there has to be evidence, the others half of it."""
    return [
        {
            "name": f"errors-{index}",
            "type": "http",
            "url": url,
            "query": "$.errors",
            "unit": "%",
            "threshold": "<= 1%",
            "every": f"{sizes.evidence / 4:g}s",
            "for": f"{sizes.evidence if index == 0 else sizes.evidence / 2:g}s",
        }
        for index in range(number)
    ]


def _workload(name: str) -> Iterable[JsonObject]:
    labels = {"app": name}
    metadata = {"name": name, "namespace": _NAMESPACE}
    containers = [{"name": "main", "image": f"registry.example/{name}:first"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    yield {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": labels, "ports": [{"port": 80}]}}
    yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


@asynccontextmanager
async def _metrics() -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        del request
        return web.json_response({"errors": 0.1})

    application = web.Application()
    application.router.add_get("/metrics", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    finally:
        await runner.cleanup()


def _figures_of_one(alone: Sequence[Late], slowest: Sequence[float], three: Sequence[float]) -> list[Figure]:
    seconds = [each.seconds for each in alone]
    return [
        of_samples(f"{ALONE}: what a step takes beyond its wait", seconds, "s"),
        Figure(name="  the longest", value=max(seconds), unit="s", target=Target("value", at_most=0.3)),
        of_samples(SLOWEST, slowest, "s"),
        of_samples(THREE, three, "s", against=SLOWEST, base=slowest, target=Target("ratio", at_most=1.1)),
    ]


def _figures_of_crowd(alone: Sequence[Late], crowd: Sequence[Late], peak: float) -> list[Figure]:
    seconds = [each.seconds for each in crowd]
    return [
        of_samples("the crowd: what a step takes beyond its wait", seconds, "s"),
        Figure(name="  99 of 100", value=percentile(seconds, 0.99), unit="s"),
        Figure(
            name="  the longest",
            value=max(seconds),
            unit="s",
            against=ALONE,
            ratio=max(seconds) / max(0.001, *(each.seconds for each in alone)),
            target=Target("value", at_most=2.0),
        ),
        Figure(name="  memory of the delegate, peak", value=peak, unit="MiB", target=Target("value", at_most=250.0)),
    ]
