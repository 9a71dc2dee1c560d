"""Flows of tasks as they are stored, and the limits that hold for them: whose turn it is, and who may begin at all."""

from collections.abc import Iterable, Iterator, Sequence

import sqlalchemy as sa

from delegate.manager.concurrency import Allowance, LimitKey, LimitKind, Place
from delegate.manager.effects import ReadyTask
from delegate.manager.selectors import read_labels
from delegate.manager.store.tables import flows, limits, selectors, tasks
from delegate.manager.store.transactions import Row, Transaction

ELIGIBLE = sa.text("tasks.eligible")
_RUNNING = sa.text("tasks.state = 'running'")
# Literals, and not bound values: a partial index is used only where the statement itself implies its condition.

_BY_KEY = sa.select(flows.c.id).where(
    flows.c.cluster_uid == sa.bindparam("cluster"),
    flows.c.kind == sa.bindparam("kind"),
    flows.c.selector_id == sa.bindparam("selector"),
    flows.c.submitter == sa.bindparam("submitter"),
    flows.c.environment == sa.bindparam("environment"),
    flows.c.priority == sa.bindparam("priority"),
)
_INSERT = sa.insert(flows)
_WAITING_SINCE = (
    sa.select(tasks.c.created_at)
    .where(tasks.c.flow_id == flows.c.id, ELIGIBLE, tasks.c.ready_at <= sa.bindparam("now"))
    .order_by(tasks.c.rank, tasks.c.sequence)
    .limit(1)
    .correlate(flows)
    .scalar_subquery()
)
_OPEN = sa.select(flows, _WAITING_SINCE.label("waiting_since")).where(
    flows.c.cluster_uid.in_(sa.bindparam("clusters", expanding=True)),
    flows.c.kind.in_(sa.bindparam("kinds", expanding=True)),
    flows.c.selector_id.in_(sa.bindparam("selectors", expanding=True)),
)
_OPEN_ANYWHERE = sa.select(flows, selectors.c.labels, _WAITING_SINCE.label("waiting_since")).join(
    selectors, selectors.c.id == flows.c.selector_id
)
_SERVE = (
    sa.update(flows).where(flows.c.id == sa.bindparam("flow"), flows.c.served_at < sa.bindparam("at")).values(served_at=sa.bindparam("at"))
)
_LIMITS = sa.select(limits.c.kind, limits.c.name, limits.c.max_parallel)
_RUN_UNDER_LIMITS = (
    sa.select(tasks.c.environment, tasks.c.cluster_uid, tasks.c.concurrency_key, sa.func.count().label("number"))
    .where(_RUNNING)
    .group_by(tasks.c.environment, tasks.c.cluster_uid, tasks.c.concurrency_key)
)
_RUN_BY_KEY = (
    sa.select(tasks.c.environment, tasks.c.cluster_uid, tasks.c.concurrency_key, sa.func.count().label("number"))
    .where(sa.text("tasks.state = 'running' AND tasks.concurrency_key > ''"))
    .group_by(tasks.c.environment, tasks.c.cluster_uid, tasks.c.concurrency_key)
)
_PLACES = (
    sa.select(tasks.c.environment, tasks.c.cluster_uid, tasks.c.concurrency_key)
    .where(tasks.c.id.in_(sa.bindparam("ids", expanding=True)))
    .distinct()
)
_WAIT_FOR_KEY = (
    sa.select(tasks.c.kind, tasks.c.environment, tasks.c.cluster_uid, tasks.c.concurrency_key, tasks.c.ready_at, selectors.c.labels)
    .join(selectors, selectors.c.id == tasks.c.selector_id)
    .where(sa.text("tasks.eligible AND tasks.concurrency_key > ''"), tasks.c.concurrency_key == sa.bindparam("name"))
    .order_by(tasks.c.rank)
    .limit(sa.bindparam("most"))
)
_WAIT_IN_FLOW = (
    sa.select(tasks.c.environment, tasks.c.cluster_uid, tasks.c.concurrency_key)
    .where(tasks.c.flow_id == sa.bindparam("flow"), ELIGIBLE, tasks.c.ready_at <= sa.bindparam("now"))
    .order_by(tasks.c.rank, tasks.c.sequence)
    .limit(sa.bindparam("most"))
)
_WAKE_MOST = 64


