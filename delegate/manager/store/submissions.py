"""Tasks coming in, being superseded, cancelled and tried again."""

import re

import msgspec
import sqlalchemy as sa

from delegate.manager.attempts import TaskState
from delegate.manager.concurrency import rollbacks_of
from delegate.manager.effects import ReadyTask
from delegate.manager.errors import ConflictError, InvalidError, NotFoundError
from delegate.manager.identifiers import new_id
from delegate.manager.selectors import show_labels, write_labels
from delegate.manager.store.destinations import Candidate, destination_of, find_clusters, lock_key, needs_cluster
from delegate.manager.store.flows import flow_of
from delegate.manager.store.histories import Entry, record
from delegate.manager.store.queueing import Ending, Stopping, finish_tasks, forsake_attempts, hold_tasks, promote, request_stops
from delegate.manager.store.tables import attempts, selectors, tasks
from delegate.manager.store.transactions import Row, Transaction
from delegate.model.tasks import Task, TaskKind, TaskSignature
from delegate.protocol.control import LeaseVerdict

_OCCUPANT = (sa.select(tasks.c.id).where(tasks.c.lock_key == sa.bindparam("key"), sa.text("tasks.state = 'queued'"))).union_all(
    sa.select(tasks.c.id).where(tasks.c.lock_key == sa.bindparam("key"), sa.text("tasks.state = 'running'"))
)
_BY_KEY = sa.select(tasks.c.id, tasks.c.document).where(tasks.c.submission_key == sa.bindparam("key"))
_SELECTOR = sa.select(selectors.c.id).where(selectors.c.labels == sa.bindparam("labels"))
_INSERT_SELECTOR = sa.insert(selectors)
_INSERT = sa.insert(tasks)
_TASK = sa.select(tasks).where(tasks.c.id == sa.bindparam("id"))
_DELEGATE_OF = sa.select(attempts.c.delegate_id).where(attempts.c.id == sa.bindparam("id"))
_OLDER = (
    sa.select(tasks.c.id, tasks.c.kind, tasks.c.state, tasks.c.stop, tasks.c.attempt_id, attempts.c.delegate_id)
    .outerjoin(attempts, attempts.c.id == tasks.c.attempt_id)
    .where(
        tasks.c.lock_key == sa.bindparam("key"),
        tasks.c.state != TaskState.FINISHED.value,
        tasks.c.sequence < sa.bindparam("sequence"),
    )
    .order_by(tasks.c.sequence)
)
_SEQUENCE = sa.select(tasks.c.sequence, tasks.c.lock_key, tasks.c.submitted_by).where(tasks.c.id == sa.bindparam("id"))


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """`key` makes a repeated submission the same one; it holds for one submitter alone."""

    task: Task
    submitter: str
    key: str = ""
    retry_of: str = ""


def submit_task(transaction: Transaction, submission: Submission) -> str:
    """The id of the task, durably queued once this is committed.

    Raises InvalidError where the destination fits several clusters, ConflictError where the key was used for another document.
    """
    task = submission.task
    document = msgspec.json.encode(task.document(), order="sorted").decode()
    key = f"{submission.submitter}/{submission.key}" if submission.key else None
    if key is not None:
        known = transaction.row(_BY_KEY, key=key)
        if known is not None:
            if known.document != document:
                raise ConflictError(f"this idempotency key was used for task {known.id}, which is another document", hint="use a new key")
            return str(known.id)
    cluster = _cluster_of(transaction, task)
    application_key = None if cluster is None else lock_key(task.application, cluster)
    first = application_key is not None and _is_free(transaction, application_key)
    task_id = new_id() if task.signature is None else _signed_id(transaction, task.signature)
    rank = transaction.now - task.priority * transaction.rhythm.ageing_seconds
    selector = _selector_id(transaction, task.selector)
    key_of_task = task.concurrency_key or (rollbacks_of(destination_of(task)) if task.kind is TaskKind.ROLLBACK else "")
    transaction.execute(
        _INSERT,
        id=task_id,
        kind=task.kind.value,
        application=task.application,
        environment=task.environment,
        destination=destination_of(task),
        cluster_uid=cluster,
        lock_key=application_key,
        selector_id=selector,
        priority=task.priority,
        rank=rank,
        timeout_seconds=task.timeout_seconds,
        supersedes=task.supersedes,
        document=document,
        state=TaskState.QUEUED.value,
        outcome="",
        message="",
        eligible=first,
        ready_at=transaction.now,
        fence=0,
        begun=0,
        requeues=0,
        stop="",
        stop_reason="",
        created_at=transaction.now,
        retry_of=submission.retry_of or None,
        submitted_by=submission.submitter,
        submission_key=key,
        flow_id=None if cluster is None else _flow_id(transaction, submission, cluster, selector),
        concurrency_key=key_of_task,
        quarantined=False,
    )
    detail: dict[str, object] = {"kind": task.kind.value, "application": task.application, "cluster": cluster, "rank": rank}
    if key_of_task or task.environment:
        detail |= {"environment": task.environment, "concurrencyKey": key_of_task}
    if submission.retry_of:
        detail["retryOf"] = submission.retry_of
    record(transaction, Entry(submission.submitter, "submitted", task_id, detail=detail))
    if first:
        transaction.effects.ready.append(ReadyTask(task.kind.value, cluster or "", task.selector))
    elif cluster is not None:
        if task.supersedes:
            supersede_older(transaction, task_id)
        promote(transaction, [task_id])
    return task_id


_ID = re.compile(r"[a-z0-9]([a-z0-9-]{6,62}[a-z0-9])?")


