"""Sets of field paths in the form of `FieldsV1`, and their algebra.

A set is a nested JSON object as managedFields carry it: a key is a path element (`f:name`, `k:{...}`, `v:...`); an empty
object below a key says that the path is a member; `.` says so where the path has members below it too. Sets are values:
no function here changes its arguments, and results may share parts with them (structured-merge-diff `fieldpath.Set`).
"""

from typing import Any

FieldSet = dict[str, Any]

SELF = "."


def is_member(node: FieldSet) -> bool:
    return not node or SELF in node


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    if not left:
        return right
    if not right:
        return left
    out = dict(left)
    for key, node in right.items():
        mine = out.get(key)
        if mine is None:
            out[key] = node
        elif mine is not node:
            out[key] = _join(mine, node)
    return out


def _join(left: FieldSet, right: FieldSet) -> FieldSet:
    member = is_member(left) or is_member(right)
    joined = union({k: v for k, v in left.items() if k != SELF}, {k: v for k, v in right.items() if k != SELF})
    return {SELF: {}, **joined} if member and joined else joined


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """The members of `left` that are not members of `right`; what lies below a removed member stays."""
    out: FieldSet = {}
    for key, node in left.items():
        if key == SELF:
            continue
        other = right.get(key)
        if other is None:
            out[key] = node
            continue
        below = difference(node, other)
        if is_member(node) and not is_member(other):
            out[key] = {SELF: {}, **below} if below else {}
        elif below:
            out[key] = below
    return out


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    out: FieldSet = {}
    for key, node in left.items():
        other = right.get(key)
        if key == SELF or other is None:
            continue
        below = intersection(node, other)
        if is_member(node) and is_member(other):
            out[key] = {SELF: {}, **below} if below else {}
        elif below:
            out[key] = below
    return out


def is_subset(left: FieldSet, right: FieldSet) -> bool:
    for key, node in left.items():
        if key == SELF:
            continue
        other = right.get(key)
        if other is None or (is_member(node) and not is_member(other)) or (node and not is_subset(node, other)):
            return False
    return True


def insert(target: FieldSet, path: tuple[str, ...]) -> None:
    """Adds a path to a set that nobody else holds."""
    node = target
    for element in path[:-1]:
        below = node.get(element)
        if below is None:
            node[element] = below = {}
        elif not below:
            below[SELF] = {}
        node = below
    last = node.get(path[-1])
    if last is None:
        node[path[-1]] = {}
    elif last:
        last[SELF] = {}


def without_self(node: FieldSet) -> FieldSet:
    return {key: below for key, below in node.items() if key != SELF} if SELF in node else node


def ordered(node: FieldSet) -> FieldSet:
    """The same set with its keys in the order that the API server writes them."""
    return {key: ordered(node[key]) for key in sorted(node)}


def paths(node: FieldSet, prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every member in structured-merge-diff's order: those of a node before those below it."""
    keys = sorted(key for key in node if key != SELF)
    out = [(*prefix, key) for key in keys if is_member(node[key])]
    for key in keys:
        out.extend(paths(node[key], (*prefix, key)))
    return out


def has(node: FieldSet, path: tuple[str, ...]) -> bool:
    """Whether a path is a member."""
    for element in path:
        below = node.get(element)
        if below is None:
            return False
        node = below
    return is_member(node)
