"""Why a task is queued: what the store knows about it and about the delegates that might take it, for the words of `explanations`."""

import sqlalchemy as sa

from delegate.manager.attempts import TaskState
from delegate.manager.explanations import Candidate, WaitingTask, explain_unroutable, explain_waiting
from delegate.manager.selectors import read_labels
from delegate.manager.store.delegates import list_candidates
from delegate.manager.store.handouts import SUSPECT
from delegate.manager.store.limiting import find_holders
from delegate.manager.store.tables import selectors, tasks
from delegate.manager.store.transactions import Row, Transaction

_other = tasks.alias("other")
_AHEAD = (
    sa.select(_other.c.id, _other.c.state)
    .where(
        _other.c.lock_key == sa.bindparam("key"),
        sa.or_(
            sa.text("other.state = 'running'"),
            sa.and_(
                sa.text("other.state = 'queued'"),
                sa.or_(
                    _other.c.rank < sa.bindparam("rank"),
                    sa.and_(_other.c.rank == sa.bindparam("rank"), _other.c.sequence < sa.bindparam("sequence")),
                ),
            ),
        ),
    )
    .order_by(_other.c.state.desc(), _other.c.rank, _other.c.sequence)
    .limit(1)
)
_UNHANDED = (sa.text("tasks.state = 'queued'"), tasks.c.begun == 0, tasks.c.created_at <= sa.bindparam("since"))
_UNHANDED_SORTS = (
    sa.select(tasks.c.kind, tasks.c.selector_id, tasks.c.destination, tasks.c.cluster_uid, selectors.c.labels)
    .join(selectors, selectors.c.id == tasks.c.selector_id)
    .where(*_UNHANDED)
    .distinct()
)
_UNHANDED_IDS = (
    sa.select(tasks.c.id)
    .where(
        *_UNHANDED,
        tasks.c.kind == sa.bindparam("of_kind"),
        tasks.c.selector_id == sa.bindparam("selector"),
        tasks.c.destination == sa.bindparam("name"),
        sa.func.coalesce(tasks.c.cluster_uid, "?") == sa.bindparam("cluster"),
    )
    .order_by(tasks.c.sequence)
    .limit(500)
)
_ROUTABLE_SECONDS = 60.0
_RANK = sa.select(tasks.c.rank).where(tasks.c.id == sa.bindparam("id"))


def explain(transaction: Transaction, row: Row, candidates: list[Candidate]) -> str:
    """Why this queued task waits, in words."""
    ahead = None
    if row.lock_key is not None:
        rank = transaction.scalar(_RANK, id=row.id)
        ahead = transaction.row(_AHEAD, key=row.lock_key, rank=rank, sequence=row.sequence)
    task = WaitingTask(
        kind=row.kind,
        application=row.application,
        selector=read_labels(row.selector),
        destination=row.destination,
        cluster_uid=row.cluster_uid,
        ready_at=row.ready_at,
        requeues=row.requeues,
        message=row.message,
        ahead=ahead.id if ahead is not None else "",
        ahead_runs=ahead is not None and ahead.state == TaskState.RUNNING,
        held_back=find_holders(transaction, row) if row.cluster_uid is not None else None,
        alone=row.requeues >= SUSPECT,
    )
    return explain_waiting(task, candidates, transaction.now)


def find_unroutable(transaction: Transaction) -> dict[str, str]:
    """Tasks that nobody was handed yet and that no connected delegate could take, with the reason. Not those of the last seconds."""
    since = transaction.now - min(_ROUTABLE_SECONDS, transaction.rhythm.unroutable_seconds)
    sorts = transaction.rows(_UNHANDED_SORTS, since=since)
    candidates = list_candidates(transaction) if sorts else []
    found: dict[str, str] = {}
    for sort in sorts:
        reason = explain_unroutable(
            WaitingTask(
                kind=sort.kind,
                application="",
                selector=read_labels(sort.labels),
                destination=sort.destination,
                cluster_uid=sort.cluster_uid,
                ready_at=0.0,
            ),
            candidates,
        )
        if reason:
            cluster = "?" if sort.cluster_uid is None else sort.cluster_uid
            of_sort = {"of_kind": sort.kind, "selector": sort.selector_id, "name": sort.destination, "cluster": cluster}
            found |= {row.id: reason for row in transaction.rows(_UNHANDED_IDS, since=since, **of_sort)}
    return found
