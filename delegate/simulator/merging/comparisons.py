"""What differs between two values, as sets of fields."""

from typing import Any

from delegate.simulator import fieldsets
from delegate.simulator.fieldsets import SELF, FieldSet
from delegate.simulator.merging.elements import MISSING, element_of
from delegate.simulator.schemas import ANY, FieldType

Triple = tuple[FieldSet | None, FieldSet | None, FieldSet | None]
"""Added, modified and removed members; None where there are none."""
NOTHING: Triple = (None, None, None)


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
