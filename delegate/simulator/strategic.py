"""Strategic merge patch, by the patch strategies and merge keys of a kind's schema (apimachinery `strategicpatch`)."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.merging import printed
from delegate.simulator.schemas import ANY, FieldType

DIRECTIVE = "$patch"
RETAIN = "$retainKeys"
ORDER = "$setElementOrder/"
DELETE = "$deleteFromPrimitiveList/"
Strategy = tuple[str, str]
NO_STRATEGY: Strategy = ("", "")


def strategic_patch(target: Any, patch: JsonObject, type_: FieldType) -> JsonObject:
    """The patched value; shares parts with the arguments.

    Raises a 400 for wrong `$retainKeys` and a 500 for what else makes no sense, as the server does.
    """
    return _map(target if isinstance(target, dict) else {}, patch, type_)


def _map(target: JsonObject, patch: JsonObject, type_: FieldType) -> JsonObject:
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != DIRECTIVE}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise statuses.internal(f"unknown patch type: {printed(directive)} in map: {printed(patch)}")
    out = _retained(target, patch)
    orders = {key.removeprefix(ORDER): _list(value) for key, value in patch.items() if key.startswith(ORDER)}
    for key, value in patch.items():
        if key in (DIRECTIVE, RETAIN) or key.startswith(ORDER):
            continue
        if key.startswith(DELETE):
            name = key.removeprefix(DELETE)
            if isinstance(out.get(name), list) and isinstance(value, list):
                out[name] = [item for item in out[name] if item not in value]
            continue
        if value is None:
            out.pop(key, None)
            continue
        below = type_.fields.get(key) or type_.element or ANY
        out[key] = _value(out.get(key), value, below, type_.patches.get(key, NO_STRATEGY), orders.pop(key, None))
    for key, order in orders.items():
        if isinstance(out.get(key), list):
            out[key] = _in_order(out[key], order, out[key], type_.patches.get(key, NO_STRATEGY)[1])
    return out


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        kind = {str: "string", int: "int64", float: "float64", bool: "bool", dict: "map[string]interface {}"}.get(type(value), "<nil>")
        raise statuses.internal(f"expected a []interface {{}}, but received a {kind}")
    return value


def _retained(target: JsonObject, patch: JsonObject) -> JsonObject:
    """The target without the members that `$retainKeys` doesn't name."""
    retained = patch.get(RETAIN)
    if retained is None:
        return dict(target)
    given = [key for key in patch if not key.startswith("$")]
    if not isinstance(retained, list) or any(key not in retained for key in given):
        raise statuses.bad_request("invalid patch format of retainKeys")
    return {key: value for key, value in target.items() if key in retained}


def _value(before: Any, value: Any, type_: FieldType, strategy: Strategy, order: Any) -> Any:
    words = strategy[0].split(",")
    if isinstance(value, dict):
        if "replace" in words:
            return value
        return _map(before if isinstance(before, dict) else {}, value, type_)
    if isinstance(value, list):
        before = before if isinstance(before, list) else []
        if "merge" not in words or any(isinstance(item, dict) and item.get(DIRECTIVE) == "replace" for item in value):
            return [item for item in value if not (isinstance(item, dict) and item.get(DIRECTIVE) == "replace")]
        return _merged(before, value, type_.element or ANY, strategy[1], order)
    return value


def _merged(before: list[Any], patch: list[Any], element: FieldType, key: str, order: list[Any] | None) -> list[Any]:
    if len({type(item) for item in (*before, *patch)}) > 1:
        raise statuses.internal(f"list element types are not identical: [{printed(before)} {printed(patch)}]")
    if not key:
        merged = [*before, *(item for item in patch if item not in before)]
        return _in_order(merged, order if order is not None else patch, before, key)
    deleted = [item.get(key) for item in patch if item.get(DIRECTIVE) == "delete"]
    wanted = [item for item in patch if item.get(DIRECTIVE) != "delete"]
    _check_order(wanted, order, key)
    merged = [item for item in before if item.get(key) not in deleted]
    for item in wanted:
        if key not in item:
            raise statuses.internal(f"map: {printed(item)} does not contain declared merge key: {key}")
        at = next((index for index, held in enumerate(merged) if held.get(key) == item[key]), None)
        if at is None:
            merged.append(_map({}, item, element))
        else:
            merged[at] = _map(merged[at], item, element)
    return _in_order(merged, order if order is not None else wanted, before, key)


def _check_order(wanted: list[Any], order: list[Any] | None, key: str) -> None:
    """What the patch has has to stand in the order that it says."""
    if order is None:
        return
    rest = iter([item.get(key) if isinstance(item, dict) else item for item in order])
    if not all(item.get(key) in rest for item in wanted):
        text = f"The order in patch list:\n{printed(wanted)}\n doesn't match $setElementOrder list:\n{printed(order)}\n"
        raise statuses.internal(text)


def _in_order(merged: list[Any], order: list[Any], server: list[Any], key: str) -> list[Any]:
    """The patch's order for what it names, the server's order for the rest, interleaved by the server's order."""

    def name(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    ordered = [name(item) for item in order]
    before = [name(item) for item in server]
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
            one, two = name(rest[at_rest]), name(named[at_named])
            if one in before and two in before and before.index(one) < before.index(two):
                out.append(rest[at_rest])
                at_rest += 1
                continue
        out.append(named[at_named])
        at_named += 1
    return out
