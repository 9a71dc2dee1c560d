"""Dead letters, wired: where they are kept, who moves them, and how results and tasks that nobody takes become some.

What is given here is safe on disk when the call returns; when it raises, whoever gave it still has to keep it: a result stays in the
outbox, a task with the manager. A task that can't be read comes again and again while no other delegate takes it; it becomes a
letter once in the life of a process.
"""

import asyncio
import datetime as dt
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
import structlog

from delegate.daemon.connection.journal import Kept
from delegate.daemon.connection.reporter import Rejection
from delegate.daemon.connection.shortening import shorten
from delegate.daemon.connection.trust import tls_context
from delegate.daemon.deadletters.bucket import Bucket
from delegate.daemon.deadletters.courier import Courier, CourierHooks, CourierRules, StoredLetter
from delegate.daemon.deadletters.errors import LetterTooLargeError, SpoolUnusableError
from delegate.daemon.deadletters.letter import Addressed, Letter, Reason, Writer, error_chain
from delegate.daemon.deadletters.letterbox import DeadLetters
from delegate.daemon.deadletters.spool import SpoolLimits
from delegate.foundation.clocks import SYSTEM_CLOCK
from delegate.foundation.errors import DelegateError
from delegate.foundation.settings.programs import DelegateSettings
from delegate.foundation.settings.proxies import ProxyRules
from delegate.foundation.telemetry.metrics import DelegateMetrics
from delegate.model.resources import JsonObject
from delegate.model.results import ErrorDetail
from delegate.protocol import codec
from delegate.protocol.blobs import BlobReference
from delegate.protocol.codec import UndecodableTask
from delegate.protocol.letters import LetterNotice

log = structlog.get_logger(__name__)
_WRITE_SECONDS = 30.0
_SEND_SECONDS = 30.0
_UNUSABLE_SECONDS = 3.0
_REMEMBERED_TASKS = 1_000
_SHORT_MEMBER_BYTES = 4 * 1024


