"""A delegate that asks for tasks: its session is checked and what it may be handed is known in the same transaction."""

import msgspec
import sqlalchemy as sa

from delegate.manager.selectors import read_labels
from delegate.manager.store.handouts import Wanting, hand_out
from delegate.manager.store.sessions import check_session
from delegate.manager.store.tables import clusters
from delegate.manager.store.transactions import Transaction
from delegate.protocol.work import AcquireRequest, LeasedTask

_CLUSTERS = sa.select(clusters.c.uid).where(clusters.c.delegate_id == sa.bindparam("delegate")).distinct()


class Asked(msgspec.Struct, frozen=True):
    """What was handed out, and what may be: the profile that a poll waits with."""

    tasks: list[LeasedTask]
    kinds: frozenset[str]
    clusters: frozenset[str]
    labels: dict[str, str]


def ask(transaction: Transaction, delegate_id: str, request: AcquireRequest, key: bytes) -> Asked:
    """Raises the errors of `check_session`. A delegate that drains is handed nothing."""
    row = check_session(transaction, delegate_id, request.epoch)
    wanting = Wanting(
        delegate_id=delegate_id,
        epoch=request.epoch,
        kinds=tuple(row.kinds.split(",")),
        clusters=tuple(each.uid for each in transaction.rows(_CLUSTERS, delegate=delegate_id)),
        labels=read_labels(row.labels),
        request_id=request.request_id,
        free_slots=request.free_slots,
        running=request.running,
    )
    tasks = [] if row.draining else hand_out(transaction, wanting, key)
    return Asked(tasks, frozenset(wanting.kinds), frozenset(wanting.clusters), wanting.labels)
