"""An Application back to a release: its objects as they were applied, by the same means as a sync, and nothing asked of its source.

    release -> plan (what running bits would change) -> refuse where that is nothing -> mark what is left -> carry out as a sync does

What is rolled back from is marked as bad: a sync of that very content is refused until something else is wanted.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.errors import UnknownReleaseError
from delegate.engine.records.journals import list_journals
from delegate.engine.records.releases import ReleaseStore
from delegate.engine.sources.renders import Rendered
from delegate.engine.tasks.canarying_sources import SourceVersion, version_of
from delegate.engine.tasks.carrying_out import Carrier
from delegate.engine.tasks.concurrency import for_each
from delegate.engine.tasks.desired import LOCAL_NAMESPACE
from delegate.engine.tasks.dry_running import Finding
from delegate.engine.tasks.errors import HealthTimeoutError, NothingToRollBackError, SetBackError, UnsupportedTaskError
from delegate.engine.tasks.gracefully import restore_gracefully
from delegate.engine.tasks.preparing import Ground, Preparation, retrying_of
from delegate.engine.tasks.recording import mark_verified
from delegate.engine.tasks.reports import Report
from delegate.engine.tasks.undos import Occasion
from delegate.model.errors import CorruptReleaseError
from delegate.model.hooks import phases_of
from delegate.model.plan import Plan
from delegate.model.releases import Release, ReleaseOutcome
from delegate.model.resource_types import DEPLOYMENTS, WORKLOADS
from delegate.model.resources import JsonObject, Manifest, ResourceKey
from delegate.model.results import SyncStatus
from delegate.model.rollbacks import Choice, RollbackMode, choose_release
from delegate.model.rollouts.specs import WorkloadReference
from delegate.model.tasks import SyncSpec

_LOOK_SECONDS = 2.0


class ReleaseRestore:
    """One attempt. `execute` answers what was done, in words."""

    def __init__(self, occasion: Occasion) -> None:
        task, spec = occasion.task, occasion.spec
        # What the release did not have goes, unless the task says otherwise: half a release is none.
        prune = True if task.options.prune is None else task.options.prune
        self._task = msgspec.structs.replace(task, options=msgspec.structs.replace(task.options, prune=prune))
        self._spec = spec
        self._seconds_to_watch = occasion.seconds_to_watch
        self._context = occasion.context
        self._parts = occasion.parts
        self._report = occasion.report
        self._owners = occasion.owners
        self._client: ApiClient | None = None
        self._cluster: Cluster | None = None
        self._choice: Choice | None = None
        self._rules = SyncSpec()
        self._rendered = Rendered("", ())
        self._message = ""
        self._occasion = occasion

    async def execute(self) -> str:
        """Raises DelegateError."""
        self._cluster = cluster = await self._parts.clusters.open(self._task.destination)
        self._report.cluster = cluster.uid
        self._client = client = cluster.client.viewed(meter=self._report.meter, policy=retrying_of(self._task, self._parts))
        store = ReleaseStore(client, self._task.application, self._namespace)
        known = await store.known()
        begun = await self._begun_before(client)
        to = known[0].restores if begun and known and known[0].restores else self._spec.to
        self._choice = choice = choose_release(known, to)
        release, manifests = await store.load(choice.target.number)
        self._report.revision = release.revision
        self._report.notice(choice.notices)
        self._report.notice(await self._hooks_between(store, known, choice))
        self._rules = SyncSpec(ignore_differences=release.ignored, ownership=release.ownership)
        self._rendered = Rendered(release.revision, _without_hooks(manifests))
        preparation = Preparation(self._task, self._rules, self._context, self._parts, self._report)
        ground = await preparation.prepare_known(cluster, self._rendered)
        plan = preparation.gate(ground)
        self._context.report("plan.made", self._report.plan_event(plan))
        if not begun:
            self._refuse_no_op(plan, choice)
        await self._find_owners(ground, client)
        workload = begun or (self._sole_workload(ground, choice) if self._spec.mode is RollbackMode.GRACEFUL else "")
        if self._task.options.dry_run:
            self._report.sync = SyncStatus.OUT_OF_SYNC
            return ""
        # First, so that no sync puts back what is being left, not even after a rollback that fails or is killed half way.
        await self._mark_as_bad(store, known, choice)
        if self._owners.acts_through_git:
            return f"release {choice.target.number} is brought back by its owner"
        await self._owners.pin(client.clock.now())
        self._owners.restored = True
        if self._spec.mode is RollbackMode.GRACEFUL:
            bringer = _ReleaseBringer(self, choice, workload)
            self._report.began_writing = True
            await restore_gracefully(self._occasion, workload, bringer)
            healthy = bringer.healthy
        else:
            healthy = await self.carry_out(ground, plan, choice)
        if choice.resumed is not None and not plan.has_changes:
            await self._end_resumed(store, choice.resumed, healthy=healthy)
        self._report.sync = SyncStatus.SYNCED
        await self.settle(self._seconds_to_watch())
        return self._message

    async def settle(self, watch: float) -> None:
        """Until all is as in the release, and has been so for `watch` seconds. Raises SetBackError, HealthTimeoutError."""
        through_git = self._owners.acts_through_git
        if self._cluster is None or not (watch or through_git):
            return
        loop = asyncio.get_running_loop()
        watched_until = loop.time() + watch
        async with self._context.parked():
            while True:
                changed = [finding for finding in await self._look_again(self._cluster) if finding.change.writes]
                if changed and not through_git:
                    raise _set_back(changed[0])
                if not changed and loop.time() >= watched_until:
                    return
                if loop.time() + _LOOK_SECONDS >= self._context.deadline:
                    words = "is not brought by its owner in time" if changed else f"is back, but was not watched for {watch:g} s"
                    hint = "give the task a longer timeout, or say with spec.watch how long is enough"
                    raise HealthTimeoutError(f"the release {words}", hint=hint)
                await asyncio.sleep(min(_LOOK_SECONDS, max(0.1, watched_until - loop.time())))

    async def after_checks(self) -> None:
        """What was restored has passed its checks."""
        if self._client is not None:
            await mark_verified(self._client, self._task.application, self._namespace)

    @property
    def evidence(self) -> str:
        """For whoever reads the commit that takes the change back."""
        if self._choice is None:
            return ""
        left = self._choice.current.number if self._choice.current else 0
        return f"{self._task.application} was rolled back from release {left} to {self._choice.target.number}."

    @property
    def not_the_cause(self) -> str:
        return _not_the_cause(self._choice) if self._choice is not None else ""

    @property
    def _namespace(self) -> str:
        return self._task.destination.namespace or LOCAL_NAMESPACE

    async def _find_owners(self, ground: Ground, client: ApiClient) -> None:
        """Foreign owners of what is about to be written: whoever brings what Git says would take it back."""
        types = ground.planner.types

        async def look(finding: Finding) -> tuple[ResourceKey, JsonObject] | None:
            change, manifest = finding.change, finding.change.manifest
            type = types.get((manifest.group_kind, manifest.version)) if manifest is not None else None
            if not change.writes or not change.uid or type is None:
                return None
            try:
                return change.key, (await client.get_metadata(type, change.key.namespace, change.key.name))["metadata"]
            except NotFoundError:
                return None

        found = await for_each(ground.findings, look)
        await self._owners.find(client, ground.cluster.discovery, [each for each in found if each is not None])

    async def _begun_before(self, client: ApiClient) -> str:
        """The Deployment that an attempt before has begun to restore gracefully, and has not cleared; empty where there is none."""
        if self._spec.mode is not RollbackMode.GRACEFUL:
            return ""
        ours = [each for _, each in await list_journals(client, self._namespace) if each.is_open and each.task == self._context.task_id]
        return ours[0].workload if ours else ""

    def _sole_workload(self, ground: Ground, choice: Choice) -> str:
        """The Deployment whose pods are others in the release. Raises UnsupportedTaskError where it is not one."""
        changed = []
        for finding in ground.findings:
            paths = [change.path for change in finding.change.changes]
            if finding.change.key.kind in WORKLOADS and any(path == "" or path.startswith("/spec/template") for path in paths):
                changed.append(finding.change.key)
        if len(changed) == 1 and changed[0].kind == DEPLOYMENTS.kind and changed[0].namespace == self._namespace:
            return changed[0].name
        named = ", ".join(str(key) for key in changed) or "no workload"
        raise UnsupportedTaskError(
            f"spec.mode graceful takes the load off one Deployment, and release {choice.target.number} changes the pods of {named}",
            hint="mode immediate restores all of it, each by its own update rule",
        )

    async def plan_again(self) -> tuple[Ground, Plan]:
        """As it stands now, for who was at other things since."""
        assert self._cluster is not None
        preparation = Preparation(self._task, self._rules, self._context, self._parts, self._report)
        ground = await preparation.prepare_known(self._cluster, self._rendered)
        return ground, preparation.gate(ground)

    async def _look_again(self, cluster: Cluster) -> list[Finding]:
        report = Report(self._task, self._context)
        report.meter = self._report.meter
        preparation = Preparation(self._task, self._rules, self._context, self._parts, report)
        return (await preparation.prepare_known(cluster, self._rendered)).findings

    async def carry_out(self, ground: Ground, plan: Plan, choice: Choice) -> bool:
        """Whether all of it was waited for, and is healthy."""
        carrier = Carrier(
            self._task,
            self._rules,
            self._context,
            self._report,
            lease_seconds=self._parts.lease_seconds,
            health_rules=self._parts.health_rules,
            restores=choice.target.number,
        )
        await carrier.write(ground, plan)
        self._message = carrier.message or f"back to release {choice.target.number}"
        return self._task.options.wait and not carrier.message

    async def _end_resumed(self, store: ReleaseStore, resumed: Release, *, healthy: bool) -> None:
        """All of it was applied before the end came: only the word on how it ended is missing."""
        outcome = ReleaseOutcome.HEALTHY if healthy else ReleaseOutcome.APPLIED
        await store.finish(msgspec.structs.replace(resumed, outcome=outcome))
        self._report.release = resumed.number

    def _refuse_no_op(self, plan: Plan, choice: Choice) -> None:
        if not plan.has_changes and choice.resumed is None:
            raise NothingToRollBackError(
                f"release {choice.target.number} is what runs already: nothing would change",
                hint="name another release; or what is wrong lies outside of what this Application owns",
            )

    async def _hooks_between(self, store: ReleaseStore, known: Sequence[Release], choice: Choice) -> list[str]:
        """What ran between the two releases and is not taken back: a migration is not undone by older code."""
        if choice.current is None:
            return []
        notices = []
        ran: dict[str, list[int]] = {}
        for release in sorted(known, key=lambda release: release.number):
            if not choice.target.number < release.number <= choice.current.number:
                continue
            try:
                _, manifests = await store.load(release.number)
            except (CorruptReleaseError, UnknownReleaseError) as error:
                notices.append(f"which hooks release {release.number} had is not known: {error.message}")
                continue
            for manifest in manifests:
                if phases := phases_of(manifest):
                    ran.setdefault(f"{manifest.key} is a {'/'.join(sorted(phases))} hook", []).append(release.number)
        for hook, numbers in ran.items():
            of = f"release{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
            notices.append(f"{hook} of {of}: what it did stays done, and no hook is run by a rollback")
        return notices

    async def _mark_as_bad(self, store: ReleaseStore, known: Sequence[Release], choice: Choice) -> None:
        """Every release of the content that was left: a sync of it would put it back."""
        if choice.current is None or choice.current.content == choice.target.content:
            return
        for release in known:
            if release.content == choice.current.content and not release.bad:
                await store.finish(_left(release, choice.target))


def _set_back(finding: Finding) -> SetBackError:
    who = ", ".join(finding.taken_from) or "somebody"
    return SetBackError(
        f"held: {finding.change.key} was set back by {who}; it is not written a second time",
        hint=f"find out what {who} brings it from, and take the change back there",
        object=str(finding.change.key),
    )


def _not_the_cause(choice: Choice) -> str:
    left = f"release {choice.current.number}" if choice.current else "what ran before"
    return (
        f"release {choice.target.number} fails the checks as well: {left} is not what makes them fail, or not alone; "
        "it stays as it is, and no rollback goes further back unless a release is named"
    )


def _left(release: Release, target: Release) -> Release:
    words = f"left for release {target.number}"
    return msgspec.structs.replace(release, bad=True, message="; ".join(each for each in (release.message, words) if each)[:500])


def _without_hooks(manifests: list[Manifest]) -> tuple[Manifest, ...]:
    return tuple(manifest for manifest in manifests if phases_of(manifest) is None)


class _ReleaseBringer:
    """A release, for the graceful way back of its one Deployment. `healthy`: as `carry_out` says."""

    goes_back = True

    def __init__(self, restore: ReleaseRestore, choice: Choice, workload: str) -> None:
        self._restore = restore
        self._workload = workload
        self._choice = choice
        self.healthy = False

    async def look(self, namespace: str) -> SourceVersion:
        ground, _ = await self._restore.plan_again()
        wanted = WorkloadReference(self._workload)
        return await version_of(ground, ground.desired.application, wanted, namespace, f"release {self._choice.target.number}")

    async def promote(self) -> str:
        ground, plan = await self._restore.plan_again()
        self.healthy = await self._restore.carry_out(ground, plan, self._choice)
        return f"back to release {self._choice.target.number}"
