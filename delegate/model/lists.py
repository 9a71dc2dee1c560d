"""Lists that Kubernetes keys: which of their fields tell one entry from another.

The API server merges such lists entry by entry, refuses a key that is in one twice, and takes their order as no change of
an entry. The table of the built-in kinds is taken from the `x-kubernetes-list-map-keys` of the API's own schema.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from delegate.model.resources import GroupKind, JsonObject

_NAME = ("name",)
_CONTAINER = {
    "env": _NAME,
    "ports": ("containerPort", "protocol"),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
}
_POD = {
    "volumes": _NAME,
    "imagePullSecrets": _NAME,
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "resourceClaims": _NAME,
    "schedulingGates": _NAME,
}
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_POD_SPECS = {
    GroupKind("", "Pod"): ("spec",),
    GroupKind("", "PodTemplate"): ("template", "spec"),
    GroupKind("", "ReplicationController"): ("spec", "template", "spec"),
    GroupKind("apps", "DaemonSet"): ("spec", "template", "spec"),
    GroupKind("apps", "Deployment"): ("spec", "template", "spec"),
    GroupKind("apps", "ReplicaSet"): ("spec", "template", "spec"),
    GroupKind("apps", "StatefulSet"): ("spec", "template", "spec"),
    GroupKind("batch", "Job"): ("spec", "template", "spec"),
    GroupKind("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template", "spec"),
}
_ADMISSION = "admissionregistration.k8s.io"
_OTHERS: Mapping[GroupKind, Mapping[tuple[str, ...], tuple[str, ...]]] = {
    GroupKind("", "Service"): {("spec", "ports"): ("port", "protocol")},
    GroupKind("", "ServiceAccount"): {("secrets",): _NAME},
    GroupKind(_ADMISSION, "MutatingWebhookConfiguration"): {("webhooks",): _NAME},
    GroupKind(_ADMISSION, "ValidatingWebhookConfiguration"): {("webhooks",): _NAME},
}
_DEFAULTS = {"protocol": "TCP"}

# By the name of the field alone, for showing changes in any kind; the first whose keys every entry has is taken.
_LIKELY = {
    "ports": (("containerPort", "protocol"), ("port", "protocol"), ("containerPort",), ("port",), _NAME),
    "volumeMounts": (("mountPath",),),
    "volumeDevices": (("devicePath",),),
    "hostAliases": (("ip",),),
    "conditions": (("type",),),
    "ownerReferences": (("uid",),),
    "topologySpreadConstraints": (("topologyKey", "whenUnsatisfiable"),),
}


class KeyedList(msgspec.Struct, frozen=True):
    """A keyed list of a body: where it is (`spec.template.spec.containers[0].env`), its keys and its entries."""

    path: str
    keys: tuple[str, ...]
    entries: list[Any]


def pod_spec_path(group_kind: GroupKind) -> tuple[str, ...] | None:
    """Where the pod spec of a built-in kind lies, or None where it has none."""
    return _POD_SPECS.get(group_kind)


def keyed_lists(body: JsonObject, group_kind: GroupKind) -> Iterator[KeyedList]:
    """The keyed lists of a built-in kind's body. Malformed parts are passed over; the server will name them."""
    for path, keys in _OTHERS.get(group_kind, {}).items():
        yield from _list_at(_descend(body, path[:-1]), ".".join(path[:-1]), path[-1], keys)
    path = _POD_SPECS.get(group_kind, ())
    pod = _descend(body, path) if path else None
    if pod is None:
        return
    place = ".".join(path)
    for field, keys in _POD.items():
        yield from _list_at(pod, place, field, keys)
    for field in _CONTAINERS:
        yield from _list_at(pod, place, field, _NAME)
        for index, container in enumerate(_entries(pod, field)):
            if isinstance(container, dict):
                for inner, keys in _CONTAINER.items():
                    yield from _list_at(container, f"{place}.{field}[{index}]", inner, keys)


def duplicate_keys(keyed: KeyedList) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Keys that are in a list more than once, in words (`name "A"`), with the indexes that they are at."""
    found: dict[tuple[str, ...], list[int]] = {}
    for index, entry in enumerate(keyed.entries):
        key = key_of(entry, keyed.keys)
        if key is not None:
            found.setdefault(key, []).append(index)
    for key, indexes in found.items():
        if len(indexes) > 1:
            words = ", ".join(f'{name} "{value}"' for name, value in zip(keyed.keys, key, strict=True))
            yield words, tuple(indexes)


def key_of(entry: object, keys: Sequence[str]) -> tuple[str, ...] | None:
    """What tells an entry from the others of its list, defaults filled in; None where it has no such key."""
    if not isinstance(entry, dict):
        return None
    values = [entry.get(name, _DEFAULTS.get(name)) for name in keys]
    return None if any(value is None for value in values) else tuple(str(value) for value in values)


def likely_keys(field: str, *lists: list[Any]) -> tuple[str, ...] | None:
    """By which keys the entries of both versions of a list are best matched; None where nothing tells them apart.

    Every entry has the keys, and no key is in one of the lists twice.
    """
    if not any(lists):
        return None
    for keys in _LIKELY.get(field, (_NAME, ("key",), ("id",))):
        if all(_tells_apart(entries, keys) for entries in lists):
            return keys
    return None


def _tells_apart(entries: list[Any], keys: tuple[str, ...]) -> bool:
    found = [key_of(entry, keys) for entry in entries]
    return None not in found and len(set(found)) == len(found)


def _list_at(parent: object, place: str, field: str, keys: tuple[str, ...]) -> Iterator[KeyedList]:
    entries = _entries(parent, field)
    if entries:
        yield KeyedList(f"{place}.{field}" if place else field, keys, entries)


def _entries(parent: object, field: str) -> list[Any]:
    entries = parent.get(field) if isinstance(parent, dict) else None
    return entries if isinstance(entries, list) else []


def _descend(body: object, path: tuple[str, ...]) -> JsonObject | None:
    for name in path:
        body = body.get(name) if isinstance(body, dict) else None
    return body if isinstance(body, dict) else None
