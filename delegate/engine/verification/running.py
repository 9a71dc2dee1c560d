"""Runs the checks of a verification side by side, on steady ticks from its start, until the verdict can't change any more."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from delegate.engine.verification.answers import Providers
from delegate.engine.verification.asking import Asker, Seen
from delegate.engine.verification.deciding import Gathered, decide_comparison, ending_of_comparison, settle
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.quantities import parse_duration
from delegate.model.verification.checks import Check, ComparisonKind
from delegate.model.verification.margins import nearest_alternative
from delegate.model.verification.outcomes import (
    Ending,
    Tally,
    ending_at_deadline,
    ending_of,
    ending_when_stopped,
    is_lost,
    score_of,
    verdict_of,
)
from delegate.model.verification.readings import Reading, Verdict
from delegate.model.verification.records import (
    MOST_COMPARED,
    Batch,
    CheckRecord,
    Comparison,
    Journal,
    Thinned,
    VerificationRecord,
    readings_kept,
    reason_of,
)
from delegate.model.verification.windows import settling_seconds

GRACE_SECONDS = 1.0
"""So long are answers that are under way waited for once the verdict is known: a fail among them says more than an error."""

OnReading = Callable[[Check, Reading], None]


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What a verification runs under.

    `since`: when the new version was ready and its share in force, in seconds since 1970; None: nobody knows, so from the start on.
    `deadline`: how many seconds the whole may take. `limits` measures calls where `clock` is not the machine's own. `carried`: fails of
    each check, by name, that were seen of the same release before.
    """

    since: float | None = None
    deadline: float | None = None
    variables: Mapping[str, str] = {}
    pass_score: float = 100.0
    clock: Clock = SYSTEM_CLOCK
    limits: Clock = SYSTEM_CLOCK
    carried: Mapping[str, int] = {}


class Verification:
    """One run of some checks. `run` it, or take its `record` at any moment: what it would come to if it were stopped now."""

    def __init__(
        self,
        checks: Sequence[Check],
        providers: Providers,
        circumstances: Circumstances,
        *,
        on_reading: OnReading | None = None,
        clocks: Callable[[], Clock] | None = None,
    ) -> None:
        """`clocks` gives each check a clock of its own. Raises ProviderConfigurationError, UnknownVariableError."""
        self._circumstances = circumstances
        self._finishing = asyncio.Event()
        clock = circumstances.clock
        self._began = clock.now().timestamp()
        self._since = self._began if circumstances.since is None else circumstances.since
        self._ended: float | None = None
        family = sum(1 for check in checks if check.compare is not None)
        self._runs = [
            _CheckRun(
                check,
                Asker(check, providers, circumstances.variables, clock=own, limits=circumstances.limits),
                _Frame(own, self._began, self._since, circumstances, family, readings_kept(len(checks))),
                self._finishing,
                on_reading,
            )
            for check in checks
            for own in [clocks() if clocks is not None else clock]
        ]

    async def run(self) -> VerificationRecord:
        """The whole, to its end. Cancelled: no query goes on, and `record` says how far it came."""
        tasks = [asyncio.create_task(run.run()) for run in self._runs]
        finishing = asyncio.create_task(self._finishing.wait())
        pending = set(tasks)
        try:
            while pending:
                done, _ = await asyncio.wait({finishing, *pending}, return_when=asyncio.FIRST_COMPLETED)
                for task in done & pending:
                    task.result()
                pending = pending - done
                if pending and (finishing.done() or self._is_lost()):
                    self._finishing.set()
                    pending = await self._give_grace(pending)
        finally:
            finishing.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._ended = self._now()
            await self._close()
        return self.record()

    def finish(self) -> None:
        """What was verified has come to its end: checks without an end of their own are judged by what they saw. Idempotent."""
        self._finishing.set()

    def record(self) -> VerificationRecord:
        """All of it so far. A check that has not ended is judged as one that was stopped: never good for that alone."""
        records = settle([run.record() for run in self._runs])
        pairs = [(record.check, record.verdict) for record in records]
        verdict = verdict_of(pairs, self._circumstances.pass_score)
        return VerificationRecord(
            verdict=verdict,
            reason=reason_of(records, verdict),
            score=round(score_of(pairs), 2),
            began=self._began,
            ended=self._ended if self._ended is not None else self._now(),
            since=self._since,
            pass_score=self._circumstances.pass_score,
            checks=tuple(records),
        )

    def _now(self) -> float:
        """By the clock that has come farthest: those of a past window run apart."""
        return max((run.now for run in self._runs), default=self._circumstances.clock.now().timestamp())

    def _is_lost(self) -> bool:
        ended = [(run.check, run.ending.verdict if run.ending is not None else None) for run in self._runs]
        return is_lost(ended, self._circumstances.pass_score)

    async def _give_grace(self, pending: "set[asyncio.Task[None]]") -> "set[asyncio.Task[None]]":
        timer = asyncio.ensure_future(self._circumstances.limits.sleep(GRACE_SECONDS))
        try:
            while pending and not timer.done():
                done, _ = await asyncio.wait({timer, *pending}, return_when=asyncio.FIRST_COMPLETED)
                for task in done & pending:
                    task.result()
                pending = pending - done
        finally:
            timer.cancel()
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        return set()

    async def _close(self) -> None:
        await asyncio.gather(*(run.close() for run in self._runs), return_exceptions=True)


