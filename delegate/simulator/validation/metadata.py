"""Rules for names, labels, annotations, finalizers and owners (apimachinery `validation`)."""

import re
from collections.abc import Callable
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.kinds import Resource
from delegate.simulator.statuses import Cause

LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
LABEL_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
VALUE = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_LABEL, _SUBDOMAIN, _LABEL_1035, _QUALIFIED, _VALUE = (
    re.compile(f"^(?:{form})$") for form in (LABEL, SUBDOMAIN, LABEL_1035, QUALIFIED, VALUE)
)
ANNOTATIONS_LIMIT = 256 * 1024

_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an"
    f" alphanumeric character (e.g. 'example.com', regex used for validation is '{SUBDOMAIN}')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric"
    f" character (e.g. 'my-name',  or '123-abc', regex used for validation is '{LABEL}')"
)
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an"
    f" alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '{LABEL_1035}')"
)
_QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g."
    f" 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{QUALIFIED}')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
    f" alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{VALUE}')"
)


def subdomain(name: str) -> list[str]:
    found = [f"must be no more than {253} characters"] if len(name) > 253 else []
    return found if _SUBDOMAIN.match(name) else [*found, _SUBDOMAIN_TEXT]


def label(name: str) -> list[str]:
    found = ["must be no more than 63 characters"] if len(name) > 63 else []
    return found if _LABEL.match(name) else [*found, _LABEL_TEXT]


def label_1035(name: str) -> list[str]:
    found = ["must be no more than 63 characters"] if len(name) > 63 else []
    return found if _LABEL_1035.match(name) else [*found, _LABEL_1035_TEXT]


def anything(_name: str) -> list[str]:
    """For kinds whose names nobody checks."""
    return []


def path_segment(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in name]


def qualified(name: str) -> list[str]:
    prefix, slash, rest = name.rpartition("/")
    if name.count("/") > 1:
        return [
            "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
            f" character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{QUALIFIED}') with an optional DNS"
            " subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    found = []
    if slash:
        if not prefix:
            found.append("prefix part must be non-empty")
        else:
            found += [f"prefix part {text}" for text in subdomain(prefix)]
    if not rest:
        found.append("name part must be non-empty")
    elif len(rest) > 63:
        found.append("name part must be no more than 63 characters")
    return found if _QUALIFIED.match(rest) else [*found, _QUALIFIED_TEXT]


def set_name(name: str) -> list[str]:
    """Of what a StatefulSet's pods are called after."""
    return ["must not contain dots"] if "." in name and not subdomain(name) else subdomain(name)


_NAMES: dict[tuple[str, str], Callable[[str], list[str]]] = {
    ("", "Namespace"): label,
    ("", "Service"): label,
    ("rbac.authorization.k8s.io", "Role"): path_segment,
    ("rbac.authorization.k8s.io", "ClusterRole"): path_segment,
    ("rbac.authorization.k8s.io", "RoleBinding"): path_segment,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): path_segment,
    ("apiregistration.k8s.io", "APIService"): path_segment,
    ("apps", "StatefulSet"): set_name,
    ("", "Event"): anything,
    ("events.k8s.io", "Event"): anything,
    ("policy", "PodDisruptionBudget"): anything,
}


def validate(resource: Resource, body: JsonObject) -> list[Cause]:
    """The rules for metadata of a new object."""
    metadata = body["metadata"]
    causes = []
    name = metadata.get("name")
    if not name:
        causes.append(statuses.required("metadata.name", "name or generateName is required"))
    else:
        rule = _NAMES.get((resource.group, resource.kind), subdomain)
        causes += [statuses.invalid_value("metadata.name", name, text) for text in rule(name)]
    return causes + _shared(metadata)


def validate_labels(labels: Any, path: str) -> list[Cause]:
    causes = []
    for key, value in (labels or {}).items():
        causes += [statuses.invalid_value(path, key, text) for text in qualified(key)]
        if len(value) > 63:
            causes.append(statuses.invalid_value(path, value, "must be no more than 63 characters"))
        if not _VALUE.match(value):
            causes.append(statuses.invalid_value(path, value, _VALUE_TEXT))
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


def _shared(metadata: JsonObject) -> list[Cause]:
    causes = validate_labels(metadata.get("labels"), "metadata.labels")
    causes += validate_annotations(metadata.get("annotations"), "metadata.annotations")
    for finalizer in metadata.get("finalizers") or ():
        causes += [statuses.invalid_value("metadata.finalizers", finalizer, text) for text in qualified(finalizer)]
    causes += _owners(metadata.get("ownerReferences") or ())
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


def validate_update(body: JsonObject, old: JsonObject) -> list[Cause]:
    """The rules for metadata of a changed object."""
    new_metadata, old_metadata = body["metadata"], old["metadata"]
    if new_metadata is old_metadata:
        return []
    causes = _shared(new_metadata)
    if old_metadata.get("deletionTimestamp"):
        before = old_metadata.get("finalizers") or []
        added = [item for item in new_metadata.get("finalizers") or () if item not in before]
        if added:
            named = ", ".join(f'"{item}"' for item in added)
            text = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{named}}}"
            causes.append(statuses.forbidden_value("metadata.finalizers", text))
    return causes
