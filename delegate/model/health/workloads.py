"""Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController: by the counts that their controllers write."""

from delegate.model.health.conditions import (
    Circumstances,
    condition_of,
    integer,
    is_observed,
    mapping,
    spec_of,
    status_of,
)
from delegate.model.health.verdicts import HEALTHY, Health, degraded, progressing, suspended
from delegate.model.resources import JsonObject

_NO_DEADLINE = 2**31 - 1
_UNSEEN = progressing("GenerationNotObserved", "its controller has not looked at it yet")


def assess_deployment(obj: JsonObject, _circumstances: Circumstances) -> Health:
    """Done when every replica is of the newest ReplicaSet, available, and the controller says that it has finished."""
    if not is_observed(obj):
        return _UNSEEN
    spec, status = spec_of(obj), status_of(obj)
    if spec.get("paused"):
        return suspended("DeploymentPaused", "the Deployment is paused")
    progress = condition_of(obj, "Progressing")
    if progress and progress.reason == "ProgressDeadlineExceeded":
        return degraded(progress.reason, progress.message)
    failure = condition_of(obj, "ReplicaFailure")
    if failure and failure.is_true:
        return progressing(failure.reason or "ReplicaFailure", failure.message)
    return _count_deployment(spec, status) or _finished(obj)


def _count_deployment(spec: JsonObject, status: JsonObject) -> Health | None:
    wanted = integer(spec, "replicas", 1)
    replicas, updated = integer(status, "replicas"), integer(status, "updatedReplicas")
    available, ready = integer(status, "availableReplicas"), integer(status, "readyReplicas")
    if updated < wanted:
        return progressing("ReplicasUpdating", f"{updated} of {wanted} replicas are of the new revision")
    if replicas > updated:
        return progressing("OldReplicasTerminating", f"{replicas - updated} replicas of an old revision are still there")
    if replicas > wanted:
        return progressing("ReplicasTerminating", f"{replicas - wanted} replicas too many are still there")
    if available < updated or ready < wanted:
        return progressing("ReplicasNotAvailable", f"{min(available, ready)} of {wanted} replicas are available")
    return None


def _finished(obj: JsonObject) -> Health:
    progress, available = condition_of(obj, "Progressing"), condition_of(obj, "Available")
    has_deadline = integer(spec_of(obj), "progressDeadlineSeconds", _NO_DEADLINE) != _NO_DEADLINE
    if has_deadline and (progress is None or progress.reason != "NewReplicaSetAvailable"):
        return progressing(progress.reason if progress else "ReplicasUpdating", progress.message if progress else "")
    if available is None or available.status != "True":
        return progressing(available.reason if available else "ReplicasNotAvailable", available.message if available else "")
    return HEALTHY


def assess_replica_set(obj: JsonObject, _circumstances: Circumstances) -> Health:
    if not is_observed(obj):
        return _UNSEEN
    failure = condition_of(obj, "ReplicaFailure")
    if failure and failure.is_true:
        return degraded(failure.reason or "ReplicaFailure", failure.message)
    wanted, status = integer(spec_of(obj), "replicas", 1), status_of(obj)
    available, replicas = integer(status, "availableReplicas"), integer(status, "replicas")
    if available < wanted:
        return progressing("ReplicasNotAvailable", f"{available} of {wanted} replicas are available")
    if replicas > wanted:
        return progressing("ReplicasTerminating", f"{replicas - wanted} replicas too many are still there")
    return HEALTHY


def assess_stateful_set(obj: JsonObject, _circumstances: Circumstances) -> Health:
    """Done when all replicas are ready and as many of the new revision as its update strategy asks for."""
    if not is_observed(obj):
        return _UNSEEN
    spec, status = spec_of(obj), status_of(obj)
    wanted = integer(spec, "replicas", 1)
    replicas, ready = integer(status, "replicas"), integer(status, "readyReplicas")
    if ready < wanted or replicas < wanted:
        return progressing("ReplicasNotReady", f"{ready} of {wanted} replicas are ready")
    if integer(status, "availableReplicas", ready) < wanted:
        return progressing("ReplicasNotAvailable", f"{integer(status, 'availableReplicas')} of {wanted} replicas are available")
    if replicas > wanted:
        return progressing("ReplicasTerminating", f"{replicas - wanted} replicas too many are still there")
    strategy = mapping(spec, "updateStrategy")
    if strategy.get("type") == "OnDelete":
        return HEALTHY
    updated = integer(status, "updatedReplicas")
    partition = integer(mapping(strategy, "rollingUpdate"), "partition")
    if partition > 0:
        if updated < wanted - partition:
            return progressing("ReplicasUpdating", f"{updated} of {wanted - partition} replicas above the partition are updated")
        return HEALTHY
    if status.get("updateRevision") != status.get("currentRevision") or integer(status, "currentReplicas") < wanted:
        return progressing("ReplicasUpdating", f"{updated} of {wanted} replicas are of the new revision")
    return HEALTHY


def assess_daemon_set(obj: JsonObject, _circumstances: Circumstances) -> Health:
    """Done when every node that it fits runs it, available and (unless it updates on deletion only) up to date."""
    if not is_observed(obj):
        return _UNSEEN
    status = status_of(obj)
    wanted = integer(status, "desiredNumberScheduled")
    updated, available = integer(status, "updatedNumberScheduled"), integer(status, "numberAvailable")
    if mapping(spec_of(obj), "updateStrategy").get("type") != "OnDelete" and updated < wanted:
        return progressing("PodsUpdating", f"{updated} of {wanted} nodes run the new revision")
    if min(integer(status, "currentNumberScheduled"), integer(status, "numberReady"), available) < wanted:
        return progressing("PodsNotAvailable", f"{available} of {wanted} nodes have an available pod")
    return HEALTHY
