"""The work lane's way up: results from the outbox to the manager, until each has a final verdict.

No result stands in the way of another: each has its own verdict and its own next try, large ones travel apart from small ones, and a
batch that is refused as a whole is halved until the culprit is alone. A result is authorized by its attempt's token, so a session
is not waited for.

A result that the manager will never take leaves the outbox once it is kept as a dead letter, and not before. So does one that it took,
when the task itself is to be a dead letter. A large result goes ahead in pieces, and its short form follows; where that can't be, the
short form goes alone and the whole becomes a dead letter.
"""

import asyncio
import heapq
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import msgspec
import structlog

from delegate.daemon.connection.errors import (
    InvalidError,
    RefusalError,
    RevokedError,
    SupersededError,
    TooLargeError,
    TransportError,
    UnauthorizedError,
)
from delegate.daemon.connection.faults import Faults
from delegate.daemon.connection.journal import Kept
from delegate.daemon.connection.keeper import SessionKeeper
from delegate.daemon.connection.outbox import Outbox
from delegate.daemon.connection.sessions import new_request_id
from delegate.daemon.connection.shortening import shorten
from delegate.daemon.connection.transport import Transport
from delegate.daemon.connection.uploading import Read, Uploaded, Uploader
from delegate.daemon.connection.waits import Waits
from delegate.foundation.errors import DelegateError
from delegate.foundation.secrets import Secret
from delegate.protocol import codec, routes
from delegate.protocol.blobs import BlobReference
from delegate.protocol.messages import known
from delegate.protocol.work import ResultDecision, ResultItem, ResultsAnswer, ResultsRequest, ResultVerdict

log = structlog.get_logger(__name__)
_BATCH = 256
_BATCH_BYTES = 2**20
_LARGE_BYTES = 256 * 2**10
_SHORT_MEMBER_BYTES = 1024
_FIRST_RETRY_SECONDS = 1.0
_LAST_RETRY_SECONDS = 60.0
_LAST_BURIAL_SECONDS = 15.0
_NO_TOKEN = Secret("")


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """Why a result will never be taken. `too_large`: by the way to the manager; `error`: the refusal, where there was one of its own."""

    verdict: str
    message: str
    tries: int = 1
    too_large: bool = False
    error: DelegateError | None = None


