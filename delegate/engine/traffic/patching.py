"""JSON patches (RFC 6902) that hold the changed fields and nothing else."""

from delegate.model.pointers import escaped
from delegate.model.resources import JsonObject


def patch_between(before: JsonObject, after: JsonObject) -> list[JsonObject]:
    """Operations that make `after` of `before`; lists of different lengths are replaced whole."""
    return list(_changes("", before, after))


def guarded_patch(before: JsonObject, after: JsonObject) -> list[JsonObject]:
    """The same, accepted only by the object in the state of `before`: a replaced resourceVersion is a precondition, answered by 409."""
    changes = patch_between(before, after)
    version = before["metadata"]["resourceVersion"]
    return [{"op": "replace", "path": "/metadata/resourceVersion", "value": version}, *changes] if changes else []


def _changes(path: str, before: object, after: object) -> list[JsonObject]:
    if before == after and type(before) is type(after):
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        changes: list[JsonObject] = []
        for key in before:
            place = f"{path}/{escaped(key)}"
            changes += _changes(place, before[key], after[key]) if key in after else [{"op": "remove", "path": place}]
        for key in after:
            if key not in before:
                changes.append({"op": "add", "path": f"{path}/{escaped(key)}", "value": after[key]})
        return changes
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [change for at, (old, new) in enumerate(zip(before, after, strict=True)) for change in _changes(f"{path}/{at}", old, new)]
    return [{"op": "replace", "path": path, "value": after}]
