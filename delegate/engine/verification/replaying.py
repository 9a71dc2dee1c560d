"""A stored verification judged again, under its own rules or under others, from nothing but its record. Pure.

What was not kept can't be judged: where readings are missing and the verdict would change, there is no data.
"""

from collections.abc import Mapping, Sequence

import msgspec

from delegate.engine.verification.deciding import Gathered, decide_comparison, settle
from delegate.model.verification.checks import Check
from delegate.model.verification.judging import judge_again
from delegate.model.verification.margins import nearest_alternative
from delegate.model.verification.outcomes import (
    Ending,
    Tally,
    ending_at_deadline,
    ending_of,
    ending_when_stopped,
    score_of,
    verdict_of,
)
from delegate.model.verification.readings import Reading, Verdict
from delegate.model.verification.records import CheckRecord, VerificationRecord, reason_of


def replay(record: VerificationRecord, changed: Mapping[str, Check] | None = None) -> VerificationRecord:
    """The record as it would be, had the checks in `changed` (by name) been those."""
    family = sum(1 for each in record.checks if each.check.compare is not None)
    again = settle([_replay_check(each, (changed or {}).get(each.check.name, each.check), record, family) for each in record.checks])
    pairs = [(each.check, each.verdict) for each in again]
    verdict = verdict_of(pairs, record.pass_score)
    return msgspec.structs.replace(
        record, verdict=verdict, reason=reason_of(again, verdict), score=round(score_of(pairs), 2), checks=tuple(again)
    )


def _replay_check(stored: CheckRecord, check: Check, record: VerificationRecord, family: int) -> CheckRecord:
    if check.compare is not None:
        return _compare_again(stored, check, record, family)
    readings = [judge_again(check, reading) for reading in stored.readings]
    replaced = msgspec.structs.replace(stored, check=check, readings=tuple(readings))
    same = [reading.verdict for reading in readings] == [reading.verdict for reading in stored.readings]
    if same and check == stored.check:
        return replaced
    tally, ending = _fold(check, readings, stored.tally.carried)
    missing = stored.tally.total - len(stored.readings)
    if missing and not (ending is not None and ending.verdict is Verdict.FAIL):
        ending = Ending(Verdict.NO_DATA, f"{missing} of {stored.tally.total} readings were not kept, and without them it can't be said")
    if ending is None:
        last = readings[-1] if readings else None
        close = ending_when_stopped if check.until_stopped else ending_at_deadline
        ending = close(check, tally, last)
    return msgspec.structs.replace(
        replaced,
        nearest=nearest_alternative(check, ending.verdict, tally, readings) if not missing else "",
        verdict=ending.verdict,
        reason=ending.reason,
        configuration=ending.configuration,
        tally=tally if not missing else stored.tally,
    )


def _fold(check: Check, readings: Sequence[Reading], carried: int) -> tuple[Tally, Ending | None]:
    tally = Tally(carried=carried)
    for reading in readings:
        tally = tally.with_reading(reading)
        ending = ending_of(check, tally, reading)
        if ending is not None:
            return tally, ending
    return tally, None


def _compare_again(stored: CheckRecord, check: Check, record: VerificationRecord, family: int) -> CheckRecord:
    """A comparison is made again from its values; one that ended otherwise (no data, errors) stays as it was."""
    if stored.comparison is None:
        return msgspec.structs.replace(stored, check=check)
    gathered = Gathered(stored.new, stored.old, stored.batches, max(1, family), record.began)
    comparison = decide_comparison(check, gathered, is_over=True)
    assert comparison is not None
    return msgspec.structs.replace(stored, check=check, verdict=comparison.verdict, reason=comparison.reason, comparison=comparison)
