"""Limits of what runs at once: set, shown, taken away, and who holds a task back by them."""

import sqlalchemy as sa

from delegate.manager.clocks import to_rfc3339
from delegate.manager.concurrency import Allowance, LimitKey, LimitKind
from delegate.manager.errors import InvalidError, NotFoundError
from delegate.manager.explanations import HeldBack
from delegate.manager.store.flows import allowance_of, place_of, read_limits, wake_waiting
from delegate.manager.store.histories import Entry, record
from delegate.manager.store.tables import clusters, limits, tasks
from delegate.manager.store.transactions import Row, Transaction
from delegate.manager.views import LimitView

_ALL = sa.select(limits).order_by(limits.c.kind, limits.c.name)
_ONE = sa.and_(limits.c.kind == sa.bindparam("of_kind"), limits.c.name == sa.bindparam("of_name"))
_DELETE = sa.delete(limits).where(_ONE)
_INSERT = sa.insert(limits)
_UIDS = sa.select(clusters.c.uid).where(sa.or_(clusters.c.name == sa.bindparam("name"), clusters.c.uid == sa.bindparam("name"))).distinct()
_CLUSTER_NAME = sa.select(clusters.c.name).where(clusters.c.uid == sa.bindparam("uid")).order_by(clusters.c.name).limit(1)
_UNDER = {
    LimitKind.ENVIRONMENT: tasks.c.environment == sa.bindparam("name"),
    LimitKind.CLUSTER: tasks.c.cluster_uid == sa.bindparam("name"),
    LimitKind.KEY: tasks.c.concurrency_key == sa.bindparam("name"),
}
_HOLDERS = sa.select(tasks.c.id).where(sa.text("tasks.state = 'running'")).order_by(tasks.c.sequence).limit(100)
_AHEAD = (
    sa.select(sa.func.count())
    .select_from(tasks)
    .where(
        sa.text("tasks.eligible"),
        sa.tuple_(tasks.c.rank, tasks.c.sequence) < sa.tuple_(sa.bindparam("rank"), sa.bindparam("sequence")),
    )
)
_RANK = sa.select(tasks.c.rank).where(tasks.c.id == sa.bindparam("id"))


def set_limit(transaction: Transaction, kind: LimitKind, name: str, most: int, actor: str) -> LimitView:
    """From now on at most so many tasks run; those that run already are left alone. Raises InvalidError for an ambiguous cluster."""
    key = LimitKey(kind, _uid_of(transaction, name) if kind is LimitKind.CLUSTER else name)
    transaction.hold_keys([key.lock])
    transaction.execute(_DELETE, of_kind=kind.value, of_name=key.name)
    transaction.execute(_INSERT, kind=kind.value, name=key.name, max_parallel=most, set_by=actor, set_at=transaction.now)
    record(transaction, Entry(actor, "limit_set", detail={"kind": kind.value, "name": key.name, "maxParallel": most}))
    allowance = allowance_of(transaction, read_limits(transaction))
    wake_waiting(transaction, [key], allowance)
    return next(each for each in list_limits(transaction) if (each.kind, each.name) == key)


def remove_limit(transaction: Transaction, kind: LimitKind, name: str, actor: str) -> None:
    """As many as there are may run. Raises NotFoundError."""
    key = LimitKey(kind, _uid_of(transaction, name) if kind is LimitKind.CLUSTER else name)
    transaction.hold_keys([key.lock])
    if not transaction.execute(_DELETE, of_kind=kind.value, of_name=key.name):
        raise NotFoundError(f"there is no limit for {kind} {name!r}", hint="delegate limits list shows the limits")
    record(transaction, Entry(actor, "limit_removed", detail={"kind": kind.value, "name": key.name}))


def list_limits(transaction: Transaction) -> list[LimitView]:
    """What was set, with what runs under it."""
    allowance = allowance_of(transaction, read_limits(transaction))
    return [
        LimitView(
            kind=row.kind,
            name=row.name,
            max_parallel=row.max_parallel,
            running=allowance.used(LimitKey(LimitKind(row.kind), row.name)),
            set_by=row.set_by,
            set_at=to_rfc3339(row.set_at),
        )
        for row in transaction.rows(_ALL)
    ]


def find_holders(transaction: Transaction, row: Row) -> HeldBack | None:
    """The limit that keeps a queued task from beginning, and the tasks that come before it."""
    allowance: Allowance = allowance_of(transaction, read_limits(transaction))
    key = allowance.full(place_of(row))
    if key is None:
        return None
    under = _UNDER[key.kind]
    rank = transaction.scalar(_RANK, id=row.id)
    return HeldBack(
        what=f"{key.kind.value} {_shown_name(transaction, key)}",
        most=allowance.most(key),
        running=tuple(holder.id for holder in transaction.rows(_HOLDERS.where(under), name=key.name)),
        ahead=int(transaction.scalar(_AHEAD.where(under), name=key.name, rank=rank, sequence=row.sequence)),
    )


def _shown_name(transaction: Transaction, key: LimitKey) -> str:
    if key.kind is not LimitKind.CLUSTER:
        return key.name
    return str(transaction.scalar(_CLUSTER_NAME, uid=key.name) or key.name)


def _uid_of(transaction: Transaction, name: str) -> str:
    """A cluster's uid by its name; what no delegate calls a cluster is taken as a uid."""
    uids = [row.uid for row in transaction.rows(_UIDS, name=name)]
    if len(uids) > 1:
        raise InvalidError(f"{len(uids)} clusters are called {name!r}: {', '.join(sorted(uids)[:5])}", hint="name one by its uid")
    return uids[0] if uids else name
