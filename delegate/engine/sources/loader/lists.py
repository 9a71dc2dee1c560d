"""Lists of objects (`List`, `ConfigMapList`, ...) taken apart into the objects that they hold."""

from collections.abc import Iterator
from typing import NamedTuple

from delegate.engine.sources.errors import IncompleteObjectError
from delegate.engine.sources.loader.documents import Lines, Path, describe_path, describe_type
from delegate.engine.sources.loader.objects import Fault
from delegate.model.resources import JsonObject

_LIST_FIELDS = frozenset(("apiVersion", "kind", "metadata", "items"))


class Item(NamedTuple):
    """An object and the lines of its nodes; `path` is its place in the document."""

    body: JsonObject
    lines: Lines
    path: Path


def is_list(body: JsonObject) -> bool:
    """Whether an object is a list: its kind ends in `List`, and it has `items` at the top, be they null."""
    kind = body.get("kind")
    return isinstance(kind, str) and kind.endswith("List") and "items" in body and isinstance(body["items"], (list, type(None)))


def flatten(body: JsonObject, lines: Lines, path: Path = ()) -> Iterator[Item | Fault]:
    """The objects of a document: itself, or what its list holds, nested lists included.

    Items of a typed list that don't say what they are inherit it: a RoleList holds Roles of its apiVersion.
    """
    if not is_list(body):
        yield Item(body, lines, path)
        return
    for field in body:
        if field not in _LIST_FIELDS:
            words = f"`{field}` beside the items of a list would be lost"
            yield Fault(IncompleteObjectError, (*path, field), words, "a list holds only items; give an object another kind")
    item_kind = str(body["kind"]).removesuffix("List")
    for index, (item, item_lines) in enumerate(zip(body["items"] or (), lines.items(body), strict=True)):
        place: Path = (*path, "items", index)
        if not isinstance(item, dict):
            yield Fault(IncompleteObjectError, place, f"{describe_path(place)} is no object but a {describe_type(item)}")
            continue
        inherited: JsonObject = {}
        if item_kind:
            wanted = {"apiVersion": body.get("apiVersion"), "kind": item_kind}
            inherited = {field: value for field, value in wanted.items() if not item.get(field)}
        elif not item.get("apiVersion") and not item.get("kind"):
            yield Fault(IncompleteObjectError, place, f"{describe_path(place)} has neither apiVersion nor kind", "say what it is")
            continue
        if inherited:
            whole = inherited | {field: value for field, value in item.items() if field not in inherited}
            yield from flatten(whole, item_lines.with_fields_in_front(len(inherited)), place)
        else:
            yield from flatten(item, item_lines, place)
