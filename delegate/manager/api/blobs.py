"""Large results: pieces come from delegates, the whole goes to operators."""

import hmac
import re
from collections.abc import AsyncIterator

import msgspec

from delegate.manager.api.calls import Access, Call, Nothing, Operation, Streamed
from delegate.manager.errors import InvalidError
from delegate.manager.identifiers import attempt_token
from delegate.manager.store import blobs
from delegate.manager.store.database import Database
from delegate.protocol import routes
from delegate.protocol.blobs import BlobAnswer, BlobPieceRequest

BLOBS = "/api/v1/blobs"
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


class ResultDocument(msgspec.Struct, frozen=True):
    """A whole result, as its delegate wrote it."""


async def receive(call: Call[BlobPieceRequest, Nothing]) -> BlobAnswer:
    """Takes a piece of a large result. Authorized by the attempt's token, so that the end of a session loses no result."""
    piece = call.body
    expected = attempt_token(call.services.attempt_key, piece.attempt_id, piece.fence)
    if not hmac.compare_digest(expected.encode(), piece.attempt_token.encode()):
        raise InvalidError("the attempt token does not fit")
    if not _DIGEST.fullmatch(piece.sha256):
        raise InvalidError("sha256 is 64 hexadecimal digits in lower case")
    received = await call.services.database.write(lambda tx: blobs.receive_piece(tx, piece))
    return BlobAnswer(request_id=piece.request_id, server_time=call.server_time(), received=received.received, complete=received.complete)


async def give(call: Call[Nothing, Nothing]) -> Streamed:
    """The bytes that have this SHA-256."""
    database, sha256 = call.services.database, call.path["sha256"]
    found = await database.read(lambda tx: blobs.find_blob(tx, sha256))
    return Streamed(int(found.size), _pieces(database, found.attempt_id, int(found.size)))


async def _pieces(database: Database, attempt_id: str, size: int) -> AsyncIterator[bytes]:
    offset = 0
    while offset < size:
        data = await database.read(lambda tx: blobs.read_piece(tx, attempt_id, offset))  # noqa: B023 - run before the next round
        if not data:
            return  # forgotten meanwhile: the answer breaks off before the length that it announced
        yield data
        offset += len(data)


OPERATIONS = (
    Operation(
        method="POST",
        path=routes.BLOBS,
        name="sendBlob",
        summary="Hands over a piece of a large result",
        access=Access.ATTEMPT,
        handler=receive,
        body=BlobPieceRequest,
        answer=BlobAnswer,
        refusals=(409,),
        tag="delegate",
    ),
    Operation(
        method="GET",
        path=BLOBS + "/{sha256}",
        name="getBlob",
        summary="Gives a large result",
        access=Access.ADMIN,
        handler=give,
        answer=ResultDocument,
        refusals=(404,),
        tag="tasks",
    ),
)
