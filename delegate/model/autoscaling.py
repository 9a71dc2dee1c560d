"""Replicas that an autoscaler drives, found in the set itself and in conflicts."""

from collections.abc import Iterable, Iterator

from delegate.model.resources import GroupKind, Manifest, ResourceKey

SCALERS = frozenset({"kube-controller-manager", "keda-operator", "vpa-updater"})
"""Field managers that write replicas by the scale subresource for an autoscaler. `kubectl scale` is none: it is somebody's hand."""

_AUTOSCALERS = {
    GroupKind("autoscaling", "HorizontalPodAutoscaler"): "apps/v1",
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
