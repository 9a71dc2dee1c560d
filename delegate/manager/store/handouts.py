"""Handing out: tasks to a delegate that asks with free slots, and back again before they began."""

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.attempts import AttemptState, TaskState, has_authority
from delegate.manager.identifiers import attempt_id, attempt_token
from delegate.manager.selectors import matches, read_labels
from delegate.manager.store.histories import Entry, record
from delegate.manager.store.losses import Loss, take_back_attempts
from delegate.manager.store.queueing import ELIGIBLE
from delegate.manager.store.standings import hold_attempts, standing_of
from delegate.manager.store.tables import attempts, selectors, tasks
from delegate.manager.store.transactions import Row, Transaction
from delegate.protocol.work import LeasedTask, ReleaseItem, ReleaseReason, ResultVerdict

_REPEATED = (
    sa.select(
        attempts.c.id.label("attempt_id"),
        attempts.c.number,
        attempts.c.fence,
        attempts.c.started_at,
        tasks.c.id,
        tasks.c.kind,
        tasks.c.application,
        tasks.c.cluster_uid,
        tasks.c.document,
        tasks.c.deadline_at,
    )
    .join_from(attempts, tasks, tasks.c.id == attempts.c.task_id)
    .where(
        attempts.c.delegate_id == sa.bindparam("delegate"),
        attempts.c.request_id == sa.bindparam("request"),
        attempts.c.started_at > sa.bindparam("since"),
        sa.text("attempts.state = 'active'"),
    )
    .order_by(attempts.c.started_at, attempts.c.id)
)
_EXTEND = (
    sa.update(attempts)
    .where(attempts.c.id.in_(sa.bindparam("ids", expanding=True)))
    .values(lease_expires_at=sa.bindparam("until"), missed=0)
)
_SELECTORS = sa.select(selectors.c.id, selectors.c.labels)
_CANDIDATES = (
    sa.select(
        tasks.c.sequence,
        tasks.c.id,
        tasks.c.kind,
        tasks.c.application,
        tasks.c.cluster_uid,
        tasks.c.lock_key,
        tasks.c.document,
        tasks.c.fence,
        tasks.c.begun,
        tasks.c.timeout_seconds,
        tasks.c.deadline_at,
    )
    .where(
        ELIGIBLE,
        tasks.c.ready_at <= sa.bindparam("now"),
        sa.or_(tasks.c.deadline_at.is_(None), tasks.c.deadline_at > sa.bindparam("now")),
        tasks.c.kind.in_(sa.bindparam("kinds", expanding=True)),
        tasks.c.selector_id.in_(sa.bindparam("selectors", expanding=True)),
        tasks.c.cluster_uid.in_(sa.bindparam("clusters", expanding=True)),
    )
    .order_by(tasks.c.rank, tasks.c.sequence)
    .limit(sa.bindparam("limit"))
    .with_for_update(skip_locked=True)
)
_HAND_OUT = (
    sa.update(tasks)
    .where(tasks.c.sequence == sa.bindparam("row"))
    .values(
        state=TaskState.RUNNING.value,
        eligible=False,
        message="",
        fence=sa.bindparam("to_fence"),
        begun=tasks.c.begun + 1,
        attempt_id=sa.bindparam("attempt"),
        first_started_at=sa.func.coalesce(tasks.c.first_started_at, sa.bindparam("at")),
        deadline_at=sa.func.coalesce(tasks.c.deadline_at, sa.bindparam("deadline")),
    )
)
_BEGIN = sa.insert(attempts)
_CONFIRM = (
    sa.update(attempts)
    .where(attempts.c.id.in_(sa.bindparam("ids", expanding=True)), attempts.c.delegate_id == sa.bindparam("delegate"))
    .values(confirmed=True)
)


class Wanting(msgspec.Struct, frozen=True, kw_only=True):
    """A delegate that asks for tasks: the session checked, the kinds those that its token allows."""

    delegate_id: str
    epoch: int
    kinds: tuple[str, ...]
    clusters: tuple[str, ...]
    labels: dict[str, str]
    request_id: str
    free_slots: int
    running: tuple[str, ...] = ()


