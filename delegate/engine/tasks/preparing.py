"""Everything of a sync that touches nothing: resolve, render, look at the cluster, plan, and say no.

What comes out is a `Ground` to stand on for whoever writes, and a plan that went through the gate.
"""

import asyncio
import tempfile
from pathlib import Path

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import ForbiddenError, NotFoundError
from delegate.engine.clusters.registry import Cluster, ClusterRegistry
from delegate.engine.forges.places import KnownForge
from delegate.engine.policies.gates import Gate, Verdict
from delegate.engine.records.inventories import InventoryStore, StoredInventory
from delegate.engine.sources.git.writing import Identity
from delegate.engine.sources.manifests import Sources
from delegate.engine.sources.renders import Rendered
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.desired import DesiredSet, Rules, prepare_desired
from delegate.engine.tasks.dry_running import DryRunner, Finding
from delegate.engine.tasks.errors import EmptyRenderError, MissingNamespaceError, PlanMismatchError, PruneGuardError
from delegate.engine.tasks.gating import PolicyCheck
from delegate.engine.tasks.health_books import HealthBook
from delegate.engine.tasks.helm_commands import HelmCommands
from delegate.engine.tasks.helm_records import find_pending_releases, may_be_helms
from delegate.engine.tasks.leaving_out import held_by_canaries
from delegate.engine.tasks.observing import await_gone
from delegate.engine.tasks.planning import Planner
from delegate.engine.tasks.pruning import Leftovers, Removal, find_leftovers
from delegate.engine.tasks.querying import PathQueries
from delegate.engine.tasks.reading import TriedSources
from delegate.engine.tasks.reports import Report
from delegate.engine.tasks.targeting import TaskTarget
from delegate.engine.verification.answers import Providers
from delegate.foundation.errors import DelegateError, flatten
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.foundation.quantities import parse_duration
from delegate.model.errors import raise_all
from delegate.model.guards import asks_to_confirm
from delegate.model.health.rules import reads_status
from delegate.model.inventory import InventoryEntry, to_prune
from delegate.model.leases import LEASE_SECONDS
from delegate.model.plan import Plan, plan_hash, planned_hooks
from delegate.model.resource_types import NAMESPACES
from delegate.model.resources import JsonObject, ResourceKey
from delegate.model.selection import Selection
from delegate.model.sync_options import read_sync_options
from delegate.model.tasks import Duplicates, SyncSpec, Task, TaskKind


class Parts(msgspec.Struct, frozen=True):
    """What a run works with; shared by all runs of a process.

    `retrying` holds unless the task says otherwise. `lease_seconds`: how long a dead attempt keeps the next one from writing.
    """

    sources: Sources
    clusters: ClusterRegistry
    retrying: Retrying
    queries: PathQueries
    lease_seconds: int = LEASE_SECONDS
    policies: Gate = msgspec.field(default_factory=Gate)
    health_rules: HealthBook = msgspec.field(default_factory=HealthBook)
    author: Identity = Identity()
    forges: tuple[KnownForge, ...] = ()
    providers: Providers | None = None
    helm: HelmCommands = msgspec.field(default_factory=lambda: HelmCommands("helm", Path(tempfile.gettempdir()), {}))


class Ground(msgspec.Struct, frozen=True):
    """What was found out before the first write. `creates_namespace`: the destination is missing, and ours to create. `selection`: what the
    task is about, without what a canary has at work."""

    cluster: Cluster
    client: ApiClient
    desired: DesiredSet
    planner: Planner
    findings: list[Finding]
    stored: StoredInventory
    leftovers: Leftovers
    creates_namespace: bool
    selection: Selection = Selection()
    hook_faults: tuple[DelegateError, ...] = ()
    verdict: Verdict = Verdict()
    namespace_metadata: JsonObject = {}

    def entries(self) -> tuple[InventoryEntry, ...]:
        """All that is wanted, with the uids of what exists."""
        uids = {finding.change.key: finding.change.uid for finding in self.findings}
        return tuple(msgspec.structs.replace(entry, uid=uids.get(entry.key, "")) for entry in self.desired.entries())


def retrying_of(task: Task, parts: Parts) -> Retrying:
    """How steps of a task are tried again: as it says itself, else as the process does."""
    retry = task.retry
    longest = parse_duration(retry.max_retry_duration) if retry.max_retry_duration else None
    return parts.retrying.overridden(
        max_attempts=retry.max_attempts, base_ms=retry.base_ms, max_ms=retry.max_ms, max_duration_seconds=longest
    )


