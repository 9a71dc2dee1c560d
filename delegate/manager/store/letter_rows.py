"""Rows of the index of dead letters: what they have in common, and those that the manager itself writes."""

import hashlib
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from delegate.manager.store.tables import dead_letters, redriven, tasks
from delegate.manager.store.transactions import Transaction

LONGEST_WORDS = 2000
BLANK: dict[str, object] = {
    "delegate_id": "",
    "delegate": "",
    "url": "",
    "sha256": "",
    "masked": 0,
    "state": "open",
    "redriven_as": "",
}
_INSERT = sa.insert(dead_letters)
_TASKS = sa.select(tasks).where(tasks.c.id.in_(sa.bindparam("ids", expanding=True)))
_GENERATIONS = sa.select(redriven.c.task_id, redriven.c.generation).where(redriven.c.task_id.in_(sa.bindparam("ids", expanding=True)))


def generations_of(transaction: Transaction, task_ids: Sequence[str]) -> dict[str, int]:
    """How many redrives led to each of these tasks."""
    return {row.task_id: int(row.generation) for row in transaction.rows(_GENERATIONS, ids=list(task_ids))}


def index_given_up(transaction: Transaction, given_up: Mapping[str, tuple[str, str]]) -> None:
    """Takes note of tasks that the manager gave up: by id, their last attempt and how that one was lost."""
    if not given_up:
        return
    generations = generations_of(transaction, list(given_up))
    rows = []
    for task in transaction.rows(_TASKS, ids=list(given_up)):
        attempt, reason = given_up[task.id]
        words = f"given up after {task.requeues + 1} attempts that lost their delegate; the last one: {reason}"
        digest = hashlib.sha256(f"given up/{attempt}".encode()).hexdigest()
        rows.append(
            {
                **BLANK,
                "id": digest[:32],
                "reason": "retries_exhausted",
                "message": words[:LONGEST_WORDS],
                "error_code": "manager.delegates_lost",
                "error_category": "dependency",
                "task_id": task.id,
                "attempt_id": attempt,
                "kind": task.kind,
                "application": task.application,
                "cluster": task.cluster_uid or "",
                "outcome": "failed",
                "attempts": task.begun,
                "written_at": transaction.now,
                "indexed_at": transaction.now,
                "document": task.document,
                "size": len(task.document.encode()),
                "generation": generations.get(task.id, 0),
            }
        )
    transaction.execute_many(_INSERT, rows)
