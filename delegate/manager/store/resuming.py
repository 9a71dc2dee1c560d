"""Telling a running task that what it pauses for is over."""

import sqlalchemy as sa

from delegate.manager.attempts import TaskState
from delegate.manager.errors import ConflictError, NotFoundError
from delegate.manager.store.commanding import Ordered, command, is_commanded
from delegate.manager.store.histories import Entry, record
from delegate.manager.store.queueing import hold_tasks
from delegate.manager.store.tables import attempts, tasks
from delegate.manager.store.transactions import Row, Transaction
from delegate.model.tasks import TaskKind
from delegate.protocol.control import CommandKind

_TASK = (
    sa.select(tasks.c.kind, tasks.c.state, tasks.c.outcome, tasks.c.stop, tasks.c.attempt_id, attempts.c.delegate_id)
    .outerjoin(attempts, attempts.c.id == tasks.c.attempt_id)
    .where(tasks.c.id == sa.bindparam("id"))
)


def resume_task(transaction: Transaction, task_id: str, actor: str) -> None:
    """Has the delegate of a running canary told to go on. Said again before it was told, it is the same word.

    It counts for the attempt that runs now, and there for the pause or hold that the canary stands at. Raises NotFoundError, ConflictError.
    """
    hold_tasks(transaction, [task_id])
    task = transaction.row(_TASK, id=task_id)
    if task is None:
        raise NotFoundError(f"there is no task {task_id}", hint="delegate task list shows the tasks")
    _refuse(task_id, task)
    if not is_commanded(transaction, task.attempt_id, CommandKind.RESUME):
        command(transaction, [Ordered(task.delegate_id, task.attempt_id, CommandKind.RESUME)])
        record(transaction, Entry(actor, "resume_requested", task_id, task.attempt_id))


def _refuse(task_id: str, task: Row) -> None:
    if task.kind != TaskKind.CANARY:
        raise ConflictError(f"task {task_id} is a {task.kind}, which never pauses", hint="canaries do, at steps that say so")
    if task.state == TaskState.FINISHED:
        raise ConflictError(f"task {task_id} has ended: {task.outcome}", hint="submit it again to begin anew")
    if task.state != TaskState.RUNNING:
        raise ConflictError(f"task {task_id} is {task.state}; only a running one pauses", hint="delegate task show says why it waits")
    if task.stop:
        raise ConflictError(f"task {task_id} is being stopped ({task.stop})", hint="submit it again to begin anew")
