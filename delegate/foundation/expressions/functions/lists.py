"""Lists (the list library of Kubernetes, `ext.Sets`), and what strings and lists share."""

from datetime import timedelta
from typing import Any

from delegate.foundation.expressions.functions.kinds import NO_OVERLOAD, Functions, equal, items, number, text
from delegate.foundation.expressions.functions.strings import last_index_of


def index_of(holder: Any, item: Any, offset: Any = 0) -> int:
    """The first place of a part in a string or of an item in a list, -1 for none."""
    if isinstance(holder, list):
        return next((index for index, held in enumerate(holder) if equal(held, item)), -1)
    if not 0 <= number(offset) <= len(text(holder)):
        raise ValueError("index out of range")
    return text(holder).find(text(item), offset)


def last_place_of(holder: Any, item: Any, offset: Any = None) -> int:
    if isinstance(holder, list):
        return next((index for index in range(len(holder) - 1, -1, -1) if equal(holder[index], item)), -1)
    return last_index_of(holder, item, offset)


def is_sorted(values: Any) -> bool:
    pairs = zip(items(values), values[1:], strict=False)
    return all(bool(one <= other) for one, other in pairs)


def total(values: Any) -> Any:
    if any(isinstance(value, bool) for value in items(values)):
        raise TypeError(NO_OVERLOAD)
    if values and all(isinstance(value, timedelta) for value in values):
        return sum(values, timedelta())
    return sum(values)


def least(values: Any) -> Any:
    if not items(values):
        raise ValueError("min called on empty list")
    return min(values)


def most(values: Any) -> Any:
    if not items(values):
        raise ValueError("max called on empty list")
    return max(values)


def _holds(holder: Any, item: Any) -> bool:
    return any(equal(held, item) for held in items(holder))


def contains_all(holder: Any, wanted: Any) -> bool:
    return all(_holds(holder, item) for item in items(wanted))


FUNCTIONS: Functions = {
    "indexOf": index_of,
    "isSorted": is_sorted,
    "lastIndexOf": last_place_of,
    "max": most,
    "min": least,
    "sets.contains": contains_all,
    "sets.equivalent": lambda one, other: contains_all(one, other) and contains_all(other, one),
    "sets.intersects": lambda one, other: any(_holds(other, item) for item in items(one)),
    "sum": total,
}