class Mailroom:
    """`open`, then `run` as a part that outlives the work, then `send_rest`, end `run`, and `close`. Made in the loop that uses it.

    `tell` tells the manager of a letter; a DelegateError of it has that told again later.
    """

    def __init__(self, settings: DelegateSettings, metrics: DelegateMetrics, rules: CourierRules) -> None:
        """Raises BucketSettingError."""
        spool, network = settings.dead_letters, settings.network
        self._letters = DeadLetters(
            spool.directory,
            limits=SpoolLimits(bytes=spool.max_bytes),
            on_put=metrics.record_dead_letter,
            on_given_up=lambda reason: metrics.record_dead_letter_ending("given_up"),
        )
        bucket = Bucket.of_settings(
            spool, proxy_for=ProxyRules.from_settings(network).address_for, tls=lambda: tls_context(network.ssl_cert_file)
        )
        self.tell: Callable[[LetterNotice], Awaitable[None]] = _nobody_is_told
        hooks = CourierHooks(on_stored=self._tell, on_ending=metrics.record_dead_letter_ending)
        self._courier = Courier(self._letters, bucket, rules=rules, hooks=hooks)
        self._writer = Writer(delegate=settings.identity.name)
        self._written_tasks: OrderedDict[str, None] = OrderedDict()
        metrics.watch(metrics.dlq_spool_entries, lambda: self._letters.entries)
        metrics.watch(metrics.dlq_spool_bytes, lambda: self._letters.stored_bytes)

    def open(self) -> None:
        """Takes over what earlier processes left. Blocks. Raises SpoolUnusableError that names the directory and the setting."""
        self._letters.open()

    async def run(self) -> None:
        """The courier; without a bucket it only looks whether there is room again."""
        await self._courier.run()

    def is_full(self) -> str:
        """Why no further task should be taken; empty while there is room. For any thread."""
        return self._letters.is_full()

    async def keep_result(self, kept: Kept, rejection: Rejection) -> None:
        """A result that the manager will never take; its short form, with size and digest of the whole, where the whole spool is too small
        for it. Raises DeadLetterError."""
        try:
            await self._put_result(kept, kept.item.result, rejection)
        except LetterTooLargeError as error:
            whole = await asyncio.to_thread(_measure, kept.item.result)
            log.error("dead_letters.result_shortened", attempt=kept.item.attempt_id, bytes=whole.size, error=str(error), hint=error.hint)
            await self._put_result(kept, shorten(kept.item.result, whole, member_bytes=_SHORT_MEMBER_BYTES), rejection)

    async def _put_result(self, kept: Kept, result: JsonObject, rejection: Rejection) -> None:
        item = kept.item
        await self._put(
            self._writer.of_result(
                result,
                Reason.PAYLOAD_TOO_LARGE if rejection.too_large else Reason.of_verdict(rejection.verdict),
                Addressed(task=item.task_id, attempt=item.attempt_id, fence=item.fence, kind=kept.kind, application=kept.application),
                created=_time(kept.kept_at),
                message=rejection.message,
                errors=error_chain(rejection.error) if rejection.error is not None else (),
                attempts=rejection.tries,
            )
        )

    async def keep_exhausted(self, kept: Kept) -> None:
        """The task of a result that failed for a reason which may pass, and is not tried any more. Raises DeadLetterError."""
        item = kept.item
        if kept.task is None:
            return
        about = Addressed(task=item.task_id, attempt=item.attempt_id, fence=item.fence, kind=kept.kind, application=kept.application)
        letter = self._writer.of_task(
            msgspec.json.encode(kept.task),
            Reason.RETRIES_EXHAUSTED,
            about,
            created=_time(kept.kept_at),
            message=str(item.result.get("message") or ""),
            errors=_errors_of(item.result),
            attempts=kept.tries,
        )
        try:
            await self._put(msgspec.structs.replace(letter, outcome=kept.outcome, cluster=str(item.result.get("cluster") or "")))
        except LetterTooLargeError as error:  # it never will fit, and the manager has both the task and its result
            log.error("dead_letters.task_too_large", task=item.task_id, attempt=item.attempt_id, error=str(error), hint=error.hint)

    async def keep_task(self, task: UndecodableTask) -> None:
        """A task that this delegate can't read, by the bytes that came. Where it can't be kept it stays the manager's alone."""
        if task.task_id and task.task_id in self._written_tasks:
            return
        about = Addressed(task=task.task_id, attempt=task.attempt_id, fence=task.fence)
        letter = self._writer.of_task(task.raw, Reason.UNDECODABLE, about, created=SYSTEM_CLOCK.now(), message=task.reason)
        try:
            await self._put(letter)
        except DelegateError as error:
            log.warning("dead_letters.task_not_kept", task=task.task_id, attempt=task.attempt_id, error=str(error), hint=error.hint)
            return
        self._written_tasks[task.task_id] = None
        if len(self._written_tasks) > _REMEMBERED_TASKS:
            self._written_tasks.popitem(last=False)

    async def send_rest(self, until: float, hurried: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Waits until the bucket has every letter, for a pod's disk goes with it: to this loop time, but 5 to 30 s, and not in a hurry."""
        now = asyncio.get_running_loop().time()
        waits = [
            asyncio.ensure_future(self._courier.wait_until_sent(unusable_seconds=_UNUSABLE_SECONDS)),
            asyncio.ensure_future(hurried()),
        ]
        try:
            timeout = min(max(until - now, 5.0), _SEND_SECONDS)
            await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        if self._letters.entries:
            log.warning("dead_letters.left_on_disk", letters=self._letters.entries, directory=str(self._letters.directory))

    async def close(self) -> None:
        await self._letters.close()

    async def _tell(self, stored: StoredLetter) -> None:
        notice = _notice_of(stored)
        if notice is not None:
            await self.tell(notice)

    async def _put(self, letter: Letter) -> None:
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                await self._letters.put(letter)
        except TimeoutError as error:
            raise SpoolUnusableError(
                f"the dead-letter spool {self._letters.directory} did not take a letter within {_WRITE_SECONDS:g} s",
                hint="check the disk under it, or set DELEGATE_DLQ_DIR to another",
            ) from error


async def _nobody_is_told(notice: LetterNotice) -> None:
    pass


def _notice_of(stored: StoredLetter) -> LetterNotice | None:
    """What the manager is told of a letter; of one in pieces once, by the first."""
    letter = stored.letter
    if letter.part is not None and letter.part.number != 1:
        return None
    error = letter.errors[0] if letter.errors else None
    return LetterNotice(
        id=letter.part.letter if letter.part is not None else stored.id,
        reason=letter.reason,
        created=letter.created.isoformat(),
        message=letter.message,
        error_code=error.code if error is not None else "",
        error_category=error.category if error is not None else "",
        task=letter.task,
        attempt=letter.attempt,
        kind=letter.kind,
        application=letter.application,
        cluster=letter.cluster,
        outcome=letter.outcome,
        attempts=letter.attempts,
        url=stored.url,
        sha256=stored.sha256,
        size=stored.size,
        masked=letter.redaction.masked,
    )


def _measure(result: JsonObject) -> BlobReference:
    digest, size = hashlib.sha256(), 0
    for piece in codec.canonical_pieces(result):
        digest.update(piece)
        size += len(piece)
    return BlobReference(sha256=digest.hexdigest(), size=size)


def _errors_of(result: JsonObject) -> tuple[ErrorDetail, ...]:
    try:
        return msgspec.convert(result.get("errors") or (), tuple[ErrorDetail, ...])
    except msgspec.ValidationError:  # a short form may have cut it
        return ()


def _time(text: str) -> dt.datetime:
    """Of a record; now where it has none."""
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        return SYSTEM_CLOCK.now()
    return time if time.tzinfo is not None else time.replace(tzinfo=dt.UTC)
