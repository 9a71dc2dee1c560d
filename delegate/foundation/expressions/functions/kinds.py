"""Checks of arguments, in CEL's words."""

from collections.abc import Callable, Mapping
from typing import Any

Function = Callable[..., Any]
Functions = Mapping[str, Function]

NO_OVERLOAD = "no such overload"


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(NO_OVERLOAD)
    return value


def number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(NO_OVERLOAD)
    return value


def items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(NO_OVERLOAD)
    return value


def equal(one: Any, other: Any) -> bool:
    """As CEL has it: a bool is no number, and the same holds inside lists and maps."""
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(equal(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return bool(one == other)
