"""The set of fields that a value has."""

from typing import Any

from delegate.simulator.fieldsets import SELF, FieldSet
from delegate.simulator.merging.elements import MisfitError, TypingError, check_scalar, element_of
from delegate.simulator.merging.misfits import explain
from delegate.simulator.schemas import ANY, FieldType


def field_set(value: Any, type_: FieldType, *, duplicates: bool = False) -> FieldSet:
    """The set of fields that a value has. Raises `TypingError` where it doesn't fit its type."""
    try:
        return _set_below(value, type_, duplicates)
    except MisfitError:
        problems = explain(value, type_, "")
        if not problems:
            raise TypingError("value does not fit its schema") from None
        if len(problems) == 1:
            raise TypingError(problems[0]) from None
        raise TypingError("errors:\n" + "\n".join(f"  {line}" for line in problems)) from None


def _set_below(value: Any, type_: FieldType, duplicates: bool) -> FieldSet:
    """Members below a value (not the value's own path)."""
    kind = type_.kind
    if kind == "any":
        if not isinstance(value, dict):
            return {}
        return {f"f:{key}": _member(item, ANY, duplicates, own=True) for key, item in value.items()}
    if value is None:
        return {}
    if kind in ("struct", "map"):
        if not isinstance(value, dict):
            raise MisfitError
        return _map_set(value, type_, duplicates)
    if kind == "list":
        if not isinstance(value, list):
            raise MisfitError
        return _list_set(value, type_, duplicates)
    check_scalar(value, type_)
    return {}


def _map_set(value: dict[str, Any], type_: FieldType, duplicates: bool) -> FieldSet:
    fields, element = type_.fields, type_.element
    out: FieldSet = {}
    for key, item in value.items():
        below_type = fields.get(key)
        own = below_type is None
        if below_type is None:
            below_type = element
            if below_type is None:
                if not type_.open:
                    raise MisfitError
                below_type = ANY
        node = _member(item, below_type, duplicates, own)
        if node is not None:
            out[f"f:{key}"] = node
    return out


def _member(item: Any, type_: FieldType, duplicates: bool, own: bool) -> FieldSet | None:
    """The node of one field: None where neither it nor anything below it is a member."""
    below = _set_below(item, type_, duplicates)
    kind = type_.kind
    if type_.atomic or kind == "scalar" or (kind == "any" and not isinstance(item, dict)):
        return {}
    if item is None or (not item and kind != "list"):
        return {}
    if own:
        return {SELF: {}, **below} if below else {}
    return below or None


def _list_set(value: list[Any], type_: FieldType, duplicates: bool) -> FieldSet:
    element = type_.element or ANY
    out: FieldSet = {}
    if type_.atomic:
        for item in value:
            _set_below(item, element, duplicates)
        return out
    for item in value:
        key = element_of(type_, item)
        if key in out:
            if not duplicates:
                raise MisfitError
            out[key] = {}
            continue
        below = _set_below(item, element, duplicates)
        out[key] = {SELF: {}, **below} if below and not element.atomic else {}
    return out
