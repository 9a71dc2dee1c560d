"""Quantities (`resource.Quantity` of Kubernetes): `1Gi`, `250m`, `3e2`."""

import re
from decimal import Decimal
from typing import Any

from delegate.foundation.expressions.functions.kinds import Functions, number, text

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?\d{1,2}))?", re.ASCII)
_BINARY = {unit: Decimal(2) ** (10 * power) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_DECIMAL = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10) ** 3,
    "M": Decimal(10) ** 6,
    "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12,
    "P": Decimal(10) ** 15,
    "E": Decimal(10) ** 18,
}
_MOST_CHARACTERS = 64


def parse_quantity(written: str) -> Decimal:
    """The exact number. Raises ValueError for what is none."""
    match = _QUANTITY.fullmatch(written) if len(written) <= _MOST_CHARACTERS else None
    if match is None:
        raise ValueError("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    factor = _BINARY[match[2]] if match[2] else _DECIMAL[match[3]] if match[3] else Decimal(10) ** int(match[4] or 0)
    return Decimal(match[1]) * factor


def _written(value: Decimal) -> str:
    return f"{value.normalize():f}" if value else "0"


def _number(value: Any) -> Decimal:
    """A quantity that was made here, or an integer where the library takes one."""
    return Decimal(number(value)) if not isinstance(value, str) else parse_quantity(value)


def is_quantity(value: Any) -> bool:
    try:
        parse_quantity(text(value))
    except ValueError:
        return False
    return True


def as_integer(value: Any) -> int:
    exact = _number(value)
    if exact != exact.to_integral_value() or abs(exact) >= 2**63:
        raise ValueError("cannot convert value to integer")
    return int(exact)


def _compare(one: Any, other: Any) -> int:
    return (_number(one) > _number(other)) - (_number(one) < _number(other))


FUNCTIONS: Functions = {
    "add": lambda one, other: _written(_number(one) + _number(other)),
    "asApproximateFloat": lambda value: float(_number(value)),
    "asInteger": as_integer,
    "compareTo": _compare,
    "isGreaterThan": lambda one, other: _compare(one, other) > 0,
    "isInteger": lambda value: _number(value) == _number(value).to_integral_value(),
    "isLessThan": lambda one, other: _compare(one, other) < 0,
    "isQuantity": is_quantity,
    "quantity": lambda value: _written(parse_quantity(text(value))),
    "sign": lambda value: _compare(value, 0),
    "sub": lambda one, other: _written(_number(one) - _number(other)),
}
