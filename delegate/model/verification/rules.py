"""Rules: what a value has to be, as people write it (`<= 1%`, `>= 99.5 %`, `50ms..200ms`, `fail if > 1%`), and their test."""

import math
import re
from fractions import Fraction

import msgspec

from delegate.model.verification.units import Unit, UnknownUnitError, parse_unit

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_COMPARISON = re.compile(rf"(fail if )?\s*(<=|>=|==|!=|<|>)\s*({_NUMBER})\s*(\S*)", re.ASCII)
_RANGE = re.compile(rf"({_NUMBER})\s*([^\s.]*)\s*\.\.\s*({_NUMBER})\s*(\S*)", re.ASCII)
_OPPOSITE = {"<=": ">", ">=": "<", "==": "!=", "!=": "==", "<": ">=", ">": "<="}


class RuleError(ValueError):
    """A rule that can't be meant; its words say why, and `hint` how one is written."""

    hint = "write such as `<= 1%`, `>= 99.5 %`, `<= 200ms`, `50ms..200ms` or `== 200 count`"


class Rule(msgspec.Struct, frozen=True):
    """Values that pass: from `low` to `high` in the unit's own base, each end in it or not; the rest, where `inverted` (`!=`)."""

    text: str
    unit: Unit
    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    inverted: bool = False

    def accepts(self, value: float) -> bool:
        """Whether a number in the base unit passes. Raises ValueError for what is no number: that is no data, and nobody's answer."""
        if math.isnan(value):
            raise ValueError("NaN is no value")
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return (above and below) != self.inverted

    def accepts_at_least(self, value: float) -> bool | None:
        """The same for a number of which only a lower bound is known; None where it could be either."""
        if self.inverted:
            return True if value > self.high else None
        if math.isinf(self.high):
            return True if self.accepts(value) else None
        return None if value < self.high or (value == self.high and not self.high_open) else False

    def badness(self, value: float) -> float:
        """How far a value is on the bad side: the greatest of several is the worst. Nothing but an order."""
        if self.inverted:
            return -abs(value - self.low)
        above, below = _beyond(value, self.high), _beyond(-value, -self.low)
        return max(above, below)


def _beyond(value: float, bound: float) -> float:
    return -math.inf if math.isinf(bound) else value - bound


def parse_rule(text: str) -> Rule:
    """Raises RuleError, also for a number without a unit."""
    written = text.strip()
    compared = _COMPARISON.fullmatch(written)
    if compared is not None:
        negated, sign, number, symbol = compared.groups()
        unit = _unit(symbol, number)
        bound = _bound(number, unit)
        sign = _OPPOSITE[sign] if negated else sign
        if sign in ("==", "!="):
            return Rule(written, unit, bound, bound, inverted=sign == "!=")
        if sign in ("<", "<="):
            return Rule(written, unit, high=bound, high_open=sign == "<")
        return Rule(written, unit, low=bound, low_open=sign == ">")
    ranged = _RANGE.fullmatch(written)
    if ranged is None:
        raise RuleError(f"{text!r} is no rule")
    low_text, low_symbol, high_text, high_symbol = ranged.groups()
    unit = _unit(high_symbol, high_text)
    low_unit = _unit(low_symbol, low_text) if low_symbol else unit
    if low_unit.dimension is not unit.dimension:
        raise RuleError(f"{text!r} goes from {low_unit.dimension} to {unit.dimension}")
    low, high = _bound(low_text, low_unit), _bound(high_text, unit)
    if low > high:
        raise RuleError(f"{text!r} ends before it begins")
    return Rule(written, unit, low, high)


def parse_share(text: str) -> float:
    """A relative amount (`10%`, `0.1 ratio`) as a ratio. Raises RuleError."""
    match = re.fullmatch(rf"({_NUMBER})\s*(\S*)", text.strip(), re.ASCII)
    if match is None:
        raise RuleError(f"{text!r} is no share")
    unit = _unit(match[2], match[1])
    if unit.symbol not in ("%", "ratio"):
        raise RuleError(f"{text!r} is no share: it is in {unit.symbol}")
    share = _bound(match[1], unit)
    if share < 0:
        raise RuleError(f"{text!r} is less than nothing")
    return share


def _unit(symbol: str, number: str) -> Unit:
    if not symbol:
        raise RuleError(f"{number} has no unit")
    try:
        return parse_unit(symbol)
    except UnknownUnitError as error:
        raise RuleError(str(error)) from error


def _bound(number: str, unit: Unit) -> float:
    try:
        bound = float(Fraction(number) * unit.factor)
    except (OverflowError, ValueError) as error:
        raise RuleError(f"{number} is too large") from error
    return bound
