"""Progress of attempts, for people to watch: bounded for each attempt, kept in order, each event once."""

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.attempts import AttemptState, has_authority, may_come_back
from delegate.manager.store.sessions import check_session
from delegate.manager.store.standings import find_attempts, standing_of
from delegate.manager.store.tables import events
from delegate.manager.store.transactions import Row, Transaction
from delegate.protocol.work import ProgressEvent

_LATEST = (
    sa.select(events.c.attempt_id, sa.func.max(events.c.sequence).label("latest"), sa.func.count().label("kept"))
    .where(events.c.attempt_id.in_(sa.bindparam("ids", expanding=True)))
    .group_by(events.c.attempt_id)
)
_INSERT = sa.insert(events)
_OF_TASK = (
    sa.select(events)
    .where(events.c.task_id == sa.bindparam("task"), events.c.id > sa.bindparam("after"))
    .order_by(events.c.id)
    .limit(sa.bindparam("limit"))
)
_TOO_LARGE = {"truncated": True}


def keep_events(transaction: Transaction, delegate_id: str, epoch: int, reported: Sequence[ProgressEvent]) -> int:
    """How many were new and kept. Events of attempts that are no longer the delegate's are dropped in silence."""
    check_session(transaction, delegate_id, epoch)
    rows = find_attempts(transaction, {event.attempt_id for event in reported})
    latest = {row.attempt_id: (int(row.latest), int(row.kept)) for row in transaction.rows(_LATEST, ids=list(rows))} if rows else {}
    kept: list[dict[str, object]] = []
    for event in sorted(reported, key=lambda event: event.sequence):
        row = rows.get(event.attempt_id)
        if row is None or row.delegate_id != delegate_id or row.fence != event.fence:
            continue
        if not _is_heard(row):
            continue
        highest, count = latest.get(event.attempt_id, (0, 0))
        if event.sequence <= highest or count >= transaction.limits.events_per_attempt:
            continue
        latest[event.attempt_id] = (event.sequence, count + 1)
        kept.append(_values(transaction, row, event))
    transaction.execute_many(_INSERT, kept)
    return len(kept)


def _is_heard(row: Row) -> bool:
    """Whether an attempt is still listened to. Its last steps may arrive after its result, which travels by itself."""
    standing = standing_of(row)
    return row.state == AttemptState.FINISHED or has_authority(standing) or may_come_back(standing)


def _values(transaction: Transaction, row: Row, event: ProgressEvent) -> dict[str, object]:
    data = msgspec.json.encode(event.data)
    if len(data) > transaction.limits.event_bytes:
        data = msgspec.json.encode(_TOO_LARGE)
    return {
        "task_id": row.task_id,
        "attempt_id": row.id,
        "sequence": event.sequence,
        "at": transaction.now - max(0.0, event.ago_seconds),
        "event": event.event[:100],
        "data": data.decode(),
    }


def list_events(transaction: Transaction, task_id: str, after: int, limit: int) -> Sequence[Row]:
    return transaction.rows(_OF_TASK, task=task_id, after=after, limit=limit)
