"""What is not kept for ever: finished tasks with all that belongs to them, letters of the index, and blobs that nobody reported."""

import sqlalchemy as sa

from delegate.manager.store.blobs import forget_abandoned, forget_blobs
from delegate.manager.store.tables import attempts, dead_letters, events, history, redriven, results, tasks
from delegate.manager.store.transactions import Transaction

_PAGE = 100  # of one commit: others wait for it
_LETTERS_PAGE = 1000
_FINISHED = (
    sa.select(tasks.c.id)
    .where(sa.text("tasks.state = 'finished'"), tasks.c.finished_at < sa.bindparam("before"))
    .order_by(tasks.c.finished_at)
    .limit(sa.bindparam("limit"))
)
_OLDEST = sa.select(tasks.c.id).where(sa.text("tasks.state = 'finished'")).order_by(tasks.c.finished_at).limit(sa.bindparam("limit"))
_COUNT = sa.select(sa.func.count()).select_from(tasks).where(sa.text("tasks.state = 'finished'"))
_ATTEMPTS = sa.select(attempts.c.id).where(attempts.c.task_id.in_(sa.bindparam("ids", expanding=True)))
_DELETIONS = tuple(
    sa.delete(table).where(column.in_(sa.bindparam("ids", expanding=True)))
    for table, column in (
        (events, events.c.task_id),
        (history, history.c.task_id),
        (results, results.c.task_id),
        (attempts, attempts.c.task_id),
        (redriven, redriven.c.task_id),
        (tasks, tasks.c.id),
    )
)
_LETTERS = (
    sa.select(dead_letters.c.sequence)
    .where(dead_letters.c.indexed_at < sa.bindparam("before"))
    .order_by(dead_letters.c.sequence)
    .limit(_LETTERS_PAGE)
)
_SURPLUS_LETTERS = sa.select(dead_letters.c.sequence).order_by(dead_letters.c.sequence).limit(sa.bindparam("limit"))
_COUNT_LETTERS = sa.select(sa.func.count()).select_from(dead_letters)
_FORGET_LETTERS = sa.delete(dead_letters).where(dead_letters.c.sequence.in_(sa.bindparam("sequences", expanding=True)))


def forget_old(transaction: Transaction) -> bool:
    """Forgets a page of what is too old or too much. Whether there may be more."""
    went = forget_tasks(transaction)
    letters = _forget_letters(transaction)
    blobs = forget_abandoned(transaction)
    return went >= _PAGE or letters >= _LETTERS_PAGE or bool(blobs)


def forget_tasks(transaction: Transaction) -> int:
    """Forgets the oldest of the finished tasks that are beyond the age or the number that is kept. How many."""
    rhythm = transaction.rhythm
    ids = [row.id for row in transaction.rows(_FINISHED, before=transaction.now - rhythm.keep_tasks_seconds, limit=_PAGE)]
    surplus = int(transaction.scalar(_COUNT)) - rhythm.keep_tasks
    if not ids and surplus > 0:
        ids = [row.id for row in transaction.rows(_OLDEST, limit=min(surplus, _PAGE))]
    if ids:
        forget_blobs(transaction, [row.id for row in transaction.rows(_ATTEMPTS, ids=ids)])
        for deletion in _DELETIONS:
            transaction.execute(deletion, ids=ids)
    return len(ids)


def _forget_letters(transaction: Transaction) -> int:
    rhythm = transaction.rhythm
    sequences = [row.sequence for row in transaction.rows(_LETTERS, before=transaction.now - rhythm.keep_letters_seconds)]
    surplus = int(transaction.scalar(_COUNT_LETTERS)) - rhythm.keep_letters
    if not sequences and surplus > 0:
        sequences = [row.sequence for row in transaction.rows(_SURPLUS_LETTERS, limit=min(surplus, _LETTERS_PAGE))]
    if sequences:
        transaction.execute(_FORGET_LETTERS, sequences=sequences)
    return len(sequences)
