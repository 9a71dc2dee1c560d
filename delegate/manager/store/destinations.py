"""Which cluster a destination means: the uid behind the name, as the delegates announce it."""

from collections.abc import Iterable

import msgspec
import sqlalchemy as sa

from delegate.manager.selectors import matches, read_labels
from delegate.manager.store.flows import flow_of
from delegate.manager.store.histories import MANAGER, Entry, record
from delegate.manager.store.queueing import promote
from delegate.manager.store.tables import clusters, delegates, selectors, tasks
from delegate.manager.store.transactions import Row, Transaction
from delegate.model.tasks import Task, TaskKind

IN_CLUSTER = "in-cluster"
_IN_CLUSTER_SERVER = "https://kubernetes.default.svc"
_CLUSTERLESS = frozenset({TaskKind.VERIFY, TaskKind.GIT_UPDATE})

_KNOWN = (
    sa.select(clusters.c.uid, clusters.c.name, delegates.c.name.label("delegate"), delegates.c.labels)
    .join(delegates, delegates.c.id == clusters.c.delegate_id)
    .where(
        delegates.c.revoked_at.is_(None),
        sa.func.coalesce(delegates.c.heartbeat_at, delegates.c.session_at) >= sa.bindparam("since"),
        sa.or_(sa.bindparam("name", type_=sa.Text) == "", clusters.c.name == sa.bindparam("name", type_=sa.Text)),
    )
)
_UNRESOLVED = (
    sa.select(
        tasks.c.id,
        tasks.c.application,
        tasks.c.destination,
        tasks.c.supersedes,
        tasks.c.submitted_by,
        tasks.c.kind,
        tasks.c.selector_id,
        tasks.c.environment,
        tasks.c.priority,
        selectors.c.labels,
    )
    .join(selectors, selectors.c.id == tasks.c.selector_id)
    .where(
        sa.text("tasks.state = 'queued' AND tasks.cluster_uid IS NULL"),
        tasks.c.destination.in_(sa.bindparam("names", expanding=True)),
    )
    .order_by(tasks.c.sequence)
)
_RESOLVE = (
    sa.update(tasks)
    .where(tasks.c.id == sa.bindparam("task"), tasks.c.cluster_uid.is_(None))
    .values(cluster_uid=sa.bindparam("uid"), lock_key=sa.bindparam("key"), flow_id=sa.bindparam("flow"))
)


def destination_of(task: Task) -> str:
    """The name that is looked for. An Argo CD server address of the cluster itself is its `in-cluster`."""
    if task.destination.name:
        return task.destination.name
    server = task.destination.server.rstrip("/")
    return IN_CLUSTER if server == _IN_CLUSTER_SERVER else server


def needs_cluster(task: Task) -> bool:
    return bool(destination_of(task)) or task.kind not in _CLUSTERLESS


def lock_key(application: str, cluster_uid: str) -> str:
    return f"{application}@{cluster_uid}"


class Candidate(msgspec.Struct, frozen=True, order=True):
    """A cluster that a destination may mean, and a delegate that knows it."""

    uid: str
    name: str
    delegate: str


def find_clusters(transaction: Transaction, name: str, selector: dict[str, str]) -> list[Candidate]:
    """The clusters called so (all, for an empty name) by delegates that meet the selector; one entry for each uid."""
    since = transaction.now - transaction.rhythm.delegate_memory_seconds
    found: dict[str, Candidate] = {}
    for uid, called, delegate, labels in transaction.rows(_KNOWN, name=name, since=since):
        if uid not in found and matches(selector, read_labels(labels)):
            found[uid] = Candidate(uid, called, delegate)
    return sorted(found.values())


def resolve_waiting(transaction: Transaction, names: Iterable[str]) -> list[str]:
    """Gives tasks whose destination was unknown their cluster, now that delegates announced these names. Their ids."""
    resolved = []
    for row in transaction.rows(_UNRESOLVED, names=[*names, ""]):
        found = find_clusters(transaction, row.destination, read_labels(row.labels))
        if len(found) == 1:
            resolved.append((row, found[0].uid))
    transaction.hold_keys([*(row.id for row, _ in resolved), *(lock_key(row.application, uid) for row, uid in resolved)])
    transaction.execute_many(
        _RESOLVE,
        [
            {"task": row.id, "uid": uid, "key": lock_key(row.application, uid), "flow": _flow_of(transaction, row, uid)}
            for row, uid in resolved
        ],
    )
    record(transaction, *(Entry(MANAGER, "resolved", row.id, detail={"cluster": uid}) for row, uid in resolved))
    promote(transaction, [row.id for row, _ in resolved])
    return [row.id for row, _ in resolved if row.supersedes]


def _flow_of(transaction: Transaction, row: Row, uid: str) -> int:
    return flow_of(
        transaction,
        kind=row.kind,
        cluster=uid,
        selector=row.selector_id,
        submitter=row.submitted_by,
        environment=row.environment,
        priority=row.priority,
    )