def _signed_id(transaction: Transaction, signature: TaskSignature) -> str:
    """The id that whoever signed the task gave it: with another one no delegate would take it. Whether the signature holds is for the
    delegates to say; their policy knows the keys."""
    if not _ID.fullmatch(signature.id):
        raise InvalidError("signature.id: this is no id", hint="use 8 to 64 lower-case letters, digits and hyphens")
    if transaction.row(_TASK, id=signature.id) is not None:
        raise ConflictError(f"the signed task {signature.id} was submitted before", hint="a signature is good for one task: sign it anew")
    return signature.id


def _is_free(transaction: Transaction, key: str) -> bool:
    """Whether the application has no task, so that a new one is the first; from now on nobody else decides about it."""
    transaction.hold_keys([key])
    return transaction.row(_OCCUPANT, key=key) is None


def _cluster_of(transaction: Transaction, task: Task) -> str | None:
    if not needs_cluster(task):
        return ""
    found = find_clusters(transaction, destination_of(task), task.selector)
    if len(found) > 1:
        raise _several(task, found)
    return found[0].uid if found else None


def _several(task: Task, found: list[Candidate]) -> InvalidError:
    name = destination_of(task)
    known = "; ".join(f"{each.name} with uid {each.uid} at delegate {each.delegate}" for each in found[:5])
    what = f"destination {name!r}" if name else "a task without a destination"
    among = f" among the delegates with {show_labels(task.selector)}" if task.selector else ""
    return InvalidError(
        f"{what} fits {len(found)} clusters{among}: {known}",
        hint="narrow it with a selector that only the delegates of one cluster meet",
        code="input.ambiguous_cluster",
    )


def _selector_id(transaction: Transaction, selector: dict[str, str]) -> int:
    labels = write_labels(selector)
    known = transaction.scalar(_SELECTOR, labels=labels)
    if known is None:
        transaction.execute(_INSERT_SELECTOR, labels=labels)
        known = transaction.scalar(_SELECTOR, labels=labels)
    return int(known)


def _flow_id(transaction: Transaction, submission: Submission, cluster: str, selector: int) -> int:
    task = submission.task
    return flow_of(
        transaction,
        kind=task.kind.value,
        cluster=cluster,
        selector=selector,
        submitter=submission.submitter,
        environment=task.environment,
        priority=task.priority,
    )


def supersede_older(transaction: Transaction, task_id: str) -> None:
    """Ends the older tasks of the same application and cluster: queued ones at once, a running one by its delegate."""
    newer = transaction.row(_SEQUENCE, id=task_id)
    assert newer is not None
    transaction.hold_keys([newer.lock_key])
    older = transaction.rows(_OLDER, key=newer.lock_key, sequence=newer.sequence)
    reason = f"superseded by task {task_id}"
    queued = [row for row in older if row.state == TaskState.QUEUED]
    finish_tasks(
        transaction,
        [Ending(row.id, row.kind, "superseded", reason, newer.submitted_by, row.attempt_id or "", superseded_by=task_id) for row in queued],
    )
    request_stops(
        transaction,
        [
            Stopping(row.id, row.attempt_id, row.delegate_id, LeaseVerdict.SUPERSEDED, reason, newer.submitted_by)
            for row in older
            if row.state == TaskState.RUNNING and not row.stop
        ],
    )
    forsake_attempts(transaction, [row.id for row in queued])


def cancel_task(transaction: Transaction, task_id: str, actor: str, reason: str) -> str:
    """What the cancellation does: `cancelled` at once, `cancel_requested` from the delegate, or `already_finished`."""
    hold_tasks(transaction, [task_id])
    task = _find(transaction, task_id)
    if task.state == TaskState.FINISHED:
        return "already_finished"
    words = f"cancelled by {actor}" + (f": {reason}" if reason else "")
    if task.state == TaskState.QUEUED:
        finish_tasks(transaction, [Ending(task.id, task.kind, "cancelled", words, actor, task.attempt_id or "")])
        forsake_attempts(transaction, [task.id])
        promote(transaction, [task.id])
        return "cancelled"
    if task.stop != LeaseVerdict.CANCEL:
        delegate = transaction.scalar(_DELEGATE_OF, id=task.attempt_id)
        request_stops(transaction, [Stopping(task.id, task.attempt_id, delegate, LeaseVerdict.CANCEL, words, actor)])
    return "cancel_requested"


def refuse_unroutable(transaction: Transaction, reasons: dict[str, str]) -> int:
    """Ends tasks that nobody could be handed, unless somebody was meanwhile. How many."""
    hold_tasks(transaction, reasons)
    rows = [row for task_id in reasons if (row := transaction.row(_TASK, id=task_id)) is not None]
    waiting = [row for row in rows if row.state == TaskState.QUEUED and row.begun == 0]
    finish_tasks(transaction, [Ending(row.id, row.kind, "refused", f"unroutable: {reasons[row.id]}") for row in waiting])
    promote(transaction, [row.id for row in waiting])
    return len(waiting)


def retry_task(transaction: Transaction, task_id: str, task: Task, submitter: str, key: str) -> str:
    """A new task with the document of a finished one, which it names. Raises ConflictError while that one is not finished."""
    old = _find(transaction, task_id)
    if old.state != TaskState.FINISHED:
        raise ConflictError(f"task {task_id} is {old.state}; only a finished one is tried again", hint="cancel it first, or wait")
    if task.signature is not None:
        raise ConflictError(f"task {task_id} is signed, and a signature is good for one task", hint="submit it anew, signed anew")
    return submit_task(transaction, Submission(task=task, submitter=submitter, key=key, retry_of=task_id))


def _find(transaction: Transaction, task_id: str) -> Row:
    task = transaction.row(_TASK, id=task_id)
    if task is None:
        raise NotFoundError(f"there is no task {task_id}", hint="delegate task list shows the tasks")
    return task