class Reporter:
    """`run` for as long as results should be sent.

    `bury` keeps a result that will never be taken, `bury_task` the task of one that was taken; a DelegateError of either has the result
    stay in the outbox. `on_settled` hears of each that came to its end, with its verdict.
    """

    def __init__(
        self,
        outbox: Outbox,
        keeper: SessionKeeper,
        transport: Transport,
        faults: Faults,
        *,
        bury: Callable[[Kept, Rejection], Awaitable[None]],
        bury_task: Callable[[Kept], Awaitable[None]],
        on_settled: Callable[[str, str], None] = lambda attempt_id, verdict: None,
    ) -> None:
        self._outbox = outbox
        self._keeper = keeper
        self._transport = transport
        self._faults = faults
        self._bury = bury
        self._bury_task = bury_task
        self._uploader = Uploader(transport)
        self._on_settled = on_settled
        self._small: deque[str] = deque()
        self._large: deque[str] = deque()
        self._later: list[tuple[float, str]] = []
        self._tries: dict[str, int] = {}
        self._unburied: set[str] = set()
        self._wake = asyncio.Event()
        outbox.on_kept = self._enqueue

    async def run(self) -> None:
        self._small.clear()
        self._large.clear()
        self._later.clear()
        for attempt_id in self._outbox.unsent():
            self._enqueue(attempt_id)
        async with asyncio.TaskGroup() as lanes:
            lanes.create_task(self._send_from(self._small))
            lanes.create_task(self._send_from(self._large))

    async def wait_until_delivered(self, *, unreachable_seconds: float) -> bool:
        """Whether the outbox got empty; gives up when the manager has not been reachable for so long, or only dead results are left."""
        failing_since: float | None = None
        while self._outbox.entries > len(self._unburied):
            failing_since = (failing_since or time.monotonic()) if self._faults.is_failing(routes.RESULTS) else None
            if failing_since is not None and time.monotonic() - failing_since >= unreachable_seconds:
                return False
            await asyncio.sleep(0.02)
        return not self._outbox.entries

    def _enqueue(self, attempt_id: str) -> None:
        large = self._outbox.size_of(attempt_id) > _LARGE_BYTES
        (self._large if large else self._small).append(attempt_id)
        self._wake.set()

    async def _send_from(self, line: deque[str]) -> None:
        waits = Waits(0.25, 30.0, self._keeper.reconnect_schedule)
        while True:
            batch = await self._next_batch(line)
            try:
                await self._deliver(batch)
            except (TransportError, RefusalError) as error:
                if isinstance(error, RevokedError | SupersededError):
                    self._keeper.end(error)
                wait = waits.after(error)
                self._faults.failed(routes.RESULTS, error, wait)
                line.extendleft(reversed(batch))
                await asyncio.sleep(wait)
            else:
                self._faults.worked(routes.RESULTS)
                waits.reset()

    async def _next_batch(self, line: deque[str]) -> list[str]:
        while True:
            self._wake.clear()
            self._bring_forward()
            if line:
                return self._cut_batch(line)
            next_at = self._later[0][0] if self._later else None
            try:
                async with asyncio.timeout_at(next_at):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def _bring_forward(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._later and self._later[0][0] <= now:
            self._enqueue(heapq.heappop(self._later)[1])

    def _cut_batch(self, line: deque[str]) -> list[str]:
        batch: list[str] = []
        size = 0
        while line and len(batch) < _BATCH:
            size += self._outbox.size_of(line[0])
            if batch and size > _BATCH_BYTES:
                break
            batch.append(line.popleft())
        return batch

    async def _deliver(self, batch: Sequence[str]) -> None:
        """Has every result of the batch settled or put off. Raises what concerns none of them in particular."""
        items = await self._outbox.load(batch)
        for item in items:
            if item.blob is not None:
                await self._deliver_large(item, item.blob, self._reader(item.blob))
        items = [item for item in items if item.blob is None]
        if not items:
            return
        try:
            answer = await self._post(items)
        except (TooLargeError, InvalidError, TransportError) as error:
            if not _is_about_the_content(error):
                raise
            await self._deliver_apart(items, error)
            return
        decisions = {decision.attempt_id: decision for decision in answer.results}
        for item in items:
            await self._settle(item, decisions.get(item.attempt_id))

    async def _deliver_apart(self, items: list[ResultItem], error: TransportError | RefusalError) -> None:
        if len(items) > 1:
            middle = len(items) // 2
            await self._deliver([item.attempt_id for item in items[:middle]])
            await self._deliver([item.attempt_id for item in items[middle:]])
            return
        if isinstance(error, InvalidError):
            await self._reject_for(items[0].attempt_id, error)
            return
        log.warning("result.sent_in_pieces", attempt=items[0].attempt_id, error=str(error))
        whole = b"".join(codec.canonical_pieces(items[0].result))
        blob = BlobReference(sha256=items[0].digest, size=len(whole))

        async def read(offset: int, size: int) -> bytes:
            return whole[offset : offset + size]

        short = shorten(items[0].result, blob, member_bytes=_SHORT_MEMBER_BYTES)
        await self._deliver_large(msgspec.structs.replace(items[0], result=short), blob, read)

    async def _deliver_large(self, item: ResultItem, blob: BlobReference, read: Read) -> None:
        """Has the whole go ahead and the short form (`item`) follow; or the short form alone, and the whole become a dead letter."""
        arrived = await self._uploader.upload(item, blob, read) is Uploaded.WHOLE
        if arrived:
            item = msgspec.structs.replace(item, blob=blob, digest=blob.sha256)
        else:
            item = msgspec.structs.replace(item, blob=None, digest=codec.result_digest(item.result))
        try:
            answer = await self._post([item])
        except (TooLargeError, InvalidError, TransportError) as error:
            if not _is_about_the_content(error):
                raise
            await self._reject_for(item.attempt_id, error)
            return
        decision = next((each for each in answer.results if each.attempt_id == item.attempt_id), None)
        if arrived or decision is None or decision.verdict not in (ResultVerdict.ACCEPTED, ResultVerdict.DUPLICATE):
            await self._settle(item, decision)
            return
        words = f"its short form was taken; the whole of {blob.size} bytes is too large for the manager, or for the way there"
        await self._reject(item.attempt_id, Rejection(verdict=decision.verdict, message=words, too_large=True))

    def _reader(self, blob: BlobReference) -> Read:
        async def read(offset: int, size: int) -> bytes:
            try:
                return await self._outbox.read_large(blob.sha256, offset, size)
            except OSError as error:
                log.error("outbox.large_result_unreadable", sha256=blob.sha256, error=str(error))
                return b""

        return read

    async def _post(self, items: list[ResultItem]) -> ResultsAnswer:
        session = self._keeper.current
        request_id = new_request_id()
        try:
            return await self._post_as(items, request_id, session.token if session else _NO_TOKEN, session.epoch if session else 0)
        except UnauthorizedError:
            if session is None:
                raise
            session = await self._keeper.renewed(session)
            return await self._post_as(items, request_id, session.token, session.epoch)

    async def _post_as(self, items: list[ResultItem], request_id: str, token: Secret, epoch: int) -> ResultsAnswer:
        request = ResultsRequest(request_id=request_id, epoch=epoch, results=tuple(items))
        return await self._transport.call(routes.RESULTS, request, ResultsAnswer, token=token)

    async def _settle(self, item: ResultItem, decision: ResultDecision | None) -> None:
        verdict = known(ResultVerdict, decision.verdict, ResultVerdict.RETRY) if decision else ResultVerdict.RETRY
        message = decision.message if decision else ""
        match verdict:
            case ResultVerdict.ACCEPTED | ResultVerdict.DUPLICATE:
                if self._outbox.has_task(item.attempt_id):
                    await self._settle_with_task(item.attempt_id, verdict)
                else:
                    self._settled(item.attempt_id, verdict)
            case ResultVerdict.LEASE_LOST | ResultVerdict.CONFLICT | ResultVerdict.INVALID:
                await self._reject(item.attempt_id, Rejection(verdict=verdict, message=message))
            case ResultVerdict.RETRY:
                self._put_off(item.attempt_id, message)

    async def _settle_with_task(self, attempt_id: str, verdict: ResultVerdict) -> None:
        try:
            for record in await self._outbox.load_records([attempt_id]):
                await self._bury_task(record)
        except DelegateError as error:
            self._keep_unburied(attempt_id, error, "its task has to become a dead letter first")
            return
        self._settled(attempt_id, verdict)

    async def _reject_for(self, attempt_id: str, error: TransportError | RefusalError) -> None:
        too_large = not isinstance(error, InvalidError)
        await self._reject(attempt_id, Rejection(verdict=ResultVerdict.INVALID, message=str(error), too_large=too_large, error=error))

    async def _reject(self, attempt_id: str, rejection: Rejection) -> None:
        tries = self._tries.get(attempt_id, 0) + 1
        log.warning("result.rejected", attempt=attempt_id, verdict=str(rejection.verdict), message=rejection.message)
        try:
            for record in await self._outbox.load_records([attempt_id]):
                await self._bury(await self._outbox.load_whole(record), replace(rejection, tries=tries))
        except DelegateError as error:
            self._keep_unburied(attempt_id, error, rejection.message)
            return
        self._settled(attempt_id, rejection.verdict)

    def _keep_unburied(self, attempt_id: str, error: DelegateError, message: str) -> None:
        log.warning("result.not_buried", attempt=attempt_id, error=str(error), hint=error.hint)
        self._unburied.add(attempt_id)
        self._put_off(attempt_id, message, longest_seconds=_LAST_BURIAL_SECONDS)

    def _settled(self, attempt_id: str, verdict: str) -> None:
        self._tries.pop(attempt_id, None)
        self._unburied.discard(attempt_id)
        self._outbox.settle(attempt_id)
        self._on_settled(attempt_id, verdict)

    def _put_off(self, attempt_id: str, message: str, *, longest_seconds: float = _LAST_RETRY_SECONDS) -> None:
        tries = self._tries[attempt_id] = self._tries.get(attempt_id, 0) + 1
        wait = min(longest_seconds, _FIRST_RETRY_SECONDS * 2.0 ** min(tries - 1, 10))
        log.info("result.put_off", attempt=attempt_id, message=message, retry_in_seconds=wait)
        heapq.heappush(self._later, (asyncio.get_running_loop().time() + wait, attempt_id))
        self._wake.set()


def _is_about_the_content(error: TransportError | RefusalError) -> bool:
    """Whether the same bytes would meet the same answer again; a proxy on the way has a limit of its own."""
    if isinstance(error, TransportError):
        return error.facts.get("status") == 413
    return isinstance(error, TooLargeError | InvalidError) and error.status not in (404,)
