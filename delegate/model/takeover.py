"""Taking an object over from client-side apply, once, when it is adopted.

`kubectl apply` without `--server-side` records its fields under an Update entry of its own and in an annotation. Under
server-side apply those fields would stay for ever when they leave the manifest, for that entry still owns them. So its
fields are handed to our entry first (one patch of the managedFields, guarded by the resourceVersion); the apply that follows
then removes what the manifest does not have, the annotation among it.
"""

import json
from collections.abc import Iterator
from typing import Any

from delegate.model.applied import FIELD_MANAGER
from delegate.model.changes import HIDDEN
from delegate.model.resources import JsonObject
from delegate.model.results import Change

CLIENT_SIDE_MANAGERS = frozenset({"kubectl-client-side-apply", "before-first-apply"})
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_Fields = dict[str, Any]
_ABSENT = object()


def is_client_side_applied(metadata: JsonObject) -> bool:
    """Whether some client-side apply still owns fields of a live object."""
    return any(map(_is_client_side, _entries(metadata)))


def handed_over(metadata: JsonObject, manager: str = FIELD_MANAGER) -> list[JsonObject]:
    """The managedFields of a live object with the fields of client-side apply under our own entry."""
    kept, fields, version = list[JsonObject](), _Fields(), ""
    for entry in _entries(metadata):
        ours = entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource")
        if ours or _is_client_side(entry):
            fields = _union(fields, entry.get("fieldsV1") or {})
            version = str(entry.get("apiVersion") or version)
        else:
            kept.append(entry)
    taken = {"manager": manager, "operation": "Apply", "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": fields}
    return [taken, *kept]


def removed_by_takeover(live: JsonObject, ours: JsonObject, *, secret: bool) -> tuple[Change, ...]:
    """The leaves of a live object that only client-side apply owns and our apply (`ours`: its fieldsV1) does not state."""
    entries = _entries(live.get("metadata") or {})
    left, others = _Fields(), ours
    for entry in entries:
        if _is_client_side(entry):
            left = _union(left, entry.get("fieldsV1") or {})
        else:
            others = _union(others, entry.get("fieldsV1") or {})
    changes = []
    for path, value in _leaves(left, others, live, ()):
        if path[:2] == ("metadata", "annotations") and path[-1:] == (_LAST_APPLIED,):
            continue  # its removal is no change of the object that anybody means
        pointer = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
        changes.append(Change(path=pointer, before=HIDDEN if secret and path[0] in ("data", "stringData") else value))
    return tuple(changes)


def _entries(metadata: JsonObject) -> list[JsonObject]:
    return [entry for entry in metadata.get("managedFields") or () if isinstance(entry, dict)]


def _is_client_side(entry: JsonObject) -> bool:
    return entry.get("manager") in CLIENT_SIDE_MANAGERS and not entry.get("subresource")


def _union(left: _Fields, right: _Fields) -> _Fields:
    merged = dict(left)
    for name, inner in right.items():
        merged[name] = _union(merged.get(name) or {}, inner or {})
    return merged


def _leaves(fields: _Fields, others: _Fields, value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """What `fields` has and `others` has not, with its place and value in the object; places that aren't there are left out."""
    for name, inner in fields.items():
        if name == ".":
            continue
        step, found = _step(name, value)
        if found is _ABSENT:
            continue
        below = {key: each for key, each in (inner or {}).items() if key != "."}
        if below and (name in others or name.startswith("f:")):
            yield from _leaves(inner, others.get(name) or {}, found, (*path, step))
        elif name not in others:
            yield (*path, step), found


def _step(name: str, value: Any) -> tuple[str | int, Any]:
    """Where a fieldsV1 element leads: `f:` a field, `k:` an entry by its keys, `v:` one by its value, `i:` one by its index."""
    kind, _, text = name.partition(":")
    if kind == "f" and isinstance(value, dict):
        return text, value.get(text, _ABSENT)
    if kind == "i" and isinstance(value, list) and text.isdigit() and int(text) < len(value):
        return int(text), value[int(text)]
    if kind in ("k", "v") and isinstance(value, list):
        wanted = json.loads(text)
        for index, item in enumerate(value):
            keyed = kind == "k" and isinstance(item, dict) and all(item.get(key) == each for key, each in wanted.items())
            if keyed or (kind == "v" and item == wanted):
                return index, item
    return text, _ABSENT
