"""Tasks as people see them: lists, whole tasks, events and history as the API shows them."""

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.attempts import AttemptState, TaskState
from delegate.manager.clocks import to_rfc3339
from delegate.manager.errors import InvalidError, NotFoundError
from delegate.manager.selectors import read_labels
from delegate.manager.store.delegates import list_candidates
from delegate.manager.store.events import list_events
from delegate.manager.store.explaining import explain
from delegate.manager.store.histories import list_history
from delegate.manager.store.pauses import read_pause, show_pause
from delegate.manager.store.tables import attempts, delegates, results, selectors, tasks
from delegate.manager.store.transactions import Row, Transaction
from delegate.manager.views import (
    AttemptView,
    DestinationView,
    EventList,
    EventView,
    HistoryEntry,
    HistoryList,
    TaskList,
    TaskSummary,
    TaskView,
    WhyView,
)
from delegate.model.resources import JsonObject

_SUMMARY = (
    sa.select(
        *(column for column in tasks.c if column.name not in ("document", "lock_key", "rank")),
        tasks.c.lock_key,
        selectors.c.labels.label("selector"),
        delegates.c.name.label("delegate"),
        attempts.c.pause,
    )
    .join(selectors, selectors.c.id == tasks.c.selector_id)
    .outerjoin(attempts, attempts.c.id == tasks.c.attempt_id)
    .outerjoin(delegates, delegates.c.id == attempts.c.delegate_id)
)
_TASK = _SUMMARY.add_columns(tasks.c.document).where(tasks.c.id == sa.bindparam("id"))
_ATTEMPTS = (
    sa.select(attempts, delegates.c.name.label("delegate"))
    .outerjoin(delegates, delegates.c.id == attempts.c.delegate_id)
    .where(attempts.c.task_id == sa.bindparam("task"))
    .order_by(attempts.c.fence.desc())
    .limit(sa.bindparam("limit"))
)
_RESULT = (
    sa.select(results.c.body)
    .join(attempts, attempts.c.id == results.c.attempt_id)
    .where(results.c.task_id == sa.bindparam("task"))
    .order_by(attempts.c.fence.desc())
    .limit(1)
)
_COUNTS = sa.select(tasks.c.state, sa.func.count().label("number")).where(sa.text("tasks.state <> 'finished'")).group_by(tasks.c.state)


def count_tasks(transaction: Transaction) -> dict[str, int]:
    """How many tasks are queued and running."""
    counted = {row.state: int(row.number) for row in transaction.rows(_COUNTS)}
    return {state: counted.get(state, 0) for state in ("queued", "running")}


