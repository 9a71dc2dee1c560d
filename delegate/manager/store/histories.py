"""The history: what happened to each task, by whom, when. Written in the transaction that made it so, never changed.

It is the audit trail for people, and enough for an independent checker to say whether the promises held.
"""

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.store.tables import delegates, history
from delegate.manager.store.transactions import Row, Transaction

_INSERT = sa.insert(history)
_OF_TASK = sa.select(history).where(history.c.task_id == sa.bindparam("task_id")).order_by(history.c.id).limit(sa.bindparam("limit"))
_LATEST = sa.select(history.c.at).order_by(history.c.id.desc()).limit(1)
_HEARD = sa.select(sa.func.max(delegates.c.heartbeat_at))
MANAGER = "manager"
"""The actor where the manager itself decided."""


class Entry(msgspec.Struct, frozen=True):
    """`operation` is one of: submitted, resolved, handed_out, confirmed, released, unseen, expired, revived, requeued,
    stop_requested, resume_requested, result_accepted, result_refused, finished, redriven (from a dead letter), and for other things
    token_..., delegate_..., certificate_..., authority_..., cluster_..., redrive_..., letters_purged."""

    actor: str
    operation: str
    task_id: str = ""
    attempt_id: str = ""
    detail: dict[str, object] = {}


def record(transaction: Transaction, *entries: Entry) -> None:
    transaction.execute_many(
        _INSERT,
        [
            {
                "at": transaction.now,
                "actor": entry.actor,
                "operation": entry.operation,
                "task_id": entry.task_id,
                "attempt_id": entry.attempt_id,
                "detail": msgspec.json.encode(entry.detail).decode(),
            }
            for entry in entries
        ],
    )


def list_history(transaction: Transaction, task_id: str) -> Sequence[Row]:
    return transaction.rows(_OF_TASK, task_id=task_id, limit=transaction.limits.page_size)


def latest_moment(transaction: Transaction) -> float:
    """The latest time that was written down; 0 in a new database."""
    return max(float(transaction.scalar(_LATEST) or 0.0), float(transaction.scalar(_HEARD) or 0.0))
