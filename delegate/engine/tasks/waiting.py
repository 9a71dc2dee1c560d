"""Waits until what was applied is healthy, fails early where it can't become so, and says at any moment how far it is.

One list for each kind and namespace answers at once where all is well; only what is not yet healthy is watched. The pods and
ReplicaSets below workloads are looked at now and then while those are progressing, for the cluster's own words on why.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec
import structlog

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.watches import WatchEvent, WatchEventKind
from delegate.engine.tasks.concurrency import alongside, for_each
from delegate.engine.tasks.errors import HealthTimeoutError, UnhealthyError
from delegate.foundation.errors import DelegateError
from delegate.model.applied import PART_OF_LABEL
from delegate.model.errors import raise_all
from delegate.model.health.conditions import Circumstances
from delegate.model.health.custom import HealthRules
from delegate.model.health.failing import Suspicion, find_trouble, follow, has_lasted, judge
from delegate.model.health.rules import assess, reads_status, settle_seconds
from delegate.model.health.verdicts import HEALTHY, Health, HealthStatus
from delegate.model.resource_types import EVENTS, PODS, REPLICA_SETS, STORAGE_CLASSES
from delegate.model.resources import GroupKind, JsonObject, ResourceKey, ResourceType

log = structlog.get_logger(__name__)

_TICK_SECONDS = 1.0
_GATHER_SECONDS = 0.05
_LOOK_SECONDS = 2.0
_NAMED_AT_MOST = 5
_ADDRESS_PENDING = "AddressPending"
_FINAL_WHEN_DEGRADED = frozenset(
    {
        GroupKind("", "PersistentVolumeClaim"),
        GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"),
        GroupKind("apps", "Deployment"),
        GroupKind("batch", "Job"),
    }
)
_WITH_PODS = frozenset(
    {
        GroupKind("apps", "DaemonSet"),
        GroupKind("apps", "Deployment"),
        GroupKind("apps", "ReplicaSet"),
        GroupKind("apps", "StatefulSet"),
        GroupKind("argoproj.io", "Rollout"),
        GroupKind("batch", "Job"),
    }
)
_CLAIM = GroupKind("", "PersistentVolumeClaim")

_Place = tuple[ResourceType, str, bool]
"""A kind and namespace, and whether the objects there carry the label by which they can be listed and watched."""


class Target(msgspec.Struct, frozen=True):
    """An object to wait for. `generation` is the one that our write was answered with, None where nothing was written.

    `labelled`: it is a member of the ApplySet; others are looked at one by one.
    """

    key: ResourceKey
    type: ResourceType
    generation: int | None = None
    labelled: bool = True

    @property
    def place(self) -> _Place:
        return self.type, self.key.namespace, self.labelled


def _is_settled(health: Health) -> bool:
    """Whether waiting longer serves nothing. An address may never come: many clusters have nobody who gives one."""
    return health.status in (HealthStatus.HEALTHY, HealthStatus.SUSPENDED) or health.reason == _ADDRESS_PENDING


class HealthWait:
    """One wait over a set of objects of one ApplySet. `on_health` hears each change of each object's health.

    `seen` are objects that need not be read again for the first look.
    """

    def __init__(
        self,
        client: ApiClient,
        applyset: str,
        targets: Iterable[Target],
        *,
        fail_fast_after: float,
        on_health: Callable[[ResourceKey, Health], None],
        rules: HealthRules | None = None,
        seen: Mapping[ResourceKey, JsonObject] | None = None,
    ) -> None:
        self._client = client
        self._labels = f"{PART_OF_LABEL}={applyset}"
        self._targets = {target.key: target for target in targets}
        self._fail_fast_after = fail_fast_after
        self._on_health = on_health
        self._rules = rules
        self._began_at = time.monotonic()
        self._seen = dict(seen or {})
        self._bodies: dict[ResourceKey, JsonObject | None] = {}
        self._health: dict[ResourceKey, Health] = {}
        self._degraded_since: dict[ResourceKey, float] = {}
        self._suspicions: dict[ResourceKey, Suspicion | None] = {}
        self._hints: dict[ResourceKey, str] = {}
        self._late_binding: bool | None = None
        self._changed = asyncio.Event()

    async def look(self) -> None:
        """One look at everything, without waiting."""
        places: dict[_Place, list[ResourceKey]] = {}
        for target in self._targets.values():
            if target.key in self._seen:
                self._bodies[target.key] = self._seen.pop(target.key)
            elif reads_status(target.key.group_kind, self._rules):
                places.setdefault(target.place, []).append(target.key)
            else:
                self._tell(target.key, HEALTHY)
        await for_each(places.items(), lambda place: self._list(*place))
        await self._assess_all()

    async def run(self, deadline: float) -> None:
        """Returns when everything is healthy.

        `deadline` is loop time. Raises UnhealthyError (all that failed, together) or HealthTimeoutError.
        """
        await self.look()
        if not self._pending():
            return
        places = {self._targets[key].place for key in self._pending()}
        async with alongside(self._look_at_pods(), *(self._follow(place, deadline) for place in places)):
            await self._until_settled(deadline)

    async def _until_settled(self, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._assess_all()
            self._raise_failed()
            pending = self._pending()
            if not pending:
                return
            left = deadline - loop.time()
            if left <= 0:
                raise self._timeout(pending)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(left, _TICK_SECONDS))
                await asyncio.sleep(_GATHER_SECONDS)  # changes come in bursts; one assessment serves all of a burst
            self._changed.clear()

    async def _list(self, place: _Place, keys: list[ResourceKey]) -> None:
        resource_type, namespace, labelled = place
        if not labelled:
            return await self._get_each(keys)
        try:
            listing = await self._client.list(resource_type, namespace, labels=self._labels)
            bodies = {str(item["metadata"]["name"]): item for item in listing.items}
            for key in keys:
                self._bodies[key] = bodies.get(key.name)
        except DelegateError as error:
            log.info("wait.list_refused", kind=str(resource_type.group_kind), namespace=namespace, error=error.message)
            await self._get_each(keys)

    async def _get_each(self, keys: list[ResourceKey]) -> None:
        for key in keys:
            try:
                self._bodies[key] = await self._client.get(self._targets[key].type, key.namespace, key.name)
            except DelegateError as error:
                if error.code == "dependency.not_found":
                    self._bodies[key] = None
                else:
                    self._tell(key, Health(HealthStatus.UNKNOWN, "Unreadable", error.message))

    async def _follow(self, place: _Place, deadline: float) -> None:
        """Keeps the bodies of one kind and namespace fresh; polls object by object where watching isn't allowed."""
        resource_type, namespace, labelled = place
        keys = [key for key, target in self._targets.items() if target.place == place]
        clock_deadline = time.monotonic() + max(0.0, deadline - asyncio.get_running_loop().time()) + _TICK_SECONDS
        if labelled:
            await self._watch(resource_type, namespace, clock_deadline)
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            await self._get_each(keys)
            self._changed.set()

    async def _watch(self, resource_type: ResourceType, namespace: str, deadline: float) -> None:
        try:
            events = self._client.watch(resource_type, namespace, labels=self._labels, deadline=deadline)
            async with contextlib.aclosing(events):
                async for event in events:
                    if event.kind is not WatchEventKind.SYNCED:
                        self._take(resource_type, namespace, event)
        except DelegateError as error:
            log.info("wait.watch_refused", kind=str(resource_type.group_kind), namespace=namespace, error=error.message)

    def _take(self, resource_type: ResourceType, namespace: str, event: WatchEvent) -> None:
        key = ResourceKey(resource_type.group, resource_type.kind, namespace, str(event.object["metadata"]["name"]))
        if key in self._targets:
            self._bodies[key] = None if event.kind is WatchEventKind.DELETED else event.object
            self._changed.set()

    async def _look_at_pods(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            progressing = [key for key in self._pending() if key.group_kind in _WITH_PODS and self._bodies.get(key)]
            for namespace in sorted({key.namespace for key in progressing}):
                await self._find_trouble([key for key in progressing if key.namespace == namespace], namespace)
            # A look at a crowded namespace is dear: never spend more than a fifth of the time on it.
            await asyncio.sleep(max(_LOOK_SECONDS, 4 * (loop.time() - began)))

    async def _find_trouble(self, keys: list[ResourceKey], namespace: str) -> None:
        needs_sets = any(key.kind in ("Deployment", "Rollout") for key in keys)
        needs_events = any(key.kind in ("StatefulSet", "DaemonSet", "Job") for key in keys)
        try:
            pods = (await self._client.list(PODS, namespace)).items
            replica_sets = (await self._client.list(REPLICA_SETS, namespace)).items if needs_sets else ()
            events = (await self._client.list(EVENTS, namespace)).items if needs_events else ()
        except DelegateError as error:
            log.info("wait.pods_unreadable", namespace=namespace, error=error.message)
            return
        for key in keys:
            body = self._bodies.get(key)
            if body is not None:
                trouble = find_trouble(body, replica_sets, pods, events)
                self._suspicions[key] = follow(self._suspicions.get(key), trouble, time.monotonic())
                self._hints[key] = trouble.hint if trouble else ""
        self._changed.set()

    async def _assess_all(self) -> None:
        now = time.monotonic()
        for key, body in list(self._bodies.items()):
            target = self._targets[key]
            health = assess(body, await self._circumstances(target, body, now), self._rules)
            suspicion = self._suspicions.get(key)
            lasted = has_lasted(suspicion, now, self._fail_fast_after)
            health = judge(health, suspicion.trouble if suspicion else None, lasted=lasted)
            if body is None and self._ended_by_itself(key):
                health = HEALTHY
            if health.status is HealthStatus.DEGRADED:
                self._degraded_since.setdefault(key, now)
            else:
                self._degraded_since.pop(key, None)
            self._tell(key, health)

    async def _circumstances(self, target: Target, body: JsonObject | None, now: float) -> Circumstances:
        late = False
        if target.key.group_kind == _CLAIM and body is not None and (body.get("status") or {}).get("phase") == "Pending":
            late = await self._binds_late(body)
        return Circumstances(
            generation=target.generation,
            settled=target.generation is None or now - self._began_at >= settle_seconds(target.key.group_kind),
            has_status="status" in target.type.subresources,
            waits_for_consumer=late,
        )

    async def _binds_late(self, claim: JsonObject) -> bool:
        """Whether the class of a claim waits for a first consumer; the claim then binds only once a pod uses it."""
        name = (claim.get("spec") or {}).get("storageClassName")
        try:
            classes = (await self._client.list(STORAGE_CLASSES)).items
        except DelegateError:
            return False
        default = "storageclass.kubernetes.io/is-default-class"
        for each in classes:
            annotations = each["metadata"].get("annotations") or {}
            if each["metadata"]["name"] == name or (name is None and annotations.get(default) == "true"):
                return bool(each.get("volumeBindingMode") == "WaitForFirstConsumer")
        return False

    def _ended_by_itself(self, key: ResourceKey) -> bool:
        """A Job that was seen and then removed by its own time to live did what it should."""
        seen = self._health.get(key)
        return key.kind == "Job" and seen is not None and seen.status is HealthStatus.HEALTHY

    def _tell(self, key: ResourceKey, health: Health) -> None:
        if self._health.get(key) != health:
            self._health[key] = health
            self._on_health(key, health)

    def _pending(self) -> list[ResourceKey]:
        return [key for key in self._targets if key not in self._health or not _is_settled(self._health[key])]

    @property
    def unaddressed(self) -> list[ResourceKey]:
        """What is as it should be but for an address that only a load balancer beyond the cluster can give."""
        return [key for key, health in self._health.items() if health.reason == _ADDRESS_PENDING]

    def _raise_failed(self) -> None:
        now = time.monotonic()
        failed: list[DelegateError] = []
        for key, since in self._degraded_since.items():
            suspicion = self._suspicions.get(key)
            final = key.group_kind in _FINAL_WHEN_DEGRADED or has_lasted(suspicion, now, self._fail_fast_after)
            if final or now - since >= self._fail_fast_after:
                failed.append(self._unhealthy(key))
        failed += [self._unhealthy(key) for key, health in self._health.items() if health.status is HealthStatus.MISSING]
        raise_all(failed)

    def _unhealthy(self, key: ResourceKey) -> UnhealthyError:
        health = self._health[key]
        words = f"{key} is {health.status}: {health.reason}".rstrip(": ")
        if health.status is HealthStatus.MISSING:
            return UnhealthyError(f"{key} was deleted by somebody else while it was waited for", object=str(key))
        message = f"{words}: {health.message}" if health.message else words
        return UnhealthyError(message, hint=self._hints.get(key, ""), object=str(key))

    def _timeout(self, pending: list[ResourceKey]) -> HealthTimeoutError:
        def words(key: ResourceKey) -> str:
            health = self._health.get(key, Health(HealthStatus.UNKNOWN))
            return f"{key} is {health.status}" + (f" ({health.reason}: {health.message})" if health.message else "")

        more = f" and {len(pending) - _NAMED_AT_MOST} more" if len(pending) > _NAMED_AT_MOST else ""
        named = "; ".join(words(key) for key in pending[:_NAMED_AT_MOST])
        return HealthTimeoutError(
            f"not healthy in time: {named}{more}",
            hint="look at what is named; a longer timeout helps only where it is still getting on",
            object=str(pending[0]),
        )