def hand_out(transaction: Transaction, wanting: Wanting, key: bytes) -> list[LeasedTask]:
    """At most `free_slots` tasks, each with an attempt of its own; for a repeated request the same ones as before."""
    repeated = _repeat(transaction, wanting, key)
    if repeated:
        return repeated
    if wanting.running:
        transaction.execute(_CONFIRM, ids=list(wanting.running), delegate=wanting.delegate_id)
    chosen = _choose(transaction, wanting)
    if not chosen:
        return []
    now, rhythm = transaction.now, transaction.rhythm
    deadlines = [row.deadline_at if row.deadline_at is not None else now + row.timeout_seconds for row in chosen]
    ids = [attempt_id(row.id, row.fence + 1) for row in chosen]
    transaction.execute_many(
        _HAND_OUT,
        [
            {"row": row.sequence, "to_fence": row.fence + 1, "attempt": attempt, "at": now, "deadline": deadline}
            for row, attempt, deadline in zip(chosen, ids, deadlines, strict=True)
        ],
    )
    transaction.execute_many(
        _BEGIN,
        [
            {
                "id": attempt,
                "task_id": row.id,
                "number": row.begun + 1,
                "fence": row.fence + 1,
                "delegate_id": wanting.delegate_id,
                "epoch": wanting.epoch,
                "request_id": wanting.request_id,
                "state": AttemptState.ACTIVE.value,
                "confirmed": False,
                "missed": 0,
                "lease_expires_at": now + rhythm.lease_seconds,
                "started_at": now,
                "outcome": "",
                "digest": "",
                "reason": "",
                "reported_state": "",
            }
            for row, attempt in zip(chosen, ids, strict=True)
        ],
    )
    record(
        transaction,
        *(
            Entry(
                wanting.delegate_id,
                "handed_out",
                row.id,
                attempt,
                {"fence": row.fence + 1, "application": row.application, "cluster": row.cluster_uid, "lease": rhythm.lease_seconds},
            )
            for row, attempt in zip(chosen, ids, strict=True)
        ),
    )
    return [
        _lease(
            row,
            attempt,
            number=row.begun + 1,
            fence=row.fence + 1,
            remaining=deadline - now,
            lease=rhythm.lease_seconds,
            key=key,
        )
        for row, attempt, deadline in zip(chosen, ids, deadlines, strict=True)
    ]


def _repeat(transaction: Transaction, wanting: Wanting, key: bytes) -> list[LeasedTask]:
    since = transaction.now - transaction.rhythm.request_memory_seconds
    rows = transaction.rows(_REPEATED, delegate=wanting.delegate_id, request=wanting.request_id, since=since)
    if not rows:
        return []
    lease = transaction.rhythm.lease_seconds
    transaction.execute(_EXTEND, ids=[row.attempt_id for row in rows], until=transaction.now + lease)
    return [
        _lease(
            row,
            row.attempt_id,
            number=row.number,
            fence=row.fence,
            remaining=max(0.0, row.deadline_at - transaction.now),
            lease=lease,
            key=key,
        )
        for row in rows
    ]


def _choose(transaction: Transaction, wanting: Wanting) -> Sequence[Row]:
    met = [row.id for row in transaction.rows(_SELECTORS) if matches(read_labels(row.labels), wanting.labels)]
    if not met or not wanting.kinds:
        return []
    candidates = transaction.rows(
        _CANDIDATES,
        now=transaction.now,
        kinds=list(wanting.kinds),
        selectors=met,
        clusters=[*wanting.clusters, ""],
        limit=min(wanting.free_slots, transaction.limits.batch_tasks),
    )
    # Whoever holds the key of an application is about to say which of its tasks goes first: not this one, perhaps.
    held = transaction.try_keys(row.lock_key for row in candidates)
    return [row for row in candidates if row.lock_key in held]


def _lease(row: Row, attempt: str, *, number: int, fence: int, remaining: float, lease: float, key: bytes) -> LeasedTask:
    return LeasedTask(
        task_id=row.id,
        attempt_id=attempt,
        attempt_number=number,
        fence=fence,
        kind=row.kind,
        application=row.application,
        cluster_uid=row.cluster_uid or "",
        document=msgspec.json.decode(row.document),
        lease_seconds=lease,
        deadline_seconds=remaining,
        attempt_token=attempt_token(key, attempt, fence),
    )


def give_back(transaction: Transaction, delegate_id: str, items: Sequence[ReleaseItem]) -> list[tuple[str, ResultVerdict, str]]:
    """Takes attempts back that never began. A document that this delegate can't read waits a little for another delegate."""
    rows = hold_attempts(transaction, [item.attempt_id for item in items])
    answers = []
    for item in items:
        row = rows.get(item.attempt_id)
        if row is not None and row.delegate_id == delegate_id and row.fence == item.fence and row.state == AttemptState.RELEASED:
            answers.append((item.attempt_id, ResultVerdict.ACCEPTED, "it was given back before"))
            continue
        mine = row is not None and row.delegate_id == delegate_id and row.fence == item.fence and has_authority(standing_of(row))
        if row is None or not mine:
            answers.append((item.attempt_id, ResultVerdict.LEASE_LOST, "the attempt is not this delegate's any more"))
            continue
        reason = f"given back: {item.reason}" + (f" ({item.message[:500]})" if item.message else "")
        wait = 0.0 if item.reason == ReleaseReason.DRAINING else transaction.rhythm.requeue_base_seconds
        take_back_attempts(transaction, [Loss(row.id, reason)], AttemptState.RELEASED, wait)
        answers.append((item.attempt_id, ResultVerdict.ACCEPTED, ""))
    return answers
