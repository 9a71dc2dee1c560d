"""The courier: a sidecar that moves letters from the spool to the bucket, oldest first, and takes out what is safe there.

A letter that fails waits longer each time, while others go. When the bucket as a whole can't be used, one letter at a time tries
whether it can again, each time another one, so that no letter stands in the way of the rest; the first success brings
all of them forward. A letter leaves the spool only after the bucket has it and `on_stored` (which tells the manager) has returned: a crash
between repeats a step that changes nothing.

A manager that is away holds up nothing but the removal of what the bucket already has: each such letter waits by itself, and all of
them come forward when the first was told.

Without a bucket, letters stay where they are, and are told of from there; the courier looks after the spool as well: what other
processes did to it, and whether a disk that was full is full no longer.
"""

import asyncio
import heapq
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec
import structlog

from delegate.daemon.deadletters.bucket import Bucket, Stored
from delegate.daemon.deadletters.entries import Entry
from delegate.daemon.deadletters.errors import BucketError, LetterDamagedError, LetterGoneError, LetterRefusedError, SpoolError
from delegate.daemon.deadletters.letter import Letter
from delegate.daemon.deadletters.letterbox import DeadLetters
from delegate.daemon.deadletters.sealing import object_key, read
from delegate.foundation.errors import DelegateError
from delegate.foundation.lifecycle.retrying import Dice, Retrying

log = structlog.get_logger(__name__)


