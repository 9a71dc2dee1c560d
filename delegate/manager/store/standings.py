"""Attempts with all that decides about them, read plainly or under the locks of their applications."""

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from delegate.manager.attempts import Standing, TaskState
from delegate.manager.store.queueing import hold_tasks
from delegate.manager.store.tables import attempts, delegates, tasks
from delegate.manager.store.transactions import Row, Transaction
from delegate.model.tasks import WINDING_KINDS
from delegate.protocol.control import LeaseVerdict

_other = tasks.alias("other")
_LOCK_TAKEN = (
    sa.exists()
    .where(_other.c.lock_key == tasks.c.lock_key, sa.text("other.state = 'running'"), _other.c.id != tasks.c.id)
    .correlate(tasks)
    .label("lock_taken")
)
_STANDING = sa.select(
    attempts.c.id,
    attempts.c.task_id,
    attempts.c.number,
    attempts.c.fence,
    attempts.c.delegate_id,
    attempts.c.state,
    attempts.c.confirmed,
    attempts.c.missed,
    attempts.c.started_at,
    attempts.c.lease_expires_at,
    attempts.c.digest,
    tasks.c.kind,
    tasks.c.state.label("task_state"),
    tasks.c.outcome.label("task_outcome"),
    tasks.c.fence.label("task_fence"),
    tasks.c.requeues,
    tasks.c.environment,
    tasks.c.cluster_uid,
    tasks.c.concurrency_key,
    tasks.c.begun,
    tasks.c.stop,
    tasks.c.stop_reason,
    tasks.c.timeout_seconds,
    tasks.c.deadline_at,
    _LOCK_TAKEN,
    delegates.c.name.label("delegate"),
).select_from(attempts.join(tasks, tasks.c.id == attempts.c.task_id).outerjoin(delegates, delegates.c.id == attempts.c.delegate_id))
"""An attempt with all that decides about it."""

_ACTIVE_OF = _STANDING.where(attempts.c.delegate_id == sa.bindparam("delegate"), sa.text("attempts.state = 'active'"))
_BY_IDS = _STANDING.where(attempts.c.id.in_(sa.bindparam("ids", expanding=True)))


def standing_of(row: Row) -> Standing:
    return Standing(row.state, row.fence, row.task_state, row.task_fence, bool(row.lock_taken))


def goes_on(row: Row) -> bool:
    """Whether a task goes to another attempt when this one is lost: to end it, where its time is over and something is to be taken back."""
    return not row.stop or (row.kind in WINDING_KINDS and row.stop == LeaseVerdict.DEADLINE)


def find_active(transaction: Transaction, delegate_id: str) -> Sequence[Row]:
    """The attempts of a delegate that have a lease."""
    return transaction.rows(_ACTIVE_OF, delegate=delegate_id)


def find_attempts(transaction: Transaction, ids: Iterable[str]) -> dict[str, Row]:
    """Attempts by id; those that don't exist are left out."""
    wanted = list(ids)
    return {row.id: row for row in transaction.rows(_BY_IDS, ids=wanted)} if wanted else {}


def hold_attempts(transaction: Transaction, ids: Iterable[str]) -> dict[str, Row]:
    """The same, while nobody else decides about their applications: what is read stays so until the end of the transaction."""
    wanted = list(ids)
    rows = find_attempts(transaction, wanted)
    if hold_tasks(transaction, {row.task_id for row in rows.values()}):
        rows = find_attempts(transaction, wanted)
    return rows


def describe_loss(row: Row) -> str:
    """Why an attempt has no authority any more."""
    if row.task_state == TaskState.FINISHED:
        return f"the task ended as {row.task_outcome}"
    if row.fence != row.task_fence:
        return f"attempt {row.number} lost its lease; the task was handed out again with fence {row.task_fence}"
    if row.lock_taken:
        return "another task holds the application"
    return f"attempt {row.number} is {row.state}"
