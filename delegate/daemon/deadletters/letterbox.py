"""Dead letters as the rest of the daemon sees them: put one in, and ask whether there is room. The disk's work is done in a thread."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import structlog

from delegate.daemon.deadletters.disk import Disk
from delegate.daemon.deadletters.entries import Entry
from delegate.daemon.deadletters.errors import SpoolError
from delegate.daemon.deadletters.letter import Letter
from delegate.daemon.deadletters.sealing import PIECE_BYTES, seal
from delegate.daemon.deadletters.spool import Spool, SpoolLimits
from delegate.foundation.redaction import KNOWN_SECRETS, KnownSecrets

log = structlog.get_logger(__name__)
T = TypeVar("T")
_AT_ONCE = 16
"""Letters that are sealed or wait for it; whoever puts more waits, and keeps what it has."""


class DeadLetters:
    """`open` first, once, in the loop that uses it. `on_put` hears the reason of each letter that is new, `on_given_up` of each that
    made room for others: both for metrics. `why_kept` tells why letters are not leaving, for the words of `is_full`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        limits: SpoolLimits | None = None,
        known: KnownSecrets = KNOWN_SECRETS,
        piece_bytes: int = PIECE_BYTES,
        disk: Disk | None = None,
        on_put: Callable[[str], None] = lambda reason: None,
        on_given_up: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.on_added: Callable[[Entry], None] = lambda entry: None
        self.why_kept: Callable[[], str] = lambda: ""
        self._spool = Spool(directory, limits=limits, disk=disk)
        self._known = known
        self._piece_bytes = piece_bytes
        self._on_put = on_put
        self._on_given_up = on_given_up
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="dead-letters")
        self._places = asyncio.Semaphore(_AT_ONCE)

    @property
    def directory(self) -> Path:
        return self._spool.directory

    @property
    def entries(self) -> int:
        """Letters in the spool. For any thread."""
        return self._spool.entries

    @property
    def stored_bytes(self) -> int:
        """Bytes on disk, those of damaged letters included. For any thread."""
        return self._spool.stored_bytes

    def is_full(self) -> str:
        """Why no further task should be taken; empty while there is room. For any thread."""
        reason = self._spool.full_reason
        why = self.why_kept() if reason else ""
        return f"spool_full: {reason}" + (f" ({why})" if why else "") if reason else ""

    def open(self) -> None:
        """Takes over what earlier processes left. Blocks. Raises SpoolUnusableError that names the directory and the remedy."""
        self._spool.open()
        loop = asyncio.get_running_loop()
        self._spool.on_added = lambda entry: _tell(loop, lambda: self.on_added(entry))
        self._spool.on_given_up = lambda entry: self._on_given_up(entry.reason)

    async def close(self, *, within_seconds: float = 5.0) -> None:
        """Waits for what is being written, but not for a disk that hangs. Letters stay there for the next process."""
        try:
            async with asyncio.timeout(within_seconds):
                await self._in_thread(lambda: None)
        except TimeoutError:
            log.error("dead_letters.disk_hangs", directory=str(self.directory))
        self._thread.shutdown(wait=False)

    async def put(self, letter: Letter) -> None:
        """Keeps a letter, its secrets masked; it is durable when this returns, and putting it again changes nothing.

        Raises LetterTooLargeError, SpoolFullError, SpoolUnusableError: it is not kept then, whoever gave it still has to. A cancelled
        caller doesn't know; the letter may be kept.
        """
        async with self._places:
            is_new = await self._in_thread(lambda: self._seal_and_put(letter))
        if is_new:
            log.warning(
                "dead_letters.put",
                reason=str(letter.reason),
                task=letter.task,
                attempt=letter.attempt,
                application=letter.application,
                message=letter.message,
            )

    def snapshot(self) -> list[Entry]:
        """Every letter, oldest first."""
        return self._spool.snapshot()

    async def load(self, entry: Entry) -> bytes:
        """The letter as it was written. Raises LetterDamagedError, LetterGoneError, SpoolUnusableError."""
        return await self._in_thread(lambda: self._spool.load(entry))

    async def remove(self, entry: Entry) -> None:
        """Takes a letter out that is safe elsewhere. Raises SpoolUnusableError."""
        await self._in_thread(lambda: self._spool.remove(entry))

    async def look_again(self) -> None:
        """Learns what other processes did to the directory, and whether a fault of it has passed."""
        await self._in_thread(self._look_again)

    # In the thread.

    def _seal_and_put(self, letter: Letter) -> bool:
        is_new = self._spool.put(seal(letter, known=self._known, piece_bytes=self._piece_bytes))
        if is_new:
            self._on_put(str(letter.reason))
        return is_new

    def _look_again(self) -> None:
        try:
            self._spool.rescan()
            if self._spool.faulty:
                self._spool.probe()
        except SpoolError as error:
            log.debug("dead_letters.spool_still_unusable", error=str(error))

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:  # the loop is closed: nobody listens any more, and the letter is on disk
        log.debug("dead_letters.nobody_listens")
