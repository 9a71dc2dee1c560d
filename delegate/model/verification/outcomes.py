"""How readings add up to the verdict of a check, and checks to that of the whole.

A check fails with more fails than allowed; it ends in error with more errors in a row than allowed, at once with one that asking again
won't mend, or when its time is over while its source is out of order; it has no data when the wanted evidence isn't there in time. It
passes only with positive evidence, for as long as wanted. The whole is the worst of its checks: fail, error, no data, pass.
"""

from collections.abc import Iterable
from typing import Self

import msgspec

from delegate.model.verification.checks import Check, NoDataPolicy
from delegate.model.verification.readings import Reading, Verdict, worst_verdict

_MOST_JITTER_SECONDS = 0.25


class Tally(msgspec.Struct, frozen=True, rename="camel"):
    """The readings of a check so far, counted. Times are seconds since 1970. `carried`: fails that an attempt before has seen of the same
    release; they count against it, and as no evidence."""

    passes: int = 0
    fails: int = 0
    no_data: int = 0
    errors: int = 0
    errors_in_a_row: int = 0
    carried: int = 0
    first_at: float | None = None
    last_at: float | None = None
    last: Verdict | None = None

    @property
    def informative(self) -> int:
        return self.passes + self.fails

    @property
    def total(self) -> int:
        return self.informative + self.no_data + self.errors

    @property
    def lasted_seconds(self) -> float:
        """From the first to the last reading with data."""
        return 0.0 if self.first_at is None or self.last_at is None else self.last_at - self.first_at

    def with_reading(self, reading: Reading) -> Self:
        verdict = reading.verdict
        first_at, last_at = self.first_at, self.last_at
        if reading.is_informative:
            first_at, last_at = (reading.at if first_at is None else first_at), reading.at
        return msgspec.structs.replace(
            self,
            passes=self.passes + (verdict is Verdict.PASS),
            fails=self.fails + (verdict is Verdict.FAIL),
            no_data=self.no_data + (verdict is Verdict.NO_DATA),
            errors=self.errors + (verdict is Verdict.ERROR),
            errors_in_a_row=self.errors_in_a_row + 1 if verdict is Verdict.ERROR else 0,
            first_at=first_at,
            last_at=last_at,
            last=verdict,
        )

    def __str__(self) -> str:
        parts = [_count(self.passes, "pass", "passes"), _count(self.fails, "fail", "fails")]
        if self.no_data:
            parts.append(f"{self.no_data} without data")
        if self.errors:
            parts.append(_count(self.errors, "error", "errors"))
        return ", ".join(parts)


class Ending(msgspec.Struct, frozen=True):
    """The verdict of a check and why. `configuration`: it is the question or the source that is wrong, not the release."""

    verdict: Verdict
    reason: str
    configuration: bool = False


def ending_of(check: Check, tally: Tally, reading: Reading) -> Ending | None:
    """What a check comes to with its latest reading, already in the tally; None: it goes on."""
    if reading.verdict is Verdict.ERROR and reading.final:
        return Ending(Verdict.ERROR, f"configuration: {reading.reason}", configuration=True)
    if (fails := tally.fails + tally.carried) > check.fails_allowed:
        before = f", {tally.carried} of them before" if tally.carried else ""
        return Ending(Verdict.FAIL, f"{fails} of at most {check.fails_allowed} fails{before}: {reading.reason}")
    if tally.errors_in_a_row > check.consecutive_errors:
        return Ending(Verdict.ERROR, f"source unavailable: {tally.errors_in_a_row} errors in a row: {reading.reason}")
    if reading.verdict is Verdict.NO_DATA and check.no_data is NoDataPolicy.FAIL:
        return Ending(Verdict.NO_DATA, f"no data: {reading.reason}")
    if check.until_stopped or not reading.is_informative:
        return None
    if tally.informative >= check.wanted_readings and tally.lasted_seconds >= check.for_seconds - _jitter(check):
        return _ending_with_evidence(tally)
    return None


def _jitter(check: Check) -> float:
    """By how much the last tick may be nearer to the first than it is on the clock: one that began a little late has not asked less.

    Without it a check would now and then take a whole `every` longer than it was to.
    """
    return min(_MOST_JITTER_SECONDS, check.every_seconds / 20)


def _ending_with_evidence(tally: Tally) -> Ending:
    """All that was wanted is there, and not more fails than allowed."""
    if not tally.passes:
        return Ending(Verdict.FAIL, f"no reading passed: {tally}")
    return Ending(Verdict.PASS, str(tally))


def ending_at_deadline(check: Check, tally: Tally, last: Reading | None) -> Ending:
    """What a check comes to whose time is over: never good."""
    if last is not None and last.verdict is Verdict.ERROR:
        return Ending(Verdict.ERROR, f"source unavailable when its time was over: {last.reason} ({tally})")
    if tally.first_at is None:
        why = f": {last.reason}" if last is not None and last.reason else ""
        return Ending(Verdict.NO_DATA, f"no data until its time was over{why} ({tally})")
    evidence = f"{tally.lasted_seconds:g} s of the wanted {check.for_seconds:g} s, {tally.informative} of {check.wanted_readings} readings"
    return Ending(Verdict.NO_DATA, f"incomplete evidence when its time was over: {evidence} ({tally})")


def ending_when_stopped(check: Check, tally: Tally, last: Reading | None) -> Ending:
    """What a check comes to that is ended from outside. Only one that was to last until then can have passed, on evidence to the end."""
    if not tally.total:
        return Ending(Verdict.NO_DATA, "stopped before the first reading: evidence none")
    if check.until_stopped and tally.passes >= max(1, check.readings or 1) and last is not None and last.verdict is Verdict.PASS:
        return Ending(Verdict.PASS, f"until it was stopped: {tally}")
    words = f"stopped with {tally}"
    if tally.fails and (not tally.passes or (last is not None and last.verdict is Verdict.FAIL)):
        return Ending(Verdict.FAIL, words)
    if tally.errors_in_a_row:
        return Ending(Verdict.ERROR, words)
    return Ending(Verdict.NO_DATA, words)


def score_of(checks: Iterable[tuple[Check, Verdict]]) -> float:
    """The share of weights, in percent, that passed. Only what passed counts: no data and errors weigh as much as fails."""
    weighed = [(check.weight, verdict is Verdict.PASS) for check, verdict in checks]
    total = sum(weight for weight, _ in weighed)
    return 100.0 * sum(weight for weight, passed in weighed if passed) / total if total else 0.0


def verdict_of(checks: Iterable[tuple[Check, Verdict]], pass_score: float = 100.0) -> Verdict:
    """That of the whole. Of nothing: no data. Checks that aren't critical may not pass as long as the score is reached."""
    judged = list(checks)
    decisive = [verdict for check, verdict in judged if check.critical]
    if judged and score_of(judged) >= pass_score - 1e-9:
        return worst_verdict(decisive) if decisive else Verdict.PASS
    return worst_verdict([verdict for _, verdict in judged])


def is_lost(checks: Iterable[tuple[Check, Verdict | None]], pass_score: float = 100.0) -> bool:
    """Whether no further reading can make the whole pass: a check that is open (None) might still."""
    judged = [(check, Verdict.PASS if verdict is None else verdict) for check, verdict in checks]
    return verdict_of(judged, pass_score) is not Verdict.PASS


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
