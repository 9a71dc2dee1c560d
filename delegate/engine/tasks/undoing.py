"""One workload back to an earlier revision of its own: a Deployment by its ReplicaSets, others by their ControllerRevisions.

As `kubectl rollout undo`, with what that leaves out: a template that is the same already is a failure, the write is refused where the
object has changed since it was looked at, and done is what runs, is ready and stays so, not what was accepted. Where an owner brings what
Git says and is not pinned, nothing is written beside it: the way back is Git's.
"""

import asyncio
from collections.abc import Sequence

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import NotFoundError, RecreatedObjectError
from delegate.engine.clusters.registry import Cluster
from delegate.engine.tasks.canarying_sources import SourceVersion
from delegate.engine.tasks.errors import (
    ChangedSincePlanError,
    HealthTimeoutError,
    NothingToRollBackError,
    OwnedElsewhereError,
    SetBackError,
    UnhealthyError,
)
from delegate.engine.tasks.gracefully import restore_gracefully
from delegate.engine.tasks.preparing import retrying_of
from delegate.engine.tasks.undos import Occasion
from delegate.foundation.quantities import parse_duration
from delegate.model.gitops import last_writer, watch_without_owner
from delegate.model.health.failing import find_trouble
from delegate.model.health.rules import assess
from delegate.model.health.verdicts import HealthStatus
from delegate.model.plan import PlannedChange
from delegate.model.resource_types import CONTROLLER_REVISIONS, PODS, REPLICA_SETS, WORKLOADS
from delegate.model.resources import JsonObject, ResourceKey, ResourceType
from delegate.model.results import Action, SyncStatus
from delegate.model.revisions import Revision, choose_revision, owner_in_words, resumed_revision, revisions_of, template_of, undo_patch
from delegate.model.rollbacks import RollbackMode
from delegate.model.rollouts.partitions import stuck_pods
from delegate.model.rollouts.versions import digest

_MANAGER = "delegate-rollback"
_POLL_SECONDS = 0.5


