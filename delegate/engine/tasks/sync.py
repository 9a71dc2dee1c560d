"""The sync and diff tasks: resolve, render, plan, and for a sync apply, wait and prune.

Until the plan is through its gate nothing in the cluster is touched. From the first write on, the intended inventory stands in
the cluster, and whatever ends the run, the result says what was done and what was not.
"""

import asyncio
import contextlib

import msgspec
import structlog

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import AlreadyExistsError, ForbiddenError, NamespaceNotFoundError, NotFoundError
from delegate.engine.clusters.registry import Cluster, ClusterRegistry
from delegate.engine.records.inventories import InventoryStore, StoredInventory
from delegate.engine.records.leases import WriteLease, hold_lease
from delegate.engine.sources.manifests import Rendered, Sources
from delegate.engine.tasks.applying import Applier
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.desired import DesiredSet, prepare_desired
from delegate.engine.tasks.errors import EmptyRenderError, HealthTimeoutError, PlanMismatchError, UnsupportedTaskError
from delegate.engine.tasks.observing import await_gone
from delegate.engine.tasks.planning import Finding, Planner
from delegate.engine.tasks.pruning import Leftovers, Pruner, find_leftovers
from delegate.engine.tasks.reports import Report
from delegate.engine.tasks.waiting import HealthWait, Target
from delegate.foundation.errors import Category, DelegateError, flatten
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.foundation.quantities import parse_duration
from delegate.model.applied import Mark, with_mark
from delegate.model.errors import raise_all
from delegate.model.inventory import InventoryEntry, InventoryState, confirmed, intended, to_prune
from delegate.model.leases import LEASE_SECONDS
from delegate.model.plan import Plan, PlannedChange, plan_hash
from delegate.model.resources import GroupKind, JsonObject, Manifest, ResourceKey, ResourceType
from delegate.model.results import Outcome, SyncStatus, TaskResult, describe_error
from delegate.model.tasks import SyncSpec, Task, TaskKind
from delegate.model.waves import Stage

log = structlog.get_logger(__name__)

_NAMESPACE = GroupKind("", "Namespace")
_NAMESPACE_TYPE = ResourceType(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)
_CREATE_NAMESPACE = "CreateNamespace=true"
_PRUNE_SECONDS = 60.0
_REFUSING = (Category.INPUT, Category.POLICY, Category.PERMISSION, Category.CONFLICT, Category.DEPENDENCY)
_KNOWN_SYNC_OPTIONS = frozenset({_CREATE_NAMESPACE, "CreateNamespace=false", "ServerSideApply=true", "PruneLast=true"})


class Parts(msgspec.Struct, frozen=True):
    """What a run works with; shared by all runs of a process.

    `retrying` holds unless the task says otherwise. `lease_seconds`: how long a dead attempt keeps the next one from writing.
    """

    sources: Sources
    clusters: ClusterRegistry
    retrying: Retrying
    lease_seconds: int = LEASE_SECONDS


class _Ground(msgspec.Struct, frozen=True):
    """What was found out before the first write."""

    cluster: Cluster
    client: ApiClient
    desired: DesiredSet
    planner: Planner
    findings: list[Finding]
    stored: StoredInventory
    leftovers: Leftovers
    creates_namespace: bool


