"""Everything of a sync that changes the cluster, under the Application's Lease: hooks, apply, wait, prune, and the record of it.

    namespace of the records -> Lease -> intended inventory -> PreSync hooks -> stages, Sync hooks with their waves
    -> confirmed inventory -> wait until healthy -> prune -> confirmed again

With PostSync hooks the inventory is confirmed after them. Whatever it ends at, the next attempt of the same set goes on from there:
the inventory is unconfirmed until nothing is left to be written or run.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping

import msgspec

from delegate.engine.clusters.errors import AlreadyExistsError
from delegate.engine.records.errors import LeaseLostError
from delegate.engine.records.inventories import InventoryStore
from delegate.engine.records.leases import WriteLease, hold_lease
from delegate.engine.records.releases import ReleaseStore
from delegate.engine.tasks.applying import Applier
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.dry_running import Finding
from delegate.engine.tasks.errors import HealthTimeoutError
from delegate.engine.tasks.health_books import HealthBook
from delegate.engine.tasks.holding import let_abandoned_go, places_of
from delegate.engine.tasks.hooking import HookRunner
from delegate.engine.tasks.leaving_out import refuse_held
from delegate.engine.tasks.preparing import Ground
from delegate.engine.tasks.pruning import Pruner
from delegate.engine.tasks.recording import InventoryKeeper, ReleaseKeeper
from delegate.engine.tasks.reports import Report
from delegate.engine.tasks.stopping import GONE_ON_WITH
from delegate.engine.tasks.waiting import HealthWait, Target
from delegate.foundation.errors import DelegateError
from delegate.foundation.quantities import parse_duration
from delegate.model.applied import Mark, with_mark
from delegate.model.contests import Contest, note_taken
from delegate.model.errors import raise_all
from delegate.model.hooks import Hook, Phase, take_hooks_apart
from delegate.model.inventory import Inventory, InventoryEntry, InventoryState, intended
from delegate.model.ownership import Mode
from delegate.model.plan import Plan, PlannedChange, summarize
from delegate.model.releases import Release, ReleaseOutcome
from delegate.model.resource_types import NAMESPACES
from delegate.model.resources import JsonObject, Manifest, ResourceKey
from delegate.model.results import Action, SyncStatus
from delegate.model.tasks import SyncSpec, Task
from delegate.model.waves import Stage

_PRUNE_SECONDS = 60.0


class Carrier:
    """Carries out what one attempt has prepared. `message` is what a success has to say beyond its numbers."""

    def __init__(
        self,
        task: Task,
        spec: SyncSpec,
        context: AttemptContext,
        report: Report,
        *,
        lease_seconds: int,
        health_rules: HealthBook,
        restores: int = 0,
    ) -> None:
        self._task = task
        self._spec = spec
        self._restores = restores
        self._options = task.options
        self._context = context
        self._report = report
        self._lease_seconds = lease_seconds
        self._health_rules = health_rules
        self._applied: dict[ResourceKey, InventoryEntry] = {}
        self._generations: dict[ResourceKey, int] = {}
        self.message = ""

    async def write(self, ground: Ground, plan: Plan) -> None:
        """From the first write to the confirmed inventory, and to the word on how the release ended."""
        desired = ground.desired
        await self._make_place_for_records(ground)
        store = InventoryStore(ground.client, desired.application, desired.namespace)
        async with hold_lease(
            ground.client,
            desired.application,
            desired.namespace,
            holder=self._context.attempt_id,
            fence_floor=ground.stored.inventory.fence,
            seconds=self._lease_seconds,
        ) as lease:
            await refuse_held(ground.client, (change.key for change in (*plan.items, *plan.prunes)), self._context.task_id)
            self._report.began_writing = True
            operation = _operation(ground.stored.inventory, desired.content, lease.fence)
            record = intended(
                ground.stored.inventory,
                ground.entries(),
                fence=lease.fence,
                revision=self._report.revision,
                operation=operation,
                contests=_contests(ground),
            )
            inventory = InventoryKeeper(store, await store.write(ground.stored, record))
            if _is_cut_short(ground.stored.inventory) and operation != ground.stored.inventory.operation:
                await self._let_abandoned_go(ground, operation)
            release = await self._begin_release(ground, plan, operation)
            hooks = self._hook_runner(ground, lease, operation)
            try:
                healthy = await self._run_phases(ground, lease, hooks, inventory)
            except LeaseLostError:
                raise
            except DelegateError as error:
                await release.end(ReleaseOutcome.FAILED, error.message)
                await self._run_fail_hooks(hooks, ground)
                raise
            finally:
                await hooks.clean_up()
                if self._context.stop.requested not in GONE_ON_WITH:
                    await hooks.abandon()
                self._report.notice(release.notices)
            await release.end(ReleaseOutcome.HEALTHY if healthy and self._options.wait else ReleaseOutcome.APPLIED, self.message)
            if healthy and self._options.prune and ground.leftovers.prunes:
                await self._prune(ground, lease, inventory)

    async def _begin_release(self, ground: Ground, plan: Plan, operation: str) -> ReleaseKeeper:
        """A release of what is about to be applied, where that is the whole and makes a difference."""
        desired = ground.desired
        keeper = ReleaseKeeper(ground.client, desired.application, desired.namespace, limit=self._spec.revision_history_limit)
        if plan.has_changes and ground.selection.is_whole:
            release = Release(
                number=0,
                revision=self._report.revision,
                operation=operation,
                plan=self._report.plan_hash,
                summary=summarize(change.action for change in (*plan.items, *plan.prunes)),
                task=self._context.task_id,
                restores=self._restores,
                ignored=self._spec.ignore_differences,
                ownership=self._spec.ownership,
            )
            await keeper.begin(release, desired.whole)
            self._report.release = keeper.number
        return keeper

    async def wait(self, ground: Ground, seen: Mapping[ResourceKey, JsonObject] | None = None) -> bool:
        """Whether everything is healthy; without `wait` one look is taken and the answer is whatever it is.

        `seen` are objects as they were just now, and nothing was written since: the first look takes them as they are.
        """
        wait = self._health_wait(ground, ground.desired.manifests, seen)
        with self._report.timed("wait"):
            if not self._options.wait:
                await wait.look()
                return True
            try:
                async with self._context.parked():
                    await wait.run(self._wait_deadline())
            except HealthTimeoutError as error:
                if self._options.fail_if_times_out:
                    raise
                self.message = error.message
                return False
            self._report.notice([f"{key} has no address yet; that is not waited for" for key in wait.unaddressed])
        return True

    async def _make_place_for_records(self, ground: Ground) -> None:
        """Creates the namespace of the records where the set brings it or the task asks for it: nothing can be recorded before."""
        name = ground.desired.namespace
        if ground.namespace_metadata:
            self._report.began_writing = True
            await ground.client.patch(NAMESPACES, "", name, {"metadata": ground.namespace_metadata})
        if ground.creates_namespace:
            self._report.began_writing = True
            with contextlib.suppress(AlreadyExistsError):
                managed = self._spec.sync_policy.managed_namespace_metadata
                metadata: JsonObject = {"name": name, "labels": managed.labels, "annotations": managed.annotations}
                await ground.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
            return
        for position, finding in enumerate(ground.findings):
            change = finding.change
            if change.key == ResourceKey("", "Namespace", "", name) and change.writes and not change.uid:
                assert change.manifest is not None
                self._report.began_writing = True
                body = with_mark(change.manifest.body, Mark(change.manifest_hash, change.fields))
                answer = await ground.client.apply(NAMESPACES, body)
                self._written(change, answer)
                ground.findings[position] = Finding(msgspec.structs.replace(change, writes=False, uid=answer["metadata"]["uid"]))

    # Phases

    async def _run_phases(self, ground: Ground, lease: WriteLease, hooks: HookRunner, record: InventoryKeeper) -> bool:
        await self._run_hooks(hooks, self._hooks_of(ground, Phase.PRE_SYNC))
        await self._apply(ground, lease, hooks)
        self._report.sync = SyncStatus.SYNCED
        after = self._hooks_of(ground, Phase.POST_SYNC)
        if not after:
            await record.confirm(self._applied.values(), ground.leftovers.gone)
            return await self.wait(ground)
        healthy = await self.wait(ground)
        if healthy and self._options.wait:
            await self._run_hooks(hooks, after)
        else:
            self._report.notice(["PostSync hooks are not run: they need everything to be healthy, and that was not waited for"])
        await record.confirm(self._applied.values(), ground.leftovers.gone)
        return healthy

    async def _apply(self, ground: Ground, lease: WriteLease, hooks: HookRunner) -> None:
        applier = Applier(
            ground.client,
            ground.cluster.discovery,
            ground.planner,
            lease,
            on_written=self._written,
            on_failed=lambda change, error: self._report.failed(change.key, error),
        )
        owed = list(self._hooks_of(ground, Phase.SYNC))

        async def between_waves(before: Stage | None, after: Stage | None) -> None:
            due = [hook for hook in owed if after is None or hook.wave < after.wave]
            owed[:] = [hook for hook in owed if hook not in due]
            await self._run_hooks(hooks, due)
            # What comes after all waves (webhooks, API services) needs the others to be up; who doesn't wait has said so.
            if before is not None and (after is not None or self._options.wait):
                with self._report.timed("wait"):
                    await self._health_wait(ground, before.manifests).run(self._wait_deadline())

        with self._report.timed("apply"):
            await applier.apply_stages(ground.desired.stages, ground.findings, between_waves=between_waves)
            await self._run_hooks(hooks, owed)

    def _hook_runner(self, ground: Ground, lease: WriteLease, operation: str) -> HookRunner:
        return HookRunner(
            ground.client,
            ground.cluster.discovery,
            lease,
            applyset=ground.desired.applyset,
            operation=operation,
            on_report=self._report.hook,
        )

    async def _run_hooks(self, hooks: HookRunner, due: Iterable[Hook]) -> None:
        due = list(due)
        if due:
            with self._report.timed("hooks"):
                async with self._context.parked():
                    await hooks.run(due, self._wait_deadline())

    async def _run_fail_hooks(self, hooks: HookRunner, ground: Ground) -> None:
        """What fails among them is told, and hides nothing of why the sync failed."""
        try:
            await self._run_hooks(hooks, self._hooks_of(ground, Phase.SYNC_FAIL))
        except LeaseLostError:
            raise
        except DelegateError as error:
            self._report.notice([error.message])

    async def _let_abandoned_go(self, ground: Ground, operation: str) -> None:
        desired = ground.desired
        places = places_of(desired.hooks)
        with contextlib.suppress(DelegateError):  # who may read no release has none to learn of other kinds from
            store = ReleaseStore(ground.client, desired.application, desired.namespace)
            for latest in (await store.known())[:1]:
                _, manifests = await store.load(latest.number)
                places |= places_of(take_hooks_apart(manifests).hooks)
        if places:
            await let_abandoned_go(ground.client, ground.cluster.discovery, places, desired.applyset, operation)

    @staticmethod
    def _hooks_of(ground: Ground, phase: Phase) -> tuple[Hook, ...]:
        return tuple(hook for hook in ground.desired.hooks if hook.phase is phase)

    def _written(self, change: PlannedChange, answer: JsonObject) -> None:
        metadata = answer.get("metadata") or {}
        key, uid = change.key, str(metadata.get("uid") or change.uid)
        self._applied[key] = InventoryEntry(key.group, key.kind, key.namespace, key.name, change.version, uid, change.wave)
        if metadata.get("generation"):
            self._generations[key] = int(metadata["generation"])
        if answer:
            self._report.done(change)
            self._context.report("object.written", {"object": str(key), "action": change.action.value})

    def _health_wait(
        self, ground: Ground, manifests: tuple[Manifest, ...], seen: Mapping[ResourceKey, JsonObject] | None = None
    ) -> HealthWait:
        types, targets = ground.planner.types, []
        others = {finding.change.key for finding in ground.findings if finding.change.action is Action.SKIPPED}
        for manifest in manifests:
            resource_type = types.get((manifest.group_kind, manifest.version))
            if resource_type is not None and manifest.key not in others:
                # One that was there before and is only ever created stays unlabelled.
                labelled = ground.desired.treatment_of(manifest).ownership.mode is not Mode.CREATE_ONLY
                targets.append(Target(manifest.key, resource_type, self._generations.get(manifest.key), labelled))
        return HealthWait(
            ground.client,
            ground.desired.applyset,
            targets,
            fail_fast_after=parse_duration(self._options.fail_fast_after),
            on_health=self._report.health,
            rules=self._health_rules(),
            seen=seen,
        )

    async def _prune(self, ground: Ground, lease: WriteLease, record: InventoryKeeper) -> None:
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
            await record.confirm((), gone)
            raise_all(list(survivors.values()))

    def _wait_deadline(self) -> float:
        """A little before the attempt's own, so that a wait that runs out can still say what it waited for."""
        left = max(0.1, self._context.deadline - asyncio.get_running_loop().time())
        return self._context.deadline - min(2.0, left * 0.1)


def _contests(ground: Ground) -> tuple[Contest, ...]:
    """What is to be remembered of fields that are about to be taken back from others."""
    taken = {
        finding.change.key: (finding.change.manifest_hash, finding.taken_from)
        for finding in ground.findings
        if finding.taken_from and finding.change.uid and finding.hand_over is None
    }
    return note_taken(ground.stored.inventory.contests, taken, ground.client.clock.now().timestamp())


def _operation(previous: Inventory, content: str, fence: int) -> str:
    """The name of this sync: that of an earlier attempt which died at the same set, or a new one."""
    goes_on = _is_cut_short(previous) and previous.operation.partition("-")[0] == content
    return previous.operation if goes_on else f"{content}-{fence}"


def _is_cut_short(previous: Inventory) -> bool:
    """Whether the attempt that wrote an inventory did not come to its end."""
    return previous.state is InventoryState.INTENDED
