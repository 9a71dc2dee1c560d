"""The words for a value that doesn't fit its type, and for the places in it, as structured-merge-diff and Go print them."""

import json
from typing import Any

from delegate.simulator.merging.elements import MisfitError, check_scalar, element_of, is_map
from delegate.simulator.schemas import ANY, FieldType


def _go(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int():
            return "int64"
        case float():
            return "float64"
        case list():
            return "[]interface {}"
        case dict():
            return "map[string]interface {}"
        case _:
            return "nil"


def _printed(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def printed(value: Any) -> str:
    """A value as Go's `%v` prints it."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case list():
            return "[" + " ".join(printed(item) for item in value) + "]"
        case dict():
            return "map[" + " ".join(f"{key}:{printed(value[key])}" for key in sorted(value)) + "]"
        case _:
            return str(value)


def _literal(value: Any) -> str:
    """A value as Go's `%#v` prints it."""
    match value:
        case list():
            return "[]interface {}{" + ", ".join(_literal(item) for item in value) + "}"
        case dict():
            return "map[string]interface {}{" + ", ".join(f"{_printed(key)}:{_literal(value[key])}" for key in sorted(value)) + "}"
        case None:
            return "interface {}(nil)"
        case _:
            return _printed(value)


def explain(value: Any, type_: FieldType, path: str) -> list[str]:
    """Every place where a value doesn't fit its type, as `path: what`."""
    if value is None or type_.kind == "any":
        return []
    if is_map(type_):
        if not isinstance(value, dict):
            return [f"{path}: expected map, got &{{{printed(value)}}}"]
        out = []
        for key, item in value.items():
            below = type_.fields.get(key) or type_.element or (ANY if type_.open else None)
            if below is None:
                out.append(f"{path}.{key}: field not declared in schema")
                break
            out += explain(item, below, f"{path}.{key}")
        return out
    if type_.kind == "list":
        return _explain_list(value, type_, path)
    return _explain_scalar(value, type_, path)


def _explain_list(value: Any, type_: FieldType, path: str) -> list[str]:
    if not isinstance(value, list):
        return [f"{path}: expected list, got &{{{printed(value)}}}"]
    out: list[str] = []
    seen: set[str] = set()
    for index, item in enumerate(value):
        shown = f"[{index}]"
        if not type_.atomic:
            try:
                key = element_of(type_, item)
            except MisfitError:
                return [*out, f"{path}: element {index}: {_explain_key(type_, item)}"]
            shown = shown_element(key)
            if key in seen:
                out.append(f"{path}: duplicate entries for key {shown}")
            seen.add(key)
        out += explain(item, type_.element or ANY, path + shown)
    return out


def _explain_key(type_: FieldType, item: Any) -> str:
    if not type_.keys:
        what = "a map type" if isinstance(item, dict) else "an explicit null"
        if isinstance(item, list):
            return "not supported: associative list with lists as elements"
        return f"associative list without keys has an element that's {what}"
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    keys = " ".join(f'"{key}"' for key in type_.keys)
    return (
        f"associative list with keys has an element that omits all key fields [{keys}] (and doesn't have default values for any key fields)"
    )


def _explain_scalar(value: Any, type_: FieldType, path: str) -> list[str]:
    try:
        check_scalar(value, type_)
    except MisfitError:
        match type_.scalar:
            case "numeric":
                return [f"{path}: expected numeric (int or float), got {_go(value)}"]
            case "string":
                return [f"{path}: expected string, got &value.valueUnstructured{{Value:{_literal(value)}}}"]
            case "boolean":
                return [f"{path}: expected boolean, got &{{{printed(value)}}}"]
            case _:
                return [f"{path}: expected any scalar, got &{{{printed(value)}}}"]
    return []


def shown_element(key: str) -> str:
    """A path element as messages show it: `.name`, `[name="a"]`, `[="v"]`."""
    prefix, _, rest = key.partition(":")
    if prefix == "f":
        return f".{rest}"
    if prefix == "v":
        return f"[={rest}]"
    return "[" + _keys(json.loads(rest)) + "]"


def _keys(named: dict[str, Any]) -> str:
    return ",".join(f"{name}={_keys(value) if isinstance(value, dict) else _printed(value)}" for name, value in named.items())


def shown_path(path: tuple[str, ...]) -> str:
    return "".join(shown_element(key) for key in path)
