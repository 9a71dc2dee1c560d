"""The scale subresource: a view of an object's replicas, and who owns them when it is written."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import fieldsets, operations, ownership, patches, statuses, storing
from delegate.simulator.decoding import json_type
from delegate.simulator.kinds import Resource
from delegate.simulator.ownership import Entry, Manager, Managers
from delegate.simulator.selectors import shown_selector
from delegate.simulator.store import Stored
from delegate.simulator.storing import Outcome
from delegate.simulator.writes import APPLIED, JSON_PATCH, Write, as_version


def _paths(resource: Resource) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    if resource.definition is not None and resource.definition.scale is not None:
        scale = resource.definition.scale
        return scale.spec_path, scale.status_path, scale.selector_path
    return ("spec", "replicas"), ("status", "replicas"), ()


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(resource: Resource, body: JsonObject) -> JsonObject:
    """The Scale of an object."""
    spec_path, status_path, selector_path = _paths(resource)
    metadata = {key: body["metadata"][key] for key in _SHOWN if key in body["metadata"]}
    spec: JsonObject = {}
    replicas = _at(body, spec_path)
    if replicas:
        spec["replicas"] = replicas
    status: JsonObject = {"replicas": _at(body, status_path) or 0}
    selector = _at(body, selector_path) if selector_path else None
    if not resource.custom:
        held = body["spec"].get("selector")
        selector = shown_selector(held if resource.kind != "ReplicationController" else {"matchLabels": held or {}})
    if selector:
        status["selector"] = selector
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}


def write_scale(write: Write, scale: JsonObject, *, applied: bool) -> Outcome:
    """Stores the replicas of a Scale in its object; the outcome's body is the new Scale."""
    resource, live = write.resource, write.live()
    _check(write, live, _part(scale, "metadata"))
    replicas = _part(scale, "spec").get("replicas") or 0
    if not isinstance(replicas, int) or isinstance(replicas, bool) or abs(replicas) >= 2**31:
        got = json_type(replicas)
        raise statuses.bad_request(f"json: cannot unmarshal {got} into Go struct field ScaleSpec.spec.replicas of type int32")
    if replicas < 0:
        cause = statuses.invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise statuses.invalid("Scale", "autoscaling", live.name, [cause])
    path = _paths(resource)[0]
    body = live.copy()
    managers = ownership.read(body["metadata"].get("managedFields")) or {}
    changed = _at(body, path) != replicas
    if changed or applied:
        managers = _moved(write, managers, applied=applied, changed=changed)
    _put(body, path, replicas)
    outcome = storing.update(write, live, write.decode(body, APPLIED), ownership.write(managers))
    return Outcome(scale_of(resource, outcome.body), warnings=write.warnings, stored=outcome.stored)


def _part(scale: JsonObject, name: str) -> JsonObject:
    found = scale.get(name)
    if found is not None and not isinstance(found, dict):
        raise statuses.bad_request(f"json: cannot unmarshal {json_type(found)} into Go struct field Scale.{name}")
    return found or {}


def _check(write: Write, live: Stored, metadata: JsonObject) -> None:
    if metadata.get("name", live.name) != live.name:
        raise statuses.bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL ({live.name})")
    if metadata.get("resourceVersion", str(live.version)) != str(live.version):
        raise statuses.modified(write.resource.plural, write.resource.group, live.name)


def patch_scale(write: Write, kind: str, patch: Any) -> Outcome:
    """PATCH of a Scale, of the kinds that need an existing object."""
    current = scale_of(write.resource, as_version(write.live(), write.resource))
    if kind == JSON_PATCH:
        patched = operations.json_patch(current, patch)
    elif isinstance(patch, dict):
        patched = patches.merge_patch(current, patch)
    else:
        raise statuses.bad_request("error decoding patch: the patch of a scale is an object")
    if not isinstance(patched, dict):
        raise statuses.bad_request("a patch must leave a Scale")
    return write_scale(write, patched, applied=False)


def _put(body: JsonObject, path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        body = body.setdefault(key, {})
    body[path[-1]] = value


def _moved(write: Write, managers: Managers, *, applied: bool, changed: bool) -> Managers:
    """Ownership after a write: the replicas leave other entries where they changed; an apply conflicts unless it is forced."""
    resource, options = write.resource, write.options
    taken: fieldsets.FieldSet = {}
    elements = tuple(f"f:{key}" for key in _paths(resource)[0])
    fieldsets.insert(taken, elements)
    mine = Manager(options.manager, "Apply" if applied else "Update", "" if applied else resource.api_version, "scale")
    owners = [name for name, entry in managers.items() if name != mine and fieldsets.has(entry.fields, elements)]
    if applied and changed and owners and not options.force:
        raise ownership.OwnedElsewhereError([(name, elements) for name in sorted(owners)]).status()
    after = {}
    for name, entry in managers.items():
        fields = fieldsets.difference(entry.fields, taken) if changed and name != mine else entry.fields
        if fields:
            after[name] = Entry(entry.api_version, entry.time, fields)
    after[mine] = Entry(resource.api_version, "", taken)
    return after
