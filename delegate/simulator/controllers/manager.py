"""Runs the controllers: one worker, ordered by rank, then by arrival; timers in the cluster's own time."""

import asyncio
import heapq
import itertools

import structlog

from delegate.simulator import statuses
from delegate.simulator.controllers.accounts import AccountController
from delegate.simulator.controllers.apiservices import ApiServiceController
from delegate.simulator.controllers.autoscalers import AutoscalerController
from delegate.simulator.controllers.base import Controller, Key
from delegate.simulator.controllers.budgets import BudgetController
from delegate.simulator.controllers.cronjobs import CronJobController
from delegate.simulator.controllers.daemonsets import DaemonSetController
from delegate.simulator.controllers.definitions import DefinitionController
from delegate.simulator.controllers.deployments import DeploymentController
from delegate.simulator.controllers.endpoints import EndpointController
from delegate.simulator.controllers.garbage import GarbageController
from delegate.simulator.controllers.jobs import JobController
from delegate.simulator.controllers.namespaces import NamespaceController
from delegate.simulator.controllers.pods import PodController
from delegate.simulator.controllers.quotas import QuotaController
from delegate.simulator.controllers.replicasets import ReplicaSetController
from delegate.simulator.controllers.roles import RoleController
from delegate.simulator.controllers.statefulsets import StatefulSetController
from delegate.simulator.controllers.volumes import VolumeController
from delegate.simulator.registry import Registry
from delegate.simulator.store import Change, StorageKey

log = structlog.get_logger()
RETRY_SECONDS = (0.005, 0.05, 0.5, 5.0)

# A ReplicaSet hears of a change before its Deployment does.
CONTROLLERS: tuple[type[Controller], ...] = (
    NamespaceController,
    DefinitionController,
    ApiServiceController,
    AccountController,
    GarbageController,
    ReplicaSetController,
    DeploymentController,
    StatefulSetController,
    DaemonSetController,
    JobController,
    CronJobController,
    EndpointController,
    BudgetController,
    VolumeController,
    RoleController,
    QuotaController,
    AutoscalerController,
    PodController,
)


class ControllerManager:
    """The one worker. `speed` divides every delay; the registry's clock must run as much faster."""

    def __init__(self, registry: Registry, *, speed: float = 1.0) -> None:
        self._registry = registry
        self._speed = speed
        self._controllers = [kind(registry) for kind in CONTROLLERS]
        self._by_table: dict[StorageKey | None, list[tuple[int, Controller]]] = {}
        for index, controller in enumerate(self._controllers):
            for table in controller.watched or (None,):
                self._by_table.setdefault(table, []).append((index, controller))
        self._queue: list[tuple[int, int, int, Key]] = []
        self._queued: dict[tuple[int, Key], int] = {}
        self._timers: list[tuple[float, int, int, Key]] = []
        self._due: dict[tuple[int, Key], float] = {}
        self._failures: dict[tuple[int, Key], int] = {}
        self._order = itertools.count()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Looks at everything there is, then at every change."""
        for table, held in list(self._registry.store.tables.items()):
            for stored in held.items():
                self._changed(table, Change("ADDED", stored.version, stored, None))
        self._registry.store.listeners.append(self._changed)
        for index, controller in enumerate(self._controllers):
            for key, seconds in controller.start():
                self._later(index, key, seconds)
        self._task = asyncio.create_task(self._run(), name="simulator-controllers")

    async def stop(self) -> None:
        if self._changed in self._registry.store.listeners:
            self._registry.store.listeners.remove(self._changed)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    @property
    def idle(self) -> bool:
        """Whether nothing is left to do but to wait for timers."""
        return not self._queue

    def _changed(self, table: StorageKey, change: Change) -> None:
        for index, controller in (*self._by_table.get(table, ()), *self._by_table.get(None, ())):
            for key in controller.keys(table, change):
                self._enqueue(index, key, controller.rank_of(table, change))

    def _enqueue(self, index: int, key: Key, rank: int) -> None:
        """Queues a key once; a more urgent reason moves it forward."""
        held = self._queued.get((index, key))
        if held is not None and held <= rank:
            return
        self._queued[index, key] = rank
        heapq.heappush(self._queue, (rank, next(self._order), index, key))
        self._wake.set()

    def _later(self, index: int, key: Key, seconds: float) -> None:
        """Looks at a key again in a while; a nearer time that was asked for before stands."""
        at = asyncio.get_running_loop().time() + seconds / self._speed
        held = self._due.get((index, key))
        if held is not None and held <= at:
            return
        self._due[index, key] = at
        heapq.heappush(self._timers, (at, next(self._order), index, key))

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._fire(loop.time())
            if self._queue:
                self._step()
                await asyncio.sleep(0)
                continue
            self._wake.clear()
            until = self._timers[0][0] if self._timers else None
            try:
                async with asyncio.timeout_at(until):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _fire(self, now: float) -> None:
        while self._timers and self._timers[0][0] <= now:
            at, _, index, key = heapq.heappop(self._timers)
            if self._due.get((index, key)) == at:
                del self._due[index, key]
                self._enqueue(index, key, self._controllers[index].rank)

    def _step(self) -> None:
        rank, _, index, key = heapq.heappop(self._queue)
        if self._queued.get((index, key)) != rank:
            return
        del self._queued[index, key]
        controller = self._controllers[index]
        try:
            again = controller.sync(key)
        except statuses.StatusError as error:
            failures = self._failures.get((index, key), 0)
            self._failures[index, key] = failures + 1
            again = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
            log.debug("simulator.sync_refused", controller=type(controller).__name__, key=key, error=error.message)
        except Exception:  # the worker boundary: one controller's fault must not stop the others
            log.exception("simulator.sync_failed", controller=type(controller).__name__, key=key)
            again = RETRY_SECONDS[-1]
        else:
            self._failures.pop((index, key), None)
        if again is not None:
            self._later(index, key, again)
