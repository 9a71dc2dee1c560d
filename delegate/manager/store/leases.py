"""Leases: renewed by heartbeats, lost by silence, given back, taken up again."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.attempts import AttemptState, Standing, TaskState, has_authority, may_come_back
from delegate.manager.store.histories import MANAGER, Entry, record
from delegate.manager.store.queueing import (
    AttemptEnd,
    Ending,
    Requeueing,
    Stopping,
    end_attempts,
    finish_tasks,
    forsake_attempts,
    hold_tasks,
    promote,
    request_stops,
    requeue_tasks,
    stop_outcome,
)
from delegate.manager.store.tables import attempts, delegates, tasks
from delegate.manager.store.transactions import Row, Transaction
from delegate.protocol.control import LeaseVerdict

_PAGE = 500
_other = tasks.alias("other")
_LOCK_TAKEN = (
    sa.exists()
    .where(_other.c.lock_key == tasks.c.lock_key, sa.text("other.state = 'running'"), _other.c.id != tasks.c.id)
    .correlate(tasks)
    .label("lock_taken")
)
STANDING = sa.select(
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
    tasks.c.begun,
    tasks.c.stop,
    tasks.c.stop_reason,
    tasks.c.timeout_seconds,
    tasks.c.deadline_at,
    _LOCK_TAKEN,
).join_from(attempts, tasks, tasks.c.id == attempts.c.task_id)
"""An attempt with all that decides about it."""

_ACTIVE_OF = STANDING.where(attempts.c.delegate_id == sa.bindparam("delegate"), sa.text("attempts.state = 'active'")).with_for_update(
    of=tasks
)
_BY_IDS = STANDING.where(attempts.c.id.in_(sa.bindparam("ids", expanding=True))).with_for_update(of=tasks)
_RENEW = (
    sa.update(attempts)
    .where(attempts.c.id.in_(sa.bindparam("ids", expanding=True)))
    .values(lease_expires_at=sa.bindparam("until"), confirmed=True, missed=0)
)
_REPORT = sa.update(attempts).where(attempts.c.id == sa.bindparam("attempt")).values(reported_state=sa.bindparam("to_state"))
_MISS = sa.update(attempts).where(attempts.c.id.in_(sa.bindparam("ids", expanding=True))).values(missed=attempts.c.missed + 1)
_REVIVE = (
    sa.update(attempts)
    .where(attempts.c.id == sa.bindparam("attempt"))
    .values(state=AttemptState.ACTIVE.value, lease_expires_at=sa.bindparam("until"), ended_at=None, reason="", confirmed=True, missed=0)
)
_REVIVE_TASK = (
    sa.update(tasks)
    .where(tasks.c.id == sa.bindparam("task"))
    .values(
        state=TaskState.RUNNING.value,
        eligible=False,
        message="",
        begun=tasks.c.begun + sa.bindparam("begun_again"),
        requeues=tasks.c.requeues - sa.bindparam("uncounted"),
        first_started_at=sa.func.coalesce(tasks.c.first_started_at, sa.bindparam("started")),
        deadline_at=sa.func.coalesce(tasks.c.deadline_at, sa.bindparam("started") + tasks.c.timeout_seconds),
    )
)
_EXPIRED = (
    STANDING.add_columns(delegates.c.name.label("delegate"))
    .join(delegates, delegates.c.id == attempts.c.delegate_id)
    .where(sa.text("attempts.state = 'active'"), attempts.c.lease_expires_at <= sa.bindparam("now"))
    .order_by(attempts.c.lease_expires_at)
    .limit(_PAGE)
    .with_for_update(of=tasks, skip_locked=True)
)
_OVERDUE = (
    sa.select(
        tasks.c.id,
        tasks.c.kind,
        tasks.c.state,
        tasks.c.stop,
        tasks.c.stop_at,
        tasks.c.deadline_at,
        tasks.c.timeout_seconds,
        tasks.c.attempt_id,
        attempts.c.delegate_id,
    )
    .join(attempts, attempts.c.id == tasks.c.attempt_id)
    .where(sa.text("tasks.state <> 'finished' AND tasks.deadline_at IS NOT NULL"), tasks.c.deadline_at <= sa.bindparam("now"))
    .where(sa.or_(sa.text("tasks.state = 'queued'"), tasks.c.stop == "", tasks.c.stop_at <= sa.bindparam("patience")))
    .order_by(tasks.c.deadline_at)
    .limit(_PAGE)
    .with_for_update(of=tasks, skip_locked=True)
)


def standing_of(row: Row) -> Standing:
    return Standing(row.state, row.fence, row.task_state, row.task_fence, bool(row.lock_taken))


def find_active(transaction: Transaction, delegate_id: str) -> Sequence[Row]:
    """The attempts that a delegate has authority for."""
    return transaction.rows(_ACTIVE_OF, delegate=delegate_id)


def find_attempts(transaction: Transaction, ids: Iterable[str]) -> dict[str, Row]:
    wanted = list(ids)
    return {row.id: row for row in transaction.rows(_BY_IDS, ids=wanted)} if wanted else {}


class Renewal(msgspec.Struct, frozen=True):
    """What a heartbeat says of one attempt."""

    fence: int
    state: str


def renew_leases(
    transaction: Transaction, delegate_id: str, named: Mapping[str, Renewal], *, vouched: bool
) -> dict[str, tuple[LeaseVerdict, str]]:
    """A verdict, with its reason, for each attempt that a heartbeat names; leases are renewed where it vouches for them.

    An attempt whose lease ran out gets it back where nobody else got the task since. One that two heartbeats in a row
    don't know of was never received: its task is handed out again, and the hand-out doesn't count.
    """
    active = {row.id: row for row in find_active(transaction, delegate_id)}
    others = find_attempts(transaction, named.keys() - active.keys())
    verdicts: dict[str, tuple[LeaseVerdict, str]] = {}
    renewed, revived = [], []
    for attempt_id, renewal in named.items():
        row = active.get(attempt_id) or others.get(attempt_id)
        verdicts[attempt_id] = _verdict(row, delegate_id, renewal)
        if row is None or verdicts[attempt_id][0] is LeaseVerdict.LOST or row.state == AttemptState.FINISHED or not vouched:
            continue
        if row.state == AttemptState.ACTIVE:
            renewed.append(row)
        elif _revive_unless_taken(transaction, row):
            revived.append(row)
    until = transaction.now + transaction.rhythm.lease_seconds
    if renewed:
        transaction.execute(_RENEW, ids=[row.id for row in renewed], until=until)
        record(transaction, *(Entry(delegate_id, "confirmed", row.task_id, row.id) for row in renewed if not row.confirmed))
    transaction.execute_many(_REPORT, [{"attempt": row.id, "to_state": named[row.id].state} for row in (*renewed, *revived)])
    if vouched:
        _count_misses(transaction, [row for row in active.values() if row.id not in named and not row.confirmed])
    return verdicts


def _verdict(row: Row | None, delegate_id: str, renewal: Renewal) -> tuple[LeaseVerdict, str]:
    if row is None or row.delegate_id != delegate_id or row.fence != renewal.fence:
        return LeaseVerdict.LOST, "no such attempt of this delegate"
    if row.state == AttemptState.FINISHED:
        return LeaseVerdict.OK, "its result was accepted"
    standing = standing_of(row)
    if not has_authority(standing) and not may_come_back(standing):
        return LeaseVerdict.LOST, describe_loss(row)
    if row.stop:
        return LeaseVerdict(row.stop), row.stop_reason
    return LeaseVerdict.OK, ""


def describe_loss(row: Row) -> str:
    """Why an attempt has no authority any more."""
    if row.task_state == TaskState.FINISHED:
        return f"the task ended as {row.task_outcome}"
    if row.fence != row.task_fence:
        return f"attempt {row.number} lost its lease; the task was handed out again with fence {row.task_fence}"
    if row.lock_taken:
        return "another task holds the application"
    return f"attempt {row.number} is {row.state}"


def _revive_unless_taken(transaction: Transaction, row: Row) -> bool:
    """Several attempts of one application may want to come back in one heartbeat: the first one gets it."""
    return bool(revive_attempts(transaction, [row]))


def revive_attempts(transaction: Transaction, rows: Iterable[Row]) -> list[Row]:
    """Gives attempts their authority back, one after the other, each only while that is still possible."""
    revived = []
    for row in rows:
        hold_tasks(transaction, [row.task_id])
        current = find_attempts(transaction, [row.id]).get(row.id)
        if current is None or not may_come_back(standing_of(current)):
            continue
        transaction.execute(_REVIVE, attempt=row.id, until=transaction.now + transaction.rhythm.lease_seconds)
        transaction.execute(
            _REVIVE_TASK,
            task=row.task_id,
            begun_again=int(row.state == AttemptState.UNSEEN),
            uncounted=int(row.state == AttemptState.EXPIRED),
            started=row.started_at,
        )
        record(transaction, Entry(row.delegate_id, "revived", row.task_id, row.id, {"fence": row.fence}))
        promote(transaction, [row.task_id])
        revived.append(row)
    return revived


def _count_misses(transaction: Transaction, rows: list[Row]) -> None:
    old_enough = transaction.now - transaction.rhythm.heartbeat_seconds
    unseen = [row for row in rows if row.missed >= 1 and row.started_at <= old_enough]
    missed = [row.id for row in rows if row not in unseen]
    if missed:
        transaction.execute(_MISS, ids=missed)
    take_back_attempts(transaction, unseen, AttemptState.UNSEEN, "the delegate never received it")


def take_back_attempts(transaction: Transaction, rows: Sequence[Row], state: AttemptState, reason: str, wait_seconds: float = 0.0) -> None:
    """Ends attempts that never began: their tasks are handed out again, uncounted, or end if they are to be stopped."""
    if not rows:
        return
    hold_tasks(transaction, [row.task_id for row in rows])
    end_attempts(transaction, [AttemptEnd(row.id, state, reason) for row in rows])
    record(transaction, *(Entry(MANAGER, state.value, row.task_id, row.id, {"reason": reason, "fence": row.fence}) for row in rows))
    _finish_stopped(transaction, [row for row in rows if row.stop])
    requeue_tasks(
        transaction,
        [Requeueing(row.task_id, row.id, reason, transaction.now + wait_seconds, begun=False) for row in rows if not row.stop],
    )
    promote(transaction, [row.task_id for row in rows])


def lose_attempts(transaction: Transaction, rows: Sequence[Row], reason: str, state: AttemptState = AttemptState.EXPIRED) -> None:
    """Ends attempts whose delegate was lost: their tasks wait for the next try, or end after too many of them."""
    if not rows:
        return
    hold_tasks(transaction, [row.task_id for row in rows])
    end_attempts(transaction, [AttemptEnd(row.id, state, reason) for row in rows])
    record(transaction, *(Entry(MANAGER, state.value, row.task_id, row.id, {"reason": reason, "fence": row.fence}) for row in rows))
    stopped = [row for row in rows if row.stop]
    spent = [row for row in rows if not row.stop and row.requeues >= transaction.rhythm.requeues]
    again = [row for row in rows if not row.stop and row.requeues < transaction.rhythm.requeues]
    _finish_stopped(transaction, stopped)
    finish_tasks(
        transaction,
        [
            Ending(
                row.task_id,
                row.kind,
                "failed",
                f"given up after {row.requeues + 1} attempts that lost their delegate; the last one: {reason}",
                attempt_id=row.id,
            )
            for row in spent
        ],
    )
    forsake_attempts(transaction, [row.task_id for row in (*stopped, *spent)])
    rhythm = transaction.rhythm
    requeue_tasks(
        transaction,
        [Requeueing(row.task_id, row.id, reason, transaction.now + rhythm.requeue_wait(row.requeues + 1), counted=True) for row in again],
    )
    promote(transaction, [row.task_id for row in rows])


def _finish_stopped(transaction: Transaction, rows: Sequence[Row]) -> None:
    finish_tasks(
        transaction,
        [Ending(row.task_id, row.kind, stop_outcome(row), row.stop_reason, attempt_id=row.id) for row in rows],
    )


def expire_leases(transaction: Transaction) -> int:
    """Ends the attempts whose lease has run out. How many."""
    rows = transaction.rows(_EXPIRED, now=transaction.now)
    for row in rows:
        lose_attempts(transaction, [row], f"delegate {row.delegate} was not heard of for {transaction.rhythm.lease_seconds:g} s")
    return len(rows)


def enforce_deadlines(transaction: Transaction) -> int:
    """Tells attempts whose task ran out of time to stop, and ends tasks whose attempt doesn't answer that. How many."""
    patience = transaction.now - transaction.rhythm.verdict_grace_seconds
    rows = transaction.rows(_OVERDUE, now=transaction.now, patience=patience)
    hold_tasks(transaction, [row.id for row in rows])
    told = [row for row in rows if row.state == TaskState.RUNNING and not row.stop]
    request_stops(
        transaction,
        [
            Stopping(row.id, row.attempt_id, row.delegate_id, LeaseVerdict.DEADLINE, f"the timeout of {row.timeout_seconds:g} s is over")
            for row in told
        ],
    )
    given_up = [row for row in rows if row.state == TaskState.RUNNING and row.stop]
    end_attempts(transaction, [AttemptEnd(row.attempt_id, AttemptState.LOST, "it was told to stop and did not answer") for row in given_up])
    waiting = [row for row in rows if row.state == TaskState.QUEUED]
    finish_tasks(
        transaction,
        [
            Ending(row.id, row.kind, stop_outcome(row), "told to stop, and not heard to have done so", attempt_id=row.attempt_id)
            for row in given_up
        ]
        + [
            Ending(
                row.id,
                row.kind,
                "timed_out",
                f"the timeout of {row.timeout_seconds:g} s ran out while it waited for another attempt",
                attempt_id=row.attempt_id or "",
            )
            for row in waiting
        ],
    )
    forsake_attempts(transaction, [row.id for row in waiting])
    promote(transaction, [row.id for row in (*given_up, *waiting)])
    return len(rows)
