"""The order of the queue: which task of an application is the first, and which ones may be handed out.

At any time at most one task of a lock key (application and cluster) is running, and at most one queued task of a key whose
lock is free is `eligible`: the first by rank. Hand-outs look at eligible tasks alone, so that ten thousand tasks of one
application cost nothing to the others. A first task that waits for its next try holds back those behind it: a newer revision
must not be overtaken by an older one.
"""

from collections.abc import Iterable

import msgspec
import sqlalchemy as sa

from delegate.manager.attempts import REVIVABLE, STOP_OUTCOMES, AttemptState, TaskState
from delegate.manager.effects import ReadyTask
from delegate.manager.store.commanding import Ordered, command, forget_commands
from delegate.manager.store.flows import wake_freed
from delegate.manager.store.histories import MANAGER, Entry, record
from delegate.manager.store.tables import attempts, selectors, tasks
from delegate.manager.store.transactions import Row, Transaction
from delegate.protocol.control import CommandKind, LeaseVerdict

QUEUED = sa.text("tasks.state = 'queued'")
RUNNING = sa.text("tasks.state = 'running'")
# Literals, and not bound values: a partial index is used only where the statement itself implies its condition.


def _head_of_key() -> sa.Select[tuple[str, int | None, int | None, int | None]]:
    def first(condition: str, name: str) -> sa.ScalarSelect[int]:
        other = tasks.alias(name)
        statement = sa.select(other.c.sequence).where(other.c.lock_key == tasks.c.lock_key, sa.text(f"{name}.{condition}"))
        return statement.order_by(other.c.rank, other.c.sequence).limit(1).correlate(tasks).scalar_subquery()

    return (
        sa.select(
            tasks.c.lock_key,
            first("state = 'queued'", "waiting").label("head"),
            first("eligible", "current").label("eligible"),
            first("state = 'running'", "holder").label("running"),
        )
        .where(tasks.c.id.in_(sa.bindparam("ids", expanding=True)), tasks.c.lock_key.is_not(None))
        .distinct()
    )


_HEADS = _head_of_key()
_KEYS = sa.select(sa.func.coalesce(tasks.c.lock_key, tasks.c.id)).where(tasks.c.id.in_(sa.bindparam("ids", expanding=True)))
_SET_ELIGIBLE = sa.update(tasks).where(tasks.c.sequence.in_(sa.bindparam("sequences", expanding=True))).values(eligible=sa.bindparam("to"))
_READY = (
    sa.select(tasks.c.kind, tasks.c.cluster_uid, tasks.c.ready_at, selectors.c.labels)
    .join(selectors, selectors.c.id == tasks.c.selector_id)
    .where(tasks.c.sequence.in_(sa.bindparam("sequences", expanding=True)))
)
_FINISH = (
    sa.update(tasks)
    .where(tasks.c.id == sa.bindparam("task"))
    .values(
        state=TaskState.FINISHED.value,
        eligible=False,
        outcome=sa.bindparam("to_outcome"),
        message=sa.bindparam("to_message"),
        finished_at=sa.bindparam("at"),
        superseded_by=sa.bindparam("by"),
        quarantined=sa.bindparam("to_quarantined"),
    )
)
_REQUEUE = (
    sa.update(tasks)
    .where(tasks.c.id == sa.bindparam("task"))
    .values(
        state=TaskState.QUEUED.value,
        message=sa.bindparam("to_message"),
        ready_at=sa.bindparam("to_ready_at"),
        stop="",
        stop_reason="",
        stop_at=None,
        requeues=tasks.c.requeues + sa.bindparam("counted"),
        begun=tasks.c.begun - sa.bindparam("unbegun"),
        first_started_at=sa.case((tasks.c.begun <= sa.bindparam("unbegun"), None), else_=tasks.c.first_started_at),
        deadline_at=sa.case((tasks.c.begun <= sa.bindparam("unbegun"), None), else_=tasks.c.deadline_at),
    )
)
_END_ATTEMPT = (
    sa.update(attempts)
    .where(attempts.c.id == sa.bindparam("attempt"))
    .values(
        state=sa.bindparam("to_state"),
        ended_at=sa.bindparam("at"),
        outcome=sa.bindparam("to_outcome"),
        digest=sa.bindparam("to_digest"),
        reason=sa.bindparam("to_reason"),
    )
)
_FORSAKE = (
    sa.update(attempts)
    .where(attempts.c.task_id.in_(sa.bindparam("ids", expanding=True)), attempts.c.state.in_([state.value for state in REVIVABLE]))
    .values(state=AttemptState.LOST.value)
)
_STOP = (
    sa.update(tasks)
    .where(tasks.c.id == sa.bindparam("task"))
    .values(stop=sa.bindparam("to_stop"), stop_reason=sa.bindparam("to_reason"), stop_at=sa.bindparam("at"))
)


def promote(transaction: Transaction, task_ids: Iterable[str]) -> None:
    """Settles who is eligible for the keys of these tasks, after any of them changed its state."""
    ids = list(task_ids)
    if not ids:
        return
    wake_freed(transaction, ids)
    cleared, chosen = [], []
    for _, head, eligible, running in transaction.rows(_HEADS, ids=ids):
        wanted = None if running is not None else head
        if wanted == eligible:
            continue
        if eligible is not None:
            cleared.append(eligible)
        if wanted is not None:
            chosen.append(wanted)
    if cleared:
        transaction.execute(_SET_ELIGIBLE, sequences=cleared, to=False)
    if chosen:
        transaction.execute(_SET_ELIGIBLE, sequences=chosen, to=True)
        announce(transaction, chosen)


