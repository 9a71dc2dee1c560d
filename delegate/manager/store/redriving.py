"""Redriving dead letters: one at a time, at a rate, each letter once; all of it in the store, so that it outlives the manager."""

from collections import Counter

import msgspec
import sqlalchemy as sa

from delegate.foundation.errors import DelegateError
from delegate.manager.clocks import to_rfc3339
from delegate.manager.errors import ConflictError, NotFoundError
from delegate.manager.identifiers import new_id
from delegate.manager.letter_views import RedriveList, RedriveView
from delegate.manager.redrives import Candidate, Pace, why_not
from delegate.manager.store.histories import Entry, record
from delegate.manager.store.letters import LETTERS, LetterSelection, candidate_of
from delegate.manager.store.submissions import Submission, submit_task
from delegate.manager.store.tables import dead_letters, redriven, redrives, tasks
from delegate.manager.store.transactions import Row, Transaction
from delegate.model.tasks import read_task

_BATCH = 25  # of one commit: others wait for it
_DECISIVE = (
    dead_letters.c.state,
    dead_letters.c.reason,
    dead_letters.c.generation,
    dead_letters.c.document.is_not(None).label("has_document"),
    tasks.c.state.label("task_state"),
)
_ALIKE = (
    sa.select(*_DECISIVE, sa.func.count().label("number"))
    .select_from(dead_letters.outerjoin(tasks, tasks.c.id == dead_letters.c.task_id))
    .group_by(*_DECISIVE)
)
"""How many letters there are of each kind that is decided about alike."""
_RUNNING = sa.select(redrives).where(sa.text("redrives.state = 'running'"))
_CLAIM = _RUNNING.with_for_update(skip_locked=True)
_ONE = sa.select(redrives).where(redrives.c.id == sa.bindparam("id"))
_HOLD = _ONE.with_for_update()
_LATEST = sa.select(redrives).order_by(redrives.c.started_at.desc()).limit(sa.bindparam("limit"))
_INSERT = sa.insert(redrives)
_LAST = sa.select(sa.func.max(dead_letters.c.sequence))
_ADVANCE = (
    sa.update(redrives)
    .where(redrives.c.id == sa.bindparam("redrive"))
    .values(
        cursor=sa.bindparam("to_cursor"),
        moved=sa.bindparam("to_moved"),
        skipped=sa.bindparam("to_skipped"),
        paced_at=sa.bindparam("to_paced_at"),
    )
)
_END = (
    sa.update(redrives)
    .where(redrives.c.id == sa.bindparam("redrive"))
    .values(state=sa.bindparam("to_state"), ended_at=sa.bindparam("at"), ended_by=sa.bindparam("by"))
)
_REDRIVEN = sa.insert(redriven)
_MARK = (
    sa.update(dead_letters).where(dead_letters.c.id == sa.bindparam("letter")).values(state="redriven", redriven_as=sa.bindparam("as_task"))
)


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be sent round: letters that fit, at most `rate` a second."""

    selection: LetterSelection
    rate: float
    actor: str


def try_redrive(transaction: Transaction, order: Order) -> RedriveView:
    """What a redrive would do, and does not."""
    skipped: Counter[str] = Counter()
    moved = 0
    for row in transaction.rows(_ALIKE.where(*order.selection.conditions(transaction.now))):
        candidate = Candidate(
            reason=row.reason, generation=row.generation, has_document=bool(row.has_document), task_state=row.task_state or ""
        )
        refusal = why_not(candidate) if row.state == "open" else f"is_{row.state}"
        if refusal:
            skipped[refusal] += int(row.number)
        else:
            moved += int(row.number)
    return RedriveView(state="dry_run", total=moved + skipped.total(), moved=moved, skipped=dict(skipped), rate=order.rate)


def start_redrive(transaction: Transaction, order: Order) -> RedriveView:
    """Begins one. Raises ConflictError that names the one under way."""
    transaction.hold_keys(["redrives"])
    active = transaction.row(_RUNNING)
    if active is not None:
        raise ConflictError(
            f"redrive {active.id} of {active.actor} is under way", hint=f"wait for it, or `delegate dlq redrive --cancel {active.id}`"
        )
    counted = sa.select(sa.func.count()).select_from(dead_letters).where(*order.selection.conditions(transaction.now))
    redrive_id = new_id()
    transaction.execute(
        _INSERT,
        id=redrive_id,
        state="running",
        filter=msgspec.json.encode(order.selection).decode(),
        rate=order.rate,
        actor=order.actor,
        started_at=transaction.now,
        ended_by="",
        paced_at=transaction.now,
        cursor=0,
        last=int(transaction.scalar(_LAST) or 0),
        total=int(transaction.scalar(counted)),
        moved=0,
        skipped="{}",
    )
    detail = {"redrive": redrive_id, "rate": order.rate, "filter": msgspec.to_builtins(order.selection)}
    record(transaction, Entry(order.actor, "redrive_started", detail=detail))
    return show_redrive(transaction, redrive_id)


def cancel_redrive(transaction: Transaction, redrive_id: str, actor: str) -> RedriveView:
    """Ends it; what was moved stays moved. Said again, it does nothing."""
    row = transaction.row(_HOLD, id=redrive_id)
    if row is None:
        raise _unknown(redrive_id)
    if row.state == "running":
        _end(transaction, row, "cancelled", actor, moved=row.moved, skipped=row.skipped)
    return show_redrive(transaction, redrive_id)


def show_redrive(transaction: Transaction, redrive_id: str) -> RedriveView:
    row = transaction.row(_ONE, id=redrive_id)
    if row is None:
        raise _unknown(redrive_id)
    return _view(row)


def list_redrives(transaction: Transaction) -> RedriveList:
    return RedriveList(items=tuple(_view(row) for row in transaction.rows(_LATEST, limit=transaction.limits.page_size)))


def advance(transaction: Transaction) -> bool:
    """Sends some letters of the redrive that is under way round again. Whether there is one that this manager may go on with."""
    row = transaction.row(_CLAIM)
    if row is None:
        return False
    pace = Pace(row.rate, row.paced_at)
    allowed = min(_BATCH, pace.allows(transaction.now))
    if allowed:
        selection = msgspec.json.decode(row.filter, type=LetterSelection)
        letters = transaction.rows(
            LETTERS.where(dead_letters.c.sequence > row.cursor, dead_letters.c.sequence <= row.last, *selection.conditions(row.started_at))
            .order_by(dead_letters.c.sequence)
            .limit(allowed)
        )
        skipped: Counter[str] = Counter(msgspec.json.decode(row.skipped))
        moved = 0
        for letter in letters:
            refusal = _redrive(transaction, row, letter)
            skipped.update([refusal] if refusal else [])
            moved += not refusal
        transaction.execute(
            _ADVANCE,
            redrive=row.id,
            to_cursor=letters[-1].sequence if letters else row.last,
            to_moved=row.moved + moved,
            to_skipped=msgspec.json.encode(skipped).decode(),
            to_paced_at=pace.after(len(letters), transaction.now).used_until,
        )
        if len(letters) < allowed:
            _end(transaction, row, "finished", row.actor, moved=row.moved + moved, skipped=msgspec.json.encode(skipped).decode())
    return True


def _redrive(transaction: Transaction, redrive: Row, letter: Row) -> str:
    """Queues what a letter is about as a new task that names the old one. Why not, else nothing."""
    refusal = why_not(candidate_of(letter))
    if refusal:
        return refusal
    try:
        task = read_task(msgspec.json.decode(letter.document))
        key = f"redrive/{redrive.id}/{letter.id}"
        task_id = submit_task(transaction, Submission(task=task, submitter=redrive.actor, key=key, retry_of=letter.task_id))
    except DelegateError as error:
        return error.code
    generation = letter.generation + 1
    transaction.execute(_REDRIVEN, letter_id=letter.id, redrive_id=redrive.id, task_id=task_id, generation=generation, at=transaction.now)
    transaction.execute(_MARK, letter=letter.id, as_task=task_id)
    detail: dict[str, object] = {"letter": letter.id, "redrive": redrive.id, "of": letter.task_id, "redrives": generation}
    record(transaction, Entry(redrive.actor, "redriven", task_id, detail=detail))
    return ""


def _end(transaction: Transaction, row: Row, state: str, actor: str, *, moved: int, skipped: str) -> None:
    transaction.execute(_END, redrive=row.id, to_state=state, at=transaction.now, by=actor)
    detail = {"redrive": row.id, "moved": moved, "skipped": msgspec.json.decode(skipped)}
    record(transaction, Entry(actor, f"redrive_{state}", detail=detail))


def _unknown(redrive_id: str) -> NotFoundError:
    return NotFoundError(f"there is no redrive {redrive_id}", hint="delegate dlq redrive --list shows them")


def _view(row: Row) -> RedriveView:
    return RedriveView(
        id=row.id,
        state=row.state,
        total=row.total,
        moved=row.moved,
        skipped=msgspec.json.decode(row.skipped, type=dict[str, int]),
        rate=row.rate,
        started_by=row.actor,
        started_at=to_rfc3339(row.started_at),
        ended_at=to_rfc3339(row.ended_at),
        ended_by=row.ended_by,
    )
