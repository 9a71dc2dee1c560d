"""What an attempt has done so far, object by object, and the result that this makes at any moment."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec

from delegate.engine.clusters.metering import RequestMeter
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.hooking import HookReport
from delegate.foundation.errors import DelegateError
from delegate.model.health.verdicts import Health, HealthStatus, worst_of
from delegate.model.plan import Plan, PlannedChange, describe_summary, result_of, summarize
from delegate.model.resources import JsonObject, ResourceKey
from delegate.model.results import (
    Action,
    ErrorDetail,
    Outcome,
    ResourceResult,
    SyncStatus,
    TaskResult,
    describe_error,
)
from delegate.model.tasks import Task

_NOTICES_AT_MOST = 200
_INTENTIONS = (Action.CREATED, Action.CONFIGURED, Action.PRUNED)


class Report:
    """Filled by the steps of a run. Until an object is written, it stands as planned but is not counted as done."""

    def __init__(self, task: Task, context: AttemptContext) -> None:
        self._task = task
        self._context = context
        self._resources: dict[ResourceKey, ResourceResult] = {}
        self._hooks: dict[tuple[ResourceKey, str], ResourceResult] = {}
        self._done: set[ResourceKey] = set()
        self._notices: dict[str, None] = {}
        self._seconds: dict[str, float] = {}
        self.meter = RequestMeter()
        self.revision = ""
        self.cluster = ""
        self.plan_hash = ""
        self.release = 0
        self.sync = SyncStatus.UNKNOWN
        self.began_writing = False

    def notice(self, words: Iterable[str]) -> None:
        for each in words:
            if len(self._notices) < _NOTICES_AT_MOST:
                self._notices[each] = None

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Adds the seconds of the block to a step, and tells whoever watches that it has begun."""
        self._context.report(f"{step}.started", {})
        began = time.monotonic()
        try:
            yield
        finally:
            self._seconds[step] = round(self._seconds.get(step, 0.0) + time.monotonic() - began, 4)

    def planned(self, changes: Iterable[PlannedChange]) -> None:
        for change in changes:
            self._resources[change.key] = result_of(change)

    def done(self, change: PlannedChange) -> None:
        self._done.add(change.key)
        self._resources[change.key] = result_of(change)

    def hook(self, report: HookReport) -> None:
        hook = report.hook
        self._hooks[(report.key, hook.phase.value)] = ResourceResult(
            *report.key,
            action=Action.FAILED if report.error else Action.CREATED,
            phase=hook.phase.value,
            wave=hook.wave,
            health=report.health or Health(HealthStatus.PROGRESSING),
            origin=str(hook.manifest.origin),
            error=describe_error(report.error)[0] if report.error else None,
        )

    def failed(self, key: ResourceKey, error: DelegateError) -> None:
        before = self._resources.get(key) or ResourceResult(*key, action=Action.FAILED)
        self._resources[key] = msgspec.structs.replace(before, action=Action.FAILED, error=describe_error(error)[0])

    def skip_undone(self) -> int:
        """For a run that ended early: marks what was planned and not done as skipped, and counts it."""
        undone = [key for key, resource in self._resources.items() if key not in self._done and resource.action in _INTENTIONS]
        for key in undone:
            self._resources[key] = msgspec.structs.replace(self._resources[key], action=Action.SKIPPED, changes=())
        return len(undone)

    def health(self, key: ResourceKey, health: Health) -> None:
        before = self._resources.get(key)
        if before is None:
            return
        self._resources[key] = msgspec.structs.replace(before, health=health)
        # What is well from the first look on is no news; a set of thousands would say so thousands of times.
        if health.status is not HealthStatus.HEALTHY or before.health.status not in (HealthStatus.HEALTHY, HealthStatus.UNKNOWN):
            self._context.report(
                "object.health", {"object": str(key), "status": health.status.value, "reason": health.reason, "message": health.message}
            )

    def plan_event(self, plan: Plan) -> JsonObject:
        """What whoever watches is told of a plan: how much of what there is will be written."""
        return {
            "hash": self.plan_hash,
            "changes": plan.has_changes,
            "objects": len(plan.items),
            "writes": sum(item.writes for item in plan.items),
            "prunes": len(plan.prunes),
        }

    def result(self, outcome: Outcome, errors: tuple[ErrorDetail, ...] = (), message: str = "") -> TaskResult:
        members = tuple(self._resources.values())
        resources = (*members, *self._hooks.values())
        summary = summarize(resource.action for resource in resources)
        words = describe_summary(summary) if resources else ""
        judged = [resource.health.status for resource in members if resource.action is not Action.PRUNED]
        known = [status for status in judged if status is not HealthStatus.UNKNOWN]
        return TaskResult(
            task=self._context.task_id,
            attempt=self._context.attempt_id,
            kind=self._task.kind.value,
            application=self._task.application,
            outcome=outcome,
            revision=self.revision,
            sync=self.sync,
            health=worst_of(known) if known else HealthStatus.UNKNOWN,
            message="; ".join(each for each in (message, words) if each),
            plan_hash=self.plan_hash,
            error=errors[0] if errors else None,
            errors=errors,
            summary=summary,
            resources=resources,
            requests=self.meter.counts,
            seconds=dict(self._seconds),
            notices=(*self._notices, *self.meter.warnings),
            cluster=self.cluster,
            release=self.release,
        )
