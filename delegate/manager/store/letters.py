"""The index of dead letters: what delegates keep, and what the manager itself gave up."""

import datetime as dt
from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.clocks import to_rfc3339
from delegate.manager.errors import InvalidError, NotFoundError
from delegate.manager.letter_views import LetterList, LetterView, PurgeView
from delegate.manager.redrives import Candidate, why_not
from delegate.manager.store.histories import Entry, record
from delegate.manager.store.letter_rows import BLANK, LONGEST_WORDS, generations_of
from delegate.manager.store.sessions import check_session
from delegate.manager.store.tables import attempts, dead_letters, delegates, tasks
from delegate.manager.store.transactions import Row, Transaction
from delegate.protocol.letters import LetterNotice

_LONGEST_NAME = 300
_KNOWN = sa.select(dead_letters.c.id, dead_letters.c.delegate_id).where(dead_letters.c.id.in_(sa.bindparam("ids", expanding=True)))
_DELEGATE = sa.select(delegates.c.name).where(delegates.c.id == sa.bindparam("id"))
_OWN_TASKS = (
    sa.select(tasks.c.id, tasks.c.document, attempts.c.id.label("attempt"))
    .join(attempts, attempts.c.task_id == tasks.c.id)
    .where(attempts.c.id.in_(sa.bindparam("ids", expanding=True)), attempts.c.delegate_id == sa.bindparam("delegate"))
)
_INSERT = sa.insert(dead_letters)
_STORED = (
    sa.update(dead_letters)
    .where(dead_letters.c.id == sa.bindparam("letter"), dead_letters.c.delegate_id == sa.bindparam("owner"))
    .values(url=sa.bindparam("to_url"), sha256=sa.bindparam("to_sha256"), size=sa.bindparam("to_size"))
)
LETTERS = sa.select(dead_letters, tasks.c.state.label("task_state")).outerjoin(tasks, tasks.c.id == dead_letters.c.task_id)
_ONE = LETTERS.where(dead_letters.c.id == sa.bindparam("id"))


class LetterSelection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which letters: those that fit all that is given. `reason` and `id` may be several, with commas; an empty `state` means all of
    them; `olderThanSeconds` is the least age."""

    id: str = ""
    reason: str = ""
    application: str = ""
    task: str = ""
    kind: str = ""
    delegate: str = ""
    cluster: str = ""
    error_code: str = ""
    error_category: str = ""
    state: str = "open"
    older_than_seconds: float = 0.0

    def conditions(self, now: float) -> list[sa.ColumnElement[bool]]:
        column = dead_letters.c
        plain = (
            (column.application, self.application),
            (column.task_id, self.task),
            (column.kind, self.kind),
            (column.delegate, self.delegate),
            (column.cluster, self.cluster),
            (column.error_code, self.error_code),
            (column.error_category, self.error_category),
            (column.state, self.state),
        )
        found = [each == value for each, value in plain if value]
        found += [each.in_(value.split(",")) for each, value in ((column.id, self.id), (column.reason, self.reason)) if value]
        if self.older_than_seconds > 0:
            found.append(column.written_at <= now - self.older_than_seconds)
        return found


class LetterQuery(LetterSelection, frozen=True, kw_only=True, rename="camel"):
    limit: int = 50
    continue_: str = msgspec.field(default="", name="continue")


def index_letters(transaction: Transaction, delegate_id: str, epoch: int, notices: Sequence[LetterNotice]) -> int:
    """Takes note of letters that a delegate keeps; told again, it learns where they are stored. How many were new."""
    check_session(transaction, delegate_id, epoch)
    transaction.hold_keys([f"letters/{delegate_id}"])  # a call that is repeated while the first is under way adds nothing
    by_id = {notice.id: notice for notice in notices if notice.id}
    known = {row.id: row.delegate_id for row in transaction.rows(_KNOWN, ids=list(by_id))} if by_id else {}
    transaction.execute_many(
        _STORED,
        [
            {
                "letter": each.id,
                "owner": delegate_id,
                "to_url": each.url[:LONGEST_WORDS],
                "to_sha256": each.sha256[:64],
                "to_size": each.size,
            }
            for each in by_id.values()
            if each.id in known and each.url
        ],
    )
    fresh = [each for each in by_id.values() if each.id not in known]
    if fresh:
        name = str(transaction.scalar(_DELEGATE, id=delegate_id) or "")
        own = {row.attempt: row for row in transaction.rows(_OWN_TASKS, ids=[each.attempt for each in fresh], delegate=delegate_id)}
        generations = generations_of(transaction, [each.task for each in fresh])
        transaction.execute_many(
            _INSERT,
            [_row(transaction, each, delegate_id=delegate_id, name=name, own=own, generations=generations) for each in fresh],
        )
    return len(fresh)


def list_letters(transaction: Transaction, wanted: LetterQuery) -> LetterList:
    """A page of letters, the oldest first. Raises InvalidError for a `continue` that isn't one."""
    limit = max(1, min(wanted.limit, transaction.limits.page_size))
    statement = LETTERS.where(*wanted.conditions(transaction.now)).order_by(dead_letters.c.sequence).limit(limit + 1)
    if wanted.continue_:
        if not wanted.continue_.isdecimal() or len(wanted.continue_) > 18:
            raise InvalidError("continue: this is none of the values that were given out", hint="leave it out to begin anew")
        statement = statement.where(dead_letters.c.sequence > int(wanted.continue_))
    rows = transaction.rows(statement)
    more = str(rows[limit - 1].sequence) if len(rows) > limit else ""
    return LetterList(items=tuple(view_letter(row) for row in rows[:limit]), continue_=more)


