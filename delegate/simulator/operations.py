"""JSON patches (RFC 6902) as the server's library does them, with its liberties (evanphx/json-patch v4).

A missing member reads as null, so that it can be replaced, copied and tested; indexes may be negative; the part of a path before
its first slash is not looked at. Values are not changed; the result may share parts with them.
"""

import re
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses

MOST_OPERATIONS = 10_000
_INDEX = re.compile(r"[+-]?[0-9]+")


class _FailedError(Exception):
    """An operation that could not be done."""


def json_patch(target: JsonObject, operations: list[JsonObject]) -> Any:
    """The patched value. Raises a bare 422 for a patch that fails, as the server does. The operations are objects."""
    if len(operations) > MOST_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        raise statuses.StatusError(413, message, reason="RequestEntityTooLarge", details={})
    out: Any = target
    try:
        for operation in operations:
            out = _operate(out, operation)
    except _FailedError:
        message = "the server rejected our request due to an error in our request"
        raise statuses.StatusError(422, message, reason="Invalid", details={}) from None
    return out


def _operate(document: Any, operation: JsonObject) -> Any:
    path = operation.get("path")
    if path is None:
        raise _FailedError("path")
    value = operation.get("value")
    match operation.get("op"):
        case "add":
            return _changed(document, path, lambda holder, key: _add(holder, key, value))
        case "replace":
            return _replace(document, path, value)
        case "remove":
            return _changed(document, path, _remove)
        case "test":
            if not _equal(document if path == "" else _read(document, path), value):
                raise _FailedError(path)
            return document
        case "copy":
            copied = _read(document, _source(operation))
            return _changed(document, path, lambda holder, key: _add(holder, key, copied))
        case "move":
            moved = _read(document, _source(operation))
            left = _changed(document, _source(operation), _remove)
            return _changed(left, path, lambda holder, key: _add(holder, key, moved))
        case unknown:
            raise _FailedError(str(unknown))


def _source(operation: JsonObject) -> str:
    found = operation.get("from")
    if not isinstance(found, str):
        raise _FailedError("from")
    return found


def _replace(document: Any, path: str, value: Any) -> Any:
    if path == "":
        if not isinstance(value, dict | list):
            raise _FailedError(path)
        return value
    _read(document, path)
    return _changed(document, path, lambda holder, key: _set(holder, key, value))


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if len(parts) < 2:
        raise _FailedError(path)
    return [part.replace("~1", "/").replace("~0", "~") for part in parts[1:]]


def _read(document: Any, path: str) -> Any:
    for part in _parts(path):
        document = _member(document, part)
    return document


def _member(holder: Any, key: str) -> Any:
    if isinstance(holder, dict):
        return holder.get(key)
    if isinstance(holder, list):
        return holder[_index(key, len(holder))]
    raise _FailedError(key)


def _changed(document: Any, path: str, change: Any) -> Any:
    """The document with the holder of a path's last part changed."""
    *way, key = _parts(path)
    return _down(document, way, key, change)


def _down(holder: Any, way: list[str], key: str, change: Any) -> Any:
    if not isinstance(holder, dict | list):
        raise _FailedError(key)
    if not way:
        return change(holder, key)
    below = _down(_member(holder, way[0]), way[1:], key, change)
    return _set(holder, way[0], below)


def _index(key: str, size: int) -> int:
    """The place that an index names; negative ones count from the end."""
    if not _INDEX.fullmatch(key) or len(key) > 18:
        raise _FailedError(key)
    at = int(key)
    if at >= size or at < -size:
        raise _FailedError(key)
    return at + size if at < 0 else at


def _add(holder: Any, key: str, value: Any) -> Any:
    if isinstance(holder, dict):
        return {**holder, key: value}
    if key == "-":
        return [*holder, value]
    at = _index(key, len(holder) + 1)
    return [*holder[:at], value, *holder[at:]]


def _set(holder: Any, key: str, value: Any) -> Any:
    if isinstance(holder, dict):
        return {**holder, key: value}
    at = _index(key, len(holder))
    return [*holder[:at], value, *holder[at + 1 :]]


def _remove(holder: Any, key: str) -> Any:
    if isinstance(holder, dict):
        if key not in holder:
            raise _FailedError(key)
        return {name: value for name, value in holder.items() if name != key}
    at = _index(key, len(holder))
    return [*holder[:at], *holder[at + 1 :]]


def _equal(left: Any, right: Any) -> bool:
    """Equal to the last digit: 1 and 1.0 differ, as their texts do."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(_equal(one, two) for one, two in zip(left, right, strict=True))
    return bool(left == right)
