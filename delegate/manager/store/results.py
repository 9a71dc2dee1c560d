"""Results: accepted once, from the attempt that has the authority, and never again."""

import hmac
from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.attempts import AttemptState, judge_result
from delegate.manager.identifiers import attempt_token
from delegate.manager.store.blobs import is_complete
from delegate.manager.store.histories import Entry, record
from delegate.manager.store.queueing import (
    AttemptEnd,
    Ending,
    Requeueing,
    end_attempts,
    finish_tasks,
    promote,
    requeue_tasks,
    stop_outcome,
)
from delegate.manager.store.standings import describe_loss, goes_on, hold_attempts, standing_of
from delegate.manager.store.tables import delegates, results
from delegate.manager.store.transactions import Row, Transaction
from delegate.model.results import Outcome
from delegate.protocol.codec import result_digest
from delegate.protocol.messages import known
from delegate.protocol.work import ResultDecision, ResultItem, ResultVerdict

_INSERT = sa.insert(results)
_REVOKED = sa.select(delegates.c.id).where(delegates.c.id.in_(sa.bindparam("ids", expanding=True)), delegates.c.revoked_at.is_not(None))


class _Accepted(msgspec.Struct, frozen=True):
    item: ResultItem
    row: Row
    outcome: Outcome
    message: str


def accept_results(transaction: Transaction, items: Sequence[ResultItem], key: bytes) -> list[ResultDecision]:
    """A verdict for each result, in order. What is accepted is final in the same transaction, lock and queue included."""
    rows = hold_attempts(transaction, {item.attempt_id for item in items})
    revoked = _revoked(transaction, rows)
    decisions: list[ResultDecision] = []
    accepted: dict[str, _Accepted] = {}
    refused: list[Entry] = []
    ended: set[str] = set()
    for item in items:
        row = rows.get(item.attempt_id)
        if item.attempt_id in accepted and row is not None:  # twice in one array
            verdict = ResultVerdict.DUPLICATE if accepted[item.attempt_id].item.digest == item.digest else ResultVerdict.CONFLICT
            decisions.append(ResultDecision(attempt_id=item.attempt_id, verdict=verdict))
            continue
        verdict, words = _judge(transaction, item, row, key, revoked)
        if verdict is ResultVerdict.ACCEPTED and row is not None:
            if row.task_id in ended:
                verdict, words = ResultVerdict.LEASE_LOST, "another result of the task was accepted"
            else:
                accepted[item.attempt_id] = _read(item, row)
                ended.add(row.task_id)
        elif row is not None and verdict is not ResultVerdict.DUPLICATE:
            refused.append(Entry(row.delegate_id, "result_refused", row.task_id, row.id, {"verdict": verdict.value, "digest": item.digest}))
        decisions.append(ResultDecision(attempt_id=item.attempt_id, verdict=verdict.value, message=words))
    record(transaction, *refused)
    _store(transaction, list(accepted.values()))
    return decisions


def _revoked(transaction: Transaction, rows: dict[str, Row]) -> set[str]:
    ids = {row.delegate_id for row in rows.values()}
    return {row.id for row in transaction.rows(_REVOKED, ids=list(ids))} if ids else set()


def _judge(transaction: Transaction, item: ResultItem, row: Row | None, key: bytes, revoked: set[str]) -> tuple[ResultVerdict, str]:
    if row is None or row.task_id != item.task_id or row.fence != item.fence:
        return ResultVerdict.INVALID, "there is no such attempt"
    if not hmac.compare_digest(attempt_token(key, row.id, row.fence).encode(), item.attempt_token.encode()):
        return ResultVerdict.INVALID, "the attempt token does not fit"
    if row.delegate_id in revoked:
        return ResultVerdict.LEASE_LOST, "the delegate was revoked"
    if item.blob is not None:
        if item.blob.sha256 != item.digest or not is_complete(transaction, row.id, item.digest):
            return ResultVerdict.RETRY, "the whole of the result is not here yet"
    elif result_digest(item.result) != item.digest:
        return ResultVerdict.INVALID, "the digest is not that of the result"
    if not isinstance(item.result.get("outcome"), str):
        return ResultVerdict.INVALID, "a result says its outcome"
    standing = standing_of(row)
    verdict = judge_result(standing, known_digest=row.digest, digest=item.digest)
    if verdict is ResultVerdict.ACCEPTED and _token_expired(transaction, row):
        return ResultVerdict.LEASE_LOST, "the attempt token has expired"
    if verdict is ResultVerdict.LEASE_LOST:
        return verdict, describe_loss(row)
    if verdict is ResultVerdict.CONFLICT:
        return verdict, f"attempt {row.number} already reported another result"
    return verdict, ""


def _token_expired(transaction: Transaction, row: Row) -> bool:
    deadline = row.deadline_at if row.deadline_at is not None else row.started_at + row.timeout_seconds
    return bool(transaction.now > deadline + transaction.rhythm.attempt_token_seconds)


def _read(item: ResultItem, row: Row) -> _Accepted:
    """An outcome of a newer version counts as failed: it is no success that is known here."""
    outcome = known(Outcome, str(item.result.get("outcome")), Outcome.FAILED)
    return _Accepted(item, row, outcome, str(item.result.get("message") or "")[:4000])


def _store(transaction: Transaction, accepted: Sequence[_Accepted]) -> None:
    if not accepted:
        return
    transaction.execute_many(
        _INSERT,
        [
            {
                "attempt_id": each.row.id,
                "task_id": each.row.task_id,
                "received_at": transaction.now,
                "body": msgspec.json.encode(each.item.result).decode(),
            }
            for each in accepted
        ],
    )
    end_attempts(
        transaction,
        [AttemptEnd(each.row.id, AttemptState.FINISHED, outcome=each.outcome.value, digest=each.item.digest) for each in accepted],
    )
    record(
        transaction,
        *(
            Entry(
                each.row.delegate_id,
                "result_accepted",
                each.row.task_id,
                each.row.id,
                {"outcome": each.outcome.value, "fence": each.row.fence, "digest": each.item.digest},
            )
            for each in accepted
        ),
    )
    again = [each for each in accepted if each.outcome is Outcome.INTERRUPTED and goes_on(each.row)]
    final = [each for each in accepted if each not in again]
    requeue_tasks(
        transaction,
        [Requeueing(each.row.task_id, each.row.id, f"interrupted: {each.message}".rstrip(": "), transaction.now) for each in again],
    )
    finish_tasks(
        transaction,
        [
            Ending(
                each.row.task_id,
                each.row.kind,
                stop_outcome(each.row) if each.outcome is Outcome.INTERRUPTED else each.outcome.value,
                each.message,
                each.row.delegate_id,
                each.row.id,
            )
            for each in final
        ],
    )
    promote(transaction, [each.row.task_id for each in accepted])
