"""Path elements of items, and whether a single value fits its type: what all of the merge rules stand on."""

import functools
import json
from typing import Any

from delegate.simulator.schemas import FieldType

MISSING: Any = object()
"""Stands for a field that is not there, where None stands for null."""


class TypingError(Exception):
    """A value that doesn't fit its type; the text is structured-merge-diff's."""


class MisfitError(TypingError):
    """Raised by the fast pass; `explain` finds all the places."""

    def __init__(self) -> None:
        super().__init__("value does not fit its schema")


@functools.lru_cache(maxsize=32768)
def _named(field: str, value: str) -> str:
    return "k:" + json.dumps({field: value}, separators=(",", ":"), ensure_ascii=False)


def element_of(type_: FieldType, item: Any) -> str:
    """The path element of an item of a keyed list or a set."""
    keys = type_.keys
    if not keys:
        if isinstance(item, dict | list) or item is None:
            raise MisfitError
        return "v:" + json.dumps(item, separators=(",", ":"), ensure_ascii=False)
    if not isinstance(item, dict):
        raise MisfitError
    if len(keys) == 1:
        value = item.get(keys[0])
        if isinstance(value, str):
            return _named(keys[0], value)
    found = {}
    for key in sorted(keys):
        value = item.get(key, MISSING)
        if value is MISSING:
            value = type_.key_defaults.get(key, MISSING)
        if value is not MISSING:
            found[key] = value
    if not found:
        raise MisfitError
    return "k:" + json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def is_map(type_: FieldType) -> bool:
    return type_.kind in ("struct", "map")


def check_scalar(value: Any, type_: FieldType) -> None:
    kind = type_.scalar
    if kind == "string":
        if type(value) is not str:
            raise MisfitError
    elif kind == "numeric":
        if type(value) is not int and type(value) is not float:
            raise MisfitError
    elif kind == "boolean":
        if type(value) is bool:
            return
        raise MisfitError
    elif isinstance(value, dict | list) and type_.form != "int_or_string":
        raise MisfitError
