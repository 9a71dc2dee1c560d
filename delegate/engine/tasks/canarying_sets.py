"""The two sets of pods of a canary, as they stand in the cluster, and the guarded writes to them.

Each write is preceded by a look at our authority and carries the uid and resourceVersion that were just read. Where the server says that
the object has changed meanwhile, the Lease is asked for before anything is decided anew: whoever lost it stops there.
"""

import copy
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from delegate.engine.clusters.client import FIELD_MANAGER, ApiClient
from delegate.engine.clusters.errors import AlreadyExistsError, ClusterError, NotFoundError, RecreatedObjectError, StaleObjectError
from delegate.engine.records.errors import LateWriterError
from delegate.engine.records.guarding import apply_guarded, apply_new
from delegate.engine.records.leases import WriteLease
from delegate.engine.tasks.canarying_patience import may_pass
from delegate.engine.tasks.errors import CanaryUnreadyError, ForeignSetError
from delegate.model.applied import CANARY_MANAGER, our_entry
from delegate.model.health.failing import Trouble, find_trouble, follow, has_lasted
from delegate.model.inventory import APPLICATION_LABEL
from delegate.model.resource_types import CONFIG_MAPS, DEPLOYMENTS, PODS, REPLICA_SETS, SECRETS, VERSIONED
from delegate.model.resources import JsonObject, ResourceType
from delegate.model.rollouts.journals import JOURNAL_LABEL, Journal
from delegate.model.rollouts.versions import CONFIG_ANNOTATION, Reference, config_references, content_of, digest, with_images
from delegate.model.rollouts.workloads import available, canary_name, fence_of, label_selector, restarts_of, wanted_replicas
from delegate.model.takeover import can_take_over, handed_over, is_of_canary

T = TypeVar("T")
log = structlog.get_logger(__name__)
_MOST_TRIES = 8
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0
CONFIG_TYPES = {"ConfigMap": CONFIG_MAPS, "Secret": SECRETS}


class Authority:
    """The Lease as the writes to one canary ask for it."""

    def __init__(self, lease: WriteLease) -> None:
        self._lease = lease
        self.fence = lease.fence
        self.check = lease.check
        self.verify = lease.verify