class _Frame(msgspec.Struct, frozen=True):
    """What a check shares with the others of its verification. Times are seconds since 1970."""

    clock: Clock
    began: float
    since: float
    circumstances: Circumstances
    family: int
    readings: int


class _CheckRun:
    """One check from its first reading to its ending."""

    def __init__(self, check: Check, asker: Asker, frame: _Frame, finishing: asyncio.Event, on_reading: OnReading | None) -> None:
        self.check = check
        self.ending: Ending | None = None
        self._asker = asker
        self._frame = frame
        self._finishing = finishing
        self._on_reading = on_reading
        self._tally = Tally(carried=frame.circumstances.carried.get(check.name, 0))
        self._journal = Journal(frame.readings)
        self._last: Reading | None = None
        self._errors_without_hint = 0
        self._new, self._old = Thinned(), Thinned()
        self._batches: list[Batch] = []
        self._comparison: Comparison | None = None

    @property
    def now(self) -> float:
        return self._frame.clock.now().timestamp()

    async def run(self) -> None:
        """Sets `ending`, unless it is cancelled before there is one."""
        frame, clock = self._frame, self._frame.clock
        began = clock.monotonic()
        first = began + self._delay()
        deadline = self._deadline(began, first)
        at = first
        while self.ending is None:
            stopped = await self._wait_until(min(at, deadline))
            if stopped:
                self.ending = self._ending_when_stopped()
            elif at >= deadline:
                self.ending = self._ending_at_deadline()
            else:
                remaining = deadline - clock.monotonic()
                seen = await self._asker.look(since=frame.since, timeout=min(parse_duration(self.check.timeout), remaining))
                self.ending = self._take(seen)
                at = self._next(first, seen.reading)

    def record(self) -> CheckRecord:
        ending = self.ending or self._ending_when_stopped()
        return CheckRecord(
            check=self._asker.check,
            verdict=ending.verdict,
            reason=ending.reason,
            query=self._asker.query,
            others=self._asker.others,
            configuration=ending.configuration,
            tally=self._tally,
            readings=self._journal.readings,
            new=self._new.values,
            old=self._old.values,
            batches=tuple(self._batches),
            comparison=self._comparison,
            nearest=nearest_alternative(self.check, ending.verdict, self._tally, self._journal.readings),
        )

    async def close(self) -> None:
        await self._asker.close()

    def _delay(self) -> float:
        """Seconds from the start to the first reading: a query that itself looks back must not see the time before the release."""
        delay = parse_duration(self.check.initial_delay)
        if self._frame.circumstances.since is None:
            return delay
        asked = (self._asker.query, self._asker.others.get("requests", ""))
        settled = self._frame.since + max(map(settling_seconds, asked)) - self._frame.began
        return max(delay, settled)

    def _deadline(self, began: float, first: float) -> float:
        """Of the clock's monotonic time."""
        whole = self._frame.circumstances.deadline
        ends = math.inf if whole is None else began + whole
        if self.check.until_stopped and not self.check.deadline:
            return ends
        own = first if not self.check.deadline else began
        return min(ends, own + self.check.longest_seconds)

    async def _wait_until(self, at: float) -> bool:
        """Whether somebody ended the wait."""
        clock = self._frame.clock
        if self._finishing.is_set():
            return True
        if math.isinf(at):
            await self._finishing.wait()
            return True
        remaining = at - clock.monotonic()
        if remaining <= 0:
            return False
        timer, stop = asyncio.ensure_future(clock.sleep(remaining)), asyncio.ensure_future(self._finishing.wait())
        try:
            await asyncio.wait({timer, stop}, return_when=asyncio.FIRST_COMPLETED)
            return self._finishing.is_set()
        finally:
            timer.cancel()
            stop.cancel()

    def _take(self, seen: Seen) -> Ending | None:
        reading = seen.reading
        self._last = reading
        self._tally = self._tally.with_reading(reading)
        self._journal.add(reading)
        if self._on_reading is not None:
            self._on_reading(self.check, reading)
        ending = ending_of(self.check, self._tally, reading)
        if self.check.compare is None:
            return ending
        for value in seen.new:
            self._new.add(value)
        for value in seen.old:
            self._old.add(value)
        if seen.batch is not None:
            self._add_batch(seen.batch)
        if ending is not None and ending.verdict is not Verdict.PASS:
            return ending
        return self._compare(is_over=ending is not None)

    def _add_batch(self, batch: Batch) -> None:
        """The oldest are joined two by two where they become too many: only their sums count by then."""
        self._batches.append(batch)
        if len(self._batches) > MOST_COMPARED:
            half = MOST_COMPARED // 2
            older = self._batches[:half]
            joined = [
                Batch(
                    second.at,
                    first.new_events + second.new_events,
                    first.new_requests + second.new_requests,
                    first.old_events + second.old_events,
                    first.old_requests + second.old_requests,
                )
                for first, second in zip(older[::2], older[1::2], strict=True)
            ]
            self._batches[:half] = joined

    def _compare(self, *, is_over: bool) -> Ending | None:
        frame = self._frame
        gathered = Gathered(self._new.values, self._old.values, tuple(self._batches), max(1, frame.family), frame.began)
        comparison = decide_comparison(self.check, gathered, is_over=is_over)
        if comparison is None:
            return None
        self._comparison = comparison
        return ending_of_comparison(comparison)

    def _ending_when_stopped(self) -> Ending:
        compare = self.check.compare
        if compare is None or not self._tally.informative:
            return ending_when_stopped(self.check, self._tally, self._last)
        if compare.kind is ComparisonKind.COUNTS and self.check.until_stopped and not self._tally.errors_in_a_row:
            ending = self._compare(is_over=True)
            assert ending is not None
            return ending
        return Ending(Verdict.NO_DATA, f"stopped before the comparison was decided: {self._tally}")

    def _ending_at_deadline(self) -> Ending:
        if self.check.until_stopped:
            return self._ending_when_stopped()
        return ending_at_deadline(self.check, self._tally, self._last)

    def _next(self, first: float, reading: Reading) -> float:
        """When to read again: on the next tick; after an error as its backoff says; never before the source wants it."""
        now, every = self._frame.clock.monotonic(), self.check.every_seconds
        if reading.verdict is not Verdict.ERROR:
            self._errors_without_hint = 0
            return self._tick(first, now, every)
        wanted = now + (reading.retry_after or 0.0)
        if self.check.backoff is None:
            return self._tick(first, max(now, wanted), every, include=reading.retry_after is not None)
        if reading.retry_after is not None:
            return wanted
        self._errors_without_hint += 1
        return now + self.check.backoff.wait_after(self._errors_without_hint)

    @staticmethod
    def _tick(first: float, after: float, every: float, *, include: bool = False) -> float:
        ticks = (after - first) / every
        number = math.ceil(ticks - 1e-9) if include else math.floor(ticks + 1e-9) + 1
        return first + number * every
