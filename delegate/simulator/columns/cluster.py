"""Columns of configuration, storage, access, and of the cluster itself."""

from collections.abc import Iterable
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator.columns.base import (
    NONE,
    UNSET,
    Column,
    Printer,
    age_of,
    columns,
    created,
    leaves,
    name_of,
    only_age,
    status_of,
)
from delegate.simulator.times import elapsed

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _config_map(body: JsonObject, now: str) -> list[Any]:
    return [name_of(body), len(body.get("data") or ()) + len(body.get("binaryData") or ()), age_of(body, now)]


def _secret(body: JsonObject, now: str) -> list[Any]:
    return [name_of(body), body.get("type", ""), len(body.get("data") or ()), age_of(body, now)]


def _namespace(body: JsonObject, now: str) -> list[Any]:
    return [name_of(body), status_of(body).get("phase", ""), age_of(body, now)]


def _node(body: JsonObject, now: str) -> list[Any]:
    status = status_of(body)
    ready = next((item.get("status") for item in status.get("conditions") or () if item["type"] == "Ready"), None)
    words = ["Ready" if ready == "True" else "NotReady" if ready else "Unknown"]
    if body["spec"].get("unschedulable"):
        words.append("SchedulingDisabled")
    prefix = "node-role.kubernetes.io/"
    roles = ",".join(sorted(key.removeprefix(prefix) for key in body["metadata"].get("labels") or () if key.startswith(prefix))) or NONE
    addresses = {item["type"]: item["address"] for item in status.get("addresses") or ()}
    info = status.get("nodeInfo") or {}
    unknown = "<unknown>"
    wide = [addresses.get("InternalIP", NONE), addresses.get("ExternalIP", NONE)]
    wide += [info.get(key) or unknown for key in ("osImage", "kernelVersion", "containerRuntimeVersion")]
    return [name_of(body), ",".join(words), roles, age_of(body, now), info.get("kubeletVersion", ""), *wide]


def _modes(modes: Iterable[str]) -> str:
    return ",".join(_MODES.get(mode, mode) for mode in modes)


def _claim(body: JsonObject, now: str) -> list[Any]:
    spec, status = body["spec"], status_of(body)
    phase = "Terminating" if leaves(body) else status.get("phase", "")
    bound = bool(spec.get("volumeName"))
    size = status.get("capacity", {}).get("storage", "") if bound else ""
    head = [phase, spec.get("volumeName", ""), size, _modes(status.get("accessModes") or ()) if bound else ""]
    classes = [spec.get("storageClassName", ""), spec.get("volumeAttributesClassName") or UNSET]
    return [name_of(body), *head, *classes, age_of(body, now), spec.get("volumeMode", UNSET)]


def _volume(body: JsonObject, now: str) -> list[Any]:
    spec, status = body["spec"], status_of(body)
    claim = spec.get("claimRef") or {}
    phase = "Terminating" if leaves(body) else status.get("phase", "")
    owner = f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""
    head = [spec.get("capacity", {}).get("storage", ""), _modes(spec.get("accessModes") or ())]
    head += [spec.get("persistentVolumeReclaimPolicy", ""), phase, owner, spec.get("storageClassName", "")]
    tail = [spec.get("volumeAttributesClassName") or UNSET, status.get("reason", ""), age_of(body, now), spec.get("volumeMode", UNSET)]
    return [name_of(body), *head, *tail]


def _event(body: JsonObject, now: str) -> list[Any]:
    subject = body.get("involvedObject") or body.get("regarding") or {}
    first = body.get("firstTimestamp") or body.get("deprecatedFirstTimestamp") or body.get("eventTime")
    last = (body.get("series") or {}).get("lastObservedTime") or body.get("lastTimestamp") or body.get("deprecatedLastTimestamp") or first
    source = body.get("source") or body.get("deprecatedSource") or {}
    component = source.get("component") or body.get("reportingComponent") or body.get("reportingController", "")
    named = f"{subject.get('kind', '').lower()}/{subject.get('name', '')}"
    text = (body.get("message") or body.get("note") or "").strip()
    count = (body.get("series") or {}).get("count") or body.get("count") or body.get("deprecatedCount") or 1
    head = [elapsed(last, now), body.get("type", ""), body.get("reason", ""), named, subject.get("fieldPath", ""), component]
    return [*head, text, elapsed(first, now), count, name_of(body)]


def _binding(body: JsonObject, now: str) -> list[Any]:
    role = body["roleRef"]
    found: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in body.get("subjects") or ():
        text = subject.get("name", "")
        if subject.get("kind") == "ServiceAccount":
            text = f"{subject.get('namespace', '')}/{text}"
        found.setdefault(subject.get("kind", ""), []).append(text)
    lists = [", ".join(found[kind]) for kind in ("User", "Group", "ServiceAccount")]
    return [name_of(body), f"{role.get('kind', '')}/{role.get('name', '')}", age_of(body, now), *lists]


