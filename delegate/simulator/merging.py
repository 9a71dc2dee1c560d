"""Structured merge of objects by their field types: the field set of a value, merge, comparison and removal.

A transcription of the rules of structured-merge-diff (`typed`): keyed lists merge by key and sets by value, atomic lists and maps
are leaves, null and missing differ. Values are never changed; a merge that changes nothing returns the very object it was given.
"""

import functools
import json
from typing import Any

from delegate.simulator import fieldsets
from delegate.simulator.fieldsets import SELF, FieldSet
from delegate.simulator.schemas import ANY, FieldType

MISSING: Any = object()
"""Stands for a field that is not there, where None stands for null."""


class TypingError(Exception):
    """A value that doesn't fit its type; the text is structured-merge-diff's."""


class _Misfit(TypingError):
    """Raised by the fast pass; `explain` finds all the places."""

    def __init__(self) -> None:
        super().__init__("value does not fit its schema")


@functools.lru_cache(maxsize=32768)
def _named(field: str, value: str) -> str:
    return "k:" + json.dumps({field: value}, separators=(",", ":"), ensure_ascii=False)


def element_of(type_: FieldType, item: Any) -> str:
    """The path element of an item of a keyed list or a set."""
    keys = type_.keys
    if not keys:
        if isinstance(item, dict | list) or item is None:
            raise _Misfit
        return "v:" + json.dumps(item, separators=(",", ":"), ensure_ascii=False)
    if not isinstance(item, dict):
        raise _Misfit
    if len(keys) == 1:
        value = item.get(keys[0])
        if isinstance(value, str):
            return _named(keys[0], value)
    found = {}
    for key in sorted(keys):
        value = item.get(key, MISSING)
        if value is MISSING:
            value = type_.key_defaults.get(key, MISSING)
        if value is not MISSING:
            found[key] = value
    if not found:
        raise _Misfit
    return "k:" + json.dumps(found, separators=(",", ":"), ensure_ascii=False)


def is_map(type_: FieldType) -> bool:
    return type_.kind in ("struct", "map")


def field_set(value: Any, type_: FieldType, *, duplicates: bool = False) -> FieldSet:
    """The set of fields that a value has. Raises `TypingError` where it doesn't fit its type."""
    try:
        return _set_below(value, type_, duplicates)
    except _Misfit:
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
            raise _Misfit
        return _map_set(value, type_, duplicates)
    if kind == "list":
        if not isinstance(value, list):
            raise _Misfit
        return _list_set(value, type_, duplicates)
    _check_scalar(value, type_)
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
                    raise _Misfit
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
                raise _Misfit
            out[key] = {}
            continue
        below = _set_below(item, element, duplicates)
        out[key] = {SELF: {}, **below} if below and not element.atomic else {}
    return out


def _check_scalar(value: Any, type_: FieldType) -> None:
    kind = type_.scalar
    if kind == "string":
        if type(value) is not str:
            raise _Misfit
    elif kind == "numeric":
        if type(value) is not int and type(value) is not float:
            raise _Misfit
    elif kind == "boolean":
        if type(value) is bool:
            return
        raise _Misfit
    elif isinstance(value, dict | list) and type_.form != "int_or_string":
        raise _Misfit


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
            except _Misfit:
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
        _check_scalar(value, type_)
    except _Misfit:
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


def merge(left: Any, right: Any, type_: FieldType) -> Any:
    """`left` with everything that `right` says."""
    if right is MISSING or left is right:
        return left
    if left is MISSING:
        return right
    kind = type_.kind
    if kind in ("struct", "map") or (kind == "any" and isinstance(left, dict) and isinstance(right, dict)):
        if type_.atomic or not (left or right):
            return left if left == right else right
        return _merge_maps(left or {}, right or {}, type_)
    if kind == "list":
        if type_.atomic or not (left or right):
            return left if left == right else right
        return _merge_lists(left or [], right or [], type_)
    return left if left == right and type(left) is type(right) else right