class Sets:
    """The stable set, and the Deployment beside it where there is one."""

    def __init__(
        self, client: ApiClient, authority: Authority, *, application: str, namespace: str, workload: str, kind: str = "Deployment"
    ) -> None:
        self._client = client
        self.kind = kind
        self._stable_type = VERSIONED[kind]
        self._authority = authority
        self._application = application
        self.namespace = namespace
        self.workload = workload
        self.canary_name = canary_name(workload)

    async def stable(self) -> JsonObject:
        """Raises NotFoundError, ClusterError."""
        return await self._client.get(self._stable_type, self.namespace, self.workload)

    async def canary(self) -> JsonObject | None:
        """Raises ForeignSetError where somebody else's object has the name, LateWriterError where a newer attempt has written it."""
        try:
            found = await self._client.get(DEPLOYMENTS, self.namespace, self.canary_name)
        except NotFoundError:
            return None
        labels = found["metadata"].get("labels") or {}
        if JOURNAL_LABEL not in labels:
            raise ForeignSetError(
                f"Deployment {self.namespace}/{self.canary_name} stands where the new version would, and is not of our making",
                hint="rename or remove it",
                object=f"apps/Deployment {self.namespace}/{self.canary_name}",
            )
        if labels.get(APPLICATION_LABEL) == self._application and fence_of(found) > self._authority.fence:
            raise LateWriterError(
                f"Deployment {self.namespace}/{self.canary_name} was written by a newer attempt",
                hint="nothing to do: the newer attempt goes on",
            )
        return found

    async def ensure(self, make: Callable[[], JsonObject]) -> JsonObject:
        """The canary as `make` says, created or changed; what it was is read anew for each try."""

        async def attempt() -> JsonObject:
            live = await self.canary()
            wanted = make()
            self._authority.check()
            if live is None:
                return await apply_new(self._client, DEPLOYMENTS, wanted, force=True)
            uid, version = live["metadata"]["uid"], live["metadata"]["resourceVersion"]
            return await apply_guarded(self._client, DEPLOYMENTS, wanted, uid=uid, resource_version=version, force=True)

        return await self._decided(attempt)

    async def scale_canary(self, count: int) -> JsonObject | None:
        """Changes how many new pods there are, and nothing else; None where there is no canary."""

        async def attempt() -> JsonObject | None:
            live = await self.canary()
            if live is None or wanted_replicas(live) == count:
                return live
            self._authority.check()
            return await self._client.replace(DEPLOYMENTS, {**live, "spec": {**live["spec"], "replicas": count}})

        return await self._decided(attempt)

    async def delete_canary(self) -> None:
        """Deletes it, and nothing else of its name."""

        async def attempt() -> None:
            live = await self.canary()
            if live is None or live["metadata"].get("deletionTimestamp"):
                return
            self._authority.check()
            metadata = live["metadata"]
            try:
                await self._client.delete(DEPLOYMENTS, self.namespace, self.canary_name, uid=metadata["uid"])
            except NotFoundError:
                return

        await self._decided(attempt)

    async def set_stable_images(self, images: dict[str, str]) -> JsonObject:
        """The stable set with these images; written only where it has others.

        No apply: one that names other containers than the last one did would take the images of those away.
        """
        return await self.change_stable(lambda spec: {**spec, "template": with_images(spec["template"], images)})

    async def restore_stable(
        self, fields: JsonObject, read: Callable[[], Awaitable[JsonObject]], done: Callable[[JsonObject], bool], wait: "Wait"
    ) -> None:
        """These fields of its spec as they were, waited for and read back; where somebody deleted it there is nothing to go back to.

        Raises ForeignSetError where they are changed meanwhile, CanaryUnreadyError.
        """
        try:
            await self.change_stable(lambda spec: {**spec, **copy.deepcopy(fields)})
            await self._hand_back()
            await self.await_available(read, done, wait)
            stable = await self.stable()
        except NotFoundError:
            return
        if digest({field: stable["spec"].get(field) for field in fields}) != digest(fields):
            raise ForeignSetError(f"somebody changes {self.kind} {self.workload} while it is being restored")

    async def change_stable(self, change: Callable[[JsonObject], JsonObject]) -> JsonObject:
        """The stable set with the spec that `change` makes of the one that stands, in one write; none where that is the same."""

        async def attempt() -> JsonObject:
            live = await self.stable()
            spec = change(live["spec"])
            if spec == live["spec"]:
                return live
            self._authority.check()
            return await self._client.replace(self._stable_type, {**live, "spec": spec}, manager=CANARY_MANAGER)

        return await self._decided(attempt)

    async def patch_stable_status(self, make: Callable[[JsonObject], JsonObject | None]) -> JsonObject:
        """The stable set with the fields of its status that `make` wants changed; none where that is None."""

        async def attempt() -> JsonObject:
            live = await self.stable()
            fields = make(live)
            if fields is None:
                return live
            self._authority.check()
            metadata = {"uid": live["metadata"]["uid"], "resourceVersion": live["metadata"]["resourceVersion"]}
            patch = {"metadata": metadata, "status": fields}
            return await self._client.patch(
                self._stable_type, self.namespace, self.workload, patch, subresource="status", manager=CANARY_MANAGER
            )

        return await self._decided(attempt)

    async def _hand_back(self) -> None:
        """What is ours of the stable set by having restored it is the sync's again: else it would outlive that sync's own word for it."""

        async def attempt() -> None:
            metadata = (await self.stable())["metadata"]
            if our_entry(metadata) is None or not can_take_over(metadata, is_of_canary):
                return
            self._authority.check()
            kept = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
            patch = {"metadata": {**kept, "managedFields": handed_over(metadata, is_of_canary)}}
            await self._client.patch(self._stable_type, self.namespace, self.workload, patch)

        await self._decided(attempt)

    async def ensure_copy(self, body: JsonObject) -> None:
        """A config object of the canary's own, by its content's name: one that is there is it."""
        type = CONFIG_TYPES[str(body["kind"])]
        self._authority.check()
        try:
            await self._client.create(type, body)
        except AlreadyExistsError:
            return

    async def restore_config(self, kind: str, name: str, kept_as: str) -> None:
        """Gives a config object the content of its copy back; written only where it has another one."""
        type = CONFIG_TYPES[kind]

        async def attempt() -> None:
            kept = content_of(await self._client.get(type, self.namespace, kept_as))
            live = await self._client.get(type, self.namespace, name)
            if content_of(live) == kept:
                return
            self._authority.check()
            rest = {field: value for field, value in live.items() if field not in content_of(live)}
            await self._client.replace(type, {**rest, **kept}, manager=CANARY_MANAGER)

        await self._decided(attempt)

    async def mark_stable_config(self, journal: Journal) -> None:
        """Has the stable pods made anew where only what they read has changed: their template says which content it is."""
        if not journal.copies:
            return
        annotations = {CONFIG_ANNOTATION: digest(journal.copies)}

        def mark(live: JsonObject) -> JsonObject | None:
            if annotations.items() <= ((live["spec"]["template"].get("metadata") or {}).get("annotations") or {}).items():
                return None
            return {"spec": {"template": {"metadata": {"annotations": annotations}}}}

        await self.apply_stable(mark, manager=CANARY_MANAGER)

    async def apply_stable(self, make: Callable[[JsonObject], JsonObject | None], *, manager: str = FIELD_MANAGER) -> JsonObject:
        """Applies what `make` says of the stable set that stands, as a sync does; none where that is None."""
        type = self._stable_type
        named = {"apiVersion": f"{type.group}/{type.version}", "kind": type.kind}

        async def attempt() -> JsonObject:
            live = await self.stable()
            body = make(live)
            if body is None:
                return live
            self._authority.check()
            metadata = {**(body.get("metadata") or {}), "name": self.workload, "namespace": self.namespace}
            wanted = {**named, **body, "metadata": metadata}
            uid, version = live["metadata"]["uid"], live["metadata"]["resourceVersion"]
            return await apply_guarded(self._client, type, wanted, uid=uid, resource_version=version, force=True, manager=manager)

        return await self._decided(attempt)

    async def delete_copy(self, kind: str, name: str) -> None:
        await delete_made(self._client, self._authority, CONFIG_TYPES[kind], self.namespace, name)

    async def pods(self) -> list[JsonObject]:
        """The new pods that there are."""
        live = await self.canary()
        if live is None:
            return []
        labels = label_selector(live["spec"]["selector"]["matchLabels"])
        return list((await self._client.list(PODS, self.namespace, labels=labels)).items)

    async def restarts(self) -> int:
        """How often containers of the new pods have been restarted."""
        return restarts_of(await self.pods())

    async def await_available(
        self, read: Callable[[], Awaitable[JsonObject | None]], done: Callable[[JsonObject], bool], wait: "Wait"
    ) -> None:
        """Waits until a set is as it has to be. By our own clock, whatever a watch says or doesn't.

        Raises CanaryUnreadyError in the words of the cluster, early where it is known not to come up.
        """
        clock = self._client.clock
        ends_at = clock.monotonic() + wait.seconds
        pause, suspicion, body, trouble = _SHORTEST_PAUSE, None, None, None
        while True:
            self._authority.check()
            is_over = clock.monotonic() >= ends_at
            try:
                body = await read()
                if body is not None and done(body):
                    return
                trouble = await self._trouble(body) if body is not None else None
            except ClusterError as error:
                if is_over or not may_pass(error):
                    raise
            suspicion = follow(suspicion, trouble, clock.monotonic())
            lasted = has_lasted(suspicion, clock.monotonic(), wait.fail_fast_after)
            if lasted or is_over:
                raise self._unready(body, trouble.reason + ": " + trouble.message if trouble else "", wait, early=lasted)
            await clock.sleep(min(pause, max(0.0, ends_at - clock.monotonic())))
            pause = min(pause * 1.3, _LONGEST_PAUSE)

    async def await_gone(self, seconds: float) -> None:
        """Waits until no new pod is left. Raises CanaryUnreadyError."""
        clock = self._client.clock
        ends_at = clock.monotonic() + seconds
        pause = _SHORTEST_PAUSE
        while left := await self.pods():
            self._authority.check()
            if clock.monotonic() >= ends_at:
                raise CanaryUnreadyError(f"{len(left)} pods of {self.canary_name} don't end", hint="look at their finalizers and nodes")
            await clock.sleep(pause)
            pause = min(pause * 1.3, _LONGEST_PAUSE)

    async def await_unread(self, copies: Sequence[Reference], seconds: float) -> None:
        """Waits until no pod is left to read them, or the time is over: a Rollout keeps some for a while that have no load any more."""
        clock = self._client.clock
        ends_at, pause = clock.monotonic() + seconds, _SHORTEST_PAUSE
        while copies and clock.monotonic() < ends_at:
            self._authority.check()
            try:
                selector = (await self.stable())["spec"].get("selector") or {}
            except NotFoundError:
                return
            labels = label_selector(selector.get("matchLabels") or {})
            pods = (await self._client.list(PODS, self.namespace, labels=labels)).items
            staying = (pod for pod in pods if not pod["metadata"].get("deletionTimestamp"))
            if all(config_references(pod).isdisjoint(copies) for pod in staying):
                return
            await clock.sleep(min(pause, max(0.0, ends_at - clock.monotonic())))
            pause = min(pause * 1.3, _LONGEST_PAUSE)

    async def _trouble(self, body: JsonObject) -> Trouble | None:
        labels = label_selector((body["spec"].get("selector") or {}).get("matchLabels") or {})
        kind = self._stable_type.kind
        sets = (await self._client.list(REPLICA_SETS, self.namespace, labels=labels)).items if kind != "StatefulSet" else ()
        pods = (await self._client.list(PODS, self.namespace, labels=labels)).items
        return find_trouble({"kind": kind, **body}, sets, pods)

    def _unready(self, body: JsonObject | None, trouble: str, wait: "Wait", *, early: bool) -> CanaryUnreadyError:
        name = str((body or {}).get("metadata", {}).get("name", self.workload))
        counts = f"{available(body)} of {wanted_replicas(body)} pods are ready" if body is not None else "it is gone"
        place = f"{self._stable_type.kind} {self.namespace}/{name}"
        words = f"{place} does not become ready: {counts}"
        words += f"; {trouble}" if trouble else ""
        words += "" if early else f" (its {wait.seconds:g} s are over)"
        return CanaryUnreadyError(words, hint="look at its pods and their events", object=f"{self._stable_type.group}/{place}")

    async def _decided(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Decides anew where what was read has changed, as long as the Lease is ours by the server's word."""
        tries = 0
        while True:
            tries += 1
            try:
                return await attempt()
            except (StaleObjectError, RecreatedObjectError, AlreadyExistsError) as error:
                if tries >= _MOST_TRIES:
                    raise
                log.info("canary.decided_anew", object=error.object, code=error.code)
                await self._authority.verify()


async def delete_made(client: ApiClient, authority: Authority, type: ResourceType, namespace: str, name: str) -> None:
    """Deletes what a canary has made for itself; what is gone, or somebody else's, stays so."""
    try:
        found = await client.get_metadata(type, namespace, name)
        if JOURNAL_LABEL not in (found["metadata"].get("labels") or {}):
            return
        authority.check()
        await client.delete(type, namespace, name, uid=found["metadata"]["uid"])
    except (NotFoundError, RecreatedObjectError):
        return


class Wait:
    """How long to wait for a set, in seconds, and how long trouble may last."""

    def __init__(self, seconds: float, fail_fast_after: float) -> None:
        self.seconds = seconds
        self.fail_fast_after = fail_fast_after
