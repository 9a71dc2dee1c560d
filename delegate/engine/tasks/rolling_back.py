"""The rollback task: an Application back to a release, or one workload back by its own revisions. Never a success that changed nothing.

    release -> plan (what running bits would change) -> refuse where that is nothing -> mark what is left -> carry out as a sync does

What is rolled back from is marked as bad: a sync of that very content is refused until something else is wanted.
"""

from collections.abc import Sequence

import msgspec

from delegate.engine.records.errors import UnknownReleaseError
from delegate.engine.records.releases import ReleaseStore
from delegate.engine.sources.renders import Rendered
from delegate.engine.tasks.canarying_taking_back import take_back_canaries
from delegate.engine.tasks.carrying_out import Carrier
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.desired import LOCAL_NAMESPACE
from delegate.engine.tasks.errors import NothingToRollBackError, UnsupportedTaskError
from delegate.engine.tasks.helm_rolling_back import HelmUndo
from delegate.engine.tasks.preparing import Ground, Parts, Preparation, retrying_of
from delegate.engine.tasks.recording import mark_verified
from delegate.engine.tasks.reports import Report
from delegate.engine.tasks.undoing import WorkloadUndo
from delegate.engine.tasks.verifying import VerifyRun
from delegate.engine.tasks.writing_repositories import revert_commit
from delegate.engine.verification.errors import CheckFailedError
from delegate.foundation.errors import Category, DelegateError
from delegate.model.errors import CorruptReleaseError
from delegate.model.hooks import phases_of
from delegate.model.plan import Plan
from delegate.model.releases import Release, ReleaseOutcome
from delegate.model.resources import JsonObject, Manifest
from delegate.model.results import Outcome, SyncStatus, TaskResult, describe_error
from delegate.model.rollbacks import LAST_VERIFIED, Choice, GitMode, RollbackMode, RollbackSpec, choose_release
from delegate.model.tasks import SyncSpec, Task, TaskKind
from delegate.model.updates.requests import UpdateMode

_REFUSING = (Category.INPUT, Category.POLICY, Category.PERMISSION, Category.CONFLICT)


