"""Deletion: preconditions, grace, finalizers by propagation, collections (registry `Store.Delete`, `BeforeDelete`).

What follows from a deletion (dependents, the content of a namespace) is the work of controllers.
"""

import datetime as dt

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import statuses, strategies
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry
from delegate.simulator.store import Stored

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
PROTECTED_NAMESPACES = ("default", "kube-system", "kube-public")
RETURNS_DELETED = {
    ("", "Pod"),
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("", "Service"),
    ("", "ServiceAccount"),
    ("", "ResourceQuota"),
    ("", "PodTemplate"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "CSIDriver"),
}
ORPHANS_BY_DEFAULT = {("batch", "Job"), ("", "ReplicationController")}
JOB_WARNING = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set"
    " propagationPolicy=Orphan to suppress this warning"
)


class DeleteOptions(msgspec.Struct, frozen=True):
    """The body and parameters of a deletion."""

    dry_run: bool = False
    grace_seconds: int | None = None
    propagation: str = ""
    uid: str = ""
    resource_version: str = ""


class Deleted(msgspec.Struct):
    """What a deletion answers: the object while it stays, or a Status when it is gone."""

    body: JsonObject
    warnings: list[str] = []


def is_released(resource: Resource, body: JsonObject) -> bool:
    """Whether an object that was being deleted is held by nothing any more."""
    metadata = body["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if resource.kind == "Namespace" and not resource.group:
        return not (body.get("spec") or {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")


def remove(registry: Registry, resource: Resource, live: Stored, body: JsonObject | None = None) -> Stored:
    """Takes an object out of the store."""
    if (resource.group, resource.kind) == ("", "Service"):
        registry.addresses.release(live.namespace, live.name)
    gone = msgspec.json.decode(msgspec.json.encode(body if body is not None else live.body))
    return registry.store.commit(resource.storage, "DELETED", live.namespace, live.name, gone)


def check_preconditions(resource: Resource, live: Stored, options: DeleteOptions) -> None:
    if options.uid and options.uid != live.uid:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({live.uid})."
            " The object might have been deleted and then recreated"
        )
        raise _unmet(resource, live, why)
    if options.resource_version and options.resource_version != str(live.version):
        why = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the ResourceVersion in record"
            f" ({live.version}). The object might have been modified"
        )
        raise _unmet(resource, live, why)


def _unmet(resource: Resource, live: Stored, why: str) -> statuses.StatusError:
    return statuses.conflict(resource.kind, resource.group, live.name, why)


def delete(registry: Registry, resource: Resource, namespace: str, name: str, options: DeleteOptions) -> Deleted:
    """DELETE of one object: gone at once where nothing holds it, else marked as terminating."""
    live = registry.get(resource, namespace, name)
    if live is None:
        raise statuses.not_found(resource.plural, resource.group, name)
    if resource.kind == "Namespace" and not resource.group and name in PROTECTED_NAMESPACES:
        raise statuses.forbidden(resource.plural, resource.group, name, "this namespace may not be deleted")
    check_preconditions(resource, live, options)
    warnings = [JOB_WARNING] if resource.storage == ("batch", "jobs") and not options.propagation else []
    finalizers = _finalizers(resource, live.body["metadata"], options)
    grace = _grace(live.body, options) if resource.storage == ("", "pods") else 0
    if not finalizers and not grace and resource.storage not in _ALWAYS_TERMINATING:
        gone = live.body if options.dry_run else remove(registry, resource, live).body
        return Deleted(gone if (resource.group, resource.kind) in RETURNS_DELETED else _success(resource, live), warnings)
    body = live.copy()
    if live.body["metadata"].get("deletionTimestamp"):
        unchanged = finalizers == body["metadata"].get("finalizers", []) and not _shortened(body["metadata"], grace)
        if unchanged:
            return Deleted(live.body, warnings)
        if is_released(resource, body) and not options.dry_run:
            return Deleted(remove(registry, resource, live, body).body, warnings)
    else:
        _terminate(registry, resource, body, grace)
    if finalizers:
        body["metadata"]["finalizers"] = finalizers
    if options.dry_run:
        return Deleted(body, warnings)
    stored = registry.store.commit(resource.storage, "MODIFIED", live.namespace, live.name, body)
    return Deleted(stored.body, warnings)


_ALWAYS_TERMINATING = (("", "namespaces"), ("apiextensions.k8s.io", "customresourcedefinitions"))


def _shortened(metadata: JsonObject, grace: int) -> bool:
    """Takes a shorter grace over, in place."""
    if grace >= metadata.get("deletionGracePeriodSeconds", 0):
        return False
    metadata["deletionGracePeriodSeconds"] = grace
    return True


def _terminate(registry: Registry, resource: Resource, body: JsonObject, grace: int) -> None:
    """Marks an object as being deleted, in place."""
    metadata = body["metadata"]
    metadata["deletionTimestamp"] = _later(registry, grace)
    if resource.storage not in _ALWAYS_TERMINATING:
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
    _mark_terminating(registry, resource, body)


def _finalizers(resource: Resource, metadata: JsonObject, options: DeleteOptions) -> list[str]:
    held = [item for item in metadata.get("finalizers") or () if item not in (FOREGROUND, ORPHAN) or not options.propagation]
    propagation = options.propagation or ("Orphan" if (resource.group, resource.kind) in ORPHANS_BY_DEFAULT else "")
    if propagation == "Foreground" and FOREGROUND not in held:
        held.append(FOREGROUND)
    if propagation == "Orphan" and ORPHAN not in held:
        held.append(ORPHAN)
    if resource.kind == "CustomResourceDefinition" and strategies.CRD_CLEANUP not in held:
        held.append(strategies.CRD_CLEANUP)
    return held


def _grace(body: JsonObject, options: DeleteOptions) -> int:
    """How many seconds a pod has to stop."""
    spec, status = body["spec"], body.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    grace = options.grace_seconds if options.grace_seconds is not None else spec.get("terminationGracePeriodSeconds", 30)
    return max(int(grace), 0)


def _later(registry: Registry, seconds: int) -> str:
    return (registry.clock() + dt.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def _mark_terminating(registry: Registry, resource: Resource, body: JsonObject) -> None:
    match resource.group, resource.kind:
        case "", "Namespace":
            body["status"] = {**(body.get("status") or {}), "phase": "Terminating"}
        case "apiextensions.k8s.io", "CustomResourceDefinition":
            conditions = [item for item in body["status"].get("conditions") or () if item["type"] != "Terminating"]
            conditions.append(
                {
                    "type": "Terminating",
                    "status": "True",
                    "lastTransitionTime": registry.now(),
                    "reason": "InstanceDeletionPending",
                    "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
                }
            )
            body["status"] = {**body["status"], "conditions": conditions}
        case _:
            pass


def _success(resource: Resource, live: Stored) -> JsonObject:
    details = statuses.details(live.name, resource.group, resource.plural, uid=live.uid)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
