"""The rollback task: an Application back to a release, one workload back by its own revisions, or a release of Helm's own.

    canaries at work back -> whose is it -> (pin) -> restore, and watch that it stays -> checks -> Git back -> (unpin)

Never a success that changed nothing, and never a second write against somebody who sets it back.
"""

import msgspec

from delegate.engine.tasks.canarying_taking_back import take_back_canaries
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.desired import LOCAL_NAMESPACE
from delegate.engine.tasks.gracefully import check_graceful
from delegate.engine.tasks.helm_rolling_back import HelmUndo
from delegate.engine.tasks.pinning import Owners
from delegate.engine.tasks.preparing import Parts, retrying_of
from delegate.engine.tasks.reports import Report
from delegate.engine.tasks.restoring import ReleaseRestore
from delegate.engine.tasks.undoing import WorkloadUndo
from delegate.engine.tasks.undos import Occasion, Undo
from delegate.engine.tasks.verifying import VerifyRun
from delegate.engine.tasks.writing_repositories import revert_commit
from delegate.engine.verification.errors import CheckFailedError
from delegate.foundation.errors import Category, DelegateError
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, TaskResult, describe_error
from delegate.model.rollbacks import LAST_VERIFIED, GitMode
from delegate.model.tasks import Task, TaskKind
from delegate.model.updates.requests import UpdateMode

_REFUSING = (Category.INPUT, Category.POLICY, Category.PERMISSION, Category.CONFLICT)
_TO_CONCLUDE_SECONDS = 2.0


class RollbackRun:
    """One attempt of a rollback task."""

    def __init__(self, task: Task, context: AttemptContext, parts: Parts) -> None:
        self._spec = task.rollback_spec()
        check_graceful(self._spec)
        self._task = task
        self._context = context
        self._parts = parts
        self._report = Report(task, context)
        self._owners = Owners(
            self._spec.gitops,
            task_id=context.task_id,
            application=task.application,
            force=task.options.force,
            through_git=self._spec.git.mode is not GitMode.NONE,
        )
        self._occasion = Occasion(task, self._spec, context, parts, self._report, self._owners)
        self._message = ""

    async def execute(self) -> None:
        self._report.notice(self._task.notices)
        if self._spec.helm_release is None and await self._has_taken_canaries_back():
            await self._verify()
            return
        undo = self._undo()
        try:
            self._message = await undo.execute()
            if self._task.options.dry_run:
                return
            if self._owners.acts_through_git:
                await self._take_back_in_git(undo)
                await undo.settle(self._occasion.seconds_to_watch())
            await self._check(undo)
            if not self._owners.acts_through_git:
                await self._unpin(undo, await self._take_back_in_git(undo))
        finally:
            await self._owners.leave()
            self._report.notice(self._owners.notices)

    def _undo(self) -> Undo:
        if self._spec.workload is not None:
            return WorkloadUndo(self._occasion)
        return HelmUndo(self._occasion) if self._spec.helm_release is not None else ReleaseRestore(self._occasion)

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

    async def _check(self, undo: Undo) -> None:
        try:
            await self._verify()
        except CheckFailedError:
            self._report.notice([undo.not_the_cause] if undo.not_the_cause else ())
            raise
        if self._spec.verification:
            await undo.after_checks()

    async def _verify(self) -> None:
        """What failed before has to pass again: otherwise the old version isn't the cure. Raises NotVerifiedError."""
        if not self._spec.verification:
            return
        spec: JsonObject = {"verification": list(self._spec.verification)}
        task = msgspec.structs.replace(self._task, kind=TaskKind.VERIFY, spec=spec)
        verify = VerifyRun(task, self._context, self._parts)
        with self._report.timed("verify"):
            await verify.execute()

    async def _take_back_in_git(self, undo: Undo) -> str:
        """Takes the commit back in the source as well. Returns the commit that does, where it is on the branch."""
        git = self._spec.git
        if git.mode is GitMode.NONE:
            return ""
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
                evidence=undo.evidence,
                paths=git.paths,
            )
        where = written.url or f"{written.commit[:12]} on {written.branch}"
        short = git.commit[:12]
        self._report.notice([f"commit {short} is taken back: {where}" if written.made else f"commit {short} was taken back before"])
        return "" if written.url else written.commit

    async def _unpin(self, undo: Undo, commit: str) -> None:
        """Lets the owners go once Git says what runs, and then watches them for two of their intervals."""
        if commit and self._owners.pinned:
            with self._report.timed("unpin"):
                async with self._context.parked():
                    freed = await self._owners.release(commit, self._context.deadline - _TO_CONCLUDE_SECONDS)
                if freed:
                    await undo.settle(self._occasion.seconds_to_watch())
