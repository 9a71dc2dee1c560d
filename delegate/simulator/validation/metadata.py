"""Rules for names, labels, annotations, finalizers and owners (apimachinery `validation`)."""

from collections.abc import Callable
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.kinds import Resource
from delegate.simulator.naming import anything, label, label_value, path_segment, qualified, subdomain
from delegate.simulator.statuses import Cause

ANNOTATIONS_LIMIT = 256 * 1024
IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"
_STANDARD_FINALIZERS = frozenset({"foregroundDeletion", "kubernetes", "orphan"})

_NAMES: dict[tuple[str, str], Callable[[str], list[str]]] = {
    ("", "Namespace"): label,
    ("", "Service"): label,
    ("rbac.authorization.k8s.io", "Role"): path_segment,
    ("rbac.authorization.k8s.io", "ClusterRole"): path_segment,
    ("rbac.authorization.k8s.io", "RoleBinding"): path_segment,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): path_segment,
    ("apiregistration.k8s.io", "APIService"): path_segment,
    ("apps", "StatefulSet"): label,
    ("", "Event"): anything,
    ("events.k8s.io", "Event"): anything,
    ("policy", "PodDisruptionBudget"): anything,
}


def validate(resource: Resource, body: JsonObject) -> list[Cause]:
    """The rules for metadata of a new object."""
    metadata = body["metadata"]
    causes = []
    name, start = metadata.get("name"), metadata.get("generateName")
    rule = _NAMES.get((resource.group, resource.kind), subdomain)
    if start:
        causes += [statuses.invalid_value("metadata.generateName", start, text) for text in rule(_completed(start))]
    if not name:
        causes.append(statuses.required("metadata.name", "name or generateName is required"))
    else:
        causes += [statuses.invalid_value("metadata.name", name, text) for text in rule(name)]
    return causes + _shared(metadata, custom=resource.custom)


def _completed(start: str) -> str:
    """A beginning of names as the rules look at it: it may end in a dash (apimachinery `maskTrailingDash`)."""
    if start in (".", ".."):
        return f"{start}a"
    return f"{start[:-2]}a" if len(start) > 1 and start.endswith("-") else start


def validate_labels(labels: Any, path: str) -> list[Cause]:
    causes = []
    for key, value in (labels or {}).items():
        causes += [statuses.invalid_value(path, key, text) for text in qualified(key)]
        causes += [statuses.invalid_value(path, value, text) for text in label_value(value)]
    return causes


def validate_annotations(annotations: Any, path: str) -> list[Cause]:
    causes = []
    total = 0
    for key, value in (annotations or {}).items():
        causes += [statuses.invalid_value(path, key, text) for text in qualified(key.lower())]
        total += len(key.encode()) + len(value.encode())
    if total > ANNOTATIONS_LIMIT:
        causes.append(statuses.too_long(path, ANNOTATIONS_LIMIT))
    return causes


def _shared(metadata: JsonObject, *, custom: bool) -> list[Cause]:
    generation = metadata.get("generation") or 0
    causes = [] if generation >= 0 else [statuses.invalid_value("metadata.generation", generation, NEGATIVE)]
    causes += validate_labels(metadata.get("labels"), "metadata.labels")
    causes += validate_annotations(metadata.get("annotations"), "metadata.annotations")
    causes += _owners(metadata.get("ownerReferences") or ())
    for finalizer in metadata.get("finalizers") or ():
        causes += [statuses.invalid_value("metadata.finalizers", finalizer, text) for text in qualified(finalizer)]
    if not custom:
        # Only the API server's own kinds ask for a domain (pkg/apis/core/validation).
        for index, finalizer in enumerate(metadata.get("finalizers") or ()):
            if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
                text = "name is neither a standard finalizer name nor is it fully qualified"
                causes.append(statuses.invalid_value(f"metadata.finalizers[{index}]", finalizer, text))
    return causes


def _owners(owners: Any) -> list[Cause]:
    causes = []
    controllers = []
    for owner in owners:
        path = "metadata.ownerReferences"
        for key, label_of in (
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ):
            if not owner.get(key):
                causes.append(statuses.invalid_value(f"{path}.{key}", owner.get(key, ""), label_of))
        if owner.get("controller"):
            controllers.append(owner.get("name", ""))
    if len(controllers) > 1:
        text = f'Only one reference can have Controller set to true. Found "true" in references for {controllers[0]} and {controllers[1]}'
        causes.append(statuses.invalid_value("metadata.ownerReferences", owners, text))
    return causes


def validate_update(body: JsonObject, old: JsonObject, *, custom: bool = False) -> list[Cause]:
    """The rules for metadata of a changed object."""
    new_metadata, old_metadata = body["metadata"], old["metadata"]
    if new_metadata is old_metadata:
        return []
    causes = _shared(new_metadata, custom=custom)
    if old_metadata.get("deletionTimestamp"):
        before = old_metadata.get("finalizers") or []
        added = [item for item in new_metadata.get("finalizers") or () if item not in before]
        if added:
            named = ", ".join(f'"{item}"' for item in added)
            text = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{named}}}"
            causes.append(statuses.forbidden_value("metadata.finalizers", text))
    return causes


def validate_deletion_kept(new: JsonObject, old: JsonObject) -> list[Cause]:
    """Only a deletion sets when an object goes. The server says it twice: before and in the validation of the kind."""
    causes = []
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        given, held = new.get(key), old.get(key)
        if given is not None and given != held and not (key == "deletionTimestamp" and held):
            causes.append(statuses.invalid_value(f"metadata.{key}", given, IMMUTABLE))
    return causes * 2