def _merge_maps(left: Any, right: Any, type_: FieldType) -> Any:
    if not isinstance(left, dict):
        return right
    if not isinstance(right, dict):
        return left
    fields, element = type_.fields, type_.element or ANY
    out: dict[str, Any] | None = None
    for key, item in right.items():
        before = left.get(key, MISSING)
        merged = merge(before, item, fields.get(key) or element)
        if merged is not before:
            if out is None:
                out = dict(left)
            out[key] = merged
    return left if out is None else out


def _indexed(items: list[Any], type_: FieldType) -> tuple[list[str], dict[str, Any]]:
    keys = []
    observed: dict[str, Any] = {}
    for item in items:
        key = element_of(type_, item)
        observed[key] = None if key in observed else item
        keys.append(key)
    return keys, observed


def _merge_lists(left: list[Any], right: list[Any], type_: FieldType) -> Any:
    """Both orders are kept as far as they agree; where they don't, the right one's wins (`visitListItems`)."""
    left_keys, left_items = _indexed(left, type_)
    right_keys, right_items = _indexed(right, type_)
    element = type_.element or ANY
    if left_keys == right_keys:
        merged = [merge(before, after, element) for before, after in zip(left, right, strict=True)]
        return left if all(before is after for before, after in zip(left, merged, strict=True)) else merged
    shared = [key for key in right_keys if key in left_items]
    shared_at = 0
    out: list[Any] = []
    done: set[str] = set()
    at_left = at_right = 0
    while at_left < len(left_keys) or at_right < len(right_keys):
        if at_left < len(left_keys) and at_right < len(right_keys):
            key = left_keys[at_left]
            if key == right_keys[at_right]:
                done.add(key)
                out.append(merge(left_items[key], right_items[key], element))
                at_left += 1
                at_right += 1
                shared_at += 1
                continue
            if key in right_items and shared_at < len(shared) and shared[shared_at] != key:
                at_left += 1
                continue
        if at_left < len(left_keys):
            key = left_keys[at_left]
            if key not in right_items:
                out.append(left[at_left])
                at_left += 1
                continue
            if key in done:
                at_left += 1
        if at_right < len(right_keys):
            key = right_keys[at_right]
            done.add(key)
            out.append(merge(left_items.get(key, MISSING), right_items[key], element))
            at_right += 1
            if shared_at < len(shared) and shared[shared_at] == key:
                shared_at += 1
    return left if len(out) == len(left) and all(a is b for a, b in zip(left, out, strict=True)) else out


class Comparison:
    """What differs between two objects: the paths only in the new one, in both but different, and only in the old one."""

    __slots__ = ("added", "modified", "removed")

    def __init__(self, added: FieldSet, modified: FieldSet, removed: FieldSet) -> None:
        self.added = added
        self.modified = modified
        self.removed = removed

    def changed(self) -> FieldSet:
        return fieldsets.union(self.modified, self.added)


def compare(left: Any, right: Any, type_: FieldType) -> Comparison:
    added, modified, removed = _compare(left, right, type_)
    return Comparison(added or {}, modified or {}, removed or {})


Triple = tuple[FieldSet | None, FieldSet | None, FieldSet | None]
NOTHING: Triple = (None, None, None)


def _whole(value: Any, type_: FieldType) -> FieldSet:
    """The node of a value that came or went as a whole: every path of it is a member."""
    if type_.atomic or not value:
        return {}
    below: FieldSet = {}
    if isinstance(value, dict) and type_.kind != "scalar":
        fields, element = type_.fields, type_.element or ANY
        below = {f"f:{key}": _whole(item, fields.get(key) or element) for key, item in value.items()}
    elif isinstance(value, list) and type_.kind == "list":
        element = type_.element or ANY
        for item in value:
            key = element_of(type_, item)
            below[key] = {} if key in below else _whole(item, element)
    return {SELF: {}, **below} if below else {}


