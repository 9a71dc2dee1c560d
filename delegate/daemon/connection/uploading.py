"""Large results on their way up: in pieces, each acknowledged, from wherever the manager says that the last upload ended."""

import enum
from collections.abc import Awaitable, Callable

import structlog

from delegate.daemon.connection.errors import InvalidError, TooLargeError, TransportError
from delegate.daemon.connection.sessions import new_request_id
from delegate.daemon.connection.transport import Transport
from delegate.foundation.secrets import Secret
from delegate.protocol import routes
from delegate.protocol.blobs import PIECE_BYTES, BlobAnswer, BlobPieceRequest, BlobReference
from delegate.protocol.work import ResultItem

log = structlog.get_logger(__name__)
_SMALLEST_PIECE = 16 * 1024
_MOST_BEGINNINGS = 3
Read = Callable[[int, int], Awaitable[bytes]]
"""A piece of the whole: from this offset on, at most so many bytes."""


class Uploaded(enum.Enum):
    WHOLE = "whole"
    REFUSED = "refused"  # for good: too large for the manager, or for the way; or it takes no blobs


class Uploader:
    """Authorized by the attempt's own token, as its result is."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._piece_bytes = PIECE_BYTES

    async def upload(self, item: ResultItem, blob: BlobReference, read: Read) -> Uploaded:
        """Returns once the manager has all of it, or never will. Raises TransportError or a RefusalError of another kind: later, then."""
        offset, beginnings = 0, 0
        while True:
            data = await read(offset, self._piece_bytes)
            try:
                answer = await self._send(item, blob, offset, data)
            except (TooLargeError, InvalidError, TransportError) as error:
                if not _is_final(error):
                    raise
                if _is_too_large(error) and len(data) > _SMALLEST_PIECE and not isinstance(error, TooLargeError):
                    self._piece_bytes = max(_SMALLEST_PIECE, len(data) // 2)
                    log.info("result.pieces_made_smaller", bytes=self._piece_bytes, error=str(error))
                    continue
                log.warning("result.not_uploaded", attempt=item.attempt_id, bytes=blob.size, error=str(error))
                return Uploaded.REFUSED
            if answer.complete:
                return Uploaded.WHOLE
            offset = answer.received
            beginnings += offset == 0
            if beginnings >= _MOST_BEGINNINGS or offset >= blob.size:
                log.error("result.not_what_was_kept", attempt=item.attempt_id, sha256=blob.sha256)
                return Uploaded.REFUSED

    async def _send(self, item: ResultItem, blob: BlobReference, offset: int, data: bytes) -> BlobAnswer:
        request = BlobPieceRequest(
            request_id=new_request_id(),
            attempt_id=item.attempt_id,
            task_id=item.task_id,
            fence=item.fence,
            attempt_token=item.attempt_token,
            sha256=blob.sha256,
            size=blob.size,
            offset=offset,
            data=data,
        )
        return await self._transport.call(routes.BLOBS, request, BlobAnswer, token=Secret(""))


def _is_final(error: TooLargeError | InvalidError | TransportError) -> bool:
    return isinstance(error, TooLargeError | InvalidError) or _is_too_large(error)


def _is_too_large(error: Exception) -> bool:
    """By our own manager's word, or by that of whatever is on the way."""
    return isinstance(error, TooLargeError) or (isinstance(error, TransportError) and error.facts.get("status") == 413)
