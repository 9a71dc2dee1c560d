"""Leases: renewed by heartbeats, and taken up again by whoever comes back before somebody else got the task."""

from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.attempts import AttemptState, TaskState, has_authority, may_come_back
from delegate.manager.concurrency import Allowance
from delegate.manager.store.flows import hold_limits, place_of
from delegate.manager.store.histories import Entry, record
from delegate.manager.store.losses import Loss, take_back_attempts
from delegate.manager.store.queueing import hold_tasks, promote
from delegate.manager.store.standings import describe_loss, find_active, find_attempts, standing_of
from delegate.manager.store.tables import attempts, tasks
from delegate.manager.store.transactions import Row, Transaction
from delegate.protocol.control import LeaseVerdict

_ACTIVE = sa.text("attempts.state = 'active'")
_RENEW = (
    sa.update(attempts)
    .where(attempts.c.id.in_(sa.bindparam("ids", expanding=True)), _ACTIVE)
    .values(lease_expires_at=sa.bindparam("until"), confirmed=True, missed=0)
)
_REPORT = (
    sa.update(attempts)
    .where(attempts.c.id == sa.bindparam("attempt"))
    .values(reported_state=sa.bindparam("to_state"), pause=sa.func.coalesce(sa.bindparam("to_pause"), attempts.c.pause))
)
_MISS = sa.update(attempts).where(attempts.c.id.in_(sa.bindparam("ids", expanding=True)), _ACTIVE).values(missed=attempts.c.missed + 1)
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


class Renewal(msgspec.Struct, frozen=True):
    """What is said of one attempt. `pause` as `store.pauses` keeps it; None: nothing is said of it."""

    fence: int
    state: str
    pause: str | None = None


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
    renewed, returning = [], []
    for attempt_id, renewal in named.items():
        row = active.get(attempt_id) or others.get(attempt_id)
        verdicts[attempt_id] = _verdict(row, delegate_id, renewal)
        if row is None or verdicts[attempt_id][0] is LeaseVerdict.LOST or row.state == AttemptState.FINISHED or not vouched:
            continue
        if row.state == AttemptState.ACTIVE:
            renewed.append(row)
        else:
            returning.append(row)
    until = transaction.now + transaction.rhythm.lease_seconds
    if renewed:
        transaction.execute(_RENEW, ids=[row.id for row in renewed], until=until)
        record(transaction, *(Entry(delegate_id, "confirmed", row.task_id, row.id) for row in renewed if not row.confirmed))
    revived = revive_attempts(transaction, returning)
    for row in returning:
        if row not in revived:
            verdicts[row.id] = (LeaseVerdict.LOST, "another task took its place")
    transaction.execute_many(
        _REPORT,
        [{"attempt": row.id, "to_state": named[row.id].state, "to_pause": named[row.id].pause} for row in (*renewed, *revived)],
    )
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


def revive_attempts(transaction: Transaction, rows: Sequence[Row]) -> list[Row]:
    """Gives attempts their authority back, one after the other, each only while that is still possible.

    Several attempts of one application, or under one limit, may want to come back at once: the first ones get it.
    """
    if not rows:
        return []
    hold_tasks(transaction, {row.task_id for row in rows})
    allowance = hold_limits(transaction, {row.task_id for row in rows})
    return [row for row in rows if _revive(transaction, row, allowance)]


def _revive(transaction: Transaction, row: Row, allowance: Allowance) -> bool:
    current = find_attempts(transaction, [row.id]).get(row.id)
    if current is None or not may_come_back(standing_of(current)) or allowance.full(place_of(current)) is not None:
        return False
    allowance.take(place_of(current))
    transaction.execute(_REVIVE, attempt=row.id, until=transaction.now + transaction.rhythm.lease_seconds)
    transaction.execute(
        _REVIVE_TASK,
        task=row.task_id,
        begun_again=int(current.state == AttemptState.UNSEEN),
        uncounted=int(current.state == AttemptState.EXPIRED),
        started=row.started_at,
    )
    record(transaction, Entry(row.delegate_id, "revived", row.task_id, row.id, {"fence": row.fence}))
    promote(transaction, [row.task_id])
    return True


def _count_misses(transaction: Transaction, rows: list[Row]) -> None:
    old_enough = transaction.now - transaction.rhythm.heartbeat_seconds
    unseen = [row for row in rows if row.missed >= 1 and row.started_at <= old_enough]
    missed = [row.id for row in rows if row not in unseen]
    if missed:
        transaction.execute(_MISS, ids=missed)
    if unseen:
        losses = [Loss(row.id, "the delegate never received it") for row in unseen]
        take_back_attempts(transaction, losses, AttemptState.UNSEEN)
