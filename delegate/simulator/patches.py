"""The bodies of patches, and merge patch (RFC 7396) on values. JSON patch is in `operations`, strategic merge in `strategic`."""

import json
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.decoding import json_type

_OPERATION = ("op", "path", "from", "value")
_TEXTS = ("op", "path", "from")


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
            _check_operations(patch)
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


def _check_operations(operations: list[JsonObject]) -> None:
    for operation in operations:
        for name in _TEXTS:
            if not isinstance(operation.get(name, ""), str | None):
                got = json_type(operation[name])
                raise statuses.bad_request(
                    f"error decoding patch: json: cannot unmarshal {got} into Go struct field jsonPatchOp.{name} of type string"
                )


def remarks(patch: Any) -> list[str]:
    """What fieldValidation has to say of the operations themselves."""
    operations = enumerate(patch) if isinstance(patch, list) else ()
    return [f'json patch unknown field "[{index}].{key}"' for index, each in operations for key in each if key not in _OPERATION]


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
