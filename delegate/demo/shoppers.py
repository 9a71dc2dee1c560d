"""The demo's customers: real requests to a front door that hands each to a ready pod of the shop, and counts how they were answered.

Pods of the simulated cluster run nothing, so the door answers for them: which of them are ready is the cluster's word, whether an
answer is an error is a matter of the pod's image. The counts are what the demo's checks ask for.
"""

import asyncio
import time
from collections import Counter, deque
from itertools import count
from types import TracebackType
from typing import NamedTuple, Self

import aiohttp
from aiohttp import web

from delegate.demo.clusters import ClusterView
from delegate.model.resources import JsonObject

GOOD_FAILS_EVERY = 25
BAD_FAILS_EVERY = 4
_SHOPPERS = 4
_PACE_SECONDS = 0.02
_LOOK_SECONDS = 0.1
_KEPT = 10_000
_CALL = aiohttp.ClientTimeout(total=5.0)


class Pod(NamedTuple):
    name: str
    image: str

    @property
    def workload(self) -> str:
        """Its Deployment: a pod's name is that, the ReplicaSet's hash, and its own."""
        return self.name.rsplit("-", 2)[0]


class Checkout(NamedTuple):
    at: float
    workload: str
    failed: bool


class Shoppers:
    """They shop while the context is entered. `url` is the door's; `bad_images` are those that answer one in four with an error."""

    def __init__(self, cluster: ClusterView, *, selector: str, bad_images: frozenset[str]) -> None:
        self.url = ""
        self._cluster = cluster
        self._selector = selector
        self._bad_images = bad_images
        self._pods: tuple[Pod, ...] = ()
        self._turn = count()
        self._served: Counter[str] = Counter()
        self._checkouts: deque[Checkout] = deque(maxlen=_KEPT)
        self._runner: web.AppRunner | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_get("/checkout", self._check_out)
        application.router.add_get("/statistics", self._show_statistics)
        self._runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        self._tasks = [asyncio.create_task(self._look()), *(asyncio.create_task(self._shop()) for _ in range(_SHOPPERS))]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()

    async def _look(self) -> None:
        """Follows which pods are ready, as whoever balances the load of a Service does."""
        while True:
            found = await self._cluster.read(f"pods?labelSelector={self._selector}")
            self._pods = tuple(_pod(each) for each in (found or {}).get("items", ()) if _is_ready(each))
            await asyncio.sleep(_LOOK_SECONDS)

    async def _shop(self) -> None:
        async with aiohttp.ClientSession(timeout=_CALL) as session:
            while True:
                async with session.get(f"{self.url}/checkout") as answer:
                    await answer.read()
                await asyncio.sleep(_PACE_SECONDS)

    async def _check_out(self, request: web.Request) -> web.Response:
        if not self._pods:
            return web.Response(status=503, text="the shop is closed\n")
        pod = self._pods[next(self._turn) % len(self._pods)]
        self._served[pod.name] += 1
        failed = self._served[pod.name] % (BAD_FAILS_EVERY if pod.image in self._bad_images else GOOD_FAILS_EVERY) == 0
        self._checkouts.append(Checkout(time.monotonic(), pod.workload, failed))
        return web.Response(status=500 if failed else 200, text=f"{pod.name}\n")

    async def _show_statistics(self, request: web.Request) -> web.Response:
        """Requests and errors of each Deployment in the last `seconds`."""
        since = time.monotonic() - float(request.query.get("seconds", "1"))
        counted = [each for each in self._checkouts if each.at >= since]
        requests = Counter(each.workload for each in counted)
        errors = Counter(each.workload for each in counted if each.failed)
        names = {pod.workload for pod in self._pods} | requests.keys()
        return web.json_response({name: _statistics(requests[name], errors[name]) for name in names})


def _statistics(requests: int, errors: int) -> JsonObject:
    return {"requests": requests, "errors": errors, "errorRatio": errors / requests if requests else None}


def _pod(body: JsonObject) -> Pod:
    return Pod(str(body["metadata"]["name"]), str(body["spec"]["containers"][0]["image"]))


def _is_ready(body: JsonObject) -> bool:
    conditions = (body.get("status") or {}).get("conditions") or ()
    return "deletionTimestamp" not in body["metadata"] and any(
        (each.get("type"), each.get("status")) == ("Ready", "True") for each in conditions
    )
