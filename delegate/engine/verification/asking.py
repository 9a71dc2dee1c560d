"""One look at the sources of a check: every query side by side, each within its time, and the reading that the answers make."""

import asyncio
import math
from collections.abc import Awaitable, Mapping
from typing import TypeVar

import msgspec

from delegate.engine.verification.answers import Answer, Provider, Providers, Query, Window
from delegate.engine.verification.errors import ProviderUnavailableError
from delegate.engine.verification.sampling import Look, new_values, read_answer, total_of, unfitness
from delegate.foundation.clocks import Clock
from delegate.foundation.errors import DelegateError, ErrorGroup
from delegate.model.verification.checks import Check, ComparisonKind, substitute
from delegate.model.verification.readings import Reading, Sample, Verdict, written_number
from delegate.model.verification.records import MOST_SAMPLES, Batch
from delegate.model.verification.windows import Span, evidence_span

T = TypeVar("T")
_CANCEL_SECONDS = 2.0
"""So long may a call take to hear that nobody waits for it."""


class Seen(msgspec.Struct, frozen=True):
    """What one look brought: the reading, and for comparisons the values behind it."""

    reading: Reading
    new: tuple[float, ...] = ()
    old: tuple[float, ...] = ()
    batch: Batch | None = None


class Asker:
    """Asks the sources of one check. `limits` measures the time that calls may take."""

    def __init__(self, check: Check, providers: Providers, variables: Mapping[str, str], *, clock: Clock, limits: Clock) -> None:
        """Raises ProviderConfigurationError, UnknownVariableError."""
        where = {label: substitute(pattern, variables) for label, pattern in check.where.items()}
        self._check = msgspec.structs.replace(check, where=where)
        self._clock = clock
        self._limits = limits
        compare = check.compare
        queries = {"query": check.query or check.url, "requests": check.requests}
        if compare is not None:
            queries |= {"baseline": compare.baseline, "baseline requests": compare.requests}
        self._queries = {role: substitute(text, variables) for role, text in queries.items() if text}
        self._queries.setdefault("query", "")
        self._parameters = {name: substitute(text, variables) for name, text in check.parameters.items()}
        self._seen: dict[str, float] = {}
        self._counted_to: float | None = None
        self._provider: Provider = providers.open(type=check.type, provider=check.provider, url=substitute(check.url, variables))

    @property
    def check(self) -> Check:
        """The check with everything filled in, as a record keeps it to be judged again."""
        return self._check

    @property
    def query(self) -> str:
        """The query as it is sent."""
        return self._queries["query"]

    @property
    def others(self) -> dict[str, str]:
        """The queries beside it, as they are sent."""
        return {role: text for role, text in self._queries.items() if role != "query"}

    async def look(self, *, since: float, timeout: float) -> Seen:
        """One look, at most so many seconds long. Never raises for a source: what it can't say is the reading."""
        began, at = self._limits.monotonic(), self._clock.now().timestamp()
        span = self._span(at, since)
        if span.is_empty(self._grain):
            return Seen(Reading(Verdict.NO_DATA, at=at, start=span.start, end=span.end, reason="no complete bucket since the release"))
        try:
            answers = await self._ask(span, timeout)
            seen = self._read(answers, span, self._clock.now().timestamp(), since)
        except DelegateError as error:
            seen = Seen(_error_reading(error))
        reading = msgspec.structs.replace(
            seen.reading,
            at=at,
            start=span.start,
            end=span.end,
            seconds=round(self._limits.monotonic() - began, 4),
        )
        return msgspec.structs.replace(seen, reading=reading)

    async def close(self) -> None:
        await self._provider.close()

    @property
    def _grain(self) -> float:
        """What a window is a multiple of: the check's own buckets, or those that the source has anyway."""
        return self._check.bucket_seconds or self._provider.grain

    def _span(self, now: float, since: float) -> Span:
        check = self._check
        over = max(check.over_seconds, self._grain)
        if check.compare is not None and check.compare.kind is ComparisonKind.COUNTS and not check.over:
            over = now - self._counted_to if self._counted_to is not None else max(check.every_seconds, self._grain)
        return evidence_span(now=now, since=since, over=over, bucket=self._grain)

    async def _ask(self, span: Span, timeout: float) -> dict[str, Answer]:
        """Raises DelegateError: the worst of what the sources say, one that is final before one that may pass."""
        window = Window(span.start, span.end, self._check.bucket_seconds)
        late = f"no answer within {timeout:g} s"
        asked = [
            within(self._limits, timeout, self._provider.read(Query(text, window, self._parameters), timeout=timeout), late)
            for text in self._queries.values()
        ]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        errors: list[DelegateError] = []
        answers: dict[str, Answer] = {}
        for role, outcome in zip(self._queries, outcomes, strict=True):
            if isinstance(outcome, DelegateError):
                errors.append(outcome)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                answers[role] = outcome
        if errors:
            errors.sort(key=lambda error: error.retryable)
            raise errors[0] if len(errors) == 1 else ErrorGroup(errors)
        return answers

    def _read(self, answers: Mapping[str, Answer], span: Span, now: float, since: float) -> Seen:
        if self._check.compare is not None:
            return self._compare(answers, span, now, since)
        look = Look(span, now, since, self._seen.get("query", -math.inf))
        if "requests" in answers:
            unfit = unfitness(msgspec.structs.replace(self._check, unit=""), answers["requests"], look)
            if unfit is not None:
                return Seen(msgspec.structs.replace(unfit, reason=f"requests: {unfit.reason}"))
        requests = total_of(answers["requests"], look, self._check.bucket_seconds) if "requests" in answers else None
        reading = read_answer(self._check, answers["query"], look, requests=requests)
        if reading.is_informative and reading.samples:
            self._seen["query"] = max(sample.at for sample in reading.samples)
        return Seen(msgspec.structs.replace(reading, digest=answers["query"].digest))

    def _compare(self, answers: Mapping[str, Answer], span: Span, now: float, since: float) -> Seen:
        found: dict[str, tuple[list[float], float]] = {}
        for role, answer in answers.items():
            check = self._check if role in ("query", "baseline") else msgspec.structs.replace(self._check, empty_is=None)
            values = new_values(check, answer, Look(span, now, since, self._seen.get(role, -math.inf)))
            if isinstance(values, Reading):
                return Seen(msgspec.structs.replace(values, reason=f"{role}: {values.reason}"))
            found[role] = values
        least = {role: min(column) for role, (column, _) in found.items()}
        negative = [f"{role}: {value:g} is no count" for role, value in least.items() if value < 0]
        if "baseline requests" in found and negative:
            return Seen(Reading(Verdict.ERROR, reason="; ".join(negative), final=True))
        least_requests = self._check.min_requests
        if "baseline requests" not in found and "requests" in found and least_requests is not None:
            requests = sum(found["requests"][0])
            if requests < least_requests:
                return Seen(Reading(Verdict.NO_DATA, requests=requests, reason=f"{requests:g} requests of at least {least_requests:g}"))
        for role, (_, newest) in found.items():
            self._seen[role] = newest
        self._counted_to = span.end
        new, old = found["query"][0], found["baseline"][0]
        samples = [Sample(found["query"][1], value, {"side": "new"}) for value in new[-MOST_SAMPLES // 2 :]]
        samples += [Sample(found["baseline"][1], value, {"side": "baseline"}) for value in old[-MOST_SAMPLES // 2 :]]
        reading = Reading(
            Verdict.PASS,
            value=written_number(new[-1]),
            unit=self._check.unit,
            reason="measured: the comparison decides",
            samples=tuple(samples),
            digest=answers["query"].digest,
        )
        if "baseline requests" not in found:
            return Seen(reading, tuple(new), tuple(old))
        requests = sum(found["requests"][0])
        batch = Batch(span.end, sum(new), requests, sum(old), sum(found["baseline requests"][0]))
        return Seen(msgspec.structs.replace(reading, requests=requests), batch=batch)


def _error_reading(error: DelegateError) -> Reading:
    words = f"{error} ({error.hint})" if error.hint else str(error)
    return Reading(Verdict.ERROR, reason=words, final=not error.retryable, retry_after=error.retry_after)


async def within(clock: Clock, seconds: float, call: Awaitable[T], words: str) -> T:
    """What the call returns, by the clock given. Raises ProviderUnavailableError when the time is over; the call is cancelled then."""
    work, timer = asyncio.ensure_future(call), asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({work, timer}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        raise ProviderUnavailableError(words, code="timeout.provider", hint="look at the source; this says nothing about the release")
    finally:
        timer.cancel()
        if not work.done():
            work.cancel()
            await asyncio.wait({work}, timeout=_CANCEL_SECONDS)
