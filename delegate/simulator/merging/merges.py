"""One value with everything that another one says."""

from typing import Any

from delegate.simulator.merging.elements import MISSING, element_of
from delegate.simulator.schemas import ANY, FieldType


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
