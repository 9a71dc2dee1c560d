"""What time does to the queue, in operations that are run again and again; and counts for the metrics."""

import msgspec
import sqlalchemy as sa

from delegate.manager.store.flows import find_ready
from delegate.manager.store.losses import enforce_deadlines, expire_leases
from delegate.manager.store.tables import commands, credentials, delegates, tasks
from delegate.manager.store.transactions import Transaction

__all__ = ["Counts", "count", "end_what_is_over", "find_commanded", "find_ready", "forget_stale"]
_COUNT_TASKS = sa.select(tasks.c.state, sa.func.count()).where(sa.text("tasks.state IN ('queued', 'running')")).group_by(tasks.c.state)
_COUNT_DELEGATES = sa.select(
    sa.func.count(), sa.func.count().filter(delegates.c.heartbeat_at > sa.bindparam("since"), delegates.c.left_at.is_(None))
).where(delegates.c.revoked_at.is_(None))
_STALE_CREDENTIALS = sa.delete(credentials).where(credentials.c.expires_at < sa.bindparam("before"))
_COMMANDED = sa.select(commands.c.delegate_id).distinct().limit(10_000)
_KEPT_SECONDS = 86400.0  # an expired token is told so for a day, then it is unknown


class Counts(msgspec.Struct, frozen=True):
    queued: int = 0
    running: int = 0
    connected: int = 0
    disconnected: int = 0


def end_what_is_over(transaction: Transaction, *, leases: bool) -> int:
    """Ends deadlines, and leases where that is allowed now. How many leases ended."""
    enforce_deadlines(transaction)
    return expire_leases(transaction) if leases else 0


def forget_stale(transaction: Transaction) -> None:
    transaction.execute(_STALE_CREDENTIALS, before=transaction.now - _KEPT_SECONDS)


def find_commanded(transaction: Transaction) -> set[str]:
    """Delegates for whom there are commands."""
    return {row.delegate_id for row in transaction.rows(_COMMANDED)}


def count(transaction: Transaction) -> Counts:
    states = {row[0]: int(row[1]) for row in transaction.rows(_COUNT_TASKS)}
    row = transaction.row(_COUNT_DELEGATES, since=transaction.now - transaction.rhythm.connected_seconds)
    total, connected = (row[0], row[1]) if row is not None else (0, 0)
    return Counts(states.get("queued", 0), states.get("running", 0), connected, total - connected)
