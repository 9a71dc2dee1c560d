"""Conversions that the interpreter lacks."""

from datetime import datetime, timedelta
from typing import Any

from delegate.foundation.expressions.functions.kinds import NO_OVERLOAD, Functions, text

_TRUE = frozenset({"1", "t", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "false", "FALSE", "False"})


def to_text(value: Any) -> str:
    """`string(x)`: numbers and truth values as JSON has them, times in RFC 3339, durations in seconds."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case bytes():
            return value.decode()
        case int():
            return str(value)
        case float():
            return f"{value:.15g}" if float(f"{value:.15g}") == value else repr(value)
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case timedelta():
            return f"{value.total_seconds():.6f}".rstrip("0").rstrip(".") + "s"
        case _:
            raise TypeError(NO_OVERLOAD)


def to_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if text(value) in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise ValueError("type conversion error: no truth value")


FUNCTIONS: Functions = {"string": to_text, "bool": to_bool}