class RollbackRun:
    """One attempt of a rollback task."""

    def __init__(self, task: Task, context: AttemptContext, parts: Parts) -> None:
        self._spec = task.rollback_spec()
        _refuse_unsupported(self._spec)
        # What the release did not have goes, unless the task says otherwise: half a release is none.
        prune = True if task.options.prune is None else task.options.prune
        self._task = msgspec.structs.replace(task, options=msgspec.structs.replace(task.options, prune=prune))
        self._context = context
        self._parts = parts
        self._report = Report(task, context)
        self._message = ""

    async def execute(self) -> None:
        self._report.notice(self._task.notices)
        if self._spec.helm_release is None and await self._has_taken_canaries_back():
            await self._verify()
            return
        undo: WorkloadUndo | HelmUndo | None = None
        if self._spec.workload is not None:
            undo = WorkloadUndo(self._task, self._spec.workload, self._context, self._parts, self._report)
        elif self._spec.helm_release is not None:
            undo = HelmUndo(self._task, self._spec.helm_release, self._context, self._parts, self._report)
        if undo is None:
            await self._restore()
            return
        self._message = await undo.execute()
        if not self._task.options.dry_run:
            await self._verify()

    async def _has_taken_canaries_back(self) -> bool:
        """Whether that is all there is to roll back: the stable version is what runs. Whoever names a revision or a release means more."""
        cluster = await self._parts.clusters.open(self._task.destination)
        self._report.cluster = cluster.uid
        client = cluster.client.viewed(meter=self._report.meter, policy=retrying_of(self._task, self._parts))
        target = self._spec.workload
        workload = (target.kind, target.name) if target is not None else None
        namespace = self._task.destination.namespace or LOCAL_NAMESPACE
        with self._report.timed("canaries"):
            taken = await take_back_canaries(self._task, self._context, self._parts, client, namespace, workload=workload)
        self._report.notice(taken.notices)
        named = target.revision != 0 if target is not None else self._spec.to != LAST_VERIFIED
        if not taken.words or named:
            self._report.notice(taken.words)
            return False
        self._message = f"{'; '.join(taken.words)}: nothing more is rolled back unless a revision is named"
        return True

    def conclude(self, outcome: Outcome | None = None, error: DelegateError | None = None, message: str = "") -> TaskResult:
        touched = self._report.began_writing
        if error is not None and outcome is Outcome.FAILED and not touched and error.category in _REFUSING and not error.retryable:
            outcome = Outcome.REFUSED
        message = message or (error.message if error else self._message)
        if outcome is not None and touched and (undone := self._report.skip_undone()):
            message += f"; stopped part way: {undone} of what was planned is not done"
        return self._report.result(outcome or Outcome.SUCCEEDED, describe_error(error) if error else (), message)

    async def _restore(self) -> None:
        cluster = await self._parts.clusters.open(self._task.destination)
        self._report.cluster = cluster.uid
        client = cluster.client.viewed(meter=self._report.meter, policy=retrying_of(self._task, self._parts))
        store = ReleaseStore(client, self._task.application, self._task.destination.namespace or LOCAL_NAMESPACE)
        known = await store.known()
        choice = choose_release(known, self._spec.to)
        release, manifests = await store.load(choice.target.number)
        self._report.revision = release.revision
        self._report.notice(choice.notices)
        ordinary = _without_hooks(manifests)
        self._report.notice(await self._hooks_between(store, known, choice))
        spec = SyncSpec(ignore_differences=release.ignored, ownership=release.ownership)
        preparation = Preparation(self._task, spec, self._context, self._parts, self._report)
        ground = await preparation.prepare_known(cluster, Rendered(release.revision, ordinary))
        plan = preparation.gate(ground)
        self._context.report("plan.made", self._report.plan_event(plan))
        self._refuse_no_op(plan, choice)
        if self._task.options.dry_run:
            self._report.sync = SyncStatus.OUT_OF_SYNC
            return
        # First, so that no sync puts back what is being left, not even after a rollback that fails or is killed half way.
        await self._mark_as_bad(store, known, choice)
        healthy = await self._carry_out(ground, plan, spec, choice)
        if choice.resumed is not None and not plan.has_changes:
            await self._end_resumed(store, choice.resumed, healthy=healthy)
        self._report.sync = SyncStatus.SYNCED
        try:
            await self._verify()
        except CheckFailedError:
            self._report.notice([_not_the_cause(choice)])
            raise
        if self._spec.verification:
            await mark_verified(client, self._task.application, ground.desired.namespace)
        await self._revert_commit(choice)

    async def _verify(self) -> None:
        """What failed before has to pass again: otherwise the old version isn't the cure. Raises NotVerifiedError."""
        if not self._spec.verification:
            return
        spec: JsonObject = {"verification": list(self._spec.verification)}
        task = msgspec.structs.replace(self._task, kind=TaskKind.VERIFY, spec=spec)
        verify = VerifyRun(task, self._context, self._parts)
        with self._report.timed("verify"):
            await verify.execute()

    async def _revert_commit(self, choice: Choice) -> None:
        """Takes the commit back in the source, once the cluster is: until it is, a sync of its content is refused."""
        git = self._spec.git
        if git.mode is GitMode.NONE:
            return
        left = choice.current.number if choice.current else 0
        with self._report.timed("revert"):
            written = await revert_commit(
                self._parts,
                repo_url=git.repo_url,
                branch=git.branch,
                commit=git.commit,
                mode=UpdateMode.MERGE_REQUEST if git.mode is GitMode.MERGE_REQUEST else UpdateMode.COMMIT,
                application=self._task.application,
                task_id=self._context.task_id,
                policy=retrying_of(self._task, self._parts),
                deadline=self._context.deadline,
                evidence=f"{self._task.application} was rolled back from release {left} to {choice.target.number}.",
                paths=git.paths,
            )
        where = written.url or f"{written.commit[:12]} on {written.branch}"
        short = git.commit[:12]
        self._report.notice([f"commit {short} is taken back: {where}" if written.made else f"commit {short} was taken back before"])

    async def _carry_out(self, ground: Ground, plan: Plan, spec: SyncSpec, choice: Choice) -> bool:
        """Whether all of it was waited for, and is healthy."""
        carrier = Carrier(
            self._task,
            spec,
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


def _refuse_unsupported(spec: RollbackSpec) -> None:
    if spec.mode is RollbackMode.GRACEFUL:
        raise UnsupportedTaskError(
            "spec.mode graceful: this version takes no traffic away and drains nothing before it restores",
            hint="an open canary takes its weights back and drains when it is aborted; after that, or without one: mode immediate",
        )
