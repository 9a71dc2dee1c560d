"""Results that are too large for one call: received in pieces, checked against their digest, and given out again."""

import hashlib
from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.errors import ConflictError, InvalidError, NotFoundError, TooLargeError
from delegate.manager.store.standings import find_attempts
from delegate.manager.store.tables import blob_pieces, blobs, results
from delegate.manager.store.transactions import Row, Transaction
from delegate.protocol.blobs import LARGEST_PIECE_BYTES, BlobPieceRequest

_PAGE = 50
_BLOB = sa.select(blobs).where(blobs.c.attempt_id == sa.bindparam("attempt"))
_WHOLE = sa.select(blobs).where(blobs.c.sha256 == sa.bindparam("sha256"), blobs.c.complete).order_by(blobs.c.attempt_id).limit(1)
_STORED_BYTES = sa.select(sa.func.coalesce(sa.func.sum(blobs.c.received), 0))
_INSERT = sa.insert(blobs)
_PROGRESS = (
    sa.update(blobs)
    .where(blobs.c.attempt_id == sa.bindparam("attempt"))
    .values(received=sa.bindparam("to_received"), complete=sa.bindparam("to_complete"), touched_at=sa.bindparam("at"))
)
_INSERT_PIECE = sa.insert(blob_pieces)
_NEXT_PIECE = (
    sa.select(blob_pieces.c.offset, blob_pieces.c.data)
    .where(blob_pieces.c.attempt_id == sa.bindparam("attempt"), blob_pieces.c.offset >= sa.bindparam("from_offset"))
    .order_by(blob_pieces.c.offset)
    .limit(1)
)
_FORGET = sa.delete(blobs).where(blobs.c.attempt_id.in_(sa.bindparam("ids", expanding=True)))
_FORGET_PIECES = sa.delete(blob_pieces).where(blob_pieces.c.attempt_id.in_(sa.bindparam("ids", expanding=True)))
_ABANDONED = (
    sa.select(blobs.c.attempt_id)
    .outerjoin(results, results.c.attempt_id == blobs.c.attempt_id)
    .where(blobs.c.touched_at < sa.bindparam("before"), results.c.attempt_id.is_(None))
    .limit(_PAGE)
)


class Received(msgspec.Struct, frozen=True):
    received: int
    complete: bool


def receive_piece(transaction: Transaction, piece: BlobPieceRequest) -> Received:
    """Keeps a piece that goes on where the last one ended; any other only learns where that is.

    Raises TooLargeError beyond the limit of one result or of all, InvalidError for what can't be or is not what its digest says.
    """
    limits = transaction.limits
    if not 0 < piece.size <= limits.blob_bytes:
        raise TooLargeError(f"a result of {piece.size} bytes is over the limit of {limits.blob_bytes}")
    if len(piece.data) > LARGEST_PIECE_BYTES or not 0 <= piece.offset <= piece.offset + len(piece.data) <= piece.size:
        raise InvalidError(f"no piece of {piece.size} bytes: {len(piece.data)} at {piece.offset}")
    transaction.hold_keys([f"blob/{piece.attempt_id}"])
    row = transaction.row(_BLOB, attempt=piece.attempt_id)
    if row is not None and (row.sha256, row.size) != (piece.sha256, piece.size):
        if row.complete:
            raise ConflictError("this attempt has sent another result")
        forget_blobs(transaction, [piece.attempt_id])
        row = None
    if row is None:
        _begin(transaction, piece)
    received, complete = (0, False) if row is None else (int(row.received), bool(row.complete))
    if complete or piece.offset != received or not piece.data:
        return Received(received, complete)
    if int(transaction.scalar(_STORED_BYTES)) + len(piece.data) > limits.all_blob_bytes:
        raise TooLargeError(f"the manager keeps no more than {limits.all_blob_bytes} bytes of large results")
    transaction.execute(_INSERT_PIECE, attempt_id=piece.attempt_id, offset=received, data=piece.data)
    received += len(piece.data)
    if received == piece.size and _digest(transaction, piece.attempt_id) != piece.sha256:
        forget_blobs(transaction, [piece.attempt_id])
        return Received(0, False)
    complete = received == piece.size
    transaction.execute(_PROGRESS, attempt=piece.attempt_id, to_received=received, to_complete=complete, at=transaction.now)
    return Received(received, complete)


def is_complete(transaction: Transaction, attempt_id: str, sha256: str) -> bool:
    row = transaction.row(_BLOB, attempt=attempt_id)
    return row is not None and bool(row.complete) and row.sha256 == sha256


def find_blob(transaction: Transaction, sha256: str) -> Row:
    """Raises NotFoundError."""
    row = transaction.row(_WHOLE, sha256=sha256)
    if row is None:
        raise NotFoundError(f"there is no blob {sha256[:80]}", hint="it goes with its task when that is too old to be kept")
    return row


def read_piece(transaction: Transaction, attempt_id: str, offset: int) -> bytes:
    """The piece that begins here; empty where there is none."""
    row = transaction.row(_NEXT_PIECE, attempt=attempt_id, from_offset=offset)
    return bytes(row.data) if row is not None and row.offset == offset else b""


def forget_blobs(transaction: Transaction, attempt_ids: Sequence[str]) -> None:
    if attempt_ids:
        transaction.execute(_FORGET, ids=list(attempt_ids))
        transaction.execute(_FORGET_PIECES, ids=list(attempt_ids))


def forget_abandoned(transaction: Transaction) -> int:
    """Blobs whose result never followed. How many went; there may be more."""
    before = transaction.now - transaction.rhythm.attempt_token_seconds
    ids = [row.attempt_id for row in transaction.rows(_ABANDONED, before=before)]
    forget_blobs(transaction, ids)
    return len(ids)


def _begin(transaction: Transaction, piece: BlobPieceRequest) -> None:
    attempt = find_attempts(transaction, [piece.attempt_id]).get(piece.attempt_id)
    if attempt is None or attempt.task_id != piece.task_id or attempt.fence != piece.fence:
        raise InvalidError("there is no such attempt")
    transaction.execute(
        _INSERT,
        attempt_id=piece.attempt_id,
        task_id=piece.task_id,
        sha256=piece.sha256,
        size=piece.size,
        received=0,
        complete=False,
        touched_at=transaction.now,
    )


def _digest(transaction: Transaction, attempt_id: str) -> str:
    digest = hashlib.sha256()
    offset = 0
    while data := read_piece(transaction, attempt_id, offset):
        digest.update(data)
        offset += len(data)
    return digest.hexdigest()
