"""How near a verdict was to the other one: the rule at which the same readings would have come to that."""

import math
from collections.abc import Sequence

from delegate.model.verification.checks import Check
from delegate.model.verification.outcomes import Tally
from delegate.model.verification.readings import Reading, Verdict, read_number


def nearest_alternative(check: Check, verdict: Verdict, tally: Tally, readings: Sequence[Reading]) -> str:
    """In words; empty where there is no one such rule (ranges, comparisons), or where not every reading was kept."""
    rule = check.rule
    if rule is None or rule.inverted or verdict not in (Verdict.PASS, Verdict.FAIL) or tally.carried:
        return ""
    is_upper = math.isfinite(rule.high)
    if is_upper == math.isfinite(rule.low):
        return ""
    known = [reading for reading in readings if reading.is_informative and not reading.at_least]
    values = [value for value in (read_number(reading.value) for reading in known) if value is not None and math.isfinite(value)]
    if len(values) != tally.informative or len(values) <= check.fails_allowed:
        return ""
    decisive = sorted(values, reverse=is_upper)[check.fails_allowed]
    limit = f"{'<=' if is_upper else '>='} {decisive:.6g} {rule.unit.symbol}"
    return (
        f"with {limit} it would not have failed"
        if verdict is Verdict.FAIL
        else f"it would have passed with {limit} too, and with nothing stricter"
    )
