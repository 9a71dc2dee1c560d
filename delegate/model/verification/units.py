"""Units of measured values. A number without one means nothing: a source and a rule each name theirs, and are compared in a third.

Conversions are exact and rounded once, so that 7 % and a ratio of 0.07 are the same number.
"""

import enum
from fractions import Fraction

import msgspec


class Dimension(enum.StrEnum):
    """What can be compared with each other."""

    TIME = "time"
    RATIO = "ratio"
    BYTES = "bytes"
    COUNT = "count"
    RATE = "rate"


class UnknownUnitError(ValueError):
    """A text that names no unit; its words say which there are."""


class Unit(msgspec.Struct, frozen=True):
    """`symbol` is its one writing in records. `factor` times a value is that value in the dimension's own unit."""

    symbol: str
    dimension: Dimension
    factor: Fraction

    def to_base(self, value: float) -> float:
        """The value in seconds, as a ratio, in bytes, as a count or per second; infinities stay what they are."""
        try:
            return float(Fraction(value) * self.factor)
        except (OverflowError, ValueError):  # infinite, or no number: neither has a fraction
            return value

    def convert(self, value: float, wanted: "Unit") -> float:
        """The value in another unit of the same dimension, rounded once."""
        try:
            return float(Fraction(value) * self.factor / wanted.factor)
        except (OverflowError, ValueError):
            return value


def _units() -> dict[str, Unit]:
    table: dict[str, Unit] = {}

    def add(dimension: Dimension, factor: Fraction, symbol: str, *others: str) -> None:
        unit = Unit(symbol, dimension, factor)
        for name in (symbol, *others):
            table[name] = unit

    add(Dimension.TIME, Fraction(1, 10**9), "ns", "nanoseconds")
    add(Dimension.TIME, Fraction(1, 10**6), "us", "µs", "μs", "microseconds")
    add(Dimension.TIME, Fraction(1, 1000), "ms", "milliseconds")
    add(Dimension.TIME, Fraction(1), "s", "seconds")
    add(Dimension.TIME, Fraction(60), "min", "m", "minutes")
    add(Dimension.TIME, Fraction(3600), "h", "hours")
    add(Dimension.RATIO, Fraction(1), "ratio")
    add(Dimension.RATIO, Fraction(1, 100), "%", "percent")
    add(Dimension.BYTES, Fraction(1), "B", "bytes", "byte")
    for power, letter in enumerate("KMGTP", start=1):
        others = ("kB",) if letter == "K" else ()
        add(Dimension.BYTES, Fraction(1000**power), f"{letter}B", *others)
        add(Dimension.BYTES, Fraction(1024**power), f"{letter}iB")
    add(Dimension.COUNT, Fraction(1), "count", "counts")
    add(Dimension.RATE, Fraction(1), "1/s", "/s", "per_second")
    add(Dimension.RATE, Fraction(1, 60), "1/min", "/min", "per_minute")
    return table


UNITS = _units()


def parse_unit(text: str) -> Unit:
    """Raises UnknownUnitError. Letters count: `MB` is 10^6 bytes, `MiB` is 2^20, `m` are minutes, and `Mb` is neither."""
    try:
        return UNITS[text.strip()]
    except KeyError:
        known = ", ".join(dict.fromkeys(unit.symbol for unit in UNITS.values()))
        raise UnknownUnitError(f"{text.strip()!r} is no unit; there are {known}") from None