def _compare(left: Any, right: Any, type_: FieldType) -> Triple:
    if left is right:
        return NOTHING
    if left is MISSING:
        return _whole(right, type_), None, None
    if right is MISSING:
        return None, None, _whole(left, type_)
    kind = type_.kind
    deduced = kind == "any" and isinstance(left, dict) and isinstance(right, dict)
    if not type_.atomic and (left or right):
        if kind in ("struct", "map") or deduced:
            return _compare_maps(left or {}, right or {}, type_)
        if kind == "list":
            return _compare_lists(left or [], right or [], type_)
        if kind == "any" and (isinstance(left, dict) or isinstance(right, dict)):
            return _compare_kinds(left, right)
    return NOTHING if left == right and type(left) is type(right) else (None, {}, None)


def _compare_kinds(left: Any, right: Any) -> Triple:
    """An untyped value that changed its kind: both forms count."""
    if isinstance(left, dict):
        return None, {}, fieldsets.without_self(_whole(left, ANY)) or None
    return fieldsets.without_self(_whole(right, ANY)) or None, {}, None


def _compare_maps(left: dict[str, Any], right: dict[str, Any], type_: FieldType) -> Triple:
    fields, element = type_.fields, type_.element or ANY
    added: FieldSet = {}
    modified: FieldSet = {}
    removed: FieldSet = {}
    for key, after in right.items():
        before = left.get(key, MISSING)
        if before is after:
            continue
        one, two, three = _compare(before, after, fields.get(key) or element)
        name = f"f:{key}"
        if one is not None:
            added[name] = one
        if two is not None:
            modified[name] = two
        if three is not None:
            removed[name] = three
    for key, before in left.items():
        if key not in right:
            removed[f"f:{key}"] = _whole(before, fields.get(key) or element)
    return added or None, modified or None, removed or None


def _grouped(items: list[Any], type_: FieldType) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for item in items:
        found.setdefault(element_of(type_, item), []).append(item)
    return found


def _compare_lists(left: list[Any], right: list[Any], type_: FieldType) -> Triple:
    element = type_.element or ANY
    before, after = _grouped(left, type_), _grouped(right, type_)
    added: FieldSet = {}
    modified: FieldSet = {}
    removed: FieldSet = {}
    for key in before | after:
        old, new = before.get(key, []), after.get(key, [])
        if len(old) > 1 or len(new) > 1:
            if len(old) > 1 and len(new) > 1:
                if old != new:
                    modified[key] = {}
            elif len(old) > 1:
                removed[key] = {}
                if new:
                    added[key] = _whole(new[0], element)
            else:
                added[key] = {}
                if old:
                    removed[key] = fieldsets.without_self(_whole(old[0], element))
            continue
        one, two, three = _compare(old[0] if old else MISSING, new[0] if new else MISSING, element)
        if one is not None:
            added[key] = one
        if two is not None:
            modified[key] = two
        if three is not None:
            removed[key] = three
    return added or None, modified or None, removed or None


def remove(value: Any, gone: FieldSet, type_: FieldType) -> Any:
    """The value without the members of a set; emptied maps and lists become null."""
    if not gone or type_.atomic or not value:
        return value
    element = type_.element or ANY
    if isinstance(value, dict) and (is_map(type_) or type_.kind == "any"):
        out = {}
        for key, item in value.items():
            node = gone.get(f"f:{key}")
            if node is None:
                out[key] = item
            elif not fieldsets.is_member(node):
                out[key] = remove(item, node, type_.fields.get(key) or element)
        return out or None
    if isinstance(value, list) and type_.kind == "list":
        kept = []
        for item in value:
            node = gone.get(element_of(type_, item))
            if node is None:
                kept.append(item)
            elif not fieldsets.is_member(node):
                kept.append(remove(item, node, element))
        return kept or None
    return value


def with_named_members(node: FieldSet, type_: FieldType) -> FieldSet:
    """The set with the struct fields that lead to its members as members too."""
    out: FieldSet = {}
    for key, below in node.items():
        if key == SELF:
            out[key] = below
            continue
        if key.startswith("f:"):
            name = key[2:]
            below_type = type_.fields.get(name)
            deeper = with_named_members(below, below_type or type_.element or ANY)
            if below_type is not None and deeper and SELF not in deeper:
                deeper = {SELF: {}, **deeper}
        else:
            deeper = with_named_members(below, type_.element or ANY)
        out[key] = deeper
    return out