class Preparation:
    """Prepares one attempt."""

    def __init__(self, task: Task, spec: SyncSpec, context: AttemptContext, parts: Parts, report: Report) -> None:
        self._task = task
        self._spec = spec
        self._context = context
        self._parts = parts
        self._report = report
        self._options, self._option_notices = read_sync_options(spec.sync_policy.sync_options)

    @property
    def only_shows(self) -> bool:
        return self._task.kind is TaskKind.DIFF or self._task.options.dry_run or self._spec.sync_policy.suspend

    async def prepare(self) -> Ground:
        """Raises every fault of the source or of the set as a whole; those of single objects are findings."""
        wanted, report = self._spec.all_sources, self._report
        report.notice((*self._task.notices, *self._option_notices))
        if self._spec.sync_policy.suspend:
            report.notice(["this Application is suspended: nothing is written; take syncPolicy.suspend away to go on"])
        policy = retrying_of(self._task, self._parts)
        tried = TriedSources(self._parts.sources, policy, self._context.deadline)
        with report.timed("resolve"):
            revisions = await tried.resolve(wanted)
            report.revision = ",".join(each.revision for each in revisions)
            self._context.report("source.resolved", {"revision": report.revision})
        with report.timed("render"):
            target = TaskTarget(self._task, self._spec.project, self._parts.clusters, report.meter, policy).target()
            rendered = await tried.render(wanted, revisions, target)
            report.notice(rendered.notices)
        with report.timed("plan"):
            cluster = await self._parts.clusters.open(self._task.destination)
            report.cluster = cluster.uid
            return await self._judge(await self._look(cluster, rendered), rendered)

    async def prepare_known(self, cluster: Cluster, rendered: Rendered) -> Ground:
        """As `prepare`, for objects that need no source any more. `report.cluster` and `report.revision` are the caller's to set."""
        with self._report.timed("plan"):
            return await self._judge(await self._look(cluster, rendered), rendered)

    async def _look(self, cluster: Cluster, rendered: Rendered) -> Ground:
        client = cluster.client.viewed(meter=self._report.meter, policy=retrying_of(self._task, self._parts))
        selection = self._task.selection
        desired = await self._desire(cluster, rendered, selection)
        self._check_allowed(desired)
        creates, namespace_metadata = await self._check_namespace(cluster.name, client, desired)
        stored = await InventoryStore(client, desired.application, desired.namespace).read()
        members = {manifest.key for manifest in desired.manifests} | stored.inventory.keys()
        if held := await held_by_canaries(client, members, self._context.task_id):
            selection = selection.without(held)
            desired = await self._desire(cluster, rendered, selection)
            self._report.notice(f"{key} is left as it is: {words}" for key, words in held.items())
        self._report.notice(desired.notices)
        if may_be_helms(self._spec.all_sources) and not creates:
            self._report.notice(await find_pending_releases(client, desired.namespace))
        created = desired.namespace if creates else ""
        dry_runner = DryRunner(
            client,
            self._parts.queries,
            force=self._task.options.force,
            replace=self._task.options.replace,
            contests={contest.key: contest for contest in stored.inventory.contests},
            shows=self.only_shows,
        )
        rules = self._parts.health_rules()
        planner = Planner(
            client,
            cluster.discovery,
            desired,
            dry_runner,
            force=self._task.options.force,
            shared=self._spec.sync_policy.shared,
            created_namespace=created,
            looks_at=None if self.only_shows else lambda kind: reads_status(kind, rules),
        )
        findings = await planner.plan_all()
        faults = await planner.hook_faults()
        ground = Ground(
            cluster,
            client,
            desired,
            planner,
            findings,
            stored,
            Leftovers(),
            creates,
            selection,
            faults,
            namespace_metadata=namespace_metadata,
        )
        stale = to_prune(stored.inventory, (*ground.entries(), *desired.spared))
        stale = tuple(entry for entry in stale if entry.key in selection)
        if not stale:
            return ground
        removal = Removal(confirmed=self._is_confirmed, options=self._options)
        leftovers = await find_leftovers(client, cluster.discovery, desired.applyset, stale, removal)
        for prune in leftovers.prunes if self._task.options.prune else ():
            self._context.check_namespace(prune.key.namespace, str(prune.key))
        return msgspec.structs.replace(ground, leftovers=leftovers)

    async def _judge(self, ground: Ground, rendered: Rendered) -> Ground:
        desired, prunes = ground.desired, ground.leftovers.prunes if self._task.options.prune else ()
        check = PolicyCheck(
            self._parts.policies,
            ground.client,
            ground.cluster.discovery,
            self._task,
            namespace=desired.namespace,
            locate=rendered.locate,
        )
        verdict = await check.judge((finding.change for finding in ground.findings), prunes, desired.hooks)
        return msgspec.structs.replace(ground, verdict=verdict)

    def gate(self, ground: Ground) -> Plan:
        """The plan, or every reason why it must not be carried out."""
        prunes = ground.leftovers.prunes if self._task.options.prune else ()
        plan = Plan(
            application=ground.desired.application,
            revision=self._report.revision,
            items=tuple(finding.change for finding in ground.findings),
            prunes=prunes,
            hooks=planned_hooks(ground.desired.hooks),
        )
        self._report.planned((*plan.items, *plan.prunes))
        self._report.plan_hash = plan_hash(plan)
        self._report.notice(_notices(ground))
        self._report.notice(ground.verdict.warnings)
        if self._task.kind is TaskKind.DIFF:
            self._report.notice(f"{error}; a sync would be refused" for error in ground.verdict.denials)
        faults = [finding.error for finding in ground.findings if finding.error is not None]
        # A difference is shown also where it may not be made; the notices say so.
        denials = () if self._task.kind is TaskKind.DIFF else ground.verdict.denials
        raise_all(_distinct([*faults, *ground.hook_faults, *denials]))
        approved = self._task.approved_plan
        if approved and approved != self._report.plan_hash:
            raise PlanMismatchError(
                f"the plan {self._report.plan_hash} is not the approved one, {approved}",
                hint="look at the difference again and approve the new plan",
            )
        is_empty = prunes and not ground.desired.manifests and not ground.desired.spared
        if is_empty and not self._is_confirmed and not self.only_shows:
            raise EmptyRenderError(
                f"the source renders no object, and {len(prunes)} would be pruned",
                hint="check path and revision; to take everything away, sync once with options {prune: true, confirm: true}, "
                f"or approve the plan {self._report.plan_hash}",
            )
        self._guard_prunes(ground, plan)
        return plan

    @property
    def _is_confirmed(self) -> bool:
        options = self._task.options
        return options.confirm or options.force or bool(self._task.approved_plan)

    def _guard_prunes(self, ground: Ground, plan: Plan) -> None:
        words = asks_to_confirm(self._spec.sync_policy.prune_guard, plan.prunes, len(ground.stored.inventory.entries))
        if words and not self._is_confirmed and not self.only_shows:
            raise PruneGuardError(
                words,
                hint=f"if that is meant, sync once with options {{confirm: true}}, or approve the plan {self._report.plan_hash}",
            )

    def _check_allowed(self, desired: DesiredSet) -> None:
        """Raises for what this machine's own policy keeps out of any task's reach."""
        for manifest in (*desired.manifests, *(hook.manifest for hook in desired.hooks)):
            # A namespace is as much as all that is in it.
            is_namespace = manifest.key.group_kind == NAMESPACES.group_kind
            namespace = manifest.name if is_namespace else manifest.key.namespace
            self._context.check_namespace(namespace, str(manifest.key))

    async def _desire(self, cluster: Cluster, rendered: Rendered, selection: Selection) -> DesiredSet:
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
            rules=Rules(
                selection,
                self._spec.ignore_differences,
                self._spec.ownership,
                self._options,
                frozenset(self._spec.sync_policy.take_over_from),
                last_wins=self._spec.sync_policy.duplicates is Duplicates.LAST_WINS,
            ),
        )

    async def _check_namespace(self, cluster: str, client: ApiClient, desired: DesiredSet) -> tuple[bool, JsonObject]:
        """Whether the destination namespace has to be created by us, else what of its metadata it lacks.

        Raises once, not for each object, where it is missing.

        One that is just being deleted is waited for: nothing can be created in it, and its records go with it.
        """
        key = ResourceKey("", "Namespace", "", desired.namespace)
        try:
            found = await client.get_metadata(NAMESPACES, "", key.name)
            if not found["metadata"].get("deletionTimestamp") or self.only_shows:
                managed = self._options.create_namespace and key.name not in desired.namespaces
                return False, self._spec.sync_policy.managed_namespace_metadata.missing_from(found["metadata"]) if managed else {}
            await await_gone(client, NAMESPACES, key)
        except NotFoundError:
            pass
        except ForbiddenError:
            return False, {}  # who may not read it may still write into it; the dry run tells
        if key.name in desired.namespaces:
            return False, {}
        if self._options.create_namespace:
            return True, {}
        raise MissingNamespaceError(
            f"the namespace {key.name!r} doesn't exist in cluster {cluster!r}",
            hint="create it, add it to the set, or say syncOptions [CreateNamespace=true]",
            object=str(key),
        )

    def _left(self) -> float:
        return max(0.1, self._context.deadline - asyncio.get_running_loop().time())


def _notices(ground: Ground) -> list[str]:
    taken = [finding for finding in ground.findings if finding.taken_from]
    notices = [*ground.leftovers.notices, *(note for finding in ground.findings for note in finding.notes)]
    notices += [f"{finding.change.key}: fields are taken back from {', '.join(finding.taken_from)}" for finding in taken]
    notices += [f"runs the {hook.phase} hook {hook.manifest.key} when something is written" for hook in ground.desired.hooks]
    if ground.creates_namespace:
        namespace = ground.desired.namespace
        notices.append(f"the namespace {namespace!r} is created first; the Application does not own it and never prunes it")
    for part, missing in ground.namespace_metadata.items():
        notices.append(f"the namespace {ground.desired.namespace!r} gets the {part} {', '.join(sorted(missing))}")
    return notices


def _distinct(errors: list[DelegateError]) -> list[DelegateError]:
    """The faults of a plan, each said once: a missing namespace is one fault, not one for each object in it."""
    seen: dict[tuple[str, str], DelegateError] = {}
    for error in errors:
        for each in flatten(error):
            seen.setdefault((each.code, each.message), each)
    return list(seen.values())
