"""The verify task: asks for evidence until there is a verdict, and changes nothing.

Nothing but a verdict `pass` succeeds. A stop, a task that was never begun, a source that can't be asked: none of them is one.
"""

from collections.abc import Callable

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.metering import RequestMeter
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.desired import LOCAL_NAMESPACE
from delegate.engine.tasks.errors import UnsupportedTaskError
from delegate.engine.tasks.new_versions import NewVersion, await_new_version
from delegate.engine.tasks.preparing import Parts, retrying_of
from delegate.engine.tasks.recording import mark_verified
from delegate.engine.verification.clocks import PastClock
from delegate.engine.verification.errors import (
    CheckConfigurationError,
    CheckFailedError,
    MissingEvidenceError,
    NotVerifiedError,
    SourceUnavailableError,
)
from delegate.engine.verification.providers.registry import ClusterProviders
from delegate.engine.verification.running import Circumstances, Verification
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.errors import Category, DelegateError
from delegate.foundation.quantities import parse_duration
from delegate.model.results import Outcome, TaskResult, describe_error
from delegate.model.tasks import Task
from delegate.model.verification.checks import Check, VerifySpec
from delegate.model.verification.readings import Reading, Verdict
from delegate.model.verification.records import VerificationRecord
from delegate.model.verification.windows import parse_time

_TO_CONCLUDE_SECONDS = 1.0
"""So long before the task's own deadline checks come to an end, so that they can say what they saw."""
_LAST_LOOK_SECONDS = 0.001
"""A look at the very end of a past window is one inside it."""


