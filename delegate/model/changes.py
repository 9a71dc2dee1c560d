"""What differs between two bodies of one object, leaf by leaf, fit to be shown.

Compared are the live object and what a dry run answered, so both are in the server's own writing. What the server counts
(resourceVersion, managedFields, status) and our applied mark are no change. Entries of keyed lists are matched by their
key, so that an added port is one added port. No value of a Secret is ever shown, and what is shown is bounded.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from delegate.model.applied import APPLIED_ANNOTATION
from delegate.model.lists import key_of, likely_keys
from delegate.model.pointers import pointer_of
from delegate.model.resources import JsonObject
from delegate.model.results import Change

HIDDEN = "(hidden)"
MOST_CHANGES = 100
LONGEST_TEXT = 200

_LARGEST_VALUE = 1000
_DEEPEST = 60
_IGNORED = frozenset(
    {
        ("status",),
        ("metadata", "creationTimestamp"),
        ("metadata", "generation"),
        ("metadata", "managedFields"),
        ("metadata", "resourceVersion"),
        ("metadata", "selfLink"),
        ("metadata", "uid"),
        ("metadata", "annotations", APPLIED_ANNOTATION),
    }
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_Path = tuple[str | int, ...]
_ABSENT: Any = msgspec.UNSET


def diff_bodies(before: JsonObject | None, after: JsonObject | None, *, most: int = MOST_CHANGES) -> tuple[Change, ...]:
    """The changes that lead from one body to another, in the order of their paths; empty where nothing differs.

    None stands for no object. Paths are JSON pointers (RFC 6901) into `after`; into `before` for what is removed. Past `most`
    changes one more with an empty path says how many are not shown.
    """
    secret = any(body is not None and body.get("kind") == "Secret" and body.get("apiVersion") == "v1" for body in (before, after))
    found = list(_differences((), before or {}, after or {}))
    changes = [_shown(path, old, new, secret=secret) for path, old, new in found[:most]]
    if len(found) > most:
        changes.append(Change(path="", after=f"({len(found) - most} more changes)"))
    return tuple(changes)


def _differences(path: _Path, old: Any, new: Any) -> Iterator[tuple[_Path, Any, Any]]:
    if path in _IGNORED or _is_same(old, new):
        return
    if _may_descend(old, new) and len(path) < _DEEPEST:
        old, new = old or {}, new or {}
        names = [*new, *(name for name in old if name not in new)]
        for name in sorted(names):
            yield from _differences((*path, name), old.get(name, _ABSENT), new.get(name, _ABSENT))
    elif isinstance(old, list) and isinstance(new, list) and len(path) < _DEEPEST:
        yield from _list_differences(path, old, new)
    else:
        yield path, old, new


def _may_descend(old: Any, new: Any) -> bool:
    """Two mappings; or one that has something in it, against nothing: its leaves are what was added or removed."""
    if isinstance(old, dict) and isinstance(new, dict):
        return True
    return (old is _ABSENT and isinstance(new, dict) and bool(new)) or (new is _ABSENT and isinstance(old, dict) and bool(old))


def _list_differences(path: _Path, old: list[Any], new: list[Any]) -> Iterator[tuple[_Path, Any, Any]]:
    if not any(isinstance(each, dict | list) for each in (*old, *new)):
        yield path, old, new
        return
    keys = likely_keys(str(path[-1]) if path else "", old, new)
    if keys is not None:
        yield from _keyed_differences(path, old, new, keys)
        return
    start = 0
    while start < min(len(old), len(new)) and _is_same(old[start], new[start]):
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and _is_same(old[-1 - end], new[-1 - end]):
        end += 1
    old_middle, new_middle = old[start : len(old) - end], new[start : len(new) - end]
    for offset in range(max(len(old_middle), len(new_middle))):
        before = old_middle[offset] if offset < len(old_middle) else _ABSENT
        after = new_middle[offset] if offset < len(new_middle) else _ABSENT
        yield from _entry_differences((*path, start + offset), before, after)


def _keyed_differences(path: _Path, old: list[Any], new: list[Any], keys: tuple[str, ...]) -> Iterator[tuple[_Path, Any, Any]]:
    was = {key_of(entry, keys): (index, entry) for index, entry in enumerate(old)}
    now = {key_of(entry, keys): (index, entry) for index, entry in enumerate(new)}
    stayed = [key for key in was if key in now]
    if stayed != [key for key in now if key in was]:
        # Only the order differs; it has a meaning in some (init containers, env that refers to env).
        yield path, [_name(key) for key in was], [_name(key) for key in now]
    for key, (index, entry) in now.items():
        yield from _entry_differences((*path, index), was[key][1] if key in was else _ABSENT, entry)
    for key, (index, entry) in was.items():
        if key not in now:
            yield (*path, index), entry, _ABSENT


def _entry_differences(path: _Path, old: Any, new: Any) -> Iterator[tuple[_Path, Any, Any]]:
    """An entry that came or went is one change, whatever is in it."""
    if old is _ABSENT or new is _ABSENT:
        yield path, old, new
    else:
        yield from _differences(path, old, new)


def _name(key: tuple[str, ...] | None) -> str:
    return "/".join(key or ())


def _is_same(old: Any, new: Any) -> bool:
    """Equality as JSON has it: true is not 1, and 1.0 is 1."""
    if isinstance(old, bool) or isinstance(new, bool):
        return old is new
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(_is_same(value, new[name]) for name, value in old.items())
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(_is_same(*pair) for pair in zip(old, new, strict=True))
    return type(old) is type(new) and old == new if isinstance(old, str) or isinstance(new, str) else bool(old == new)


def _shown(path: _Path, old: Any, new: Any, *, secret: bool) -> Change:
    if secret and _is_secret(path):
        old, new = (value if value is _ABSENT else HIDDEN for value in (old, new))
    return Change(path=pointer_of(path), before=_shortened(old), after=_shortened(new))


def _is_secret(path: _Path) -> bool:
    return path[0] in ("data", "stringData") or path[:3] == ("metadata", "annotations", _LAST_APPLIED)


def _shortened(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else f"{value[:LONGEST_TEXT]}… ({len(value)} characters)"
    if isinstance(value, dict | list):
        text = json.dumps(value)
        if len(text) > _LARGEST_VALUE:
            return f"({'object' if isinstance(value, dict) else 'list'} of {len(value)}, {len(text)} characters)"
        if isinstance(value, dict):
            return {name: _shortened(each) for name, each in value.items()}
        return [_shortened(each) for each in value]
    return value
