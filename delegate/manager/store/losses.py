"""Attempts that end without a result: given back, never received, their delegate lost, their time over."""

from collections.abc import Iterable, Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.attempts import AttemptState, TaskState, has_authority
from delegate.manager.store.histories import MANAGER, Entry, record
from delegate.manager.store.letter_rows import index_given_up
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
from delegate.manager.store.standings import goes_on, hold_attempts, standing_of
from delegate.manager.store.tables import WINDS, attempts, tasks
from delegate.manager.store.transactions import Row, Transaction
from delegate.protocol.control import LeaseVerdict

_PAGE = 500
_EXPIRED = (
    sa.select(attempts.c.id)
    .where(sa.text("attempts.state = 'active'"), attempts.c.lease_expires_at <= sa.bindparam("now"))
    .order_by(attempts.c.lease_expires_at)
    .limit(_PAGE)
)
_OVERDUE = (
    sa.select(
        tasks.c.id,
        tasks.c.kind,
        tasks.c.state,
        tasks.c.stop,
        tasks.c.timeout_seconds,
        tasks.c.attempt_id,
        attempts.c.delegate_id,
    )
    .join(attempts, attempts.c.id == tasks.c.attempt_id)
    .where(sa.text("tasks.state <> 'finished' AND tasks.deadline_at IS NOT NULL"), tasks.c.deadline_at <= sa.bindparam("now"))
    .where(
        sa.case(
            # One that has begun still has something to take back: it is handed out for that, for as long as its result would count.
            (
                sa.text("tasks.state = 'queued'"),
                sa.or_(~WINDS, tasks.c.begun == 0, tasks.c.deadline_at <= sa.bindparam("unwound")),
            ),
            else_=sa.or_(
                tasks.c.stop == "",
                tasks.c.stop_at <= sa.bindparam("wound"),
                sa.and_(~WINDS, tasks.c.stop_at <= sa.bindparam("patience")),
            ),
        )
    )
    .order_by(tasks.c.deadline_at)
    .limit(_PAGE)
)


class Loss(msgspec.Struct, frozen=True):
    attempt_id: str
    reason: str


def take_back_attempts(transaction: Transaction, losses: Sequence[Loss], state: AttemptState, wait_seconds: float = 0.0) -> None:
    """Ends attempts that never began: their tasks are handed out again, uncounted, or end if they are to be stopped."""
    lost = _still_held(transaction, losses)
    _end(transaction, lost, state)
    requeue_tasks(
        transaction,
        [Requeueing(row.task_id, row.id, reason, transaction.now + wait_seconds, begun=False) for row, reason in lost if goes_on(row)],
    )
    promote(transaction, [row.task_id for row, _ in lost])


def lose_attempts(transaction: Transaction, losses: Sequence[Loss], state: AttemptState) -> None:
    """Ends attempts whose delegate was lost: their tasks wait for the next try, or end after too many of them."""
    lost = _still_held(transaction, losses)
    _lose(transaction, lost, state)


def _lose(transaction: Transaction, lost: Sequence[tuple[Row, str]], state: AttemptState) -> None:
    _end(transaction, lost, state)
    rhythm = transaction.rhythm
    going_on = [(row, reason) for row, reason in lost if goes_on(row)]
    spent = [(row, reason) for row, reason in going_on if row.requeues >= rhythm.requeues]
    finish_tasks(
        transaction,
        [
            Ending(
                row.task_id,
                row.kind,
                "failed",
                f"quarantined: given up after {row.requeues + 1} attempts that lost their delegate; the last one: {reason}",
                attempt_id=row.id,
                quarantined=True,
            )
            for row, reason in spent
        ],
    )
    forsake_attempts(transaction, [row.task_id for row, _ in spent])
    index_given_up(transaction, {row.task_id: (row.id, reason) for row, reason in spent})
    requeue_tasks(
        transaction,
        [
            Requeueing(row.task_id, row.id, reason, transaction.now + rhythm.requeue_wait(row.requeues + 1), counted=True)
            for row, reason in going_on
            if row.requeues < rhythm.requeues
        ],
    )
    promote(transaction, [row.task_id for row, _ in lost])


def _still_held(transaction: Transaction, losses: Sequence[Loss]) -> list[tuple[Row, str]]:
    """Those that have the authority now that nobody else can change it."""
    rows = hold_attempts(transaction, [loss.attempt_id for loss in losses])
    found = [(rows[loss.attempt_id], loss.reason) for loss in losses if loss.attempt_id in rows]
    return [(row, reason) for row, reason in found if has_authority(standing_of(row))]


def _end(transaction: Transaction, lost: Iterable[tuple[Row, str]], state: AttemptState) -> None:
    """Ends the attempts, and the tasks among theirs that were to be stopped anyway."""
    lost = list(lost)
    end_attempts(transaction, [AttemptEnd(row.id, state, reason) for row, reason in lost])
    record(
        transaction,
        *(Entry(MANAGER, state.value, row.task_id, row.id, {"reason": reason, "fence": row.fence}) for row, reason in lost),
    )
    stopped = [row for row, _ in lost if not goes_on(row)]
    finish_tasks(transaction, [Ending(row.task_id, row.kind, stop_outcome(row), row.stop_reason, attempt_id=row.id) for row in stopped])
    forsake_attempts(transaction, [row.task_id for row in stopped])


def expire_leases(transaction: Transaction) -> int:
    """Ends the attempts whose lease has run out. How many."""
    rows = hold_attempts(transaction, [row.id for row in transaction.rows(_EXPIRED, now=transaction.now)])
    lost = [
        (row, f"delegate {row.delegate} was not heard of for {transaction.rhythm.lease_seconds:g} s")
        for row in rows.values()
        if has_authority(standing_of(row)) and row.lease_expires_at <= transaction.now
    ]
    _lose(transaction, lost, AttemptState.EXPIRED)
    return len(lost)


def enforce_deadlines(transaction: Transaction) -> int:
    """Tells attempts whose task ran out of time to stop, and ends tasks whose attempt doesn't answer that. How many."""
    rows = _find_overdue(transaction)
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
                attempt_id=row.attempt_id,
            )
            for row in waiting
        ],
    )
    forsake_attempts(transaction, [row.id for row in waiting])
    promote(transaction, [row.id for row in (*given_up, *waiting)])
    return len(rows)


def _find_overdue(transaction: Transaction) -> Sequence[Row]:
    now, rhythm = transaction.now, transaction.rhythm
    parameters = {
        "now": now,
        "patience": now - rhythm.verdict_grace_seconds,
        "wound": now - rhythm.winding_seconds,
        "unwound": now - max(0.0, rhythm.attempt_token_seconds - rhythm.winding_seconds),
    }
    rows = transaction.rows(_OVERDUE, **parameters)
    held = {row.id for row in rows}
    if hold_tasks(transaction, held):
        rows = [row for row in transaction.rows(_OVERDUE, **parameters) if row.id in held]
    return rows