class VerifyRun:
    """One attempt of a verify task."""

    def __init__(self, task: Task, context: AttemptContext, parts: Parts, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._spec = task.verify_spec()
        self._task = task
        self._context = context
        if parts.providers is None:
            raise UnsupportedTaskError("this delegate has no providers of evidence", hint="give it the file of DELEGATE_PROVIDERS")
        self._providers = ClusterProviders(parts.providers, self._client, task.destination.namespace)
        self._clusters = parts.clusters
        self._retrying = retrying_of(task, parts)
        self._clock = clock
        self._meter = RequestMeter()
        self._verification: Verification | None = None
        self._notices: list[str] = []
        if self._spec.workload is None:
            self._verification = self._build(None)  # what can't be asked is refused before anything else

    async def execute(self) -> None:
        """Raises NotVerifiedError for every verdict but pass."""
        async with self._context.parked():
            if self._verification is None:
                self._verification = self._build(await self._await_workload())
            record = await self._verification.run()
        if record.verdict is not Verdict.PASS:
            raise error_of(record)
        await self._remember()

    async def _remember(self) -> None:
        """Marks the release that runs as verified, where evidence is of now and there is a place to look for releases."""
        destination = self._task.destination
        if self._spec.window is not None or not (destination.namespace or destination.name or destination.server):
            return
        try:
            number = await mark_verified(await self._client(), self._task.application, destination.namespace or LOCAL_NAMESPACE)
        except DelegateError as error:
            self._notices.append(f"no release is marked as verified: {error.message}")
            return
        if number:
            self._notices.append(f"release {number} is verified")

    def conclude(self, outcome: Outcome | None = None, error: DelegateError | None = None, message: str = "") -> TaskResult:
        record = self._verification.record() if self._verification is not None else None
        if outcome is Outcome.CANCELLED and record is not None and _speaks_against(record):
            outcome, error = Outcome.FAILED, error_of(record)
            message = f"{message}; {record.reason}" if message else record.reason
        errors = describe_error(error) if error is not None else ()
        if error is not None and outcome is Outcome.FAILED and error.category is Category.INPUT and not _asked(record):
            outcome = Outcome.REFUSED
        words = message or (error.message if error is not None else record.reason if record is not None else "")
        if outcome in (Outcome.CANCELLED, Outcome.TIMED_OUT, Outcome.SUPERSEDED) and record is not None:
            words = f"{words}; {record.reason}"
        return TaskResult(
            task=self._context.task_id,
            attempt=self._context.attempt_id,
            kind=self._task.kind.value,
            application=self._task.application,
            outcome=outcome or Outcome.SUCCEEDED,
            message=words,
            error=errors[0] if errors else None,
            errors=errors,
            requests=self._meter.counts,
            seconds={"verify": round(record.ended - record.began, 4)} if record is not None else {},
            notices=(*self._task.notices, *self._notices, *self._meter.warnings),
            verification=record if record is not None else msgspec.UNSET,
        )

    async def _client(self) -> ApiClient:
        cluster = await self._clusters.open(self._task.destination)
        return cluster.client.viewed(meter=self._meter, policy=self._retrying)

    async def _await_workload(self) -> NewVersion:
        assert self._spec.workload is not None
        client = await self._client()
        self._context.report("workload.awaited", {"kind": self._spec.workload.kind, "name": self._spec.workload.name})
        return await await_new_version(client, self._spec.workload, self._task.destination.namespace, self._context.deadline)

    def _build(self, version: NewVersion | None) -> Verification:
        spec, variables = self._spec, {"APPLICATION": self._task.application, "NAMESPACE": self._task.destination.namespace}
        since = parse_time(spec.since) if spec.since else None
        if version is not None:
            since = max(since or 0.0, version.ready_since)
            variables |= {"REVISION": version.revision, "PODS": version.pods}
        variables |= spec.variables
        if spec.window is not None:
            return self._of_the_past(spec, variables, since)
        remaining = self._context.deadline - self._clock.monotonic() - _TO_CONCLUDE_SECONDS
        deadline = min(remaining, parse_duration(spec.deadline)) if spec.deadline else remaining
        circumstances = Circumstances(
            since=since, deadline=max(0.0, deadline), variables=variables, pass_score=spec.pass_score, clock=self._clock, limits=self._clock
        )
        return Verification(spec.verification, self._providers, circumstances, on_reading=self._tell)

    def _of_the_past(self, spec: VerifySpec, variables: dict[str, str], since: float | None) -> Verification:
        """A window that has gone by: each look is at its own moment of it, without a wait in between."""
        assert spec.window is not None
        start, end = parse_time(spec.window.start), parse_time(spec.window.end)
        clocks: Callable[[], Clock] = lambda: PastClock(start)  # noqa: E731 - one for each check
        circumstances = Circumstances(
            since=since,
            deadline=end - start + _LAST_LOOK_SECONDS,
            variables=variables,
            pass_score=spec.pass_score,
            clock=PastClock(start),
            limits=self._clock,
        )
        return Verification(spec.verification, self._providers, circumstances, on_reading=self._tell, clocks=clocks)

    def _tell(self, check: Check, reading: Reading) -> None:
        self._context.report("check.read", {"check": check.name, "verdict": reading.verdict.value, "reason": reading.reason})


def error_of(record: VerificationRecord) -> NotVerifiedError:
    """What a verification came to that did not pass, as an error."""
    worst = [each for each in record.checks if each.verdict is record.verdict]
    match record.verdict:
        case Verdict.FAIL:
            return CheckFailedError(record.reason, hint="the result holds what was asked, answered and decided")
        case Verdict.ERROR if any(each.configuration for each in worst):
            hint = "correct the check or its provider; this says nothing about the release"
            return CheckConfigurationError(record.reason, hint=hint)
        case Verdict.ERROR:
            return SourceUnavailableError(record.reason, hint="look at the source; this says nothing about the release")
        case _:
            hint = "look whether the new version gets requests, and whether `for` and the deadline leave time to see them"
            return MissingEvidenceError(record.reason, hint=hint)


def _speaks_against(record: VerificationRecord) -> bool:
    """Whether a check that was to last until it was stopped has seen nothing good: being stopped is how such a check ends."""
    return any(each.check.until_stopped and each.verdict is Verdict.FAIL for each in record.checks)


def _asked(record: VerificationRecord | None) -> bool:
    return record is not None and any(each.tally.total for each in record.checks)
