"""Whole numbers stay whole. Pure.

Helm reads numbers of YAML as floating point, so that `1000000` is printed as `1e+06` and numbers past 2^53 change
(helm/helm#1707, #6867). What `--set` sets is read as a whole number, so each large one is set again that way, at the place
and with the value that it has in the end.
"""

import re
from collections.abc import Iterator, Sequence

from delegate.engine.sources.helm.values import exact_argument, list_argument, name_of
from delegate.model.resources import JsonObject

SMALLEST = 1_000_000
"""Below, a number is printed as it is written."""
_DIGITS = re.compile(rb"\d[\d_]{6}|0[xXoObB]|\d[eE]\+?\d|\d{3,}\.0")
_LARGEST = 2**63 - 1

Path = tuple[str | int, ...]


def may_hold_large(data: bytes) -> bool:
    """Whether reading a file closer is worth the time."""
    return _DIGITS.search(data) is not None


def exact_arguments(values: JsonObject, parameters: Sequence[str]) -> list[str]:
    """The arguments that set every large whole number of merged values again.

    `parameters` are the names that somebody sets after us: a list that they set a part of is theirs.
    """
    arguments: list[str] = []
    lists: set[Path] = set()
    for path, number in _large(values, ()):
        top = next((path[:index] for index, step in enumerate(path) if isinstance(step, int)), None)
        if top is not None and any(name.startswith(name_of(top) + "[") for name in parameters):
            continue
        if top is not None and top not in lists:
            lists.add(top)
            arguments += list_argument(top, _at(values, top))
        arguments += exact_argument(path, number)
    return arguments


def _large(value: object, path: Path) -> Iterator[tuple[Path, int]]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _large(member, (*path, key))
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from _large(member, (*path, index))
    elif isinstance(value, int) and not isinstance(value, bool) and SMALLEST <= abs(value) <= _LARGEST:
        yield path, value


def _at(value: object, path: Path) -> object:
    for step in path:
        value = value[step]  # type: ignore[index]  # the path was found in it
    return value
