"""Telling a running task that what it pauses for is over: the pause that is meant, and no other."""

import msgspec
import sqlalchemy as sa

from delegate.manager.attempts import TaskState
from delegate.manager.errors import ConflictError, NotFoundError
from delegate.manager.store.commanding import Ordered, command, find_commanded
from delegate.manager.store.histories import Entry, record
from delegate.manager.store.pauses import read_pause
from delegate.manager.store.queueing import hold_tasks
from delegate.manager.store.tables import attempts, delegates, history, tasks
from delegate.manager.store.transactions import Row, Transaction
from delegate.model.resources import JsonObject
from delegate.model.tasks import TaskKind
from delegate.protocol.control import CommandKind

_TASK = (
    sa.select(tasks.c.kind, tasks.c.state, tasks.c.outcome, tasks.c.stop, tasks.c.attempt_id)
    .add_columns(attempts.c.delegate_id, attempts.c.pause, delegates.c.features)
    .outerjoin(attempts, attempts.c.id == tasks.c.attempt_id)
    .outerjoin(delegates, delegates.c.id == attempts.c.delegate_id)
    .where(tasks.c.id == sa.bindparam("id"))
)
_OPERATION = "resume_requested"
_LAST = (
    sa.select(history.c.at, history.c.detail)
    .where(history.c.task_id == sa.bindparam("id"), history.c.operation == _OPERATION)
    .order_by(history.c.id.desc())
    .limit(1)
)
_FEATURE = "pauses"
_DOUBLE_SECONDS = 30.0
"""So soon after a resumption an unnamed one may be the same, said twice."""


class Said(msgspec.Struct, frozen=True):
    """The last resumption of a task: of which pause, and how long ago."""

    pause: int = 0
    ago: float = float("inf")


def resume_task(transaction: Transaction, task_id: str, actor: str, pause: int = 0) -> str:
    """Has the delegate of a running canary told to go on. `resume_requested`, or `already_resumed` where that pause is over.

    `pause` is the number that the task shows; 0: the one that it stands at now. Raises NotFoundError, ConflictError.
    """
    hold_tasks(transaction, [task_id])
    task = transaction.row(_TASK, id=task_id)
    if task is None:
        raise NotFoundError(f"there is no task {task_id}", hint="delegate task list shows the tasks")
    _refuse(task_id, task)
    if _FEATURE in (task.features or "").split(","):
        said = _said(transaction, task_id)
        pause = _meant(task_id, task, pause, said)
        if not pause:
            return "already_resumed"
    data: JsonObject = {"pause": pause} if pause else {}
    waiting = find_commanded(transaction, task.attempt_id, CommandKind.RESUME)
    if not any(each.get("pause", 0) == pause for each in waiting):
        command(transaction, [Ordered(task.delegate_id, task.attempt_id, CommandKind.RESUME, data)])
        record(transaction, Entry(actor, _OPERATION, task_id, task.attempt_id, data))
    return _OPERATION


def _refuse(task_id: str, task: Row) -> None:
    if task.kind != TaskKind.CANARY:
        raise ConflictError(f"task {task_id} is a {task.kind}, which never pauses", hint="canaries do, at steps that say so")
    if task.state == TaskState.FINISHED:
        raise ConflictError(f"task {task_id} has ended: {task.outcome}", hint="submit it again to begin anew")
    if task.state != TaskState.RUNNING:
        raise ConflictError(f"task {task_id} is {task.state}; only a running one pauses", hint="delegate task show says why it waits")
    if task.stop:
        raise ConflictError(f"task {task_id} is being stopped ({task.stop})", hint="submit it again to begin anew")


def _said(transaction: Transaction, task_id: str) -> Said:
    row = transaction.row(_LAST, id=task_id)
    if row is None:
        return Said()
    return Said(int(msgspec.json.decode(row.detail, type=JsonObject).get("pause", 0)), transaction.now - row.at)


def _meant(task_id: str, task: Row, wanted: int, said: Said) -> int:
    """The pause that is over; 0 where it was said of this one before, and the task has gone on. Raises ConflictError."""
    standing = read_pause(task.pause)
    if wanted and (standing is None or standing.number != wanted):
        if wanted <= said.pause:
            return 0
        where = f"it pauses for the time number {standing.number}" if standing is not None else "it doesn't pause now"
        raise ConflictError(f"task {task_id} doesn't stand at pause {wanted}: {where}", hint="delegate task show says where it stands")
    if standing is None:
        raise ConflictError(f"task {task_id} doesn't pause now", hint="delegate task show says where it stands; resume it when it pauses")
    if not wanted and said.pause and standing.number > said.pause and said.ago < _DOUBLE_SECONDS:
        raise ConflictError(
            f"task {task_id} was resumed {said.ago:.0f} s ago, and stands at the next pause, number {standing.number}",
            hint=f"if that one is meant: --pause {standing.number}",
        )
    return standing.number
