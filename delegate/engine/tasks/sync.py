"""The sync and diff tasks: prepare, and for a sync carry out.

Until the plan is through its gate nothing in the cluster is touched. From the first write on, the intended inventory stands in
the cluster, and whatever ends the run, the result says what was done and what was not.
"""

from delegate.engine.tasks.carrying_out import Carrier
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.preparing import Ground, Parts, Preparation
from delegate.engine.tasks.recording import refuse_known_bad
from delegate.engine.tasks.reports import Report
from delegate.foundation.errors import Category, DelegateError
from delegate.model.inventory import InventoryState
from delegate.model.resources import ResourceKey
from delegate.model.results import Outcome, SyncStatus, TaskResult, describe_error
from delegate.model.tasks import Task

_REFUSING = (Category.INPUT, Category.POLICY, Category.PERMISSION, Category.CONFLICT, Category.DEPENDENCY)


class SyncRun:
    """One attempt of a sync or diff task."""

    def __init__(self, task: Task, context: AttemptContext, parts: Parts) -> None:
        spec = task.sync_spec()
        self._task = task
        self._context = context
        self._report = Report(task, context)
        self._preparation = Preparation(task, spec, context, parts, self._report)
        self._carrier = Carrier(task, spec, context, self._report, lease_seconds=parts.lease_seconds, health_rules=parts.health_rules)

    async def execute(self) -> None:
        ground = await self._preparation.prepare()
        plan = self._preparation.gate(ground)
        self._context.report("plan.made", self._report.plan_event(plan))
        if self._preparation.only_shows:
            differs = plan.has_changes or bool(ground.namespace_metadata)
            self._report.sync = SyncStatus.OUT_OF_SYNC if differs else self._sync_status(ground, ground.leftovers.extraneous)
            return
        if plan.has_changes and ground.selection.is_whole and not self._task.options.force:
            desired = ground.desired
            await refuse_known_bad(ground.client, desired.application, desired.namespace, desired.whole)
        seen = ground.planner.take_seen()
        if plan.has_writes or ground.namespace_metadata or _owes_record(ground):
            del seen  # what is written changes it
            await self._carrier.write(ground, plan)
        else:
            await self._carrier.wait(ground, seen)
        pruned = {prune.key for prune in ground.leftovers.prunes} if self._task.options.prune else set()
        if ground.leftovers.prunes and not pruned:
            self._report.notice([f"{len(ground.leftovers.prunes)} objects are no longer wanted and are kept: prune is off"])
        self._report.sync = self._sync_status(ground, [key for key in ground.leftovers.extraneous if key not in pruned])

    def _sync_status(self, ground: Ground, extraneous: list[ResourceKey]) -> SyncStatus:
        """What can be said of the Application once what is wanted is as wanted."""
        if extraneous or any(finding.contest is not None for finding in ground.findings):
            return SyncStatus.OUT_OF_SYNC
        return SyncStatus.SYNCED if ground.selection.is_whole else SyncStatus.UNKNOWN

    def conclude(self, outcome: Outcome | None = None, error: DelegateError | None = None, message: str = "") -> TaskResult:
        touched = self._report.began_writing
        errors = describe_error(error) if error else ()
        if error is not None and outcome is Outcome.FAILED and not touched and error.category in _REFUSING and not error.retryable:
            outcome = Outcome.REFUSED
        message = message or (error.message if error else self._carrier.message)
        if outcome is not None and not self._preparation.only_shows:
            undone = self._report.skip_undone()
            if touched and undone:
                message += f"; stopped part way: {undone} of what was planned is not done"
        return self._report.result(outcome or Outcome.SUCCEEDED, errors, message)


def _owes_record(ground: Ground) -> bool:
    """Whether the inventory does not say what is: an attempt died before it could confirm, or something has gone."""
    inventory = ground.stored.inventory
    wanted = {entry.key for entry in ground.desired.entries()}
    unconfirmed = inventory.state is not InventoryState.CONFIRMED or not wanted <= inventory.keys()
    return (bool(wanted) and unconfirmed) or bool(ground.leftovers.gone)
