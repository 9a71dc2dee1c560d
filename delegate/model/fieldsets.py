"""Places in an object, and who owns them by its managedFields (fieldsV1, structured-merge-diff's set format).

A place is found in a live object by the keys of its lists and not by their indexes: servers reorder, and others add entries.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from delegate.model.applied import FIELD_MANAGER
from delegate.model.lists import key_of, likely_keys
from delegate.model.pointers import steps_of
from delegate.model.resources import JsonObject

Path = tuple[str | int, ...]
"""Steps from the root of a body: names of fields and indexes in lists."""

_BRACKET = re.compile(r"\[(?P<inner>(?:[^\]\"]|\"(?:[^\"\\]|\\.)*\")*)\]")
_PAIR = re.compile(r"(?P<name>[^=,\[\]]*)=(?P<value>\"(?:[^\"\\]|\\.)*\"|[^,\]]*)")
_ABSENT: Any = object()


class Place(msgspec.Struct, frozen=True):
    """A place of a live object: whether it is there, its value, and the managers other than us that own it or part of it."""

    exists: bool
    value: Any = None
    others: tuple[str, ...] = ()


def resolve_pointer(pointer: str, body: JsonObject) -> list[Path]:
    """Where a JSON pointer (RFC 6901) leads in a body; `*` stands for every entry of a list. Empty where it leads nowhere."""
    if not pointer.startswith("/"):
        return []
    found: list[tuple[Path, Any]] = [((), body)]
    for name in steps_of(pointer):
        found = [each for path, value in found for each in _steps(path, value, name)]
    return [path for path, _ in found]


def _steps(path: Path, value: Any, part: str) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and part in value:
        yield (*path, part), value[part]
    elif isinstance(value, list) and part == "*":
        yield from (((*path, index), each) for index, each in enumerate(value))
    elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
        yield (*path, int(part)), value[int(part)]


def value_at(body: JsonObject, pointer: str) -> bool:
    """Whether a pointer leads anywhere in a body."""
    return bool(resolve_pointer(pointer, body))


def resolve_conflict(field: str, body: JsonObject) -> Path | None:
    """Where a field that a conflict names (`.spec.template.spec.containers[name="main"].image`) is in a body; None where it isn't.

    Names of fields may hold dots themselves (labels do): the longest name that is there is taken.
    """
    path: list[str | int] = []
    value: Any = body
    rest = field
    while rest:
        if rest.startswith("["):
            match = _BRACKET.match(rest)
            index = _entry(match["inner"], value) if match else None
            if match is None or index is None:
                return None
            path.append(index)
            rest = rest[match.end() :]
        else:
            name = _longest_name(rest.removeprefix("."), value)
            if name is None:
                return None
            path.append(name)
            rest = rest.removeprefix(".")[len(name) :]
        value = value[path[-1]]
    return tuple(path)


def _longest_name(rest: str, value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    fitting = [name for name in value if rest.startswith(name) and rest[len(name) : len(name) + 1] in ("", ".", "[")]
    return max(fitting, key=len, default=None)


def _entry(inner: str, value: Any) -> int | None:
    if not isinstance(value, list):
        return None
    if inner.isdigit():
        return int(inner) if int(inner) < len(value) else None
    pairs = {match["name"]: _scalar(match["value"]) for match in _PAIR.finditer(inner)}
    for index, entry in enumerate(value):
        if "" in pairs and entry == pairs[""]:
            return index
        if isinstance(entry, dict) and all(entry.get(name) == wanted for name, wanted in pairs.items()):
            return index
    return None


def _scalar(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def ownership_at(live: JsonObject, path: Path, body: JsonObject, *, manager: str = FIELD_MANAGER) -> Place:
    """The place in a live object that a path of a wanted body means, and who else owns it."""
    steps = _live_path(live, path, body)
    if steps is None:
        return Place(False)
    value: Any = live
    for step in steps:
        value = value[step]
    owners = []
    for entry in (live.get("metadata") or {}).get("managedFields") or ():
        ours = entry.get("manager") == manager and entry.get("operation") == "Apply"
        if not ours and _owns(entry.get("fieldsV1") or {}, steps, live):
            owners.append(str(entry.get("manager") or ""))
    return Place(True, value, tuple(dict.fromkeys(owners)))


def _live_path(live: JsonObject, path: Path, body: JsonObject) -> Path | None:
    """The same place by the keys of lists; None where the live object has none such."""
    steps: list[str | int] = []
    here: Any = live
    wanted: Any = body
    for position, step in enumerate(path):
        if isinstance(step, int):
            index = _matching(here, wanted, step, str(path[position - 1]) if position else "")
            if index is None:
                return None
            steps.append(index)
            here = here[index]
        else:
            if not isinstance(here, dict) or step not in here:
                return None
            steps.append(step)
            here = here[step]
        wanted = wanted[step]
    return tuple(steps)


def _matching(here: Any, wanted: Any, index: int, field: str) -> int | None:
    if not isinstance(here, list):
        return None
    keys = likely_keys(field, wanted, here)
    if keys is None:
        return index if index < len(here) else None
    key = key_of(wanted[index], keys)
    return next((position for position, entry in enumerate(here) if key_of(entry, keys) == key), None)


def _owns(fields: JsonObject, path: Path, live: JsonObject) -> bool:
    """Whether a fieldsV1 holds a place: the place itself, something in it, or a whole that it is an inseparable part of."""
    here: Any = live
    for depth, step in enumerate(path):
        below = {name: inner for name, inner in fields.items() if name != "."}
        if not below:
            return depth > 0 and not fields  # a leaf of the set owns all that is under it; `.` alone, the empty whole
        found = _field_of(below, step, here)
        if found is None:
            return False
        fields, here = found or {}, here[step]
    return True


def _field_of(fields: JsonObject, step: str | int, here: Any) -> JsonObject | None:
    if isinstance(step, str):
        name = f"f:{step}"
        return (fields[name] or {}) if name in fields else None
    entry = here[step]
    for name, inner in fields.items():
        kind, _, text = name.partition(":")
        if kind == "i" and text == str(step):
            return inner or {}
        if kind == "v" and _scalar(text) == entry:
            return inner or {}
        if kind == "k" and isinstance(entry, dict) and all(entry.get(key) == value for key, value in json.loads(text).items()):
            return inner or {}
    return None
