"""Merge patch (RFC 7396), JSON patch (RFC 6902) and strategic merge patch, on values.

None of them changes its arguments; the result may share parts with them.
"""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.schemas import ANY, FieldType

MOST_OPERATIONS = 10_000


def merge_patch(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    out = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge_patch(out.get(key), value)
    return out


class _FailedError(Exception):
    """A JSON patch operation that could not be done."""


def json_patch(target: JsonObject, operations: Any) -> JsonObject:
    """Raises a 400 for what is no JSON patch, and a bare 422 for one that fails, as the server does."""
    if not isinstance(operations, list) or not all(isinstance(item, dict) for item in operations):
        raise statuses.bad_request("error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch")
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
        raise statuses.bad_request("the patched object is no object")
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


DIRECTIVE = "$patch"
RETAIN = "$retainKeys"
ORDER = "$setElementOrder/"
DELETE = "$deleteFromPrimitiveList/"


def strategic_patch(target: Any, patch: JsonObject, type_: FieldType) -> JsonObject:
    """Strategic merge by the patch strategies of the kind's schema; raises a 400 for directives that make no sense."""
    return _strategic_map(target if isinstance(target, dict) else {}, patch, type_)


def _strategic_map(target: JsonObject, patch: JsonObject, type_: FieldType) -> JsonObject:
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise statuses.bad_request(f"Unknown patch type found: {directive}")
    out = dict(target)
    retained = patch.get(RETAIN)
    if retained is not None:
        out = {key: value for key, value in out.items() if key in retained}
    orders = {key.removeprefix(ORDER): value for key, value in patch.items() if key.startswith(ORDER)}
    for key, value in patch.items():
        if key in (DIRECTIVE, RETAIN) or key.startswith(ORDER):
            continue
        if key.startswith(DELETE):
            name = key.removeprefix(DELETE)
            if name in out:
                out[name] = [item for item in out[name] if item not in value]
            continue
        if value is None:
            out.pop(key, None)
            continue
        below = type_.fields.get(key) or type_.element or ANY
        out[key] = _strategic_value(out.get(key), value, below, type_.patches.get(key), orders.pop(key, None))
    for key, order in orders.items():
        strategy = type_.patches.get(key, ("", ""))
        if isinstance(out.get(key), list):
            out[key] = _in_order(out[key], [], order, out[key], strategy[1])
    return out


def _strategic_value(before: Any, value: Any, type_: FieldType, strategy: tuple[str, str] | None, order: Any) -> Any:
    if isinstance(value, dict):
        if strategy and "replace" in strategy[0].split(","):
            return value
        return _strategic_map(before if isinstance(before, dict) else {}, value, type_)
    if isinstance(value, list):
        merges = bool(strategy) and "merge" in (strategy or ("", ""))[0].split(",")
        if not merges or any(isinstance(item, dict) and item.get(DIRECTIVE) == "replace" for item in value):
            return [item for item in value if not (isinstance(item, dict) and item.get(DIRECTIVE) == "replace")]
        key = (strategy or ("", ""))[1]
        before = before if isinstance(before, list) else []
        return _strategic_list(before, value, type_.element or ANY, key, order)
    return value


def _strategic_list(before: list[Any], patch: list[Any], element: FieldType, key: str, order: Any) -> list[Any]:
    deleted = [item.get(key) for item in patch if isinstance(item, dict) and item.get(DIRECTIVE) == "delete"]
    wanted = [item for item in patch if not (isinstance(item, dict) and item.get(DIRECTIVE) == "delete")]
    if not key:
        merged = [*before, *(item for item in wanted if item not in before)]
        return _in_order(merged, wanted, order if order is not None else wanted, before, key)
    merged = [item for item in before if item.get(key) not in deleted]
    for item in wanted:
        if key not in item:
            raise statuses.bad_request(f"map: {item} does not contain declared merge key: {key}")
        at = next((index for index, held in enumerate(merged) if held.get(key) == item[key]), None)
        if at is None:
            merged.append(_strategic_map({}, item, element))
        else:
            merged[at] = _strategic_map(merged[at], item, element)
    return _in_order(merged, wanted, order if order is not None else wanted, before, key)


def _in_order(merged: list[Any], wanted: list[Any], order: list[Any], server: list[Any], key: str) -> list[Any]:
    """The patch's order for what it names, the server's order for the rest, interleaved by the server's order."""

    def name(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    ordered = [name(item) for item in order]
    places = {name(item): index for index, item in enumerate(server) if not isinstance(name(item), dict | list)}
    named = [item for item in merged if name(item) in ordered]
    named.sort(key=lambda item: ordered.index(name(item)))
    rest = [item for item in merged if name(item) not in ordered]
    out: list[Any] = []
    at_rest = at_named = 0
    while at_rest < len(rest) or at_named < len(named):
        if at_named >= len(named):
            out.append(rest[at_rest])
            at_rest += 1
            continue
        if at_rest < len(rest):
            one, two = places.get(name(rest[at_rest])), places.get(name(named[at_named]))
            if one is not None and two is not None and one < two:
                out.append(rest[at_rest])
                at_rest += 1
                continue
        out.append(named[at_named])
        at_named += 1
    return out
