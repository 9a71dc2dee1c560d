"""Delegates as people see them: who is connected, reaches which clusters, runs how much, and what ails it."""

from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.clocks import to_rfc3339
from delegate.manager.errors import InvalidError, NotFoundError
from delegate.manager.explanations import Candidate
from delegate.manager.scopes import scoped_kinds
from delegate.manager.selectors import read_labels
from delegate.manager.store.handouts import SUSPECT
from delegate.manager.store.heartbeats import Facts
from delegate.manager.store.sessions import alternates
from delegate.manager.store.tables import attempts, clusters, delegates, tasks, tokens
from delegate.manager.store.transactions import Row, Transaction
from delegate.manager.views import DelegateView

_RUNNING = (
    sa.select(
        attempts.c.delegate_id,
        sa.func.count().label("number"),
        sa.func.count().filter(tasks.c.requeues >= SUSPECT).label("suspects"),
    )
    .join(tasks, tasks.c.id == attempts.c.task_id)
    .where(sa.text("attempts.state = 'active'"))
    .group_by(attempts.c.delegate_id)
)
_CLUSTERS = sa.select(clusters.c.delegate_id, clusters.c.name, clusters.c.uid).order_by(clusters.c.name)
_DELEGATES = (
    sa.select(delegates, tokens.c.name.label("token_name"))
    .outerjoin(tokens, tokens.c.id == delegates.c.token_id)
    .order_by(delegates.c.name, delegates.c.enrolled_at)
)


def _clusters_by_delegate(transaction: Transaction) -> dict[str, dict[str, str]]:
    reached: dict[str, dict[str, str]] = {}
    for delegate_id, name, uid in transaction.rows(_CLUSTERS):
        reached.setdefault(delegate_id, {})[name] = uid
    return reached


def _is_connected(transaction: Transaction, row: Row) -> bool:
    heard = row.heartbeat_at is not None and row.heartbeat_at >= transaction.now - transaction.rhythm.connected_seconds
    return bool(heard and row.left_at is None and row.revoked_at is None)


def list_candidates(transaction: Transaction) -> list[Candidate]:
    """The delegates that a task might be handed to, revoked ones left out."""
    running = {row.delegate_id: row for row in transaction.rows(_RUNNING)}
    reached = _clusters_by_delegate(transaction)
    return [
        Candidate(
            name=row.name,
            connected=_is_connected(transaction, row),
            draining=bool(row.draining),
            labels=read_labels(row.labels),
            kinds=frozenset(row.kinds.split(",")),
            scoped=frozenset(scoped_kinds(row.scopes.split(","))),
            clusters=reached.get(row.id, {}),
            capacity=row.capacity,
            running=int(running[row.id].number) if row.id in running else 0,
            suspects=int(running[row.id].suspects) if row.id in running else 0,
        )
        for row in transaction.rows(_DELEGATES)
        if row.revoked_at is None
    ]


def list_delegates(transaction: Transaction, *, revoked: bool = False) -> list[DelegateView]:
    """All delegates, without the revoked ones unless those are wanted."""
    running = {row.delegate_id: int(row.number) for row in transaction.rows(_RUNNING)}
    reached = _clusters_by_delegate(transaction)
    return [
        _delegate(transaction, row, running.get(row.id, 0), reached.get(row.id, {}))
        for row in transaction.rows(_DELEGATES)
        if revoked or row.revoked_at is None
    ]


def show_delegate(transaction: Transaction, delegate_id: str) -> DelegateView:
    """By id, or by a name that only one has. Raises NotFoundError, InvalidError."""
    everybody = list_delegates(transaction, revoked=True)
    found = [each for each in everybody if each.id == delegate_id] or [each for each in everybody if each.name == delegate_id]
    if not found:
        raise NotFoundError(f"there is no delegate {delegate_id!r}", hint="delegate delegates list shows the delegates")
    if len(found) > 1:
        raise InvalidError(
            f"{len(found)} delegates are named {delegate_id!r}", hint=f"use an id: {', '.join(each.id for each in found[:5])}"
        )
    return found[0]


def _delegate(transaction: Transaction, row: Row, running: int, reached: Mapping[str, str]) -> DelegateView:
    connected = _is_connected(transaction, row)
    facts = msgspec.json.decode(row.heartbeat, type=Facts)
    duplicate = alternates(row.incarnations, transaction.now)
    ago = None if row.heartbeat_at is None else max(0.0, round(transaction.now - row.heartbeat_at, 1))
    reasons = tuple(_ailments(row, facts, connected=connected, ago=ago, duplicate=duplicate))
    return DelegateView(
        id=row.id,
        name=row.name,
        instance=row.instance,
        health="Unhealthy" if reasons else "Healthy",
        connection="Connected" if connected else "Disconnected",
        reasons=reasons,
        labels=read_labels(row.labels),
        kinds=tuple(row.kinds.split(",")),
        clusters=dict(reached),
        capacity=row.capacity,
        running=running,
        free_slots=row.free_slots if connected else 0,
        draining=bool(row.draining),
        duplicate_identity=duplicate,
        outbox_entries=facts.outbox_entries,
        version=row.version,
        python=row.python,
        protocol=row.protocol,
        epoch=row.epoch,
        token=row.token_name or "",
        enrolled_at=to_rfc3339(row.enrolled_at),
        heartbeat_at=to_rfc3339(row.heartbeat_at),
        heartbeat_seconds_ago=ago,
        revoked_at=to_rfc3339(row.revoked_at),
    )


def _ailments(row: Row, facts: Facts, *, connected: bool, ago: float | None, duplicate: bool) -> Sequence[str]:
    reasons = []
    if row.revoked_at is not None:
        reasons.append("it was revoked")
    elif row.left_at is not None:
        reasons.append(f"it left: {row.left_reason}" if row.left_reason else "it left")
    elif ago is None:
        reasons.append("it has enrolled and not yet begun to work")
    elif not connected:
        reasons.append(f"nothing was heard of it for {ago:g} s")
    if connected and row.stalled:
        reasons.append(f"its main loop is stuck (lag {facts.loop_lag_seconds:g} s)")
    if connected and facts.blocked:
        reasons.append(f"it takes no task: {facts.blocked}")
    if connected and facts.certificate_expires_in_seconds is not None and facts.certificate_expires_in_seconds <= 0:
        reasons.append("its certificate has expired")
    if duplicate:
        reasons.append("two processes take its identity from each other")
    return reasons
