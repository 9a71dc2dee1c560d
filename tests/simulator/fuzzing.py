"""Manifests that nobody would write: from the schemas, nearly valid, and wildly wrong; and patches of all kinds."""

import copy
import json
from typing import Any

from hypothesis import strategies as st

from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry
from delegate.simulator.schemas import ANY, FieldType
from tests.simulator.clients import JSON_PATCH, MERGE, STRATEGIC, pod, service

DEEPEST = 4
WORDS = (
    "a",
    "b-1",
    "",
    "default",
    "web",
    "nginx:1.0",
    "app",
    "TCP",
    "1",
    "50%",
    "Always",
    "x" * 70,
    "e.com/f",
    "\u00e9\U0001f600",
    "a\nb",
    "..",
    "-",
)
NUMBERS = (0, 1, -1, 3, 80, 65536, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 0.5, 1e300, -0.0)
_KEYS = st.sampled_from(("a", "b", "app", "name", "spec", "metadata", "$patch", "kind", "", "e.com/x", "\u00fc"))
_SCALARS = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(WORDS), st.text(max_size=6))
WILD = st.recursive(_SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=3)), max_leaves=8)
"""Any JSON value, small but odd."""

METADATA = (
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "generateName",
    "managedFields",
    "uid",
    "resourceVersion",
    "namespace",
)
REGISTRY = Registry()
RESOURCES = sorted(
    (resource for resource in REGISTRY.all_resources() if {"create", "patch"} <= set(resource.verbs)),
    key=lambda resource: (resource.group, resource.plural),
)


def _template(restart: str = "Always") -> dict[str, Any]:
    spec: dict[str, Any] = {"restartPolicy": restart, "containers": [{"name": "main", "image": "nginx:1.0"}]}
    return {"metadata": {"labels": {"app": "x"}}, "spec": spec}


_SELECTOR = {"matchLabels": {"app": "x"}}
_STORAGE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
_SCALED = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
VALID: dict[str, dict[str, Any]] = {
    "configmaps": {"data": {"k": "v"}},
    "secrets": {"stringData": {"k": "v"}},
    "services": {"spec": service("x")["spec"]},
    "pods": {"spec": pod("x")["spec"]},
    "deployments": {"spec": {"selector": _SELECTOR, "template": _template()}},
    "statefulsets": {"spec": {"selector": _SELECTOR, "template": _template(), "serviceName": "x"}},
    "daemonsets": {"spec": {"selector": _SELECTOR, "template": _template()}},
    "replicasets": {"spec": {"selector": _SELECTOR, "template": _template()}},
    "jobs": {"spec": {"template": _template("Never")}},
    "cronjobs": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": _template("Never")}}}},
    "persistentvolumeclaims": {"spec": _STORAGE},
    "roles": {"rules": _RULES},
    "clusterroles": {"rules": _RULES},
    "poddisruptionbudgets": {"spec": {"selector": _SELECTOR, "minAvailable": 1}},
    "horizontalpodautoscalers": {"spec": {"scaleTargetRef": _SCALED, "maxReplicas": 3}},
    "leases": {"spec": {"holderIdentity": "x"}},
    "storageclasses": {"provisioner": "e.com/p"},
    "priorityclasses": {"value": 1},
    "networkpolicies": {"spec": {"podSelector": {}}},
    "limitranges": {"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}},
    "resourcequotas": {"spec": {"hard": {"count/secrets": "50"}}},
    "ingresses": {"spec": {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}}},
}


@st.composite
def values(draw: st.DrawFn, type_: FieldType, depth: int = DEEPEST) -> Any:
    """A value of a type; now and then of another, or with fields that nobody declared."""
    if draw(st.integers(0, 24)) == 0:
        return draw(WILD)
    kind = type_.kind
    if depth == 0 and kind != "scalar":
        return draw(st.sampled_from(([], {}, None)))
    if kind == "struct" or (kind == "map" and type_.fields):
        return draw(_structs(type_, depth))
    if kind == "map":
        element = type_.element or ANY
        return {draw(_KEYS): draw(values(element, depth - 1)) for _ in range(draw(st.integers(0, 2)))}
    if kind == "list":
        element = type_.element or ANY
        return [draw(values(element, depth - 1)) for _ in range(draw(st.integers(0, 3)))]
    if kind == "scalar":
        return draw(_scalars(type_))
    return draw(WILD)


