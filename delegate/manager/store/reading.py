"""Reading for people: tasks, delegates, tokens, events and history as the API shows them."""

from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.attempts import AttemptState, TaskState
from delegate.manager.clocks import to_rfc3339
from delegate.manager.errors import InvalidError, NotFoundError
from delegate.manager.explanations import Candidate, WaitingTask, explain_unroutable, explain_waiting
from delegate.manager.scopes import scoped_kinds
from delegate.manager.selectors import read_labels
from delegate.manager.store.events import list_events
from delegate.manager.store.handouts import SUSPECT
from delegate.manager.store.heartbeats import Facts
from delegate.manager.store.histories import list_history
from delegate.manager.store.limiting import find_holders
from delegate.manager.store.sessions import alternates
from delegate.manager.store.tables import attempts, clusters, delegates, results, selectors, tasks, tokens
from delegate.manager.store.transactions import Row, Transaction
from delegate.manager.views import (
    AttemptView,
    DelegateView,
    DestinationView,
    EventList,
    EventView,
    HistoryEntry,
    HistoryList,
    TaskList,
    TaskSummary,
    TaskView,
    TokenView,
    WhyView,
)
from delegate.model.resources import JsonObject

_SUMMARY = (
    sa.select(
        *(column for column in tasks.c if column.name not in ("document", "lock_key", "rank")),
        tasks.c.lock_key,
        selectors.c.labels.label("selector"),
        delegates.c.name.label("delegate"),
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
_other = tasks.alias("other")
_AHEAD = (
    sa.select(_other.c.id, _other.c.state)
    .where(
        _other.c.lock_key == sa.bindparam("key"),
        sa.or_(
            sa.text("other.state = 'running'"),
            sa.and_(
                sa.text("other.state = 'queued'"),
                sa.or_(
                    _other.c.rank < sa.bindparam("rank"),
                    sa.and_(_other.c.rank == sa.bindparam("rank"), _other.c.sequence < sa.bindparam("sequence")),
                ),
            ),
        ),
    )
    .order_by(_other.c.state.desc(), _other.c.rank, _other.c.sequence)
    .limit(1)
)
_UNHANDED = (sa.text("tasks.state = 'queued'"), tasks.c.begun == 0, tasks.c.created_at <= sa.bindparam("since"))
_UNHANDED_SORTS = (
    sa.select(tasks.c.kind, tasks.c.selector_id, tasks.c.destination, tasks.c.cluster_uid, selectors.c.labels)
    .join(selectors, selectors.c.id == tasks.c.selector_id)
    .where(*_UNHANDED)
    .distinct()
)
_UNHANDED_IDS = (
    sa.select(tasks.c.id)
    .where(
        *_UNHANDED,
        tasks.c.kind == sa.bindparam("of_kind"),
        tasks.c.selector_id == sa.bindparam("selector"),
        tasks.c.destination == sa.bindparam("name"),
        sa.func.coalesce(tasks.c.cluster_uid, "?") == sa.bindparam("cluster"),
    )
    .order_by(tasks.c.sequence)
    .limit(500)
)
_ROUTABLE_SECONDS = 60.0
_RANK = sa.select(tasks.c.rank).where(tasks.c.id == sa.bindparam("id"))
_RUNNING = (
    sa.select(
        attempts.c.delegate_id,
        sa.func.count().label("number"),
        sa.func.count().filter(tasks.c.requeues >= SUSPECT).label("suspects"),
    )
    .join(tasks, tasks.c.id == attempts.c.task_id)
    .where(sa.text("attempts.state = 'active'"))
    .group_by(attempts.c.delegate_id)
)
_CLUSTERS = sa.select(clusters.c.delegate_id, clusters.c.name, clusters.c.uid).order_by(clusters.c.name)
_DELEGATES = (
    sa.select(delegates, tokens.c.name.label("token_name"))
    .outerjoin(tokens, tokens.c.id == delegates.c.token_id)
    .order_by(delegates.c.name, delegates.c.enrolled_at)
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
        why_queued=_why(transaction, row, _candidates(transaction)) if row.state == TaskState.QUEUED else "",
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
    candidates = _candidates(transaction)
    rows = [_find(transaction, task_id) for task_id in ids]
    return {row.id: _why(transaction, row, candidates) for row in rows if row.state == TaskState.QUEUED}


def explain_task(transaction: Transaction, task_id: str) -> WhyView:
    """Why one task is queued. Raises NotFoundError."""
    row = _find(transaction, task_id)
    why = _why(transaction, row, _candidates(transaction)) if row.state == TaskState.QUEUED else ""
    return WhyView(id=row.id, state=row.state, why=why)


def find_unroutable(transaction: Transaction) -> dict[str, str]:
    """Tasks that nobody was handed yet and that no connected delegate could take, with the reason. Not those of the last seconds."""
    since = transaction.now - min(_ROUTABLE_SECONDS, transaction.rhythm.unroutable_seconds)
    sorts = transaction.rows(_UNHANDED_SORTS, since=since)
    candidates = _candidates(transaction) if sorts else []
    found: dict[str, str] = {}
    for sort in sorts:
        reason = explain_unroutable(
            WaitingTask(
                kind=sort.kind,
                application="",
                selector=read_labels(sort.labels),
                destination=sort.destination,
                cluster_uid=sort.cluster_uid,
                ready_at=0.0,
            ),
            candidates,
        )
        if reason:
            cluster = "?" if sort.cluster_uid is None else sort.cluster_uid
            of_sort = {"of_kind": sort.kind, "selector": sort.selector_id, "name": sort.destination, "cluster": cluster}
            found |= {row.id: reason for row in transaction.rows(_UNHANDED_IDS, since=since, **of_sort)}
    return found


def _why(transaction: Transaction, row: Row, candidates: list[Candidate]) -> str:
    ahead = None
    if row.lock_key is not None:
        rank = transaction.scalar(_RANK, id=row.id)
        ahead = transaction.row(_AHEAD, key=row.lock_key, rank=rank, sequence=row.sequence)
    task = WaitingTask(
        kind=row.kind,
        application=row.application,
        selector=read_labels(row.selector),
        destination=row.destination,
        cluster_uid=row.cluster_uid,
        ready_at=row.ready_at,
        requeues=row.requeues,
        message=row.message,
        ahead=ahead.id if ahead is not None else "",
        ahead_runs=ahead is not None and ahead.state == TaskState.RUNNING,
        held_back=find_holders(transaction, row) if row.cluster_uid is not None else None,
        alone=row.requeues >= SUSPECT,
    )
    return explain_waiting(task, candidates, transaction.now)


def _candidates(transaction: Transaction) -> list[Candidate]:
    running = {row.delegate_id: row for row in transaction.rows(_RUNNING)}
    reached = _clusters_by_delegate(transaction)
    return [
        Candidate(
            name=row.name,
            connected=_is_connected(transaction, row),
            draining=bool(row.draining),
            labels=read_labels(row.labels),
            kinds=frozenset(row.kinds.split(",")),
            scoped=frozenset(scoped_kinds(row.scopes.split(","))),
            clusters=reached.get(row.id, {}),
            capacity=row.capacity,
            running=int(running[row.id].number) if row.id in running else 0,
            suspects=int(running[row.id].suspects) if row.id in running else 0,
        )
        for row in transaction.rows(_DELEGATES)
        if row.revoked_at is None
    ]


def _clusters_by_delegate(transaction: Transaction) -> dict[str, dict[str, str]]:
    reached: dict[str, dict[str, str]] = {}
    for delegate_id, name, uid in transaction.rows(_CLUSTERS):
        reached.setdefault(delegate_id, {})[name] = uid
    return reached


def _is_connected(transaction: Transaction, row: Row) -> bool:
    heard = row.heartbeat_at is not None and row.heartbeat_at >= transaction.now - transaction.rhythm.connected_seconds
    return bool(heard and row.left_at is None and row.revoked_at is None)


def list_delegates(transaction: Transaction, *, revoked: bool = False) -> list[DelegateView]:
    """All delegates, without the revoked ones unless those are wanted."""
    running = {row.delegate_id: int(row.number) for row in transaction.rows(_RUNNING)}
    reached = _clusters_by_delegate(transaction)
    return [
        _delegate(transaction, row, running.get(row.id, 0), reached.get(row.id, {}))
        for row in transaction.rows(_DELEGATES)
        if revoked or row.revoked_at is None
    ]


def show_delegate(transaction: Transaction, delegate_id: str) -> DelegateView:
    """By id, or by a name that only one has. Raises NotFoundError, InvalidError."""
    everybody = list_delegates(transaction, revoked=True)
    found = [each for each in everybody if each.id == delegate_id] or [each for each in everybody if each.name == delegate_id]
    if not found:
        raise NotFoundError(f"there is no delegate {delegate_id!r}", hint="delegate delegates list shows the delegates")
    if len(found) > 1:
        raise InvalidError(
            f"{len(found)} delegates are named {delegate_id!r}", hint=f"use an id: {', '.join(each.id for each in found[:5])}"
        )
    return found[0]


def _delegate(transaction: Transaction, row: Row, running: int, reached: Mapping[str, str]) -> DelegateView:
    connected = _is_connected(transaction, row)
    facts = msgspec.json.decode(row.heartbeat, type=Facts)
    duplicate = alternates(row.incarnations, transaction.now)
    ago = None if row.heartbeat_at is None else max(0.0, round(transaction.now - row.heartbeat_at, 1))
    reasons = tuple(_ailments(row, facts, connected=connected, ago=ago, duplicate=duplicate))
    return DelegateView(
        id=row.id,
        name=row.name,
        instance=row.instance,
        health="Unhealthy" if reasons else "Healthy",
        connection="Connected" if connected else "Disconnected",
        reasons=reasons,
        labels=read_labels(row.labels),
        kinds=tuple(row.kinds.split(",")),
        clusters=dict(reached),
        capacity=row.capacity,
        running=running,
        free_slots=row.free_slots if connected else 0,
        draining=bool(row.draining),
        duplicate_identity=duplicate,
        outbox_entries=facts.outbox_entries,
        version=row.version,
        python=row.python,
        protocol=row.protocol,
        epoch=row.epoch,
        token=row.token_name or "",
        enrolled_at=to_rfc3339(row.enrolled_at),
        heartbeat_at=to_rfc3339(row.heartbeat_at),
        heartbeat_seconds_ago=ago,
        revoked_at=to_rfc3339(row.revoked_at),
    )


def _ailments(row: Row, facts: Facts, *, connected: bool, ago: float | None, duplicate: bool) -> Sequence[str]:
    reasons = []
    if row.revoked_at is not None:
        reasons.append("it was revoked")
    elif row.left_at is not None:
        reasons.append(f"it left: {row.left_reason}" if row.left_reason else "it left")
    elif ago is None:
        reasons.append("it has enrolled and not yet begun to work")
    elif not connected:
        reasons.append(f"nothing was heard of it for {ago:g} s")
    if connected and row.stalled:
        reasons.append(f"its main loop is stuck (lag {facts.loop_lag_seconds:g} s)")
    if connected and facts.blocked:
        reasons.append(f"it takes no task: {facts.blocked}")
    if connected and facts.certificate_expires_in_seconds is not None and facts.certificate_expires_in_seconds <= 0:
        reasons.append("its certificate has expired")
    if duplicate:
        reasons.append("two processes take its identity from each other")
    return reasons


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


def view_token(row: Row, now: float) -> TokenView:
    state = "active"
    if row.revoked_at is not None:
        state = "revoked"
    elif row.expires_at is not None and row.expires_at <= now:
        state = "expired"
    elif row.max_uses is not None and row.uses >= row.max_uses:
        state = "used_up"
    return TokenView(
        id=row.id,
        name=row.name,
        state=state,
        scopes=tuple(row.scopes.split(",")),
        labels=read_labels(row.labels),
        description=row.description,
        created_by=row.created_by,
        created_at=to_rfc3339(row.created_at),
        expires_at=to_rfc3339(row.expires_at),
        revoked_at=to_rfc3339(row.revoked_at),
        uses=row.uses,
        max_uses=row.max_uses,
        last_used_at=to_rfc3339(row.last_used_at),
    )
