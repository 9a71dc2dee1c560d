"""Replicas that an autoscaler drives, found in the set itself and in conflicts; the order of its metrics."""

import json
from collections.abc import Iterable, Iterator

from delegate.model.resources import GroupKind, JsonObject, Manifest, ResourceKey

SCALERS = frozenset({"kube-controller-manager", "keda-operator", "vpa-updater"})
"""Field managers that write replicas by the scale subresource for an autoscaler. `kubectl scale` is none: it is somebody's hand."""

_HPA = GroupKind("autoscaling", "HorizontalPodAutoscaler")
_AUTOSCALERS = {
    _HPA: "apps/v1",
    GroupKind("keda.sh", "ScaledObject"): "apps/v1",
}


def is_scaled(manager: str, subresource: str, field: str) -> bool:
    """Whether a conflict is about replicas that an autoscaler has set."""
    return field == ".spec.replicas" and subresource == "scale" and manager in SCALERS


def scaled_by_others(manifests: Iterable[Manifest]) -> Iterator[tuple[Manifest, Manifest]]:
    """Each member that states `spec.replicas`, with the autoscaler of the set that drives them too."""
    members = tuple(manifests)
    stating = {member.key: member for member in members if isinstance(member.body.get("spec"), dict) and "replicas" in member.body["spec"]}
    for scaler in members:
        target = _target(scaler)
        if target in stating:
            yield stating[target], scaler


def _target(scaler: Manifest) -> ResourceKey | None:
    default = _AUTOSCALERS.get(scaler.group_kind)
    spec = scaler.body.get("spec")
    reference = spec.get("scaleTargetRef") if isinstance(spec, dict) else None
    if default is None or not isinstance(reference, dict):
        return None
    group = str(reference.get("apiVersion") or default).rpartition("/")[0]
    return ResourceKey(group, str(reference.get("kind") or "Deployment"), scaler.namespace, str(reference.get("name") or ""))


def has_metrics(group_kind: GroupKind, body: JsonObject) -> bool:
    """Whether an object is an autoscaler that states more metrics than one, whose order says nothing."""
    return group_kind == _HPA and len(_metrics(body)) > 1


def with_metrics_ordered(group_kind: GroupKind, body: JsonObject, live: JsonObject) -> JsonObject:
    """The body with its metrics in the order of the live object, where both have the same ones.

    Servers and other tools order them anew, and the list is one value to server-side apply.
    """
    wanted, found = _metrics(body), _metrics(live)
    names = [_name_of(metric) for metric in found]
    by_name = {_name_of(metric): metric for metric in wanted}
    same = group_kind == _HPA and len(by_name) == len(wanted) == len(found) and sorted(by_name) == sorted(names)
    if not same or list(by_name) == names:
        return body
    return {**body, "spec": {**body["spec"], "metrics": [by_name[name] for name in names]}}


def _metrics(body: JsonObject) -> list[JsonObject]:
    spec = body.get("spec")
    metrics = spec.get("metrics") if isinstance(spec, dict) else None
    return [metric for metric in metrics if isinstance(metric, dict)] if isinstance(metrics, list) else []


def _name_of(metric: JsonObject) -> str:
    """Type and what is measured, without the target: that is what may change."""
    kind = str(metric.get("type") or "")
    source = metric.get(kind[:1].lower() + kind[1:])
    source = {name: value for name, value in source.items() if name != "target"} if isinstance(source, dict) else None
    return json.dumps([kind, source], sort_keys=True)
