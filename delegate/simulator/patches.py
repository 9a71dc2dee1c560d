"""Merge patch (RFC 7396) and JSON patch (RFC 6902), on values: from the body of a request to the patched value.

Neither changes its arguments; the result may share parts with them.
"""

import json
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.decoding import json_type

MOST_OPERATIONS = 10_000


def read(data: bytes, kind: str) -> Any:
    """The patch in a body; raises a 400 in Go's words. `kind` is its media type."""
    strategic = kind == "application/strategic-merge-patch+json"
    prefix = "" if strategic else "error decoding patch: "
    try:
        patch = json.loads(data)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise statuses.bad_request(prefix + syntax_error(error)) from None
    wanted = "map[string]interface {}"
    if kind == "application/json-patch+json":
        if patch is None:
            return []
        if isinstance(patch, list) and all(isinstance(item, dict) for item in patch):
            return patch
        wrong = next((item for item in patch if not isinstance(item, dict)), None) if isinstance(patch, list) else patch
        wanted = "handlers.jsonPatchOp" if isinstance(patch, list) else "[]handlers.jsonPatchOp"
    elif isinstance(patch, dict):
        return patch
    elif patch is None:
        if strategic:
            return {}
        raise statuses.bad_request("Invalid JSON Patch")
    else:
        wrong = patch
    raise statuses.bad_request(f"{prefix}json: cannot unmarshal {json_type(wrong)} into Go value of type {wanted}")


def syntax_error(error: ValueError | RecursionError) -> str:
    """What Go says of a text that is no JSON, as far as Python's decoder tells."""
    if not isinstance(error, json.JSONDecodeError):
        return "exceeded max depth" if isinstance(error, RecursionError) else "invalid UTF-8"
    rest = error.doc[error.pos :].lstrip()
    if not rest or error.msg.startswith("Unterminated"):
        return "unexpected end of JSON input"
    places = {
        "Expecting value": "looking for beginning of value",
        "Expecting property name": "looking for beginning of object key string",
        "Expecting ':'": "after object key",
        "Expecting ','": "after object key:value pair",
        "Extra data": "after top-level value",
    }
    where = next((place for start, place in places.items() if error.msg.startswith(start)), "looking for beginning of value")
    return f"invalid character '{rest[0]}' {where}"


def merge_patch(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return _without_nulls(patch)
    out = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge_patch(out.get(key), value)
    return out


def _without_nulls(value: Any) -> Any:
    """Nulls inside the objects of a list are taken out too, as the server's library does."""
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return value


class _FailedError(Exception):
    """A JSON patch operation that could not be done."""


def json_patch(target: JsonObject, operations: list[JsonObject]) -> JsonObject:
    """Raises a bare 422 for a patch that fails, as the server does. The operations are objects."""
    if len(operations) > MOST_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        raise statuses.StatusError(413, message, reason="RequestEntityTooLarge", details={})
    out: Any = target
    try:
        for operation in operations:
            out = _operate(out, operation)
    except (_FailedError, KeyError, IndexError, ValueError, TypeError):
        message = "the server rejected our request due to an error in our request"
        raise statuses.StatusError(422, message, reason="Invalid", details={}) from None
    if not isinstance(out, dict):
        raise statuses.bad_request(f"json: cannot unmarshal {json_type(out)} into Go value of type map[string]interface {{}}")
    return out


def _pointer(path: str) -> list[str]:
    if path == "":
        return []
    if not path.startswith("/"):
        raise _FailedError(path)
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def _operate(document: Any, operation: JsonObject) -> Any:
    path = _pointer(operation["path"])
    match operation["op"]:
        case "add":
            return _put(document, path, operation.get("value"), insert=True)
        case "replace":
            _read(document, path)
            return _put(document, path, operation.get("value"), insert=False)
        case "remove":
            return _drop(document, path)
        case "test":
            try:
                found = _read(document, path)
            except (KeyError, IndexError):
                found = None
            if found != operation.get("value"):
                raise _FailedError(operation["path"])
            return document
        case "copy":
            return _put(document, path, _read(document, _pointer(operation["from"])), insert=True)
        case "move":
            moved = _read(document, _pointer(operation["from"]))
            return _put(_drop(document, _pointer(operation["from"])), path, moved, insert=True)
        case unknown:
            raise _FailedError(str(unknown))


def _read(document: Any, path: list[str]) -> Any:
    for part in path:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def _put(document: Any, path: list[str], value: Any, *, insert: bool) -> Any:
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(document, list):
        items = list(document)
        if rest:
            items[int(key)] = _put(items[int(key)], rest, value, insert=insert)
        elif not insert:
            items[int(key)] = value
        else:
            at = len(items) if key == "-" else int(key)
            if not 0 <= at <= len(items):
                raise _FailedError(key)
            items.insert(at, value)
        return items
    if not isinstance(document, dict):
        raise _FailedError(key)
    if rest:
        return {**document, key: _put(document[key], rest, value, insert=insert)}
    return {**document, key: value}


def _drop(document: Any, path: list[str]) -> Any:
    key, rest = path[0], path[1:]
    if isinstance(document, list):
        items = list(document)
        if rest:
            items[int(key)] = _drop(items[int(key)], rest)
        else:
            del items[int(key)]
        return items
    if rest:
        return {**document, key: _drop(document[key], rest)}
    document[key]  # a missing member is an error
    return {name: value for name, value in document.items() if name != key}
