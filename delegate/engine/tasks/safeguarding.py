"""A sync that has to prove itself: checks after it, and one step back by itself where it fails, if the task says so.

    sync -> checks -> (what speaks against the release -> rollback to the last good one, with the same checks)

Once for a release: what is rolled back from is known as bad and not synced again, and a rollback is followed by no second one. After a
crash the next attempt sees by the releases how far the one before came.
"""

import asyncio
import dataclasses

import msgspec

from delegate.engine.clusters.errors import ForbiddenError
from delegate.engine.records.releases import ReleaseStore
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.desired import LOCAL_NAMESPACE
from delegate.engine.tasks.errors import HealthTimeoutError, HookFailedError, UnhealthyError
from delegate.engine.tasks.preparing import Parts
from delegate.engine.tasks.rolling_back import RollbackRun
from delegate.engine.tasks.stopping import StopVerdict
from delegate.engine.tasks.sync import SyncRun
from delegate.engine.tasks.verifying import VerifyRun
from delegate.engine.verification.errors import CheckFailedError, MissingEvidenceError
from delegate.foundation.errors import DelegateError
from delegate.model.errors import NoReleaseError
from delegate.model.releases import Release, ReleaseOutcome
from delegate.model.results import Outcome, SyncStatus, TaskResult
from delegate.model.rollbacks import LAST_VERIFIED, choose_release
from delegate.model.tasks import OnSyncFailure, Task, TaskKind

_AGAINST = (UnhealthyError, HealthTimeoutError, HookFailedError, CheckFailedError, MissingEvidenceError)
"""What speaks against a release. A source of evidence that is away, or a refusal before the first write, does not."""
_LONGEST_SECONDS = 900.0
_CUT_SHORT = (ReleaseOutcome.APPLYING, ReleaseOutcome.INTERRUPTED)


class SafeguardedSync:
    """One attempt of a sync task with `verification` or `onFailure`."""

    wind_down_seconds: float

    def __init__(self, task: Task, context: AttemptContext, parts: Parts) -> None:
        self._spec = task.sync_spec()
        self._task = task
        self._context = context
        self._parts = parts
        self._sync = SyncRun(task, context, parts)
        self._verify = self._new_verify()  # what can't be asked is refused before anything is touched
        self._rollback: RollbackRun | None = None
        self._fault: DelegateError | None = None
        self._back: TaskResult | None = None
        self._words = ""
        self._seconds = min(task.timeout_seconds, _LONGEST_SECONDS)
        self.wind_down_seconds = self._seconds if self._spec.on_failure is OnSyncFailure.ROLLBACK else 0.0

    async def execute(self) -> None:
        newest = await self._made_by_us()
        if newest is not None and (newest.restores or newest.bad):
            await self._go_on(newest)
            return
        try:
            await self._sync.execute()
            await self._check()
        except _AGAINST as error:
            self._fault = error
            await self._answer()

    async def wind_down(self, verdict: StopVerdict) -> None:
        """A rollback that has begun comes to its end; a sync whose time is over has failed."""
        if self._rollback is not None:
            newest = await self._made_by_us()
            if newest is not None:
                await self._go_on(newest)
        elif verdict is StopVerdict.DEADLINE and self._fault is None:
            self._fault = HealthTimeoutError("the task's timeout ran out before the release had proved itself")
            await self._answer()

    def conclude(self, outcome: Outcome | None = None, error: DelegateError | None = None, message: str = "") -> TaskResult:
        fault = error if self._fault is None else self._fault
        if fault is not None and outcome is None:
            outcome = Outcome.TIMED_OUT if isinstance(fault, HealthTimeoutError) else Outcome.FAILED
        result = self._sync.conclude(outcome, fault, message if self._fault is None else "")
        if self._fault is not None and outcome is not None:
            result = msgspec.structs.replace(result, outcome=outcome)  # it has failed, also where it had nothing to change
        checked = self._verify.conclude(outcome, fault) if self._verify is not None else None
        if checked is not None and checked.verification is not msgspec.UNSET:
            result = msgspec.structs.replace(result, verification=checked.verification, notices=(*result.notices, *checked.notices))
        if not self._words:
            return result
        result = msgspec.structs.replace(result, message=f"{result.message}; {self._words}" if result.message else self._words)
        if self._back is None:
            return result
        return msgspec.structs.replace(
            result,
            sync=SyncStatus.OUT_OF_SYNC,
            health=self._back.health,
            release=self._back.release or result.release,
            notices=(*result.notices, *(f"rollback: {notice}" for notice in self._back.notices)),
            errors=(*result.errors, *self._back.errors),
        )

    # Checks.

    def _new_verify(self) -> VerifyRun | None:
        if not self._spec.verification or self._task.options.dry_run:
            return None
        spec = {"verification": [msgspec.to_builtins(check) for check in self._spec.verification]}
        return VerifyRun(msgspec.structs.replace(self._task, kind=TaskKind.VERIFY, spec=spec), self._context, self._parts)

    async def _check(self) -> None:
        """Anew, for evidence counts from when the sync was done."""
        self._verify = self._new_verify()
        if self._verify is not None:
            await self._verify.execute()

    # The way back.

    async def _answer(self) -> None:
        assert self._fault is not None
        if self._spec.on_failure is not OnSyncFailure.ROLLBACK or self._task.options.dry_run:
            raise self._fault
        newest = await self._made_by_us()
        if newest is None:
            self._words = "this sync has changed nothing, so there is nothing of it to roll back"
            return
        try:
            target = choose_release(await self._known(), LAST_VERIFIED).target
        except NoReleaseError as error:
            self._words = f"not rolled back: {error.message}"
            return
        await self._roll_back(target.number)

    async def _go_on(self, newest: Release) -> None:
        """An attempt before was on its way back, or there already."""
        self._fault = self._fault or UnhealthyError(newest.message or "an attempt before this one has failed, and rolled back")
        if newest.restores and newest.outcome not in _CUT_SHORT:
            self._words = f"rolled back to release {newest.restores} already ({newest.outcome.value})"
        else:
            await self._roll_back(LAST_VERIFIED)

    async def _roll_back(self, to: str | int) -> None:
        """With a time of its own: what has failed may have used up that of the task."""
        deadline = asyncio.get_running_loop().time() + self._seconds
        spec = {"to": to, "verification": [msgspec.to_builtins(check) for check in self._spec.verification]}
        task = msgspec.structs.replace(self._task, kind=TaskKind.ROLLBACK, spec=spec, notices=())
        self._context.report("sync.rolls_back", {"to": to})
        self._rollback = RollbackRun(task, dataclasses.replace(self._context, deadline=deadline), self._parts)
        fault: DelegateError | None = None
        try:
            await self._rollback.execute()
        except DelegateError as error:
            fault = error
        self._back = self._rollback.conclude(Outcome.FAILED if fault is not None else None, fault)
        self._rollback = None
        self._words = f"the rollback failed: {fault.message}" if fault is not None else f"rolled back: {self._back.message}"

    async def _known(self) -> list[Release]:
        cluster = await self._parts.clusters.open(self._task.destination)
        try:
            return await ReleaseStore(cluster.client, self._task.application, self._task.destination.namespace or LOCAL_NAMESPACE).known()
        except ForbiddenError:
            return []

    async def _made_by_us(self) -> Release | None:
        """The newest release, where it is this task's."""
        known = await self._known()
        return known[0] if known and known[0].task == self._context.task_id else None
