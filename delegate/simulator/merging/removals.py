"""Values without the members of a set, and sets with what leads to their members."""

from typing import Any

from delegate.simulator import fieldsets
from delegate.simulator.fieldsets import SELF, FieldSet
from delegate.simulator.merging.elements import element_of, is_map
from delegate.simulator.schemas import ANY, FieldType


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