class WorkloadUndo:
    """One attempt. `execute` answers what was done, in words."""

    def __init__(self, occasion: Occasion) -> None:
        task, spec = occasion.task, occasion.spec
        assert spec.workload is not None
        self._task = task
        self._spec = spec
        self._seconds_to_watch = occasion.seconds_to_watch
        self._target = spec.workload
        self._context = occasion.context
        self._parts = occasion.parts
        self._report = occasion.report
        self._owners = occasion.owners
        self._type = WORKLOADS[self._target.kind]
        self._key = ResourceKey("apps", self._target.kind, task.destination.namespace or "default", self._target.name)
        self._client: ApiClient | None = None
        self._occasion = occasion
        self._chosen: Revision | None = None
        self._resumed: Revision | None = None

    async def execute(self) -> str:
        cluster = await self._parts.clusters.open(self._task.destination)
        self._report.cluster = cluster.uid
        self._client = client = cluster.client.viewed(meter=self._report.meter, policy=retrying_of(self._task, self._parts))
        with self._report.timed("plan"):
            live = await client.get(self._type, self._key.namespace, self._key.name)
            change, chosen = await self._plan(cluster, client, live)
        if self._task.options.dry_run:
            self._report.sync = SyncStatus.OUT_OF_SYNC
            return f"{self._key} would go back to revision {chosen.number}"
        if self._owners.acts_through_git:
            return f"{self._key} goes back to revision {chosen.number} by its owner"
        if self._resumed is not None:
            self._owners.restored = self._report.began_writing = True
            self._report.done(change)
        else:
            await self._owners.pin(client.clock.now())
        if self._spec.mode is RollbackMode.GRACEFUL:
            self._report.began_writing = True
            await restore_gracefully(self._occasion, self._key.name, _RevisionBringer(self, live, change, chosen))
        elif self._resumed is None:
            await self.write(live, change, chosen)
        await self.settle(self._seconds_to_watch(watch_without_owner()))
        return f"{self._key} is back at revision {chosen.number}"

    async def settle(self, watch: float) -> None:
        """Until what was chosen runs and is ready, for `watch` seconds at the least. Raises SetBackError, UnhealthyError."""
        if self._client is None or self._chosen is None or not self._task.options.wait:
            return
        with self._report.timed("wait"):
            async with self._context.parked():
                await self._await_ready(self._client, self._chosen, watch)

    async def after_checks(self) -> None:
        """A workload keeps no record of what was verified."""

    @property
    def evidence(self) -> str:
        number = self._chosen.number if self._chosen is not None else 0
        return f"{self._key} was rolled back to its revision {number}."

    @property
    def not_the_cause(self) -> str:
        return ""

    @property
    def writes_by_owner(self) -> bool:
        return self._owners.acts_through_git

    async def _plan(self, cluster: Cluster, client: ApiClient, live: JsonObject) -> tuple[PlannedChange, Revision]:
        self._refuse_owned(live)
        await self._owners.find(client, cluster.discovery, [(self._key, live["metadata"])])
        revisions = revisions_of(live, (await client.list(self._source, self._key.namespace)).items)
        self._resumed = resumed_revision(live, revisions, self._context.task_id)
        self._chosen = chosen = self._resumed or choose_revision(live, revisions, self._target.revision)
        change = self._change(live, chosen)
        self._report.planned([change])
        if self._resumed is None and not change.changes:
            raise NothingToRollBackError(
                f"{self._key}: revision {chosen.number} has the template that runs already: nothing would change",
                hint=f"name another revision; there are {', '.join(str(each.number) for each in revisions)}",
                object=str(self._key),
            )
        return change, chosen

    async def write(self, planned: JsonObject, change: PlannedChange, chosen: Revision) -> None:
        """Once, where the template is still the one that was planned from."""
        assert self._client is not None
        client = self._client
        live = await client.get(self._type, self._key.namespace, self._key.name)
        if not chosen.changes_from(template_of(live)):
            return  # an attempt before has written it
        if live["metadata"]["uid"] != change.uid or template_of(live) != template_of(planned):
            raise ChangedSincePlanError(
                f"{self._key} was changed since it was looked at", hint="look who changes it", object=str(self._key)
            )
        self._report.began_writing = True
        with self._report.timed("apply"):
            patch = undo_patch(live, chosen, self._context.task_id)
            await client.patch(self._type, self._key.namespace, self._key.name, patch, kind="json", manager=_MANAGER)
            self._owners.restored = True
            self._report.done(change)

    @property
    def _source(self) -> ResourceType:
        return REPLICA_SETS if self._target.kind == "Deployment" else CONTROLLER_REVISIONS

    def _refuse_owned(self, live: JsonObject) -> None:
        """An owner that has a way back of its own: there it keeps its record of it."""
        owner, way = owner_in_words(live["metadata"])
        if owner and not self._task.options.force:
            raise OwnedElsewhereError(
                f"{self._key} belongs to {owner}, which would set it back",
                hint=f"{way}; or once, for as long as it lasts: options {{force: true}}",
                object=str(self._key),
            )

    def _change(self, live: JsonObject, chosen: Revision) -> PlannedChange:
        metadata = live["metadata"]
        return PlannedChange(
            key=self._key,
            action=Action.CONFIGURED,
            version="v1",
            writes=True,
            changes=chosen.changes_from(template_of(live)),
            uid=str(metadata["uid"]),
            resource_version=str(metadata["resourceVersion"]),
        )

    async def _await_ready(self, client: ApiClient, chosen: Revision, watch: float) -> None:
        """Until the controller has seen the change, all pods are of the new template and ready, and nobody has set it back."""
        patience = parse_duration(self._task.options.fail_fast_after)
        loop = asyncio.get_running_loop()
        deadline, watched_until = self._context.deadline - 1.0, loop.time() + watch
        trouble_since: float | None = None
        while True:
            body = await client.get(self._type, self._key.namespace, self._key.name)
            brought = not chosen.changes_from(template_of(body))
            if not brought and not self.writes_by_owner:
                self._raise_set_back(body)
            health = assess(body)
            self._report.health(self._key, health)
            if brought and health.status is HealthStatus.HEALTHY and loop.time() >= watched_until:
                return
            if health.status is HealthStatus.DEGRADED:
                raise UnhealthyError(f"{self._key}: {health.reason}: {health.message}", object=str(self._key))
            trouble = await self._trouble(client, body) if brought else None
            trouble_since = (trouble_since or loop.time()) if trouble else None
            if trouble is not None and trouble_since is not None and loop.time() - trouble_since > patience:
                raise UnhealthyError(f"{self._key}: {trouble}", object=str(self._key))
            if loop.time() > deadline:
                self._raise_late(health.status is HealthStatus.HEALTHY and brought, f"{health.reason}: {health.message}", watch)
            await asyncio.sleep(_POLL_SECONDS)

    def _raise_set_back(self, body: JsonObject) -> None:
        who = last_writer(body["metadata"], "template", _MANAGER) or "nobody that can be named"
        raise SetBackError(
            f"held: the template of {self._key} was set back by {who}; it is not written a second time",
            hint=f"find out what {who} brings it from, and take the change back there",
            object=str(self._key),
        )

    def _raise_late(self, is_back: bool, words: str, watch: float) -> None:
        if not is_back:
            waited = "was not brought by its owner" if self.writes_by_owner else "is not ready"
            raise HealthTimeoutError(f"{self._key} {waited} in time: {words}", object=str(self._key))
        raise HealthTimeoutError(
            f"{self._key} is back and healthy, but the task's time was over before it was watched for {watch:g} s",
            hint="give the task a longer timeout, or say with spec.watch how long is enough",
            object=str(self._key),
        )

    async def _trouble(self, client: ApiClient, body: JsonObject) -> str:
        """What keeps it from getting ready; broken pods of the version that was left are no longer it, once they are deleted."""
        pods = (await client.list(PODS, self._key.namespace)).items
        if self._target.kind == "StatefulSet":
            await self._free(client, body, pods)
        found = find_trouble(body, await self._replica_sets(client), pods)
        return f"{found.reason}: {found.message}" if found is not None else ""

    async def _free(self, client: ApiClient, body: JsonObject, pods: Sequence[JsonObject]) -> None:
        """A set with an order waits for ever for a pod that is not ready, also where it is to be replaced."""
        for pod in stuck_pods(body, pods):
            metadata = pod["metadata"]
            try:
                await client.delete(PODS, self._key.namespace, metadata["name"], uid=metadata["uid"])
            except (NotFoundError, RecreatedObjectError):
                continue
            self._report.notice(
                [f"pod {metadata['name']} of the version that was left was not ready, and is deleted: its set waited for it"]
            )

    async def _replica_sets(self, client: ApiClient) -> tuple[JsonObject, ...]:
        if self._target.kind != "Deployment":
            return ()
        try:
            return tuple((await client.list(REPLICA_SETS, self._key.namespace)).items)
        except NotFoundError:
            return ()


class _RevisionBringer:
    """A revision of a workload, for the graceful way back."""

    goes_back = True

    def __init__(self, undo: WorkloadUndo, planned: JsonObject, change: PlannedChange, chosen: Revision) -> None:
        self._undo = undo
        self._planned = planned
        self._change = change
        self._chosen = chosen

    async def look(self, namespace: str) -> SourceVersion:
        del namespace
        template = self._chosen.template
        return SourceVersion(revision=digest(template), template=template, copies=(), kept=(), affected=True)

    async def promote(self) -> str:
        await self._undo.write(self._planned, self._change, self._chosen)
        await self._undo.settle(0.0)
        return f"back at revision {self._chosen.number}"