@st.composite
def _structs(draw: st.DrawFn, type_: FieldType, depth: int) -> dict[str, Any]:
    names = sorted(type_.fields)
    chosen = draw(st.lists(st.sampled_from(names), max_size=4, unique=True)) if names else []
    chosen += [key for key in type_.keys if key not in chosen and key in type_.fields]
    out = {name: draw(values(type_.fields[name], depth - 1)) for name in chosen}
    if draw(st.integers(0, 15)) == 0:
        out["undeclared"] = draw(WILD)
    return out


def _scalars(type_: FieldType) -> st.SearchStrategy[Any]:
    match type_.scalar:
        case "numeric":
            return st.sampled_from(NUMBERS)
        case "boolean":
            return st.booleans()
        case "string":
            return st.sampled_from(WORDS)
        case _:
            return _SCALARS


@st.composite
def manifests(draw: st.DrawFn, resource: Resource, name: str = "x") -> dict[str, Any]:
    """An object of a kind: a valid one where there is one, with parts of it replaced."""
    body: dict[str, Any] = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}
    body |= copy.deepcopy(VALID.get(resource.plural, {}))
    fields = {key: below for key, below in resource.type.fields.items() if key not in ("apiVersion", "kind", "metadata")}
    for _ in range(draw(st.integers(0, 3))):
        _replace(draw, body, resource.type if not fields else _without_identity(resource.type, fields))
    if draw(st.integers(0, 3)) == 0:
        key = draw(st.sampled_from(METADATA))
        body["metadata"][key] = draw(values(resource.type.fields["metadata"].fields[key]))
    if draw(st.integers(0, 20)) == 0:
        body[draw(st.sampled_from(("apiVersion", "kind", "metadata", "undeclared")))] = draw(WILD)
    return body


def _without_identity(type_: FieldType, fields: dict[str, FieldType]) -> FieldType:
    made = FieldType("struct")
    made.fields = fields
    made.name = type_.name
    return made


def _replace(draw: st.DrawFn, body: Any, type_: FieldType) -> None:
    """Puts a new value somewhere below, in place: deeper with each field that is there already."""
    names = sorted(type_.fields)
    if not isinstance(body, dict) or not names:
        return
    present = [name for name in names if isinstance(body.get(name), dict | list) and body[name]]
    if present and draw(st.integers(0, 3)) > 0:
        name = draw(st.sampled_from(present))
        below, inner = body[name], type_.fields[name]
        if isinstance(below, list):
            below, inner = below[0], inner.element or ANY
        _replace(draw, below, inner)
        return
    name = draw(st.sampled_from(names))
    body[name] = draw(values(type_.fields[name]))


@st.composite
def patches(draw: st.DrawFn, resource: Resource) -> tuple[str, Any]:
    """A patch and its media type."""
    kind = draw(st.sampled_from((MERGE, JSON_PATCH, STRATEGIC)))
    if kind == JSON_PATCH:
        return kind, draw(st.lists(_operations(resource), max_size=3))
    body = draw(values(resource.type))
    if isinstance(body, dict):
        body.pop("metadata", None) if draw(st.booleans()) else None
        if kind == STRATEGIC and draw(st.integers(0, 3)) == 0:
            body[draw(st.sampled_from(("$patch", "$retainKeys", "$setElementOrder/spec", "$deleteFromPrimitiveList/data")))] = draw(WILD)
    return kind, body


@st.composite
def _operations(draw: st.DrawFn, resource: Resource) -> Any:
    if draw(st.integers(0, 10)) == 0:
        return draw(WILD)
    path, type_ = "", resource.type
    for _ in range(draw(st.integers(0, 4))):
        names = sorted(type_.fields)
        key = draw(st.sampled_from(names)) if names else draw(st.sampled_from(("0", "-", "-1", "1", "k", "a~1b", "\u00e9")))
        path += f"/{key}"
        type_ = type_.fields.get(key) or type_.element or ANY
    operation: dict[str, Any] = {"op": draw(st.sampled_from(("add", "replace", "remove", "test", "copy", "move", "jump"))), "path": path}
    if draw(st.booleans()):
        operation["value"] = draw(values(type_))
    if draw(st.booleans()):
        operation["from"] = draw(st.sampled_from(("/metadata", "/data/k", "/spec", "", "/spec/template/spec/containers/0", "x")))
    return operation


def text_of(body: Any) -> str:
    """JSON, with numbers that no double holds written out."""
    return json.dumps(body)