def show_letter(transaction: Transaction, letter_id: str) -> LetterView:
    row = transaction.row(_ONE, id=letter_id)
    if row is None:
        raise NotFoundError(f"there is no dead letter {letter_id}", hint="delegate dlq list --manager shows those that are known")
    return view_letter(row)


def purge_letters(transaction: Transaction, selection: LetterSelection, actor: str, *, dry_run: bool) -> PurgeView:
    """Takes letters out of the index; the objects of the bucket stay."""
    conditions = selection.conditions(transaction.now)
    count = int(transaction.scalar(sa.select(sa.func.count()).select_from(dead_letters).where(*conditions)))
    if count and not dry_run:
        transaction.execute(sa.delete(dead_letters).where(*conditions))
        record(transaction, Entry(actor, "letters_purged", detail={"letters": count, "filter": msgspec.to_builtins(selection)}))
    return PurgeView(letters=count, dry_run=dry_run)


def count_open(transaction: Transaction) -> int:
    """Letters that nobody sent round or purged; counting ends at 10,000, for it is done all the time."""
    return int(transaction.scalar(_OPEN))


def view_letter(row: Row) -> LetterView:
    refusal = why_not(candidate_of(row)) if row.state == "open" else f"is_{row.state}"
    return LetterView(
        id=row.id,
        reason=row.reason,
        state=row.state,
        message=row.message,
        delegate=row.delegate,
        error_code=row.error_code,
        error_category=row.error_category,
        task=row.task_id,
        attempt=row.attempt_id,
        kind=row.kind,
        application=row.application,
        cluster=row.cluster,
        outcome=row.outcome,
        attempts=row.attempts,
        written_at=to_rfc3339(row.written_at),
        indexed_at=to_rfc3339(row.indexed_at),
        url=row.url,
        sha256=row.sha256,
        size=row.size,
        masked=row.masked,
        redrives=row.generation,
        redriven_as=row.redriven_as,
        not_redrivable=refusal,
    )


def candidate_of(row: Row) -> Candidate:
    """What decides about sending a letter round again; of a row of `LETTERS`."""
    return Candidate(reason=row.reason, generation=row.generation, has_document=row.document is not None, task_state=row.task_state or "")


_OPEN = sa.select(sa.func.count()).select_from(
    sa.select(dead_letters.c.sequence).where(sa.text("dead_letters.state = 'open'")).limit(10_000).subquery()
)


def _row(
    transaction: Transaction, notice: LetterNotice, *, delegate_id: str, name: str, own: Mapping[str, Row], generations: Mapping[str, int]
) -> dict[str, object]:
    # A letter speaks for a task only where the delegate had it in hand.
    task = own.get(notice.attempt)
    mine = task is not None and task.id == notice.task
    names = ("reason", "error_code", "error_category", "kind", "application", "cluster", "outcome")
    return {
        **BLANK,
        **{each: str(getattr(notice, each))[:_LONGEST_NAME] for each in names},
        "id": notice.id[:_LONGEST_NAME],
        "delegate_id": delegate_id,
        "delegate": name,
        "message": notice.message[:LONGEST_WORDS],
        "task_id": notice.task[:_LONGEST_NAME],
        "attempt_id": notice.attempt[:_LONGEST_NAME],
        "attempts": notice.attempts,
        "written_at": _written_at(notice.created, transaction.now),
        "indexed_at": transaction.now,
        "url": notice.url[:LONGEST_WORDS],
        "sha256": notice.sha256[:64],
        "size": notice.size,
        "masked": notice.masked,
        "document": task.document if mine and task is not None else None,
        "generation": generations.get(notice.task, 0),
    }


def _written_at(created: str, now: float) -> float:
    try:
        time = dt.datetime.fromisoformat(created)
    except ValueError:
        return now
    return time.timestamp() if time.tzinfo is not None else now
