"""The canary task: a new version beside the stable one, step by step, until it is the stable one or nothing of it is left.

    look -> refuse what can't be meant or reached -> Lease -> journal (ours, a dead attempt's, an older release's) -> drive -> end

Nothing is written before the Lease is held and the journal says what is about to be done.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from delegate.engine.records.errors import LeaseLostError
from delegate.engine.records.inventories import InventoryStore
from delegate.engine.records.journals import JournalStore, StoredJournal
from delegate.engine.records.leases import WriteLease, hold_lease
from delegate.engine.tasks.canarying_assembling import canary_work, place_of
from delegate.engine.tasks.canarying_looking import find_autoscalers, find_stable, held_autoscalers
from delegate.engine.tasks.canarying_patience import repeated
from delegate.engine.tasks.canarying_plans import Ground, Plan
from delegate.engine.tasks.canarying_sets import Authority
from delegate.engine.tasks.canarying_smoke import check_smoke_test
from delegate.engine.tasks.canarying_sources import Bringer, SourceBringer
from delegate.engine.tasks.canarying_storms import CanaryGroup
from delegate.engine.tasks.canarying_verifying import CanaryChecks
from delegate.engine.tasks.canarying_ways import check_update_rule, is_under_way, reach, spec_for, stable_template
from delegate.engine.tasks.canarying_work import CanaryWork
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.errors import CanaryBusyError, CanaryFailedError, UnsupportedTaskError
from delegate.engine.tasks.preparing import Parts, retrying_of
from delegate.engine.tasks.reports import Report
from delegate.engine.tasks.stopping import StopVerdict
from delegate.engine.traffic.autoscalers import Autoscalers
from delegate.engine.traffic.routers import router_of, separates
from delegate.foundation.clocks import SYSTEM_CLOCK
from delegate.foundation.errors import Category, DelegateError
from delegate.foundation.quantities import parse_duration
from delegate.model.resource_types import SERVICES, VERSIONED
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, TaskResult, describe_error
from delegate.model.rollouts.journals import Journal
from delegate.model.rollouts.specs import read_canary
from delegate.model.rollouts.states import Phase
from delegate.model.rollouts.steps import loads_of
from delegate.model.rollouts.storms import still_bad
from delegate.model.rollouts.versions import digest, images_of, with_images
from delegate.model.rollouts.workloads import OWN_TRACKS, check_overlap, tracks_of, wanted_replicas
from delegate.model.tasks import Task
from delegate.model.verification.records import joined

_REFUSING = (Category.INPUT, Category.POLICY, Category.PERMISSION, Category.CONFLICT)
_DEFAULT_NAMESPACE = "default"
_SHORTEST_DRAIN = 30.0


class CanaryRun:
    """One attempt of a canary task."""

    wind_down_seconds: float

    def __init__(self, task: Task, context: AttemptContext, parts: Parts, *, bringer: Bringer | None = None) -> None:
        self._task = task
        self._spec = read_canary(task.spec)
        separates(self._spec.routing)
        self._context = context
        self._parts = parts
        self._checks: CanaryChecks | None = None
        self._report = Report(task, context)
        self._journal: Journal | None = None
        self._message = ""
        self._bringer = bringer
        if self._spec.source is not None and bringer is None:
            self._bringer = SourceBringer(task, self._spec, context, parts)
        self._release = digest(msgspec.to_builtins(self._spec))
        self.wind_down_seconds = self._spec.drain_seconds + self._spec.progress_seconds
        if self._spec.verifies and parts.providers is None:
            raise UnsupportedTaskError("this delegate has no providers of evidence", hint="give it the file of DELEGATE_PROVIDERS")

    async def execute(self) -> None:
        with self._report.timed("plan"):
            ground = await self._look()
        store = self._store(ground)
        before = await repeated(ground.client.clock, store.read)
        if self._is_our_end(before.journal):
            self._journal = before.journal
            return
        self._refuse_busy(ground, before.journal)
        if not self._has_work(ground, before.journal):
            await self._go_without(ground)
            return
        await self._check_may_begin(ground, before)
        promotes = await self._step_through(ground, store, before)
        if promotes and self._bringer is not None:
            await self._promote_by(self._bringer, ground, store)

    async def _check_may_begin(self, ground: Ground, stored: StoredJournal) -> None:
        """Raises KnownBadError, GroupStoppedError where a new canary has been ruled out; one that is at work goes on."""
        if stored.journal is not None and stored.journal.is_open and stored.journal.release == self._release:
            return
        group = CanaryGroup(ground.client, ground.namespace, self._spec, self._context.task_id)
        goes_back = self._bringer is not None and self._bringer.goes_back
        await group.check_may_begin(stored, ground.plan.version, force=self._task.options.force or goes_back)

    async def _go_without(self, ground: Ground) -> None:
        """Nothing of the workload would change: a source may still hold something else that does."""
        self._message = "already the good version: nothing to do"
        if self._bringer is not None:
            told = await self._bringer.promote()
            self._message = f"no workload affected, so nothing was verified: {told}"

    async def _step_through(self, ground: Ground, store: JournalStore, before: StoredJournal) -> bool:
        """All that is done under our own Lease. Whether a sync, which takes it by itself, has to promote."""
        async with self._authority(ground, before) as lease:
            clock = ground.client.clock
            if await repeated(clock, lambda: self._settle_older(ground, store, lease)):
                ground = await self._look()
            stored = await repeated(clock, store.read)
            if self._is_our_end(stored.journal):
                self._journal = stored.journal
                return False
            if not self._has_work(ground, stored.journal):
                self._message = "already the good version: nothing to do"
                return False
            work = self._work(ground, lease, store, await repeated(clock, lambda: self._begin(ground, store, stored, lease)))
            await self._drive(work, before_promotion=self._bringer is not None)
            return work.journal.phase is Phase.PROMOTING

    async def _promote_by(self, bringer: Bringer, ground: Ground, store: JournalStore) -> None:
        """The set as a whole, and then what is left to do under our own Lease again."""
        fault: DelegateError | None = None
        try:
            await bringer.promote()
        except LeaseLostError:
            raise
        except DelegateError as error:
            fault = error
        before = await repeated(ground.client.clock, store.read)
        async with self._authority(ground, before) as lease:
            stored = await repeated(ground.client.clock, store.read)
            if stored.journal is None or not stored.journal.is_open:
                self._journal = stored.journal
                return
            work = self._work(ground, lease, store, await self._adopt(store, stored, stored.journal, lease))
            if fault is not None:
                await work.abort(f"promotion failed: {fault.message}")
            await self._drive(work)

    async def wind_down(self, verdict: StopVerdict) -> None:
        """Takes the new version back after a cancellation or at the deadline; what is on its way out goes on to its end."""
        ground = await self._look(anew=False)
        store = self._store(ground)
        before = await repeated(ground.client.clock, store.read)
        journal = before.journal
        if journal is None or journal.task != self._context.task_id or not journal.is_open:
            self._journal = journal if self._is_our_end(journal) else None
            return
        async with self._authority(ground, before) as lease:
            stored = await repeated(ground.client.clock, store.read)
            if stored.journal is None or stored.journal.task != self._context.task_id:
                return
            work = self._work(ground, lease, store, await self._adopt(store, stored, stored.journal, lease))
            await work.abort("the task's time is over" if verdict is StopVerdict.DEADLINE else "the task was cancelled")
            await self._drive(work)

    async def take_back(self, reason: str) -> Journal | None:
        """Ends a canary that some task of our Application has left at work, for who rolls back: what is promoted already stays so.

        The journal in the end; None where there is nothing to end. Raises CanaryBusyError, DelegateError.
        """
        ground = await self._look(anew=False)
        store = self._store(ground)
        before = await repeated(ground.client.clock, store.read)
        if before.journal is None or not before.journal.is_open:
            return None
        self._refuse_busy(ground, before.journal)
        async with self._authority(ground, before) as lease:
            stored = await repeated(ground.client.clock, store.read)
            if stored.journal is None or not stored.journal.is_open:
                return stored.journal
            marked = msgspec.structs.replace(stored.journal, taken_back_by=self._context.task_id)
            adopted = await self._adopt(store, stored, marked, lease, task=marked.task)
            work = self._work(ground, lease, store, adopted, routing=marked.routing)
            await work.abort(reason)
            await work.drive()
            return work.journal

    def conclude(self, outcome: Outcome | None = None, error: DelegateError | None = None, message: str = "") -> TaskResult:
        journal = self._journal
        phase = journal.phase if journal is not None else None
        self._report.notice(journal.told if journal is not None else ())
        if journal is not None and error is None:
            if phase is Phase.PROMOTED:
                outcome = Outcome.SUCCEEDED
                message = "promoted: the new version is the stable one"
            elif phase is Phase.RESTORED:
                outcome = outcome if outcome in (Outcome.CANCELLED, Outcome.SUPERSEDED) else Outcome.ABORTED
                error = CanaryFailedError(journal.reason or "taken back", hint="the notices say how it came about")
                message = f"aborted, and the stable version is as it was: {error.message}"
        errors = describe_error(error) if error is not None else ()
        touched = self._report.began_writing
        if outcome is Outcome.FAILED and error is not None and not touched and error.category in _REFUSING:
            outcome = Outcome.REFUSED
        message = message or (error.message if error else self._message)
        if outcome is not None and journal is not None and journal.is_open:
            message += f"; the journal stands at {journal.phase}, step {journal.step}: the next attempt goes on from there"
        result = self._report.result(outcome or Outcome.SUCCEEDED, errors, message)
        records = self._checks.records if self._checks is not None else []
        return msgspec.structs.replace(result, verification=joined(records)) if records else result

    # Before anything is written.

    async def _look(self, *, anew: bool = True) -> Ground:
        """`anew`: whether what can't be reached is refused; not for who only has to take back."""
        return await repeated(SYSTEM_CLOCK, lambda: self._look_once(anew=anew))

    async def _look_once(self, *, anew: bool) -> Ground:
        spec, name = self._spec, self._spec.workload.name
        cluster = await self._parts.clusters.open(self._task.destination)
        self._report.cluster = cluster.uid
        namespace = self._task.destination.namespace or _DEFAULT_NAMESPACE
        self._context.check_namespace(namespace, f"{VERSIONED[spec.workload.kind].group}/{spec.workload.kind} {namespace}/{name}")
        client = cluster.client.viewed(meter=self._report.meter, policy=retrying_of(self._task, self._parts))
        stable = await find_stable(client, namespace, spec.workload.kind, name)
        beside = spec.workload.kind == "Deployment"
        services = (await client.list(SERVICES, namespace)).items if beside else ()
        tracks = tracks_of(stable, services, separate=separates(spec.routing)) if beside else OWN_TRACKS
        version = None
        if self._bringer is not None:
            version = await self._bringer.look(namespace)
            self._report.revision = version.revision
            self._release = digest([msgspec.to_builtins(spec), version.revision])
        journal = (await JournalStore(client, namespace, spec.workload.kind, name).read()).journal
        ours = journal is not None and journal.is_open and journal.release == self._release
        base = journal.template if ours and journal is not None else await stable_template(client, stable)
        if anew and (journal is None or not journal.is_open):
            check_update_rule(stable, spec)
        if anew and not ours:
            self._report.notice(reach(spec, wanted_replicas(stable)))
        autoscalers: tuple[str, ...] = ()
        if anew and not ours and beside:
            scalers, notices = await find_autoscalers(client, namespace, name)
            self._report.notice(notices)
            check_overlap(name, tracks, scalers)
            if separates(spec.routing):
                autoscalers, notices = await held_autoscalers(client, namespace, name, scalers)
                self._report.notice(notices)
        if spec.drain_seconds < _SHORTEST_DRAIN and separates(spec.routing):
            self._report.notice([f"a drain of {spec.drain} is shorter than routers may take to hear of it: 30 s is what is safe"])
        if tracks.overlaps:
            self._report.notice([f"the selector of {name} matches the new pods too; their owners tell them apart"])
        plan = Plan(
            spec=spec_for(spec, stable),
            application=self._task.application,
            template=with_images(base, spec.images) if version is None else version.template,
            tracks=tracks,
            fail_fast_after=parse_duration(self._task.options.fail_fast_after),
            copies=version.copies if version is not None else (),
            kept=version.kept if version is not None else (),
            autoscalers=autoscalers,
            base=base,
            inside=version.inside if version is not None else None,
        )
        if anew and spec.smoke_test is not None:
            await check_smoke_test(client, namespace, plan.template, spec.smoke_test)
        return Ground(cluster, client, namespace, stable, plan, version is None or version.affected)

    def _has_work(self, ground: Ground, journal: Journal | None) -> bool:
        if journal is not None and journal.is_open:
            return True
        if self._bringer is not None:
            return ground.affected or is_under_way(ground.stable)
        current = images_of(ground.stable["spec"]["template"])
        return is_under_way(ground.stable) or any(current.get(name) != image for name, image in self._spec.images.items())

    def _is_our_end(self, journal: Journal | None) -> bool:
        """Whether an earlier attempt of this very task has come to the end."""
        mine = (self._context.task_id, self._release)
        return journal is not None and (journal.task, journal.release) == mine and not journal.is_open

    # Under the Lease.

    def _store(self, ground: Ground) -> JournalStore:
        return JournalStore(ground.client, ground.namespace, self._spec.workload.kind, self._spec.workload.name)

    @asynccontextmanager
    async def _authority(self, ground: Ground, stored: StoredJournal) -> AsyncIterator[WriteLease]:
        inventories = InventoryStore(ground.client, self._task.application, ground.namespace)
        inventory = (await repeated(ground.client.clock, inventories.read)).inventory
        floor = max(inventory.fence, stored.journal.fence if stored.journal is not None else 0)
        async with hold_lease(
            ground.client,
            self._task.application,
            ground.namespace,
            holder=self._context.attempt_id,
            fence_floor=floor,
            seconds=self._parts.lease_seconds,
        ) as lease:
            yield lease

    async def _settle_older(self, ground: Ground, store: JournalStore, lease: WriteLease) -> bool:
        """An older release that is still under way is taken back, whole, before anything new begins. Whether there was one."""
        stored = await store.read()
        journal = stored.journal
        if journal is None or not journal.is_open:
            return False
        self._refuse_busy(ground, journal)
        goes_back = journal.phase is Phase.ABORTING
        if journal.release == self._release and not (goes_back and journal.task != self._context.task_id):
            return False
        adopted = await self._adopt(store, stored, journal, lease, task=journal.task)
        work = self._work(ground, lease, store, adopted, routing=journal.routing)
        await work.abort("a newer release takes its place")
        await work.drive()
        self._report.notice(f"before: {words}" for words in work.journal.told)
        return True

    def _refuse_busy(self, ground: Ground, journal: Journal | None) -> None:
        """Raises CanaryBusyError where another Application's canary is open: its journal is the workload's lock."""
        if journal is not None and journal.is_open and journal.application != self._task.application:
            raise CanaryBusyError(
                f"task {journal.task} of {journal.application} works on {self._spec.workload.kind} {ground.namespace}/{journal.workload}",
                hint=f"wait until it has ended, or cancel it (its journal stands at {journal.phase})",
            )

    async def _begin(self, ground: Ground, store: JournalStore, stored: StoredJournal, lease: WriteLease) -> StoredJournal:
        if stored.journal is not None and stored.journal.is_open:
            return await self._adopt(store, stored, stored.journal, lease)
        stable = await find_stable(ground.client, ground.namespace, self._spec.workload.kind, self._spec.workload.name)
        check_update_rule(stable, self._spec)
        place = place_of(ground, Authority(lease))
        router = router_of(self._spec.routing, place)
        await router.check(tuple(dict.fromkeys(loads_of(self._spec.steps))))
        journal = Journal(
            application=self._task.application,
            task=self._context.task_id,
            attempt=self._context.attempt_id,
            fence=lease.fence,
            workload=self._spec.workload.name,
            uid=stable["metadata"]["uid"],
            release=self._release,
            routes=await router.snapshot(),
            autoscalers=await Autoscalers(place).look(ground.plan.autoscalers),
            routing=self._spec.routing if isinstance(self._spec.routing, dict) else {},
            template=await stable_template(ground.client, stable),
            strategy=stable["spec"].get("updateStrategy") or {},
            copies=tuple((str(body["kind"]), str(body["metadata"]["name"])) for body in ground.plan.copies),
            kept=tuple((str(body["kind"]), name, str(body["metadata"]["name"])) for name, body in ground.plan.kept),
            drain_seconds=self._spec.drain_seconds,
            bad=still_bad(stored.journal.bad, stored.config_map, but=ground.plan.version) if stored.journal is not None else (),
        )
        lease.check()
        self._report.began_writing = True
        return await store.write(stored, journal)

    async def _adopt(
        self, store: JournalStore, stored: StoredJournal, journal: Journal, lease: WriteLease, *, task: str = ""
    ) -> StoredJournal:
        """Makes a journal that another attempt has left ours: from here on its late writes are refused."""
        lease.check()
        self._report.began_writing = True
        adopted = msgspec.structs.replace(journal, task=task or self._context.task_id, attempt=self._context.attempt_id, fence=lease.fence)
        return await store.write(stored, adopted)

    def _work(
        self, ground: Ground, lease: WriteLease, store: JournalStore, stored: StoredJournal, *, routing: JsonObject | None = None
    ) -> CanaryWork:
        if self._parts.providers is not None and self._checks is None:
            self._checks = CanaryChecks(self._spec, self._task.application, self._context, self._parts.providers, ground.client)
        return canary_work(ground, Authority(lease), store, stored, context=self._context, checks=self._checks, routing=routing)

    async def _drive(self, work: CanaryWork, *, before_promotion: bool = False) -> None:
        try:
            with self._report.timed("steps"):
                await work.drive(before_promotion=before_promotion)
        finally:
            self._journal = work.journal
