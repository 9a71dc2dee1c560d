"""The end of an Application: its objects go in mirrored order, or stay and belong to nobody; then what was kept of it goes.

    Lease -> PreDelete hooks -> delete, wave by wave (or let go) -> PostDelete hooks -> releases -> inventory

The source isn't asked: the inventory says what is owned, the last release which hooks there are. What could not be removed stays in the
inventory, so the next attempt goes on from there.
"""

import asyncio
import contextlib

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.discovery import Discovery
from delegate.engine.clusters.errors import ForbiddenError, NotFoundError, UnknownKindError
from delegate.engine.records.errors import InventoryChangedError
from delegate.engine.records.inventories import InventoryStore, StoredInventory
from delegate.engine.records.leases import WriteLease, hold_lease, remove_lease
from delegate.engine.records.releases import ReleaseStore
from delegate.engine.tasks.concurrency import for_each
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.desired import LOCAL_NAMESPACE
from delegate.engine.tasks.errors import PlanMismatchError
from delegate.engine.tasks.gating import PolicyCheck
from delegate.engine.tasks.holding import HookPlace, let_abandoned_go, let_hook_go, places_of
from delegate.engine.tasks.hooking import HookRunner
from delegate.engine.tasks.preparing import Parts, retrying_of
from delegate.engine.tasks.pruning import Leftovers, Pruner, Removal, find_leftovers
from delegate.engine.tasks.releasing import let_go
from delegate.engine.tasks.reports import Report
from delegate.engine.tasks.stopping import GONE_ON_WITH
from delegate.foundation.errors import Category, DelegateError
from delegate.model.errors import raise_all
from delegate.model.hooks import HOOK_OF_LABEL, Hook, Phase, take_hooks_apart
from delegate.model.inventory import application_applyset_id, confirmed
from delegate.model.plan import Plan, PlannedChange, plan_hash, planned_hooks
from delegate.model.resources import ResourceKey
from delegate.model.results import Outcome, SyncStatus, TaskResult, describe_error
from delegate.model.sync_options import read_sync_options
from delegate.model.tasks import Deletion, Task, TaskKind
from delegate.model.waves import order_for_prune

_REFUSING = (Category.INPUT, Category.POLICY)


class _Ending(msgspec.Struct, frozen=True):
    """What an Application leaves, as it was found. `parting` are the objects that stay and are let go."""

    client: ApiClient
    discovery: Discovery
    stored: StoredInventory
    leftovers: Leftovers
    parting: tuple[ResourceKey, ...]
    hooks: tuple[Hook, ...]