class SyncRun:
    """One attempt of a sync or diff task."""

    def __init__(self, task: Task, context: AttemptContext, parts: Parts) -> None:
        self._task = task
        self._context = context
        self._parts = parts
        self._spec: SyncSpec = task.sync_spec()
        self._report = Report(task, context)
        self._applied: dict[ResourceKey, InventoryEntry] = {}
        self._generations: dict[ResourceKey, int] = {}
        self._message = ""
        self._refuse_unsupported()

    @property
    def _only_shows(self) -> bool:
        return self._task.kind is TaskKind.DIFF or self._task.options.dry_run

    def conclude(self, outcome: Outcome | None = None, error: DelegateError | None = None, message: str = "") -> TaskResult:
        touched = self._report.began_writing
        errors = describe_error(error) if error else ()
        if error is not None and outcome is Outcome.FAILED and not touched and error.category in _REFUSING and not error.retryable:
            outcome = Outcome.REFUSED
        message = message or (error.message if error else self._message)
        if outcome is not None and not self._only_shows:
            undone = self._report.skip_undone()
            if touched and undone:
                message += f"; stopped part way: {undone} of what was planned is not done"
        return self._report.result(outcome or Outcome.SUCCEEDED, errors, message)

    async def execute(self) -> None:
        ground = await self._prepare()
        plan = self._gate(ground)
        self._context.report("plan.made", self._report.plan_event(plan))
        if self._only_shows:
            self._report.sync = SyncStatus.OUT_OF_SYNC if plan.has_changes else SyncStatus.SYNCED
            return
        if plan.has_writes or self._owes_record(ground):
            await self._write(ground)
        else:
            await self._wait(ground)
        stale = self._kept_stale(ground)
        self._report.sync = SyncStatus.OUT_OF_SYNC if stale else SyncStatus.SYNCED

    # Before the first write

    async def _prepare(self) -> _Ground:
        source, options, report = self._spec.source, self._task.options, self._report
        with report.timed("resolve"):
            revision = await self._parts.sources.resolve(source, timeout=self._left())
            report.revision = revision.revision
            self._context.report("source.resolved", {"revision": revision.revision})
        with report.timed("render"):
            rendered = await self._parts.sources.render(source, revision, timeout=self._left())
            report.notice(rendered.notices)
        with report.timed("plan"):
            cluster = await self._parts.clusters.open(self._task.destination)
            report.cluster = cluster.uid
            client = cluster.client.viewed(meter=report.meter, policy=self._retrying())
            desired = await self._desire(cluster, rendered)
            report.notice(desired.notices)
            creates = await self._check_namespace(cluster.name, client, desired)
            stored = await InventoryStore(client, desired.application, desired.namespace).read()
            planner = Planner(
                client, cluster.discovery, desired, force=options.force, created_namespace=desired.namespace if creates else ""
            )
            findings = await planner.plan_all()
            stale = to_prune(stored.inventory, _with_uids(desired, findings))
            leftovers = await find_leftovers(client, cluster.discovery, desired.applyset, stale) if stale else Leftovers()
        return _Ground(cluster, client, desired, planner, findings, stored, leftovers, creates)

    async def _desire(self, cluster: Cluster, rendered: Rendered) -> DesiredSet:
        scopes = await cluster.discovery.scopes()
        unavailable = await cluster.discovery.unavailable_groups()
        # Some thousand objects take some hundred milliseconds of hashing: not on the loop.
        return await asyncio.to_thread(
            prepare_desired,
            rendered.manifests,
            application=self._task.application,
            revision=rendered.revision,
            destination_namespace=self._task.destination.namespace,
            scopes=scopes,
            unavailable_groups=unavailable,
        )

    async def _check_namespace(self, cluster: str, client: ApiClient, desired: DesiredSet) -> bool:
        """Whether the destination namespace has to be created by us. Raises once, not for each object, where it is missing.

        One that is just being deleted is waited for: nothing can be created in it, and its records go with it.
        """
        key = ResourceKey("", "Namespace", "", desired.namespace)
        try:
            found = await client.get_metadata(_NAMESPACE_TYPE, "", key.name)
            if not found["metadata"].get("deletionTimestamp") or self._only_shows:
                return False
            await await_gone(client, _NAMESPACE_TYPE, key)
        except NotFoundError:
            pass
        except ForbiddenError:
            return False  # who may not read it may still write into it; the dry run tells
        if key.name in desired.namespaces:
            return False
        if _CREATE_NAMESPACE in self._spec.sync_policy.sync_options:
            return True
        raise NamespaceNotFoundError(
            f"the namespace {key.name!r} doesn't exist in cluster {cluster!r}",
            hint=f"create it, add it to the set, or say syncOptions [{_CREATE_NAMESPACE}]",
            object=str(key),
            code="input.namespace_not_found",
        )

    def _gate(self, ground: _Ground) -> Plan:
        """The plan, or every reason why it must not be carried out."""
        prunes = ground.leftovers.prunes if self._task.options.prune else ()
        plan = Plan(
            application=ground.desired.application,
            revision=self._report.revision,
            items=tuple(finding.change for finding in ground.findings),
            prunes=prunes,
        )
        report = self._report
        report.planned((*plan.items, *plan.prunes))
        report.plan_hash = plan_hash(plan)
        report.notice(ground.leftovers.notices)
        report.notice(_ownership_notices(ground.findings))
        if ground.creates_namespace:
            report.notice(
                [f"the namespace {ground.desired.namespace!r} is created first; the Application does not own it and never prunes it"]
            )
        raise_all(_distinct([finding.error for finding in ground.findings if finding.error is not None]))
        approved = self._task.approved_plan
        if approved and approved != report.plan_hash:
            raise PlanMismatchError(
                f"the plan {report.plan_hash} is not the approved one, {approved}",
                hint="look at the difference again and approve the new plan",
            )
        if prunes and not ground.desired.manifests and not self._task.options.force:
            raise EmptyRenderError(
                f"the source renders no object, and {len(prunes)} would be pruned",
                hint="check path and revision; to take everything away, sync once with options {prune: true, force: true}",
            )
        return plan

    # Writing

    async def _write(self, ground: _Ground) -> None:
        await self._make_place_for_records(ground)
        store = InventoryStore(ground.client, ground.desired.application, ground.desired.namespace)
        holder = self._context.attempt_id
        floor = ground.stored.inventory.fence
        application, namespace, seconds = ground.desired.application, ground.desired.namespace, self._parts.lease_seconds
        async with hold_lease(ground.client, application, namespace, holder=holder, fence_floor=floor, seconds=seconds) as lease:
            self._report.began_writing = True
            wanted = _with_uids(ground.desired, ground.findings)
            record = intended(ground.stored.inventory, wanted, fence=lease.fence, revision=self._report.revision)
            stored = await store.write(ground.stored, record)
            await self._apply(ground, lease)
            gone = set(ground.leftovers.gone)
            stored = await store.write(stored, confirmed(stored.inventory, self._applied.values(), gone))
            healthy = await self._wait(ground)
            if healthy and self._task.options.prune and ground.leftovers.prunes:
                await self._prune(ground, lease, store, stored)

    async def _make_place_for_records(self, ground: _Ground) -> None:
        """Creates the namespace of the records where the set brings it or the task asks for it: nothing can be recorded before."""
        name = ground.desired.namespace
        if ground.creates_namespace:
            self._report.began_writing = True
            with contextlib.suppress(AlreadyExistsError):
                await ground.client.create(_NAMESPACE_TYPE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            return
        for position, finding in enumerate(ground.findings):
            change = finding.change
            if change.key == ResourceKey("", "Namespace", "", name) and change.writes and not change.uid:
                assert change.manifest is not None
                self._report.began_writing = True
                body = with_mark(change.manifest.body, Mark(change.manifest_hash, change.fields))
                answer = await ground.client.apply(_NAMESPACE_TYPE, body)
                self._written(change, answer)
                ground.findings[position] = Finding(msgspec.structs.replace(change, writes=False, uid=answer["metadata"]["uid"]))

    async def _apply(self, ground: _Ground, lease: WriteLease) -> None:
        applier = Applier(
            ground.client,
            ground.cluster.discovery,
            ground.planner,
            lease,
            force=self._task.options.force,
            on_written=self._written,
            on_failed=lambda change, error: self._report.failed(change.key, error),
        )

        async def after_wave(stage: Stage) -> None:
            with self._report.timed("wait"):
                await self._health_wait(ground, stage.manifests).run(self._wait_deadline())

        with self._report.timed("apply"):
            await applier.apply_stages(ground.desired.stages, ground.findings, after_wave=after_wave)

    def _written(self, change: PlannedChange, answer: JsonObject) -> None:
        metadata = answer.get("metadata") or {}
        assert change.manifest is not None
        uid = str(metadata.get("uid") or change.uid)
        key = change.key
        self._applied[key] = InventoryEntry(key.group, key.kind, key.namespace, key.name, change.version, uid, change.wave)
        if metadata.get("generation"):
            self._generations[key] = int(metadata["generation"])
        if answer:
            self._report.done(change)
            self._context.report("object.written", {"object": str(key), "action": change.action.value})

    # Waiting and pruning

    async def _wait(self, ground: _Ground) -> bool:
        """Whether everything is healthy; without `wait` one look is taken and the answer is whatever it is."""
        wait = self._health_wait(ground, ground.desired.manifests)
        with self._report.timed("wait"):
            if not self._task.options.wait:
                await wait.look()
                return True
            try:
                async with self._context.parked():
                    await wait.run(self._wait_deadline())
            except HealthTimeoutError as error:
                if self._task.options.fail_if_times_out:
                    raise
                self._message = error.message
                return False
            self._report.notice([f"{key} has no address yet; that is not waited for" for key in wait.unaddressed])
        return True

    def _health_wait(self, ground: _Ground, manifests: tuple[Manifest, ...]) -> HealthWait:
        types = ground.planner.types
        targets = [
            Target(manifest.key, types[(manifest.group_kind, manifest.version)], self._generations.get(manifest.key))
            for manifest in manifests
            if (manifest.group_kind, manifest.version) in types
        ]
        return HealthWait(
            ground.client,
            ground.desired.applyset,
            targets,
            fail_fast_after=parse_duration(self._task.options.fail_fast_after),
            on_health=self._report.health,
        )

    async def _prune(self, ground: _Ground, lease: WriteLease, store: InventoryStore, stored: StoredInventory) -> None:
        gone: list[ResourceKey] = []

        def on_gone(change: PlannedChange) -> None:
            gone.append(change.key)
            self._report.done(change)
            self._context.report("object.pruned", {"object": str(change.key)})

        with self._report.timed("prune"):
            deadline = min(self._wait_deadline(), asyncio.get_running_loop().time() + _PRUNE_SECONDS)
            survivors = await Pruner(ground.client, ground.leftovers, lease, on_gone=on_gone).prune(deadline)
            for key, error in survivors.items():
                self._report.failed(key, error)
            await store.write(stored, confirmed(stored.inventory, (), gone))
            raise_all(list(survivors.values()))

    # Small decisions

    def _refuse_unsupported(self) -> None:
        options, faults = self._task.options, list[DelegateError]()
        if options.resources:
            faults.append(
                UnsupportedTaskError("options.resources is not done by this version", hint="leave it out: the whole set is synced")
            )
        if options.replace:
            faults.append(
                UnsupportedTaskError("options.replace is not done by this version", hint="leave it out: objects are applied in place")
            )
        unknown = [option for option in self._spec.sync_policy.sync_options if option not in _KNOWN_SYNC_OPTIONS]
        faults += [
            UnsupportedTaskError(f"the sync option {option!r} is not done by this version", hint="leave it out") for option in unknown
        ]
        raise_all(faults)

    def _owes_record(self, ground: _Ground) -> bool:
        """Whether the inventory does not say what is: an attempt died before it could confirm, or something has gone."""
        inventory = ground.stored.inventory
        wanted = {entry.key for entry in ground.desired.entries()}
        unconfirmed = inventory.state is not InventoryState.CONFIRMED or not wanted <= inventory.keys()
        return (bool(wanted) and unconfirmed) or bool(ground.leftovers.gone)

    def _kept_stale(self, ground: _Ground) -> int:
        kept = 0 if self._task.options.prune else len(ground.leftovers.prunes)
        if kept:
            self._report.notice([f"{kept} objects are no longer wanted and are kept: prune is off"])
        return kept

    def _retrying(self) -> Retrying:
        retry = self._task.retry
        longest = parse_duration(retry.max_retry_duration) if retry.max_retry_duration else None
        return self._parts.retrying.overridden(
            max_attempts=retry.max_attempts, base_ms=retry.base_ms, max_ms=retry.max_ms, max_duration_seconds=longest
        )

    def _left(self) -> float:
        return max(0.1, self._context.deadline - asyncio.get_running_loop().time())

    def _wait_deadline(self) -> float:
        """A little before the attempt's own, so that a wait that runs out can still say what it waited for."""
        left = self._left()
        return self._context.deadline - min(2.0, left * 0.1)


def _with_uids(desired: DesiredSet, findings: list[Finding]) -> tuple[InventoryEntry, ...]:
    uids = {finding.change.key: finding.change.uid for finding in findings}
    return tuple(msgspec.structs.replace(entry, uid=uids.get(entry.key, "")) for entry in desired.entries())


def _ownership_notices(findings: list[Finding]) -> list[str]:
    return [
        f"{finding.change.key}: fields are taken back from {', '.join(finding.taken_from)}" for finding in findings if finding.taken_from
    ]


def _distinct(errors: list[DelegateError]) -> list[DelegateError]:
    """The faults of a plan, each said once: a missing namespace is one fault, not one for each object in it."""
    seen: dict[tuple[str, str], DelegateError] = {}
    for error in errors:
        for each in flatten(error):
            seen.setdefault((each.code, each.message), each)
    return list(seen.values())
