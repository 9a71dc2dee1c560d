"""What a benchmark says: figures, each with what it is compared with, and what could not be compared.

A figure is a value of this run; its ratio is to another value of the same run, so that it means something on another machine
too. A target is a bound of the value or of the ratio.
"""

import math
import statistics
from collections.abc import Sequence

import msgspec


class Target(msgspec.Struct, frozen=True):
    """`of` is `value` or `ratio`; one of the bounds is given."""

    of: str
    at_most: float | None = None
    at_least: float | None = None

    def is_met_by(self, figure: "Figure") -> bool:
        reached = figure.ratio if self.of == "ratio" else figure.value
        if reached is None:
            return False
        return (self.at_most is None or reached <= self.at_most) and (self.at_least is None or reached >= self.at_least)

    def words(self, unit: str) -> str:
        sign, bound = ("<=", self.at_most) if self.at_most is not None else (">=", self.at_least)
        assert bound is not None
        return f"{sign} {number(bound)} {unit if self.of == 'value' else 'x'}".rstrip()


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """`against` names the figure that `ratio` is to; `samples` are what `value` is the median of."""

    name: str
    value: float
    unit: str
    against: str = ""
    ratio: float | None = None
    target: Target | None = None
    samples: tuple[float, ...] = ()
    note: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the target is; None where there is none."""
        return self.target.is_met_by(self) if self.target is not None else None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One subject. `circumstances` say on what it was measured; `skipped` what is missing, and why."""

    subject: str
    title: str
    circumstances: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    skipped: tuple[str, ...] = ()


def of_samples(
    name: str,
    samples: Sequence[float],
    unit: str,
    *,
    against: str = "",
    base: Sequence[float] = (),
    target: Target | None = None,
    note: str = "",
) -> Figure:
    """The median. With a `base`, measured in the same rounds, the ratio is the median of the rounds' ratios."""
    ratio = statistics.median(each / other for each, other in zip(samples, base, strict=True)) if base else None
    value = statistics.median(samples)
    return Figure(name=name, value=value, unit=unit, against=against, ratio=ratio, target=target, samples=tuple(samples), note=note)


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that `share` of all samples don't exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def number(value: float) -> str:
    """Three digits that mean something, and thousands apart."""
    if value and abs(value) < 1:
        return f"{value:.3g}"
    if abs(value) < 100:
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return f"{value:,.0f}"


def render(report: Report) -> str:
    """For people: a line a figure."""
    lines = [f"{report.subject}: {report.title}", *(f"  on {each}" for each in report.circumstances)]
    rows = [_row(figure) for figure in report.figures]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    for row in rows:
        name, value, ratio, target, note = (*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4])
        lines.append(f"  {name}  {value.strip().rjust(widths[1])}  {ratio}  {target}  {note}".rstrip())
    lines += [f"  not compared: {each}" for each in report.skipped]
    return "\n".join(lines)


def _row(figure: Figure) -> tuple[str, str, str, str, str]:
    ratio = f"{number(figure.ratio)} x {figure.against}" if figure.ratio is not None else ""
    target = ""
    if figure.target is not None:
        target = f"target {figure.target.words(figure.unit)}: {'reached' if figure.reached else 'MISSED'}"
    spread = ""
    if len(figure.samples) > 1:
        spread = f"({number(min(figure.samples))} to {number(max(figure.samples))})"
    return figure.name, f"{number(figure.value)} {figure.unit}", ratio, target, " ".join(filter(None, (spread, figure.note)))