def announce(transaction: Transaction, sequences: list[int]) -> None:
    """Tells the dispatch of eligible tasks once this is committed."""
    for kind, cluster_uid, ready_at, labels in transaction.rows(_READY, sequences=sequences):
        transaction.effects.ready.append(ReadyTask(kind, cluster_uid or "", msgspec.json.decode(labels, type=dict[str, str]), ready_at))


def hold_tasks(transaction: Transaction, task_ids: Iterable[str]) -> bool:
    """Nobody else decides about the applications of these tasks until the end of the transaction.

    Whether what was read before has to be read again, because others may have decided meanwhile.
    """
    ids = list(task_ids)
    if not ids or transaction.alone:
        return False
    transaction.hold_keys(key for (key,) in transaction.rows(_KEYS, ids=ids))
    return True


class Ending(msgspec.Struct, frozen=True):
    """A task that becomes final."""

    task_id: str
    kind: str
    outcome: str
    message: str
    actor: str = MANAGER
    attempt_id: str = ""
    superseded_by: str | None = None
    quarantined: bool = False


def finish_tasks(transaction: Transaction, endings: list[Ending]) -> None:
    """Makes tasks final. The caller has seen that they are not, and promotes their keys afterwards."""
    transaction.execute_many(
        _FINISH,
        [
            {
                "task": each.task_id,
                "to_outcome": each.outcome,
                "to_message": each.message,
                "at": transaction.now,
                "by": each.superseded_by,
                "to_quarantined": each.quarantined,
            }
            for each in endings
        ],
    )
    record(
        transaction,
        *(
            Entry(each.actor, "finished", each.task_id, each.attempt_id, {"outcome": each.outcome, "message": each.message})
            for each in endings
        ),
    )
    transaction.effects.finished += [(each.kind, each.outcome) for each in endings]


class Requeueing(msgspec.Struct, frozen=True):
    """A task that goes back into the queue. `counted`: its delegate was lost. `begun`: the attempt had begun."""

    task_id: str
    attempt_id: str
    reason: str
    ready_at: float
    counted: bool = False
    begun: bool = True


def requeue_tasks(transaction: Transaction, requeueings: list[Requeueing]) -> None:
    """Puts tasks back into the queue; the caller promotes their keys afterwards."""
    transaction.execute_many(
        _REQUEUE,
        [
            {
                "task": each.task_id,
                "to_message": each.reason,
                "to_ready_at": each.ready_at,
                "counted": int(each.counted),
                "unbegun": int(not each.begun),
            }
            for each in requeueings
        ],
    )
    record(
        transaction,
        *(
            Entry(
                MANAGER,
                "requeued",
                each.task_id,
                each.attempt_id,
                {"reason": each.reason, "counted": each.counted, "readyAt": each.ready_at},
            )
            for each in requeueings
        ),
    )


class AttemptEnd(msgspec.Struct, frozen=True):
    attempt_id: str
    state: AttemptState
    reason: str = ""
    outcome: str = ""
    digest: str = ""


def end_attempts(transaction: Transaction, ends: list[AttemptEnd]) -> None:
    """Takes the authority of attempts away, and with it the commands that were meant for them."""
    if not ends:
        return
    transaction.execute_many(
        _END_ATTEMPT,
        [
            {
                "attempt": each.attempt_id,
                "to_state": each.state.value,
                "at": transaction.now,
                "to_outcome": each.outcome,
                "to_digest": each.digest,
                "to_reason": each.reason,
            }
            for each in ends
        ],
    )
    forget_commands(transaction, [each.attempt_id for each in ends])


def forsake_attempts(transaction: Transaction, task_ids: list[str]) -> None:
    """Attempts that might have come back to these tasks can't any more."""
    if task_ids:
        transaction.execute(_FORSAKE, ids=task_ids)


class Stopping(msgspec.Struct, frozen=True):
    """A running task that is to end, and the attempt that has to be told."""

    task_id: str
    attempt_id: str
    delegate_id: str
    verdict: LeaseVerdict
    reason: str
    actor: str = MANAGER


def request_stops(transaction: Transaction, stoppings: list[Stopping]) -> None:
    """Notes that running tasks are to end and commands their delegates to do it; heartbeats repeat the verdict."""
    transaction.execute_many(
        _STOP,
        [{"task": each.task_id, "to_stop": each.verdict.value, "to_reason": each.reason, "at": transaction.now} for each in stoppings],
    )
    orders = [
        Ordered(each.delegate_id, each.attempt_id, CommandKind.CANCEL, {"verdict": each.verdict.value, "reason": each.reason})
        for each in stoppings
    ]
    command(transaction, orders)
    record(
        transaction,
        *(
            Entry(each.actor, "stop_requested", each.task_id, each.attempt_id, {"verdict": each.verdict.value, "reason": each.reason})
            for each in stoppings
        ),
    )


def stop_outcome(task: Row) -> str:
    """How a task ends that was told to stop and whose attempt never said how it ended."""
    return STOP_OUTCOMES[LeaseVerdict(task.stop)]