class DeletionRun:
    """One attempt to end an Application."""

    def __init__(self, task: Task, context: AttemptContext, parts: Parts) -> None:
        spec = task.sync_spec()
        self._task = task
        self._context = context
        self._parts = parts
        self._report = Report(task, context)
        self._options, self._notices = read_sync_options(spec.sync_policy.sync_options)
        self._namespace = task.destination.namespace or LOCAL_NAMESPACE
        self._applyset = application_applyset_id(task.application, self._namespace)
        self._hook_places: set[HookPlace] = set()
        self._message = ""

    async def execute(self) -> None:
        self._report.notice((*self._task.notices, *self._notices))
        with self._report.timed("plan"):
            ending = await self._look()
        for prune in ending.leftovers.prunes:
            self._context.check_namespace(prune.key.namespace, str(prune.key))
        hooks = planned_hooks(hook for hook in ending.hooks if hook.phase in (Phase.PRE_DELETE, Phase.POST_DELETE))
        plan = Plan(application=self._task.application, prunes=ending.leftovers.prunes, hooks=hooks)
        self._report.planned(plan.prunes)
        self._report.plan_hash = plan_hash(plan)
        self._report.notice(ending.leftovers.notices)
        if not ending.stored.exists:
            self._message = f"{self._task.application} owns nothing in namespace {self._namespace}"
            return
        approved = self._task.approved_plan
        if approved and approved != self._report.plan_hash:
            raise PlanMismatchError(
                f"the plan {self._report.plan_hash} is not the approved one, {approved}",
                hint="look at what would go again and approve the new plan",
            )
        await self._judge(ending, plan)
        if self._task.kind is TaskKind.DIFF or self._task.options.dry_run:
            self._report.sync = SyncStatus.OUT_OF_SYNC
            return
        await self._end(ending)

    async def _judge(self, ending: _Ending, plan: Plan) -> None:
        """Raises what policies deny of it; a difference is shown all the same, with a notice."""
        check = PolicyCheck(self._parts.policies, ending.client, ending.discovery, self._task, namespace=self._namespace)
        verdict = await check.judge((), plan.prunes, ending.hooks)
        self._report.notice(verdict.warnings)
        if self._task.kind is TaskKind.DIFF:
            self._report.notice(f"{error}; the deletion would be refused" for error in verdict.denials)
        else:
            raise_all(verdict.denials)

    def conclude(self, outcome: Outcome | None = None, error: DelegateError | None = None, message: str = "") -> TaskResult:
        if error is not None and outcome is Outcome.FAILED and not self._report.began_writing and error.category in _REFUSING:
            outcome = Outcome.REFUSED
        message = message or (error.message if error else self._message)
        if outcome is not None and self._report.began_writing:
            undone = self._report.skip_undone()
            message += f"; {undone} objects are still there" if undone else ""
        return self._report.result(outcome or Outcome.SUCCEEDED, describe_error(error) if error else (), message)

    async def _look(self) -> _Ending:
        cluster = await self._parts.clusters.open(self._task.destination)
        self._report.cluster = cluster.uid
        client = cluster.client.viewed(meter=self._report.meter, policy=retrying_of(self._task, self._parts))
        stored = await InventoryStore(client, self._task.application, self._namespace).read()
        confirmed_by = self._task.options.confirm or bool(self._task.approved_plan)
        removal = Removal(confirmed=confirmed_by, ends=True, options=self._options)
        entries = stored.inventory.entries
        leftovers = await find_leftovers(client, cluster.discovery, self._applyset, entries, removal)
        parting = list(leftovers.kept)
        if self._task.options.delete is Deletion.ORPHAN:
            parting += [prune.key for prune in leftovers.prunes]
            leftovers = msgspec.structs.replace(leftovers, prunes=())
        return _Ending(client, cluster.discovery, stored, leftovers, tuple(parting), await self._hooks(client))

    async def _hooks(self, client: ApiClient) -> tuple[Hook, ...]:
        """PreDelete and PostDelete hooks of the last release; none where nothing was recorded."""
        store = ReleaseStore(client, self._task.application, self._namespace)
        try:
            releases = await store.known()
            if not releases:
                return ()
            for earlier in releases[1:]:
                _, kept = await store.load(earlier.number)
                self._hook_places |= places_of(take_hooks_apart(kept).hooks)
            _, manifests = await store.load(releases[0].number)
        except ForbiddenError:
            self._report.notice(["no release may be read: PreDelete and PostDelete hooks are not run"])
            return ()
        hooks = take_hooks_apart(manifests).hooks
        self._hook_places |= places_of(hooks)
        return hooks

    async def _end(self, ending: _Ending) -> None:
        client = ending.client
        lease = hold_lease(
            client,
            self._task.application,
            self._namespace,
            holder=self._context.attempt_id,
            fence_floor=ending.stored.inventory.fence,
            seconds=self._parts.lease_seconds,
        )
        store = InventoryStore(client, self._task.application, self._namespace)
        async with lease as authority:
            self._report.began_writing = True
            hooks = HookRunner(
                client,
                ending.discovery,
                authority,
                applyset=self._applyset,
                operation=f"delete-{ending.stored.inventory.operation}",
                on_report=self._report.hook,
            )
            try:
                await self._run_hooks(hooks, ending, Phase.PRE_DELETE)
                gone = await self._remove(ending, authority, store)
                await self._run_hooks(hooks, ending, Phase.POST_DELETE)
            finally:
                await hooks.clean_up()
                if self._context.stop.requested not in GONE_ON_WITH:
                    await hooks.abandon()
            if self._task.options.delete is Deletion.CASCADE:
                await self._remove_hooks(ending)
            elif self._hook_places:
                await let_abandoned_go(ending.client, ending.discovery, self._hook_places, self._applyset, "")
            await ReleaseStore(client, self._task.application, self._namespace).remove_all()
            with contextlib.suppress(NotFoundError):  # its namespace may be among what was deleted
                await store.remove(gone)
        await remove_lease(client, self._task.application, self._namespace)
        self._report.sync = SyncStatus.UNKNOWN
        self._message = f"{self._task.application} is no more: {len(ending.leftovers.prunes)} objects deleted, {len(ending.parting)} let go"

    async def _run_hooks(self, hooks: HookRunner, ending: _Ending, phase: Phase) -> None:
        due = [hook for hook in ending.hooks if hook.phase is phase]
        if due:
            with self._report.timed("hooks"):
                await hooks.run(due, self._deadline())

    async def _remove_hooks(self, ending: _Ending) -> None:
        """What hooks of this Application are still there, from whatever sync: they are in no inventory, and nobody else's."""
        labels = f"{HOOK_OF_LABEL}={self._applyset}"
        for group_kind, version, namespace in sorted(self._hook_places):
            with contextlib.suppress(UnknownKindError, NotFoundError):
                resource_type = await ending.discovery.resource_for(group_kind, version)
                found = await ending.client.list(resource_type, namespace, labels=labels, metadata_only=True)
                for item in found.items:
                    metadata = item["metadata"]
                    await let_hook_go(ending.client, resource_type, metadata)
                    await ending.client.delete(resource_type, namespace, metadata["name"], uid=metadata["uid"])

    async def _remove(self, ending: _Ending, authority: WriteLease, store: InventoryStore) -> StoredInventory:
        """Everything that goes, gone; everything that stays, let go. Raises what could not be removed, with the rest recorded."""
        gone: list[ResourceKey] = [*ending.leftovers.gone]

        def on_gone(change: PlannedChange) -> None:
            gone.append(change.key)
            self._report.done(change)

        with self._report.timed("prune"):
            survivors = await Pruner(ending.client, ending.leftovers, authority, on_gone=on_gone).prune(self._deadline())
            for key, error in survivors.items():
                self._report.failed(key, error)

            async def part(key: ResourceKey) -> None:
                authority.check()
                await let_go(ending.client, ending.leftovers.types[key], key, self._applyset)

            stages = order_for_prune(ending.parting)
            await for_each([key for stage in stages for key in stage.keys], part)
            remaining = confirmed(ending.stored.inventory, (), (*gone, *ending.parting))
            try:
                stored = await store.write(ending.stored, msgspec.structs.replace(remaining, fence=authority.fence))
            except (NotFoundError, InventoryChangedError):
                if ResourceKey("", "Namespace", "", self._namespace) not in {prune.key for prune in ending.leftovers.prunes}:
                    raise
                stored = StoredInventory()  # the namespace of the records goes with the rest
        raise_all(list(survivors.values()))
        return stored

    def _deadline(self) -> float:
        left = max(0.1, self._context.deadline - asyncio.get_running_loop().time())
        return self._context.deadline - min(2.0, left * 0.1)