def flow_of(transaction: Transaction, *, kind: str, cluster: str, selector: int, submitter: str, environment: str, priority: int) -> int:
    """The flow of such tasks; made where it is the first one."""
    key = {"cluster": cluster, "kind": kind, "selector": selector, "submitter": submitter, "environment": environment, "priority": priority}
    known = transaction.scalar(_BY_KEY, **key)
    if known is None:
        transaction.execute(
            _INSERT,
            kind=kind,
            cluster_uid=cluster,
            selector_id=selector,
            submitter=submitter,
            environment=environment,
            priority=priority,
            served_at=0.0,
        )
        known = transaction.scalar(_BY_KEY, **key)
    return int(known)


def find_open(transaction: Transaction, *, kinds: Iterable[str], clusters: Iterable[str], selectors: Iterable[int]) -> list[Row]:
    """The flows with tasks that may be handed out now to whoever does these kinds in these clusters."""
    parameters = {"kinds": list(kinds), "clusters": list(clusters), "selectors": list(selectors)}
    return [row for row in transaction.rows(_OPEN, now=transaction.now, **parameters) if row.waiting_since is not None]


def note_served(transaction: Transaction, served: dict[int, float]) -> None:
    """In one order for everybody, so that no two hand-outs wait for each other."""
    transaction.execute_many(_SERVE, [{"flow": flow, "at": at} for flow, at in sorted(served.items())])


def read_limits(transaction: Transaction) -> dict[LimitKey, int]:
    """All limits that somebody set."""
    return {LimitKey(LimitKind(row.kind), row.name): row.max_parallel for row in transaction.rows(_LIMITS)}


def allowance_of(transaction: Transaction, set_limits: dict[LimitKey, int]) -> Allowance:
    """What the tasks that run now leave of the limits."""
    rows = transaction.rows(_RUN_UNDER_LIMITS if set_limits else _RUN_BY_KEY)
    return Allowance(set_limits, [(place_of(row), row.number) for row in rows])


def place_of(row: Row) -> Place:
    return Place(row.environment, row.cluster_uid or "", row.concurrency_key)


def hold_limits(transaction: Transaction, task_ids: Iterable[str]) -> Allowance:
    """The allowance, while nobody else decides about these tasks' limits. Only after the keys of applications are held, never before."""
    set_limits = read_limits(transaction)
    if not transaction.alone:
        known = Allowance(set_limits, ())
        places = transaction.rows(_PLACES, ids=list(task_ids))
        transaction.hold_keys(key.lock for row in places for key in known.keys_of(place_of(row)))
    return allowance_of(transaction, set_limits)


def wake_freed(transaction: Transaction, task_ids: Sequence[str]) -> None:
    """Tells the dispatch of tasks that may begin now because these ones gave something of a limit back."""
    set_limits = read_limits(transaction)
    known = Allowance(set_limits, ())
    keys = {key for row in transaction.rows(_PLACES, ids=list(task_ids)) for key in known.keys_of(place_of(row))}
    if keys:
        wake_waiting(transaction, keys, allowance_of(transaction, set_limits))


def wake_waiting(transaction: Transaction, keys: Iterable[LimitKey], allowance: Allowance) -> None:
    """Tells the dispatch of as many tasks under each limit as it leaves room for."""
    ready = transaction.effects.ready
    for key in keys:
        most = min(_WAKE_MOST, allowance.left(key))
        if key.kind is not LimitKind.KEY:
            ready += [] if not most else [task for place, task in _waiting(transaction, most) if key in allowance.keys_of(place)]
        elif most:
            rows = transaction.rows(_WAIT_FOR_KEY, name=key.name, most=most)
            ready += [ReadyTask(row.kind, row.cluster_uid or "", read_labels(row.labels), row.ready_at) for row in rows]


def _waiting(transaction: Transaction, most: int) -> Iterator[tuple[Place, ReadyTask]]:
    """Of each flow the first ones that may be handed out now."""
    for flow in transaction.rows(_OPEN_ANYWHERE, now=transaction.now):
        if flow.waiting_since is not None:
            task = ReadyTask(flow.kind, flow.cluster_uid, read_labels(flow.labels))
            for row in transaction.rows(_WAIT_IN_FLOW, flow=flow.id, now=transaction.now, most=most):
                yield place_of(row), task


def find_ready(transaction: Transaction) -> list[ReadyTask]:
    """Some tasks that may be handed out now, of each flow, and none that a limit holds."""
    allowance = allowance_of(transaction, read_limits(transaction))
    return [task for place, task in _waiting(transaction, _WAKE_MOST) if allowance.full(place) is None]