def _storage_class(body: JsonObject, now: str) -> list[Any]:
    default = (body["metadata"].get("annotations") or {}).get("storageclass.kubernetes.io/is-default-class") == "true"
    name = name_of(body) + (" (default)" if default else "")
    policy = [body.get("provisioner", ""), body.get("reclaimPolicy", ""), body.get("volumeBindingMode", "")]
    return [name, *policy, body.get("allowVolumeExpansion", False), age_of(body, now)]


def _priority_class(body: JsonObject, now: str) -> list[Any]:
    return [name_of(body), body.get("value", 0), body.get("globalDefault", False), age_of(body, now), body.get("preemptionPolicy", "")]


def _lease(body: JsonObject, now: str) -> list[Any]:
    return [name_of(body), (body.get("spec") or {}).get("holderIdentity", ""), age_of(body, now)]


def _quota(body: JsonObject, now: str) -> list[Any]:
    status = status_of(body)
    used = status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name, hard in sorted((status.get("hard") or {}).items()):
        (limits if name.startswith("limits.") else requests).append(f"{name}: {used.get(name, '0')}/{hard}")
    return [name_of(body), ", ".join(requests), ", ".join(limits), age_of(body, now)]


def _webhooks(body: JsonObject, now: str) -> list[Any]:
    return [name_of(body), len(body.get("webhooks") or ()), age_of(body, now)]


def _api_service(body: JsonObject, now: str) -> list[Any]:
    service = body["spec"].get("service")
    condition: JsonObject = next((item for item in status_of(body).get("conditions") or () if item["type"] == "Available"), {})
    state = condition.get("status", "Unknown")
    reason = f" ({condition['reason']})" if state != "True" and condition.get("reason") else ""
    place = f"{service['namespace']}/{service['name']}" if service else "Local"
    return [name_of(body), place, state + reason, age_of(body, now)]


_EVENTS = columns("Last Seen, Type, Reason, Object, Subobject+, Source+, Message, First Seen+, Count+")
_EVENT_COLUMNS = (*_EVENTS[1:], Column("Name", "string", "name", 1))
_RBAC = "rbac.authorization.k8s.io"
_BINDINGS = Printer(columns("Role, Age, Users+, Groups+, ServiceAccounts+"), _binding)
_CREATED_AT = Printer(columns("Created At:date"), created)
_VOLUME_COLUMNS = "Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, Age, VolumeMode+"
_CLAIM_COLUMNS = "Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, VolumeMode+"
_NODE_COLUMNS = "Status, Roles, Age, Version, Internal-IP+, External-IP+, OS-Image+, Kernel-Version+, Container-Runtime+"

PRINTERS: dict[tuple[str, str], Printer] = {
    ("", "ConfigMap"): Printer(columns("Data, Age"), _config_map),
    ("", "Secret"): Printer(columns("Type, Data, Age"), _secret),
    ("", "Namespace"): Printer(columns("Status, Age"), _namespace),
    ("", "Node"): Printer(columns(_NODE_COLUMNS), _node),
    ("", "PersistentVolumeClaim"): Printer(columns(_CLAIM_COLUMNS), _claim),
    ("", "PersistentVolume"): Printer(columns(_VOLUME_COLUMNS), _volume),
    ("", "ServiceAccount"): Printer(columns("Age"), only_age),
    ("", "Event"): Printer(_EVENT_COLUMNS, _event),
    ("events.k8s.io", "Event"): Printer(_EVENT_COLUMNS, _event),
    ("", "ResourceQuota"): Printer(columns("Request, Limit, Age"), _quota),
    ("", "LimitRange"): _CREATED_AT,
    (_RBAC, "RoleBinding"): _BINDINGS,
    (_RBAC, "ClusterRoleBinding"): _BINDINGS,
    ("storage.k8s.io", "StorageClass"): Printer(
        columns("Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age"), _storage_class
    ),
    ("scheduling.k8s.io", "PriorityClass"): Printer(
        columns("Value:integer, Global-Default:boolean, Age, PreemptionPolicy"), _priority_class
    ),
    ("coordination.k8s.io", "Lease"): Printer(columns("Holder, Age"), _lease),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): Printer(columns("Webhooks:integer, Age"), _webhooks),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): Printer(columns("Webhooks:integer, Age"), _webhooks),
    ("apiregistration.k8s.io", "APIService"): Printer(columns("Service, Available, Age"), _api_service),
}
