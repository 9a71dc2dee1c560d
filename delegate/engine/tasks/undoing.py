"""One workload back to an earlier revision of its own: a Deployment by its ReplicaSets, others by their ControllerRevisions.

As `kubectl rollout undo`, with what that leaves out: a template that is the same already is a failure, the write is refused where the
object has changed since it was looked at, and done is what runs and is ready, not what was accepted.
"""

import asyncio

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.errors import HealthTimeoutError, NothingToRollBackError, OwnedElsewhereError, UnhealthyError
from delegate.engine.tasks.preparing import Parts, retrying_of
from delegate.engine.tasks.reports import Report
from delegate.foundation.quantities import parse_duration
from delegate.model.health.failing import find_trouble
from delegate.model.health.rules import assess
from delegate.model.health.verdicts import HealthStatus
from delegate.model.plan import PlannedChange
from delegate.model.resource_types import CONTROLLER_REVISIONS, PODS, REPLICA_SETS, WORKLOADS
from delegate.model.resources import JsonObject, ResourceKey, ResourceType
from delegate.model.results import Action, SyncStatus
from delegate.model.revisions import Revision, choose_revision, owner_in_words, revisions_of, template_of, undo_patch
from delegate.model.rollbacks import WorkloadTarget
from delegate.model.tasks import Task

_MANAGER = "delegate-rollback"
_POLL_SECONDS = 0.5


class WorkloadUndo:
    """One attempt. `execute` answers what was done, in words."""

    def __init__(self, task: Task, target: WorkloadTarget, context: AttemptContext, parts: Parts, report: Report) -> None:
        self._task = task
        self._target = target
        self._context = context
        self._parts = parts
        self._report = report
        self._type = WORKLOADS[target.kind]
        self._key = ResourceKey("apps", target.kind, task.destination.namespace or "default", target.name)

    async def execute(self) -> str:
        cluster = await self._parts.clusters.open(self._task.destination)
        self._report.cluster = cluster.uid
        client = cluster.client.viewed(meter=self._report.meter, policy=retrying_of(self._task, self._parts))
        with self._report.timed("plan"):
            live = await client.get(self._type, self._key.namespace, self._key.name)
            self._refuse_owned(live)
            revisions = revisions_of(live, (await client.list(self._source, self._key.namespace)).items)
            chosen = choose_revision(live, revisions, self._target.revision)
        change = self._change(live, chosen)
        self._report.planned([change])
        if not change.changes:
            raise NothingToRollBackError(
                f"{self._key}: revision {chosen.number} has the template that runs already: nothing would change",
                hint=f"name another revision; there are {', '.join(str(each.number) for each in revisions)}",
                object=str(self._key),
            )
        if self._task.options.dry_run:
            self._report.sync = SyncStatus.OUT_OF_SYNC
            return f"{self._key} would go back to revision {chosen.number}"
        self._report.began_writing = True
        with self._report.timed("apply"):
            await client.patch(self._type, self._key.namespace, self._key.name, undo_patch(live, chosen), kind="json", manager=_MANAGER)
            self._report.done(change)
        if self._task.options.wait:
            with self._report.timed("wait"):
                async with self._context.parked():
                    await self._await_ready(client)
        return f"{self._key} is back at revision {chosen.number}"

    @property
    def _source(self) -> ResourceType:
        return REPLICA_SETS if self._target.kind == "Deployment" else CONTROLLER_REVISIONS

    def _refuse_owned(self, live: JsonObject) -> None:
        """Whoever owns the workload by a declaration sets it back: then the rollback belongs there."""
        owner = owner_in_words(live["metadata"])
        if owner and not self._task.options.force:
            raise OwnedElsewhereError(
                f"{self._key} belongs to {owner}, which would set it back",
                hint="roll that back; or once, for as long as it lasts: options {force: true}",
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

    async def _await_ready(self, client: ApiClient) -> None:
        """Until the controller has seen the change and all pods are of the new template and ready."""
        patience = parse_duration(self._task.options.fail_fast_after)
        loop = asyncio.get_running_loop()
        deadline = self._context.deadline - 1.0
        trouble_since: float | None = None
        while True:
            body = await client.get(self._type, self._key.namespace, self._key.name)
            health = assess(body)
            self._report.health(self._key, health)
            if health.status is HealthStatus.HEALTHY:
                return
            if health.status is HealthStatus.DEGRADED:
                raise UnhealthyError(f"{self._key}: {health.reason}: {health.message}", object=str(self._key))
            trouble = find_trouble(body, await self._replica_sets(client), (await client.list(PODS, self._key.namespace)).items)
            trouble_since = (trouble_since or loop.time()) if trouble else None
            if trouble is not None and trouble_since is not None and loop.time() - trouble_since > patience:
                raise UnhealthyError(f"{self._key}: {trouble.reason}: {trouble.message}", object=str(self._key))
            if loop.time() > deadline:
                raise HealthTimeoutError(f"{self._key} is not ready in time: {health.reason}: {health.message}", object=str(self._key))
            await asyncio.sleep(_POLL_SECONDS)

    async def _replica_sets(self, client: ApiClient) -> tuple[JsonObject, ...]:
        if self._target.kind != "Deployment":
            return ()
        try:
            return tuple((await client.list(REPLICA_SETS, self._key.namespace)).items)
        except NotFoundError:
            return ()
