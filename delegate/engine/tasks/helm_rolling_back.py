"""A release of Helm's own back to the last revision that worked: chosen by its records, planned against what runs, done by helm itself.

Helm keeps the record of it, runs the hooks that a chart has for rollbacks, and waits until all is ready. What it leaves out is done here:
a revision that failed is never gone back to, one that changes nothing is a failure, and a release that somebody is at work on, or that a
controller sets back, is left alone.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.leases import hold_lease
from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.files import SourceFile, load
from delegate.engine.tasks.concurrency import for_each
from delegate.engine.tasks.errors import HealthTimeoutError, HelmFailedError, NothingToRollBackError, SetBackError
from delegate.engine.tasks.preparing import retrying_of
from delegate.engine.tasks.undos import Occasion
from delegate.foundation.errors import ErrorGroup
from delegate.foundation.quantities import parse_duration
from delegate.model.changes import diff_bodies
from delegate.model.errors import CorruptReleaseError, ManifestError
from delegate.model.helm_releases import RECORD_SELECTOR, HelmChoice, HelmRecord, as_failed, choose_record, manifest_of, read_records
from delegate.model.plan import PlannedChange
from delegate.model.resource_types import SECRETS
from delegate.model.resources import GroupKind, JsonObject, ResourceKey
from delegate.model.results import Action, SyncStatus

_MANAGER = "helm"
_MARGIN_SECONDS = 20.0
_LOOK_SECONDS = 1.0


class HelmUndo:
    """One attempt. `execute` answers what was done, in words."""

    def __init__(self, occasion: Occasion) -> None:
        task, spec = occasion.task, occasion.spec
        assert spec.helm_release is not None
        self._task = task
        self._spec = spec
        self._seconds_to_watch = occasion.seconds_to_watch
        self._target = spec.helm_release
        self._owners = occasion.owners
        self._choice: HelmChoice | None = None
        self._opened: tuple[Cluster, ApiClient] | None = None
        self._context = occasion.context
        self._parts = occasion.parts
        self._report = occasion.report
        self._namespace = task.destination.namespace or "default"
        self._owned: dict[ResourceKey, JsonObject] = {}

    async def execute(self) -> str:
        """Raises DelegateError."""
        cluster = await self._parts.clusters.open(self._task.destination)
        self._report.cluster = cluster.uid
        self._context.check_namespace(self._namespace, f"Helm release {self._namespace}/{self._target.name}")
        client = cluster.client.viewed(meter=self._report.meter, policy=retrying_of(self._task, self._parts))
        self._opened = (cluster, client)
        with self._report.timed("plan"):
            self._choice = choice = await self._choose(client)
            changes = await self._plan(cluster, client, choice)
        if not any(change.writes for change in changes):
            raise NothingToRollBackError(
                f"revision {choice.target.version} of {self._target.name!r} is what runs already: nothing would change",
                hint="name another revision; or what is wrong lies outside of this release",
            )
        if self._task.options.dry_run:
            self._report.sync = SyncStatus.OUT_OF_SYNC
            return f"{self._target.name} would go back to revision {choice.target.version}"
        if self._owners.acts_through_git:
            return f"revision {choice.target.version} of {self._target.name!r} is brought back by its owner"
        async with self._authority(client):
            await self._owners.pin(client.clock.now())
            self._report.began_writing = True
            self._owners.restored = True
            with self._report.timed("apply"):
                await self._carry_out(cluster, client, choice)
        for change in changes:
            self._report.done(change)
        await self.settle(self._seconds_to_watch())
        return f"{self._target.name} is back at what revision {choice.target.version} was"

    async def settle(self, watch: float) -> None:
        """Until what was chosen is what Helm has deployed, and has been so for `watch` seconds. Raises SetBackError, HealthTimeoutError."""
        through_git = self._owners.acts_through_git
        if self._opened is None or self._choice is None or not (watch or through_git):
            return
        loop = asyncio.get_running_loop()
        watched_until, wanted = loop.time() + watch, manifest_of(self._choice.target)
        async with self._context.parked():
            while True:
                newest = (await self._records(self._opened[1]))[0]
                brought = newest.status == "deployed" and manifest_of(newest) == wanted
                if not brought and not through_git:
                    raise SetBackError(
                        f"held: {self._target.name!r} is at revision {newest} now, written by {newest.writers}; it is not taken back twice",
                        hint="see what upgrades it, and take the change back there",
                    )
                if brought and loop.time() >= watched_until:
                    return
                if loop.time() + _LOOK_SECONDS >= self._context.deadline:
                    words = f"is back, but was not watched for {watch:g} s" if brought else "is not brought back by its owner in time"
                    raise HealthTimeoutError(f"{self._target.name!r} {words}", hint="give the task a longer timeout, or shorten spec.watch")
                await asyncio.sleep(_LOOK_SECONDS)

    async def after_checks(self) -> None:
        """Helm keeps no record of what was verified."""

    @property
    def evidence(self) -> str:
        version = self._choice.target.version if self._choice is not None else 0
        return f"Helm release {self._target.name} was rolled back to its revision {version}."

    @property
    def not_the_cause(self) -> str:
        return ""

    async def _choose(self, client: ApiClient) -> HelmChoice:
        unlock_after = parse_duration(self._target.unlock_after) if self._target.unlock_after else None
        records = await self._records(client)
        choice = choose_record(records, self._target.name, self._target.revision, now=time.time(), unlock_after=unlock_after)
        self._report.notice(choice.notices)
        return choice

    async def _records(self, client: ApiClient) -> tuple[HelmRecord, ...]:
        selector = RECORD_SELECTOR.format(name=self._target.name)
        return read_records((await client.list(SECRETS, self._namespace, labels=selector)).items)

    async def _plan(self, cluster: Cluster, client: ApiClient, choice: HelmChoice) -> list[PlannedChange]:
        """What the objects of the target would change in what runs, by a dry run of each; and what of the newer revision would go."""
        wanted, current = await _objects_of(choice.target, self._namespace), await _objects_of(choice.current, self._namespace)
        steps = [(body, False) for body in wanted.values()] + [(body, True) for key, body in current.items() if key not in wanted]
        changes = await for_each(steps, lambda step: self._change(cluster, client, step[0], goes=step[1]))
        self._report.planned(changes)
        await self._owners.find(client, cluster.discovery, self._owned.items())
        return changes

    async def _change(self, cluster: Cluster, client: ApiClient, body: JsonObject, *, goes: bool) -> PlannedChange:
        group, _, version = str(body["apiVersion"]).rpartition("/")
        type = await cluster.discovery.resource_for(GroupKind(group, str(body["kind"])), version)
        metadata = _marked(body["metadata"], self._target.name, self._namespace)
        if type.namespaced:
            metadata["namespace"] = metadata.get("namespace") or self._namespace
        body = {**body, "metadata": metadata}
        key = ResourceKey(group, type.kind, metadata.get("namespace", "") if type.namespaced else "", metadata["name"])
        try:
            live = await client.get(type, key.namespace, key.name)
        except NotFoundError:
            live = None
        if live is not None:
            self._owned[key] = live["metadata"]
        if goes:
            action = Action.PRUNED if live is not None else Action.UNCHANGED
            return PlannedChange(key=key, action=action, version=version, writes=live is not None)
        after = await client.apply(type, body, dry_run=True, force=True, manager=_MANAGER)
        found = diff_bodies(live, after) if live is not None else ()
        action = Action.CREATED if live is None else Action.CONFIGURED if found else Action.UNCHANGED
        return PlannedChange(key=key, action=action, version=version, writes=action is not Action.UNCHANGED, changes=found)

    @asynccontextmanager
    async def _authority(self, client: ApiClient) -> AsyncIterator[None]:
        async with hold_lease(
            client,
            self._task.application,
            self._namespace,
            holder=self._context.attempt_id,
            fence_floor=0,
            seconds=self._parts.lease_seconds,
        ) as lease:
            lease.check()
            yield

    async def _carry_out(self, cluster: Cluster, client: ApiClient, choice: HelmChoice) -> None:
        if choice.pending is not None:
            await client.replace(SECRETS, as_failed(choice.pending), manager="delegate-rollback")
            self._report.notice([f"revision {choice.pending.version} was left pending: its record says failed now"])
        seconds = max(1.0, self._context.deadline - asyncio.get_running_loop().time() - _MARGIN_SECONDS)
        async with self._context.parked():
            await self._parts.helm.roll_back(
                await cluster.client.transport.credentials(),
                name=self._target.name,
                revision=choice.target.version,
                namespace=self._namespace,
                seconds=seconds,
            )
        newest = (await self._records(client))[0]
        if newest.status != "deployed" or manifest_of(newest) != manifest_of(choice.target):
            raise HelmFailedError(
                f"helm says that it is done, but the newest revision of {self._target.name!r} is {newest}",
                hint="helm history shows how it came",
            )


def _marked(metadata: JsonObject, name: str, namespace: str) -> JsonObject:
    """With what helm adds to each object: it is in no manifest."""
    labels = {**(metadata.get("labels") or {}), "app.kubernetes.io/managed-by": "Helm"}
    ours = {"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": namespace}
    return {**metadata, "labels": labels, "annotations": {**(metadata.get("annotations") or {}), **ours}}


async def _objects_of(record: HelmRecord, namespace: str) -> dict[tuple[GroupKind, str, str], JsonObject]:
    """Read as all manifests are. Raises CorruptReleaseError."""
    limits = SourceLimits()
    limits = msgspec.structs.replace(limits, file_bytes=limits.total_bytes)
    try:
        loaded = await asyncio.to_thread(load, [SourceFile("manifest", manifest_of(record).encode())], limits)
    except (ManifestError, ErrorGroup):  # its words may hold what is in a Secret of the chart
        raise CorruptReleaseError(f"the manifest of revision {record} can't be read", hint="name another revision") from None
    return {(each.group_kind, each.namespace or namespace, each.name): each.body for each in loaded.manifests}
