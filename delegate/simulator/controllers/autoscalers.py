"""HorizontalPodAutoscalers without a metrics source: they say so, and only keep their target within its bounds."""

from collections.abc import Iterable

from delegate.model.resources import JsonObject
from delegate.simulator.controllers.base import Controller, Key, condition_of
from delegate.simulator.store import Change, StorageKey, Stored

AUTOSCALERS: StorageKey = ("autoscaling", "horizontalpodautoscalers")
SYNC_SECONDS = 15.0
_NO_METRICS = (
    "the HPA was unable to compute the replica count: failed to get {name} utilization: unable to get metrics for resource {name}: unable"
    " to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)"
)
_GOT_SCALE = "the HPA controller was able to get the target's current scale"


class AutoscalerController(Controller):
    rank = 8
    watched = (AUTOSCALERS,)

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        if change.type == "ADDED" or change.before is None or change.before.body["spec"] != change.stored.body["spec"]:
            yield change.stored.namespace, change.stored.name

    def sync(self, key: Key) -> float | None:
        stored = self.find("autoscaling", "HorizontalPodAutoscaler", key)
        if stored is None:
            return None
        spec = stored.body["spec"]
        reference = spec["scaleTargetRef"]
        group = reference.get("apiVersion", "").rpartition("/")[0]
        resource = self.registry.find_kind(group, reference["kind"])
        target = self.registry.get(resource, key[0], reference["name"]) if resource is not None else None
        if target is None or resource is None:
            plural = resource.qualified if resource is not None else reference["kind"]
            message = f'the HPA controller was unable to get the target\'s current scale: {plural} "{reference["name"]}" not found'
            self._write(stored, {}, [("AbleToScale", "False", "FailedGetScale", message)])
            return SYNC_SECONDS
        replicas = int((target.body.get("spec") or {}).get("replicas", 1))
        wanted = self._bounded(spec, replicas)
        if replicas and wanted != replicas:
            body = target.copy()
            body["spec"]["replicas"] = wanted
            self.update(target, resource.group, resource.kind, body)
        names = [(metric.get("resource") or {}).get("name", "cpu") for metric in spec.get("metrics") or ()] or ["cpu"]
        said = [
            ("AbleToScale", "True", "SucceededGetScale", _GOT_SCALE),
            ("ScalingActive", "False", "FailedGetResourceMetric", _NO_METRICS.format(name=names[0])),
        ]
        self._write(stored, {"currentReplicas": replicas, "currentMetrics": [{"type": ""} for _ in names]}, said)
        return SYNC_SECONDS

    def _bounded(self, spec: JsonObject, replicas: int) -> int:
        return min(max(replicas, int(spec.get("minReplicas", 1))), int(spec["maxReplicas"]))

    def _write(self, stored: Stored, counts: JsonObject, said: list[tuple[str, str, str, str]]) -> None:
        status: JsonObject = {**counts, "desiredReplicas": 0}
        status.setdefault("currentMetrics", None)
        conditions = []
        for kind, state, reason, message in said:
            held = condition_of(stored.body, kind)
            at = held["lastTransitionTime"] if held is not None and held["status"] == state else self.registry.now()
            conditions.append({"type": kind, "status": state, "lastTransitionTime": at, "reason": reason, "message": message})
        status["conditions"] = conditions
        self.update_status(stored, "autoscaling", "HorizontalPodAutoscaler", status)
