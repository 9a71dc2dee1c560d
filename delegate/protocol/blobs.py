"""Results that are too large for one call go up as a blob before they are reported: in pieces, by digest.

A blob is the result's canonical bytes (`codec.canonical_pieces`), so its SHA-256 is the result's digest. It belongs to one attempt and
is authorized by that attempt's token. Pieces come in order; each answer says how much is there, so that an upload goes on where it
stopped, whatever was lost on the way. The result itself then follows in a short form that names the blob.
"""

import msgspec

from delegate.protocol.messages import Answer, Request

INLINE_BYTES = 2**20
"""Larger results go as blobs."""
PIECE_BYTES = 2**19
"""Of one call: with its base64, below what proxies take by default (1 MiB)."""
LARGEST_PIECE_BYTES = 4 * 2**20


class BlobPieceRequest(Request, frozen=True, kw_only=True):
    """`data` is base64 on the wire. With no data it only asks how much is there."""

    attempt_id: str
    task_id: str
    fence: int
    attempt_token: str
    sha256: str
    size: int
    offset: int
    data: bytes = b""


class BlobAnswer(Answer, frozen=True, kw_only=True):
    """`received`: bytes that are there, from the beginning on. `complete`: all, and their digest is right."""

    received: int
    complete: bool = False


class BlobReference(msgspec.Struct, frozen=True, rename="camel"):
    """In a result: where the whole of it is."""

    sha256: str
    size: int
