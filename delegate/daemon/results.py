"""From a task's result to what the outbox keeps: large ones in a short form beside the whole, and with the task where nobody will try
it again."""

import asyncio
import hashlib

import msgspec

from delegate.daemon.connection.journal import Kept
from delegate.daemon.connection.outbox import Outbox
from delegate.daemon.connection.shortening import shorten
from delegate.foundation.clocks import SYSTEM_CLOCK
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, TaskResult
from delegate.protocol import codec
from delegate.protocol.blobs import INLINE_BYTES, BlobReference
from delegate.protocol.work import LeasedTask, ResultItem

_MANY = 500
"""A result with more resources is prepared in a thread, so that the loop goes on meanwhile."""
_FEW = 8
"""One with no more is encoded in one go: its lists are short, and a piece at a time costs ten times as much."""


async def keep_result(outbox: Outbox, leased: LeasedTask, result: TaskResult) -> None:
    """Returns when the result is on disk; waits as long as the disk refuses."""
    if len(result.resources) > _MANY:
        document, digest = await asyncio.to_thread(_prepare, result)
    else:
        document, digest = _prepare(result)
    blob: BlobReference | None = None
    if not digest:
        blob = await outbox.keep_large(lambda: codec.canonical_pieces(document))
        digest, document = blob.sha256, shorten(document, blob)
    item = ResultItem(
        attempt_id=leased.attempt_id,
        task_id=leased.task_id,
        fence=leased.fence,
        attempt_token=leased.attempt_token,
        digest=digest,
        result=document,
        blob=blob,
    )
    await outbox.keep(
        Kept(
            item,
            kind=leased.kind,
            application=leased.application,
            outcome=result.outcome.value,
            kept_at=SYSTEM_CLOCK.now().isoformat(timespec="seconds"),
            tries=leased.attempt_number,
            task=leased.document if is_exhausted(result) else None,
        )
    )


def is_exhausted(result: TaskResult) -> bool:
    """Whether the task failed for a reason that may pass, after every try that it was allowed."""
    ended_badly = result.outcome in (Outcome.FAILED, Outcome.TIMED_OUT)
    return ended_badly and result.error is not None and result.error.retryable


def _prepare(result: TaskResult) -> tuple[JsonObject, str]:
    """The document, and its digest unless it is too large to be sent as a whole."""
    document: JsonObject = msgspec.to_builtins(result)
    if len(result.resources) <= _FEW:
        whole = codec.canonical(document)
        return document, hashlib.sha256(whole).hexdigest() if len(whole) <= INLINE_BYTES else ""
    digest, size = hashlib.sha256(), 0
    for piece in codec.canonical_pieces(document):
        digest.update(piece)
        size += len(piece)
        if size > INLINE_BYTES:
            return document, ""
    return document, digest.hexdigest()
