"""The bodies of patches, and merge patch (RFC 7396) on values. JSON patch is in `operations`, strategic merge in `strategic`."""

import json
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import bodies, statuses
from delegate.simulator.decoding import json_type
from delegate.simulator.gosyntax import syntax_error

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


def remarks(data: bytes, kind: str) -> list[str]:
    """What fieldValidation has to say of the patch itself: members that come twice, and of operations those that aren't known."""
    if kind != "application/json-patch+json":
        pairs = bodies.pairs_of(data)
        return bodies.remarks(pairs, []) if pairs is not None else []
    operations = json.loads(data, object_pairs_hook=bodies.Pairs) or ()
    unknown = [f"[{index}].{key}" for index, each in enumerate(operations) for key, _ in each if key not in _OPERATION]
    return bodies.remarks(operations, unknown, "json patch ")


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


def shown(patched: JsonObject, patch: Any, *, custom: bool) -> str:
    """A patched object inside a message: Go's library sorts the members of what it took apart, and of what has no type."""
    ordered = _sorted(patched, patch if isinstance(patch, dict) else {}, deep=custom)
    return json.dumps(ordered, separators=(",", ":"), ensure_ascii=False)


def _sorted(value: Any, touched: Any, *, deep: bool) -> Any:
    if isinstance(value, list):
        return [_sorted(item, None, deep=deep) for item in value] if deep else value
    if not isinstance(value, dict) or not (deep or isinstance(touched, dict)):
        return value
    below = touched if isinstance(touched, dict) else {}
    return {key: _sorted(value[key], below.get(key), deep=deep) for key in sorted(value)}
