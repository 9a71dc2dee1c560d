"""Handing out: tasks to a delegate that asks with free slots, and back again before they began."""

import math
from collections import deque
from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.attempts import AttemptState, TaskState, has_authority
from delegate.manager.concurrency import Place
from delegate.manager.identifiers import attempt_id, attempt_token
from delegate.manager.selectors import matches, read_labels
from delegate.manager.store.flows import ELIGIBLE, allowance_of, find_open, note_served, place_of, read_limits
from delegate.manager.store.histories import Entry, record
from delegate.manager.store.losses import Loss, take_back_attempts
from delegate.manager.store.standings import hold_attempts, standing_of
from delegate.manager.store.tables import WINDS, attempts, selectors, tasks
from delegate.manager.store.transactions import Row, Transaction
from delegate.manager.turns import Flow, take_turns
from delegate.protocol.work import LeasedTask, ReleaseItem, ReleaseReason, ResultVerdict

SUSPECT = 2
"""Lost delegates after which a task runs with no other such task beside it (an index names the number too)."""
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
_COLUMNS = (
    tasks.c.sequence,
    tasks.c.id,
    tasks.c.kind,
    tasks.c.application,
    tasks.c.environment,
    tasks.c.cluster_uid,
    tasks.c.concurrency_key,
    tasks.c.lock_key,
    tasks.c.document,
    tasks.c.fence,
    tasks.c.begun,
    tasks.c.rank,
    tasks.c.timeout_seconds,
    tasks.c.deadline_at,
)
_MAY_BEGIN = (
    tasks.c.ready_at <= sa.bindparam("now"),
    # What has begun and takes back what it did is handed out for that also when its time is over.
    sa.or_(tasks.c.deadline_at.is_(None), tasks.c.deadline_at > sa.bindparam("now"), sa.and_(WINDS, tasks.c.begun > 0)),
    tasks.c.concurrency_key.not_in(sa.bindparam("full", expanding=True)),
)
_NEXT_OF_FLOW = (
    sa.select(*_COLUMNS)
    .where(
        ELIGIBLE,
        *_MAY_BEGIN,
        tasks.c.flow_id == sa.bindparam("flow"),
        tasks.c.requeues < SUSPECT,
        sa.tuple_(tasks.c.rank, tasks.c.sequence) > sa.tuple_(sa.bindparam("rank"), sa.bindparam("sequence")),
    )
    .order_by(tasks.c.rank, tasks.c.sequence)
    .limit(sa.bindparam("limit"))
    .with_for_update(skip_locked=True)
)
# The addition keeps SQLite from going by flow: there are few suspects, and many others.
_SUSPECTS = (
    sa.select(*_COLUMNS)
    .where(
        sa.text("tasks.eligible AND tasks.requeues >= 2"),
        *_MAY_BEGIN,
        (tasks.c.flow_id + sa.literal_column("0")).in_(sa.bindparam("flows", expanding=True)),
    )
    .order_by(tasks.c.rank, tasks.c.sequence)
    .limit(sa.bindparam("limit"))
    .with_for_update(skip_locked=True)
)
_SUSPECTS_HELD = (
    sa.select(sa.func.count())
    .select_from(attempts.join(tasks, tasks.c.id == attempts.c.task_id))
    .where(attempts.c.delegate_id == sa.bindparam("delegate"), sa.text("attempts.state = 'active'"), tasks.c.requeues >= SUSPECT)
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
                "pause": "",
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
            remaining=max(0.0, deadline - now),
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
    found = find_open(transaction, kinds=wanting.kinds, clusters=[*wanting.clusters, ""], selectors=met)
    if not found:
        return []
    choice = _Choice(transaction, wanting)
    flows = [Flow(row.id, row.priority, row.served_at, row.waiting_since) for row in found if choice.is_open(row)]
    alone = choice.take_suspect([flow.id for flow in flows])
    wanted = choice.most - len(alone)
    chunk = max(1, -(-wanted // max(1, len(flows))))
    taken, served = take_turns(
        flows,
        lambda flow: choice.next_of(flow.id, chunk),
        wanted=wanted,
        now=transaction.now,
        ageing_seconds=transaction.rhythm.ageing_seconds,
    )
    if len(flows) > 1:
        note_served(transaction, served)
    return [*alone, *taken]


class _Choice:
    """What one poll is handed, as it comes together: tasks of which nobody else decides now, and no more than limits allow."""

    def __init__(self, transaction: Transaction, wanting: Wanting) -> None:
        self._transaction = transaction
        self._wanting = wanting
        self._limits = read_limits(transaction)
        self._allowance = allowance_of(transaction, self._limits)
        self._buffers: dict[int, deque[Row]] = {}
        self._last: dict[int, tuple[float, int]] = {}
        self._held: set[str] = set()
        self._taken: list[Place] = []
        self._bytes = 0
        self._is_full = False
        self.most = min(wanting.free_slots, transaction.limits.batch_tasks)

    def is_open(self, flow: Row) -> bool:
        """Whether the limits of its environment and cluster leave anything."""
        return self._allowance.full(Place(flow.environment, flow.cluster_uid, "")) is None

    def take_suspect(self, flows: Sequence[int]) -> list[Row]:
        """One task that lost its delegate again and again, if there is one and the delegate has no other: whichever of them takes its
        delegate with it, the others are not lost with it any more."""
        rows = self._transaction.rows(_SUSPECTS, flows=list(flows), limit=1, **self._bounds())
        if not rows or self._transaction.scalar(_SUSPECTS_HELD, delegate=self._wanting.delegate_id):
            return []
        return [row for row in self._available(rows) if self._take(row)]

    def next_of(self, flow: int, chunk: int) -> Row | None:
        """The next task of a flow that may begin."""
        buffer = self._buffers.setdefault(flow, deque())
        while not self._is_full:
            while buffer and not self._is_full:
                row = buffer.popleft()
                if self._take(row):
                    return row
            rows = self._fetch(flow, chunk)
            if not rows:
                return None
            buffer.extend(self._available(rows))
        return None

    def _fetch(self, flow: int, chunk: int) -> Sequence[Row]:
        rank, sequence = self._last.get(flow, (-math.inf, 0))
        rows = self._transaction.rows(_NEXT_OF_FLOW, flow=flow, limit=chunk, rank=rank, sequence=sequence, **self._bounds())
        if rows:
            self._last[flow] = (rows[-1].rank, rows[-1].sequence)
        return rows

    def _bounds(self) -> dict[str, object]:
        return {"now": self._transaction.now, "full": self._allowance.full_keys}

    def _available(self, rows: Sequence[Row]) -> list[Row]:
        """Whoever holds the key of an application is about to say which of its tasks goes first: not this one, perhaps. And whoever
        holds a limit is about to use it."""
        if self._transaction.alone:
            return list(rows)
        wanted = {row.lock_key for row in rows} | {key.lock for row in rows for key in self._allowance.keys_of(place_of(row))}
        new = wanted - self._held
        self._held |= self._transaction.try_keys(new)
        if any(key.startswith("limit:") for key in new):
            self._recount()
        return [
            row
            for row in rows
            if row.lock_key in self._held and all(key.lock in self._held for key in self._allowance.keys_of(place_of(row)))
        ]

    def _recount(self) -> None:
        """Reads what runs again, now that nobody else can use these limits; what was chosen here counts too."""
        chosen = self._taken
        self._allowance = allowance_of(self._transaction, self._limits)
        for place in chosen:
            self._allowance.take(place)

    def _take(self, row: Row) -> bool:
        place = place_of(row)
        if self._allowance.full(place) is not None:
            return False
        self._bytes += len(row.document.encode())
        self._is_full = bool(self._taken) and self._bytes > self._transaction.limits.batch_bytes
        if self._is_full:
            return False  # the next poll gets it: one task always fits into an answer
        self._allowance.take(place)
        self._taken.append(place)
        return True


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
