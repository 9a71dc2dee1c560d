"""The options of a deletion: from the body where there is one, else from the query, never from both (apiserver `DeleteResource`)."""

from collections.abc import Mapping
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.decoding import json_type
from delegate.simulator.deletions import DeleteOptions
from delegate.simulator.requests import truthy

POLICIES = ("Foreground", "Background", "Orphan", "nil")
_KIND = "DeleteOptions"
_TYPES: dict[str, tuple[type, str]] = {
    "gracePeriodSeconds": (int, "int64"),
    "orphanDependents": (bool, "bool"),
    "propagationPolicy": (str, "v1.DeletionPropagation"),
    "preconditions": (dict, "v1.Preconditions"),
    "dryRun": (list, "[]string"),
}


def from_body(body: Any) -> DeleteOptions:
    """Raises a 400 for what can't be read, a 422 for what makes no sense."""
    if body is None:
        body = {}
    if not isinstance(body, dict):
        shape = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        why = f"json: cannot unmarshal {json_type(body)} into Go value of type {shape}"
        raise statuses.bad_request(f"couldn't get version/kind; json parse error: {why}")
    kind, version = body.get("kind") or _KIND, body.get("apiVersion") or "v1"
    if kind != _KIND:
        raise statuses.bad_request(f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"')
    for name, (wanted, go_type) in _TYPES.items():
        _check_type(_KIND, name, body.get(name), wanted, go_type)
    preconditions = body.get("preconditions") or {}
    _check_type("Preconditions", "preconditions.uid", preconditions.get("uid"), str, "types.UID")
    _check_type("Preconditions", "preconditions.resourceVersion", preconditions.get("resourceVersion"), str, "string")
    return _checked(body, preconditions)


def from_query(query: Mapping[str, str]) -> DeleteOptions:
    """The same options as parameters; preconditions can't be given there."""
    grace = query.get("gracePeriodSeconds") or None
    if grace is not None and not (grace.removeprefix("-").isdecimal() and grace.isascii()):
        raise statuses.bad_request(f'strconv.ParseInt: parsing "{grace}": invalid syntax')
    body: JsonObject = {"propagationPolicy": query.get("propagationPolicy") or None}
    if grace is not None:
        body["gracePeriodSeconds"] = int(grace)
    if "orphanDependents" in query:
        body["orphanDependents"] = truthy(query["orphanDependents"])
    if query.get("dryRun"):
        body["dryRun"] = [query["dryRun"]]
    return _checked(body, {})


def _check_type(struct: str, path: str, value: Any, wanted: type, go_type: str) -> None:
    if value is None or (isinstance(value, wanted) and (wanted is not int or not isinstance(value, bool))):
        return
    raise statuses.bad_request(f"json: cannot unmarshal {json_type(value)} into Go struct field {struct}.{path} of type {go_type}")


def _checked(body: JsonObject, preconditions: JsonObject) -> DeleteOptions:
    policy, orphan, dry_run = body.get("propagationPolicy"), body.get("orphanDependents"), body.get("dryRun") or []
    causes = []
    if policy is not None and orphan is not None:
        causes.append(statuses.invalid_value("propagationPolicy", policy, "orphanDependents and deletionPropagation cannot be both set"))
    elif policy is not None and policy not in POLICIES[:3]:
        causes.append(statuses.unsupported("propagationPolicy", policy, POLICIES))
    if dry_run and set(map(str, dry_run)) != {"All"}:
        causes.append(statuses.unsupported("dryRun", dry_run, ("All",)))
    if causes:
        raise statuses.invalid(_KIND, "meta.k8s.io", "", causes)
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    return DeleteOptions(
        dry_run=bool(dry_run),
        grace_seconds=body.get("gracePeriodSeconds"),
        propagation=policy or "",
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
    )
