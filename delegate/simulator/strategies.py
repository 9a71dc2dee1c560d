"""What the server does to an object of a kind before it validates and stores it (registry strategies).

`prepare_create` and `prepare_update` change the new object in place, which is the caller's own.
"""

import base64
from collections.abc import Callable
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator.defaults.workloads import TEMPLATE_GENERATION
from delegate.simulator.kinds import Resource

WITH_GENERATION = {
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
    ("batch", "Job"),
    ("batch", "CronJob"),
    ("", "ReplicationController"),
    ("", "Pod"),
    ("", "PodTemplate"),
    ("networking.k8s.io", "Ingress"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("networking.k8s.io", "IngressClass"),
    ("policy", "PodDisruptionBudget"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema"),
    ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration"),
}
_CONDITIONAL = {
    ("policy", "PodDisruptionBudget"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("coordination.k8s.io", "Lease"),
    ("node.k8s.io", "RuntimeClass"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apiregistration.k8s.io", "APIService"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
}
_JOB_LABELS = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")
LOCAL_API = {"reason": "Local", "message": "Local APIServices are always available"}
NAME_LABEL = "kubernetes.io/metadata.name"
PVC_FINALIZER = "kubernetes.io/pvc-protection"
PV_FINALIZER = "kubernetes.io/pv-protection"
CRD_CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


def has_status(resource: Resource) -> bool:
    return "status" in resource.subresources


def has_generation(resource: Resource) -> bool:
    return resource.custom or (resource.group, resource.kind) in WITH_GENERATION


def needs_version(resource: Resource) -> bool:
    """Whether a PUT has to say which version it replaces."""
    return resource.custom or (resource.group, resource.kind) in _CONDITIONAL


def _spec_of(resource: Resource, body: JsonObject) -> Any:
    """The part whose changes count as a new generation."""
    if resource.custom:
        return {
            key: value
            for key, value in body.items()
            if key not in ("metadata", "apiVersion", "kind") and not (key == "status" and has_status(resource))
        }
    if resource.kind == "PriorityClass":
        return None
    if resource.kind == "Deployment":
        return body.get("spec"), body["metadata"].get("annotations")
    if "spec" in body:
        return body["spec"]
    return {key: value for key, value in body.items() if key not in ("metadata", "apiVersion", "kind")}


def move_string_data(body: JsonObject) -> None:
    """A Secret's `stringData` is written into `data` and never stored."""
    text = body.pop("stringData", None)
    if text:
        data = body.setdefault("data", {})
        for key, value in text.items():
            data[key] = base64.b64encode(value.encode()).decode()


def prepare_create(resource: Resource, body: JsonObject, empty_status: JsonObject | None, *, now: str) -> None:
    metadata = body["metadata"]
    if has_generation(resource):
        metadata["generation"] = 1
    if has_status(resource) and (resource.group, resource.kind) != ("", "Node"):
        if empty_status is None:
            body.pop("status", None)
        else:
            body["status"] = empty_status
    preparation = _PREPARATIONS.get((resource.group, resource.kind))
    if preparation is not None:
        preparation(body)
    if (resource.group, resource.kind) == ("", "Namespace"):
        metadata["labels"] = {**(metadata.get("labels") or {}), NAME_LABEL: metadata.get("name", "")}
    if (resource.group, resource.kind) == ("", "PersistentVolume"):
        body["status"]["lastPhaseTransitionTime"] = now
    if (resource.group, resource.kind) == ("apiregistration.k8s.io", "APIService") and "service" not in body["spec"]:
        body["status"] = {"conditions": [{"type": "Available", "status": "True", "lastTransitionTime": now, **LOCAL_API}]}


def _namespace(body: JsonObject) -> None:
    finalizers = body["spec"].setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    body["status"] = {"phase": "Active"}


def _claim(body: JsonObject) -> None:
    body["status"] = {"phase": "Pending"}
    _hold(body["metadata"], PVC_FINALIZER)


def _volume(body: JsonObject) -> None:
    body["status"] = {"phase": "Pending"}
    _hold(body["metadata"], PV_FINALIZER)


def _pod(body: JsonObject) -> None:
    body["status"] = {"phase": "Pending", "qosClass": quality(body["spec"])}


def _definition(body: JsonObject) -> None:
    stored = next((item.get("name") for item in body["spec"].get("versions") or () if item.get("storage")), None)
    body["status"]["storedVersions"] = [stored] if stored else []


def _daemon_set(body: JsonObject) -> None:
    body["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = "1"


def _hold(metadata: JsonObject, finalizer: str) -> None:
    held = metadata.setdefault("finalizers", [])
    if finalizer not in held:
        held.append(finalizer)


def quality(spec: JsonObject) -> str:
    """The quality of service class of a pod."""
    best, any_set = True, False
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        any_set = any_set or bool({"cpu", "memory"} & (limits.keys() | requests.keys()))
        best = best and all(name in limits and requests.get(name, limits[name]) == limits[name] for name in ("cpu", "memory"))
    return ("Guaranteed" if best else "Burstable") if any_set else "BestEffort"


def _select_job(body: JsonObject) -> None:
    spec, uid, name = body["spec"], body["metadata"]["uid"], body["metadata"].get("name", "")
    labels = spec["template"]["metadata"].setdefault("labels", {})
    if not spec.get("manualSelector"):
        values = dict(zip(_JOB_LABELS, (uid, name, uid, name), strict=True))
        labels.update(values)
        selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
        selector.setdefault(_JOB_LABELS[0], uid)
    if not body["metadata"].get("labels") and labels:
        body["metadata"]["labels"] = labels
    body["metadata"]["labels"] = dict(body["metadata"].get("labels") or {})


_PREPARATIONS: dict[tuple[str, str], Callable[[JsonObject], None]] = {
    ("", "Namespace"): _namespace,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "PersistentVolume"): _volume,
    ("", "Pod"): _pod,
    ("batch", "Job"): _select_job,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("apps", "DaemonSet"): _daemon_set,
}


def prepare_update(resource: Resource, body: JsonObject, old: JsonObject) -> None:
    """The main path: status stays as it was, and the generation counts changes of the spec."""
    if has_status(resource):
        if "status" in old:
            body["status"] = old["status"]
        else:
            body.pop("status", None)
    match resource.group, resource.kind:
        case "", "Namespace":
            body["spec"] = {**body.get("spec", {}), "finalizers": old["spec"].get("finalizers", [])}
            if not body["spec"]["finalizers"]:
                del body["spec"]["finalizers"]
        case "", "Secret":
            if not body.get("type"):
                body["type"] = old.get("type", "Opaque")
        case "apps", "DaemonSet":
            before = old["metadata"].get("annotations", {}).get(TEMPLATE_GENERATION, "1")
            grown = body["spec"]["template"] != old["spec"]["template"]
            body["metadata"].setdefault("annotations", {})[TEMPLATE_GENERATION] = str(int(before) + grown)
        case _:
            pass
    _count(resource, body, old)


def _count(resource: Resource, body: JsonObject, old: JsonObject) -> None:
    if not has_generation(resource):
        return
    before = old["metadata"].get("generation", 0)
    body["metadata"]["generation"] = before + (_spec_of(resource, body) != _spec_of(resource, old))


def prepare_status_update(resource: Resource, body: JsonObject, old: JsonObject) -> JsonObject:
    """The object as a write to its status subresource leaves it."""
    status = body.get("status")
    if resource.custom:
        kept = {key: value for key, value in old.items() if key != "status"}
        kept["metadata"] = {**old["metadata"], **_kept_metadata(body)}
    else:
        kept = {**body, "spec": old["spec"]} if "spec" in old else dict(body)
        kept["metadata"] = {**body["metadata"]}
        for key in ("labels", "generation", "deletionTimestamp", "ownerReferences"):
            if key in old["metadata"]:
                kept["metadata"][key] = old["metadata"][key]
            else:
                kept["metadata"].pop(key, None)
        kept.pop("status", None)
    if status is not None:
        kept["status"] = status
    return kept


def _kept_metadata(body: JsonObject) -> JsonObject:
    managed = body["metadata"].get("managedFields")
    return {"managedFields": managed} if managed else {}
