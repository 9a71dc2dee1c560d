"""What one look at a source says of a release, and what is kept of it so that the verdict can be explained and made again."""

import enum

import msgspec


class Verdict(enum.StrEnum):
    """Of a reading, of a check, and of a verification. Only `pass` is good news; `error` says nothing about the release."""

    PASS = "pass"  # noqa: S105 - a verdict
    FAIL = "fail"
    NO_DATA = "no_data"
    ERROR = "error"


_WORST_FIRST = (Verdict.FAIL, Verdict.ERROR, Verdict.NO_DATA, Verdict.PASS)


def worst_verdict(verdicts: "list[Verdict]") -> Verdict:
    """fail > error > no_data > pass; of none at all: no data."""
    return min(verdicts, key=_WORST_FIRST.index, default=Verdict.NO_DATA)


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """A point as the source gave it: time (seconds since 1970), value in the source's unit, labels of its series.

    `value` is a text where JSON has no number for it (`NaN`, `+Inf`, `-Inf`), and None where the source says that there is none.
    """

    at: float
    value: float | str | None
    labels: dict[str, str] = {}


class Reading(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One look. `value` is what was judged, in the rule's unit; `final` errors will not go away by asking again.

    `at_least`: the source only knew a lower bound. `samples` are bounded; `left_out` counts the others. `requests` is how much there
    was to measure, where that was asked.
    """

    verdict: Verdict
    at: float = 0.0
    start: float = 0.0
    end: float = 0.0
    value: float | str | None = None
    unit: str = ""
    reason: str = ""
    samples: tuple[Sample, ...] = ()
    left_out: int = 0
    requests: float | str | None = None
    notes: tuple[str, ...] = ()
    digest: str = ""
    final: bool = False
    at_least: bool = False
    retry_after: float | None = None
    seconds: float = 0.0

    @property
    def is_informative(self) -> bool:
        return self.verdict in (Verdict.PASS, Verdict.FAIL)


def written_number(value: float | None) -> float | str | None:
    """A number as a record holds it."""
    if value is None:
        return None
    if value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return value


def read_number(written: float | str | None) -> float | None:
    """What `written_number` wrote."""
    return None if written is None else float(written)