class StoredLetter(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A letter that the bucket has: what an index needs. `letter` is without its payload's content; without a bucket, `url` is empty."""

    id: str
    url: str
    sha256: str
    size: int
    letter: Letter


@dataclass(frozen=True, kw_only=True)
class CourierRules:
    """Times in seconds. `apart`: waits of a letter that failed; `together`: of everything while the bucket can't be used."""

    at_once: int = 4
    look_seconds: float = 15.0
    apart: Retrying = field(default=Retrying(base_seconds=1.0, max_seconds=900.0))
    together: Retrying = field(default=Retrying(base_seconds=0.5, max_seconds=60.0))


async def _nobody_is_told(stored: StoredLetter) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class CourierHooks:
    """`on_stored` is told each letter that the bucket has before it leaves the spool, or that stays there without a bucket; a
    DelegateError of it has it told again later.
    `on_ending` hears sent, already_there, failed, damaged: for a metric.
    """

    on_stored: Callable[[StoredLetter], Awaitable[None]] = _nobody_is_told
    on_ending: Callable[[str], None] = lambda ending: None


@dataclass(order=True)
class _Waiting:
    """A letter that failed; `apart` when it is the letter's own fault, `untold` when only the manager was not told of it yet."""

    due: float
    entry: Entry
    apart: bool = field(compare=False)
    untold: bool = field(compare=False)


class _UntoldError(DelegateError):
    """The bucket has the letter, and the manager doesn't know."""


class Courier:
    """`run` it for as long as letters should be moved; it is ended by cancelling it. What is on its way then is sent again next time."""

    def __init__(
        self,
        letters: DeadLetters,
        bucket: Bucket | None,
        *,
        rules: CourierRules | None = None,
        hooks: CourierHooks | None = None,
        dice: Dice = random.random,
    ) -> None:
        self._letters = letters
        self._bucket = bucket
        self._rules = rules or CourierRules()
        self._hooks = hooks or CourierHooks()
        self._dice = dice
        self._wake = asyncio.Event()
        self._start_over()
        letters.on_added = self._hear
        letters.why_kept = lambda: self.why_kept

    @property
    def why_kept(self) -> str:
        """Why letters are not leaving the spool; empty while they do."""
        if self._bucket is None:
            return "no bucket is set (DLQ_BUCKET), so they stay until they are purged"
        return self._fault or self._untold

    async def run(self) -> None:
        self._start_over()
        for entry in self._letters.snapshot():
            self._hear(entry)
        try:
            async with asyncio.TaskGroup() as sends:
                sends.create_task(self._look_after_the_spool())
                while True:
                    self._wake.clear()
                    wait = self._send_what_is_due(sends)
                    try:
                        async with asyncio.timeout(wait):
                            await self._wake.wait()
                    except TimeoutError:
                        continue
        finally:
            if self._bucket is not None:
                await self._bucket.close()

    async def wait_until_sent(self, *, unusable_seconds: float) -> bool:
        """Whether nothing is left to send but letters that failed by their own fault; gives up when the bucket can't be used for so long.

        For the end of the process: a pod's disk may go with it. Bound it by a timeout.
        """
        if self._bucket is None:
            return not self._letters.entries  # they stay
        loop = asyncio.get_running_loop()
        failing_since: float | None = None
        while self._letters.entries > sum(each.apart or each.untold for each in self._later):
            failing_since = (failing_since or loop.time()) if self._failures else None
            if failing_since is not None and loop.time() - failing_since >= unusable_seconds:
                return False
            await asyncio.sleep(0.02)
        return True

    # Steps.

    def _start_over(self) -> None:
        self._ready: list[Entry] = []
        self._later: list[_Waiting] = []
        self._tries: dict[str, int] = {}
        self._known: set[str] = set()
        self._stored: dict[str, tuple[Stored, StoredLetter]] = {}
        self._flying = 0
        self._failures = 0
        self._paused_until = 0.0
        self._fault = self._fault_code = self._untold = ""

    def _hear(self, entry: Entry) -> None:
        if entry.name not in self._known:
            self._known.add(entry.name)
            heapq.heappush(self._ready, entry)
            self._wake.set()

    async def _look_after_the_spool(self) -> None:
        while True:
            await asyncio.sleep(self._rules.look_seconds)
            await self._letters.look_again()

    def _send_what_is_due(self, sends: asyncio.TaskGroup) -> float | None:
        """Starts as many sends as may fly; the seconds until there is more to start, None for none that is known of."""
        now = asyncio.get_running_loop().time()
        if now < self._paused_until:
            return self._paused_until - now
        while self._later and self._later[0].due <= now:
            heapq.heappush(self._ready, heapq.heappop(self._later).entry)
        at_once = 1 if self._failures else self._rules.at_once
        while self._ready and self._flying < at_once:
            self._flying += 1
            sends.create_task(self._send(heapq.heappop(self._ready)))
        return self._later[0].due - now if self._later and self._flying < at_once else None

    async def _send(self, entry: Entry) -> None:
        try:
            stored = await self._deliver(entry)
        except LetterGoneError:
            self._forget(entry)
        except LetterDamagedError:
            self._forget(entry)
            self._hooks.on_ending("damaged")
        except _UntoldError as error:
            self._wait_to_tell(entry, error)
        except DelegateError as error:
            self._fail(entry, error)
        else:
            self._succeed(entry, stored)
        finally:
            self._flying -= 1
            self._wake.set()

    async def _deliver(self, entry: Entry) -> Stored | None:
        """Has the bucket keep the letter, the manager know of it, and the spool give it up. None without a bucket: then it stays."""
        stored, told = self._stored.get(entry.name) or await self._store(entry)
        self._stored[entry.name] = (stored, told)
        try:
            await self._hooks.on_stored(told)
        except DelegateError as error:
            raise _UntoldError(str(error), hint=error.hint) from error
        if self._bucket is None:
            return None
        await self._letters.remove(entry)
        return stored

    async def _store(self, entry: Entry) -> tuple[Stored, StoredLetter]:
        body = await self._letters.load(entry)
        try:
            letter = read(body)
        except LetterDamagedError as error:  # whole, for its digest fits: another version of this program wrote it
            raise LetterRefusedError(f"this version can't read the dead letter {entry.id}", hint="a newer one will") from error
        stored, url = Stored.ALREADY_THERE, ""
        if self._bucket is not None:
            key = self._bucket.address.key(object_key(letter, entry.sha256))
            stored = await self._bucket.put(key, body, sha256=entry.sha256, facts={"letter-id": entry.id, "reason": entry.reason})
            url = self._bucket.address.url(key)
        head = msgspec.structs.replace(letter, payload=msgspec.structs.replace(letter.payload, content=None))
        return stored, StoredLetter(id=entry.id, url=url, sha256=entry.sha256, size=len(body), letter=head)

    def _forget(self, entry: Entry) -> None:
        self._known.discard(entry.name)
        self._tries.pop(entry.name, None)
        self._stored.pop(entry.name, None)

    def _wait_to_tell(self, entry: Entry, error: _UntoldError) -> None:
        tries = self._tries[entry.name] = self._tries.get(entry.name, 0) + 1
        wait = self._rules.together.wait_after(tries, None, self._dice)
        self._untold = error.message
        log.debug("dead_letters.not_told", letter=entry.id, error=str(error), retry_in_seconds=round(wait, 1))
        heapq.heappush(self._later, _Waiting(asyncio.get_running_loop().time() + wait, entry, apart=False, untold=True))

    def _bring_forward(self, which: Callable[[_Waiting], bool]) -> None:
        forward = [each for each in self._later if which(each)]
        self._later = [each for each in self._later if not which(each)]
        heapq.heapify(self._later)
        for each in forward:
            self._tries.pop(each.entry.name, None)
            heapq.heappush(self._ready, each.entry)

    def _succeed(self, entry: Entry, stored: Stored | None) -> None:
        self._untold = ""
        self._bring_forward(lambda each: each.untold)
        if stored is None:
            self._stored.pop(entry.name, None)
            self._tries.pop(entry.name, None)  # still known: it is told of once
            return
        self._forget(entry)
        self._hooks.on_ending("sent" if stored is Stored.CREATED else "already_there")
        log.info("dead_letters.sent", letter=entry.id, reason=entry.reason, bytes=entry.size, stored=stored.value)
        if self._failures:
            log.info("dead_letters.sending_again", letters=len(self._ready) + len(self._later))
            self._failures, self._fault, self._fault_code, self._paused_until = 0, "", "", 0.0
            self._bring_forward(lambda each: not each.apart)

    def _fail(self, entry: Entry, error: DelegateError) -> None:
        self._hooks.on_ending("failed")
        apart = isinstance(error, SpoolError) or (isinstance(error, BucketError) and error.about_letter)
        now = asyncio.get_running_loop().time()
        tries = self._tries[entry.name] = self._tries.get(entry.name, 0) + 1
        wait = self._rules.apart.wait_after(tries, error.retry_after, self._dice)
        if apart:
            log.warning("dead_letters.set_aside", letter=entry.id, error=str(error), hint=error.hint, retry_in_seconds=round(wait, 1))
        else:
            self._failures += 1
            pause = self._rules.together.wait_after(self._failures, error.retry_after, self._dice)
            self._paused_until = max(self._paused_until, now + pause)
            wait = max(wait, pause)
            if self._fault_code != error.code:
                log.warning("dead_letters.not_sent", error=str(error), hint=error.hint, code=error.code, letters=self._letters.entries)
            self._fault, self._fault_code = error.message, error.code
        heapq.heappush(self._later, _Waiting(now + wait, entry, apart, untold=False))