class TaskFilter(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What of the tasks is listed; empty values don't filter."""

    state: str = ""
    outcome: str = ""
    kind: str = ""
    application: str = ""
    environment: str = ""
    cluster: str = ""
    limit: int = 50
    continue_: str = msgspec.field(default="", name="continue")


def list_tasks(transaction: Transaction, wanted: TaskFilter) -> TaskList:
    """A page of tasks, the newest first. Raises InvalidError for a `continue` that isn't one."""
    limit = max(1, min(wanted.limit, transaction.limits.page_size))
    statement = _SUMMARY.order_by(tasks.c.sequence.desc()).limit(limit + 1)
    for column, value in (
        (tasks.c.state, wanted.state),
        (tasks.c.outcome, wanted.outcome),
        (tasks.c.kind, wanted.kind),
        (tasks.c.application, wanted.application),
        (tasks.c.environment, wanted.environment),
    ):
        if value:
            statement = statement.where(column == value)
    if wanted.cluster:
        statement = statement.where(sa.or_(tasks.c.cluster_uid == wanted.cluster, tasks.c.destination == wanted.cluster))
    if wanted.continue_:
        if not wanted.continue_.isdecimal() or len(wanted.continue_) > 18:
            raise InvalidError("continue: this is none of the values that were given out", hint="leave it out to begin anew")
        statement = statement.where(tasks.c.sequence < int(wanted.continue_))
    rows = transaction.rows(statement)
    more = str(rows[limit - 1].sequence) if len(rows) > limit else ""
    return TaskList(items=tuple(_summary(row) for row in rows[:limit]), continue_=more)


def show_task(transaction: Transaction, task_id: str) -> TaskView:
    """Everything about one task. Raises NotFoundError."""
    row = _find(transaction, task_id)
    body = transaction.scalar(_RESULT, task=task_id)
    return TaskView(
        task=_summary(row),
        why_queued=explain(transaction, row, list_candidates(transaction)) if row.state == TaskState.QUEUED else "",
        document=msgspec.json.decode(row.document, type=JsonObject),
        attempts=tuple(
            _attempt(each, transaction.now) for each in transaction.rows(_ATTEMPTS, task=task_id, limit=transaction.limits.page_size)
        ),
        result=msgspec.json.decode(body, type=JsonObject) if body is not None else None,
    )


def show_new_task(transaction: Transaction, task_id: str) -> TaskView:
    """A task that was just submitted; why it is queued takes more to find out, and is told to whoever asks for the task."""
    row = _find(transaction, task_id)
    return TaskView(task=_summary(row), document=msgspec.json.decode(row.document, type=JsonObject))


def summarize_task(transaction: Transaction, task_id: str) -> TaskSummary:
    return _summary(_find(transaction, task_id))


def read_document(transaction: Transaction, task_id: str) -> JsonObject:
    return msgspec.json.decode(_find(transaction, task_id).document, type=JsonObject)


def _find(transaction: Transaction, task_id: str) -> Row:
    row = transaction.row(_TASK, id=task_id)
    if row is None:
        raise NotFoundError(f"there is no task {task_id}", hint="delegate task list shows the tasks")
    return row


def _summary(row: Row) -> TaskSummary:
    finished = row.state == TaskState.FINISHED
    return TaskSummary(
        id=row.id,
        kind=row.kind,
        application=row.application,
        state=row.state,
        outcome=row.outcome,
        message=row.message,
        environment=row.environment,
        destination=DestinationView(name=row.destination, cluster_uid=row.cluster_uid),
        selector=read_labels(row.selector),
        priority=row.priority,
        attempts=row.begun,
        requeues=row.requeues,
        delegate=row.delegate or "",
        stop_requested="" if finished else row.stop,
        submitted_by=row.submitted_by,
        created_at=to_rfc3339(row.created_at),
        started_at=to_rfc3339(row.first_started_at),
        deadline_at=to_rfc3339(row.deadline_at),
        finished_at=to_rfc3339(row.finished_at),
        retry_of=row.retry_of or "",
        superseded_by=row.superseded_by or "",
        concurrency_key=row.concurrency_key,
        quarantined=bool(row.quarantined),
        paused=show_pause(read_pause(row.pause)) if row.state == TaskState.RUNNING else None,
    )


def _attempt(row: Row, now: float) -> AttemptView:
    active = row.state == AttemptState.ACTIVE
    return AttemptView(
        id=row.id,
        number=row.number,
        fence=row.fence,
        delegate_id=row.delegate_id,
        delegate=row.delegate or "",
        state=row.state,
        outcome=row.outcome,
        reason=row.reason,
        started_at=to_rfc3339(row.started_at),
        ended_at=to_rfc3339(row.ended_at),
        lease_seconds_left=round(row.lease_expires_at - now, 3) if active else None,
        reported_state=row.reported_state,
    )


def explain_tasks(transaction: Transaction, ids: Sequence[str]) -> dict[str, str]:
    """Why each of these tasks is queued, for those that are."""
    candidates = list_candidates(transaction)
    rows = [_find(transaction, task_id) for task_id in ids]
    return {row.id: explain(transaction, row, candidates) for row in rows if row.state == TaskState.QUEUED}


def explain_task(transaction: Transaction, task_id: str) -> WhyView:
    """Why one task is queued. Raises NotFoundError."""
    row = _find(transaction, task_id)
    why = explain(transaction, row, list_candidates(transaction)) if row.state == TaskState.QUEUED else ""
    return WhyView(id=row.id, state=row.state, why=why)


def show_events(transaction: Transaction, task_id: str, after: int, limit: int) -> EventList:
    """The events of a task's attempts after one of them. Raises NotFoundError."""
    task = _find(transaction, task_id)
    page = max(1, min(limit, transaction.limits.page_size))
    rows = list_events(transaction, task_id, after, page)
    return EventList(
        items=tuple(
            EventView(
                id=row.id,
                attempt_id=row.attempt_id,
                sequence=row.sequence,
                at=to_rfc3339(row.at),
                event=row.event,
                data=msgspec.json.decode(row.data, type=JsonObject),
            )
            for row in rows
        ),
        next=rows[-1].id if rows else after,
        finished=task.state == TaskState.FINISHED and len(rows) < page,
    )


def show_history(transaction: Transaction, task_id: str) -> HistoryList:
    """What happened to a task. Raises NotFoundError."""
    _find(transaction, task_id)
    return HistoryList(
        items=tuple(
            HistoryEntry(
                at=to_rfc3339(row.at),
                actor=row.actor,
                operation=row.operation,
                attempt_id=row.attempt_id,
                detail=msgspec.json.decode(row.detail, type=JsonObject),
            )
            for row in list_history(transaction, task_id)
        )
    )
