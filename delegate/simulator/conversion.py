"""The kinds that are served in several versions: stored in one, converted for the others.

Custom resources differ by their apiVersion alone (conversion strategy None); autoscalers are stored as v2, events as core v1.
"""

from delegate.model.resources import JsonObject
from delegate.simulator.kinds import Resource

_EVENT = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_EVENT_BACK = {new: old for old, new in _EVENT.items()}


def convert(body: JsonObject, resource: Resource) -> JsonObject:
    """A stored body in a version that is not the stored one."""
    if resource.kind == "Event" and resource.group == "events.k8s.io":
        return {_EVENT.get(key, key): value for key, value in body.items()} | {"apiVersion": resource.api_version}
    if resource.kind == "HorizontalPodAutoscaler" and resource.version == "v1":
        return _autoscaler_to_v1(body)
    return {**body, "apiVersion": resource.api_version}


def to_storage(body: JsonObject, resource: Resource, old: JsonObject | None) -> JsonObject:
    """A body that was written in another version, as it is stored."""
    if resource.kind == "Event" and resource.group == "events.k8s.io":
        return {_EVENT_BACK.get(key, key): value for key, value in body.items()} | {"apiVersion": "v1"}
    if resource.kind == "HorizontalPodAutoscaler" and resource.version == "v1":
        return _autoscaler_to_v2(body, old)
    group = f"{resource.group}/" if resource.group else ""
    return {**body, "apiVersion": group + resource.storage_version}


def _is_cpu(metric: JsonObject) -> bool:
    resource = metric.get("resource") or {}
    return resource.get("name") == "cpu" and "averageUtilization" in (resource.get("target") or {})


def _autoscaler_to_v1(body: JsonObject) -> JsonObject:
    spec = {key: value for key, value in body["spec"].items() if key in ("scaleTargetRef", "minReplicas", "maxReplicas")}
    for metric in body["spec"].get("metrics") or ():
        if _is_cpu(metric):
            spec["targetCPUUtilizationPercentage"] = metric["resource"]["target"]["averageUtilization"]
            break
    before = body.get("status") or {}
    status = {"currentReplicas": before.get("currentReplicas", 0), "desiredReplicas": before.get("desiredReplicas", 0)}
    status |= {key: before[key] for key in ("observedGeneration", "lastScaleTime") if key in before}
    return {**body, "apiVersion": "autoscaling/v1", "spec": spec, "status": status}


def _autoscaler_to_v2(body: JsonObject, old: JsonObject | None) -> JsonObject:
    spec = dict(body["spec"])
    utilization = spec.pop("targetCPUUtilizationPercentage", None)
    metrics = [metric for metric in ((old or {}).get("spec") or {}).get("metrics") or () if not _is_cpu(metric)]
    if utilization is not None:
        target = {"type": "Utilization", "averageUtilization": utilization}
        metrics.append({"type": "Resource", "resource": {"name": "cpu", "target": target}})
    if metrics:
        spec["metrics"] = metrics
    return {
        **body,
        "apiVersion": "autoscaling/v2",
        "spec": spec,
        "status": (old or {}).get("status") or {"desiredReplicas": 0, "currentMetrics": None},
    }
