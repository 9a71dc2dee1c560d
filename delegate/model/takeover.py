"""Taking an object over: from client-side apply, once, when it is adopted; from everybody, where it is to be ours alone.

`kubectl apply` without `--server-side` records its fields under an Update entry of its own and in an annotation. Under
server-side apply those fields would stay for ever when they leave the manifest, for that entry still owns them. So its
fields are handed to our entry first (one patch of the managedFields, guarded by the resourceVersion); the apply that follows
then removes what the manifest does not have, the annotation among it.

Other tools leave the same behind under names of their own (`argocd-controller`, `helm`); an Application names those that it comes from.

Where an object's ownership is *override*, the fields of all other managers are taken the same way. Finalizers and owners stay
with who set them: taking those away could lose what they guard. So does what the cluster's own components write.
"""

import json
from collections.abc import Callable, Collection, Iterator
from typing import Any

from delegate.model.applied import CANARY_MANAGER, FIELD_MANAGER
from delegate.model.changes import HIDDEN
from delegate.model.pointers import pointer_of
from delegate.model.resources import JsonObject
from delegate.model.results import Change

CLIENT_SIDE_MANAGERS = frozenset({"before-first-apply", "kubectl", "kubectl-client-side-apply"})
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_COMPONENTS = frozenset(
    {"cloud-controller-manager", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl-rollout"}
)
_KEPT_METADATA = frozenset({"f:finalizers", "f:ownerReferences"})
_Fields = dict[str, Any]
_ABSENT = object()
Takes = Callable[[JsonObject], bool]
"""Whether the fields of an entry of managedFields are taken over."""


def is_client_side(entry: JsonObject) -> bool:
    """Whether an entry is that of some client-side apply."""
    return entry.get("manager") in CLIENT_SIDE_MANAGERS and entry.get("operation") == "Update" and not entry.get("subresource")


def is_client_side_or_of(managers: Collection[str]) -> Takes:
    """As `is_client_side`, and what these managers once wrote too: those that the Application is taken over from."""
    if not managers:
        return is_client_side

    def takes(entry: JsonObject) -> bool:
        named = entry.get("manager") in managers and not entry.get("subresource") and not _is_ours(entry, FIELD_MANAGER)
        return is_client_side(entry) or (named and bool(_taken(entry, takes)))

    return takes


def is_of_others(entry: JsonObject) -> bool:
    """Whether an entry is that of anybody but us and the cluster's own components, and holds something that can be taken."""
    if entry.get("subresource") or entry.get("manager") in _COMPONENTS or _is_ours(entry, FIELD_MANAGER):
        return False
    return bool(_taken(entry, is_of_others))


def is_of_canary(entry: JsonObject) -> bool:
    """Whether an entry is what a canary of ours has set back: fields that a sync had stated before."""
    return entry.get("manager") == CANARY_MANAGER and entry.get("operation") == "Update" and not entry.get("subresource")


def can_take_over(metadata: JsonObject, takes: Takes = is_client_side) -> bool:
    """Whether a live object has fields that would be taken over."""
    return any(map(takes, _entries(metadata)))


def handed_over(metadata: JsonObject, takes: Takes = is_client_side, manager: str = FIELD_MANAGER) -> list[JsonObject]:
    """The managedFields of a live object with the fields that are taken over under our own entry."""
    kept, fields, version = list[JsonObject](), _Fields(), ""
    for entry in _entries(metadata):
        if _is_ours(entry, manager) or takes(entry):
            taken = entry.get("fieldsV1") or {} if _is_ours(entry, manager) else _taken(entry, takes)
            fields = _union(fields, taken)
            version = str(entry.get("apiVersion") or version)
            rest = _difference(entry.get("fieldsV1") or {}, taken)
            kept += [{**entry, "fieldsV1": rest}] if rest else []
        else:
            kept.append(entry)
    taken = {"manager": manager, "operation": "Apply", "apiVersion": version, "fieldsType": "FieldsV1", "fieldsV1": fields}
    return [taken, *kept]


def removed_by_takeover(live: JsonObject, ours: JsonObject, *, secret: bool, takes: Takes = is_client_side) -> tuple[Change, ...]:
    """The leaves of a live object that only those own who are taken over, and our apply (`ours`: its fieldsV1) does not state."""
    entries = _entries(live.get("metadata") or {})
    left, others = _Fields(), ours
    for entry in entries:
        if takes(entry):
            left = _union(left, _taken(entry, takes))
        else:
            others = _union(others, entry.get("fieldsV1") or {})
    changes = []
    for path, value in _leaves(left, others, live, ()):
        if path[:2] == ("metadata", "annotations") and path[-1:] == (_LAST_APPLIED,):
            continue  # its removal is no change of the object that anybody means
        changes.append(Change(path=pointer_of(path), before=HIDDEN if secret and path[0] in ("data", "stringData") else value))
    return tuple(changes)


def _entries(metadata: JsonObject) -> list[JsonObject]:
    return [entry for entry in metadata.get("managedFields") or () if isinstance(entry, dict)]


def _is_ours(entry: JsonObject, manager: str) -> bool:
    return bool(entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"))


def _taken(entry: JsonObject, takes: Takes) -> _Fields:
    """What is taken of an entry: all that client-side apply has, of others what guards nothing."""
    fields: _Fields = dict(entry.get("fieldsV1") or {})
    if takes is is_client_side or is_client_side(entry):
        return fields
    metadata = {name: inner for name, inner in (fields.pop("f:metadata", None) or {}).items() if name not in _KEPT_METADATA}
    return fields | ({"f:metadata": metadata} if metadata else {})


def _difference(left: _Fields, right: _Fields) -> _Fields:
    rest: _Fields = {}
    for name, inner in left.items():
        if name not in right:
            rest[name] = inner
        elif inner and (below := _difference(inner, right[name] or {})):
            rest[name] = below
    return rest


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
