"""Validation of HorizontalPodAutoscalers; those of autoscaling/v1 are looked at as the v2 that they mean."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import quantities, statuses
from delegate.simulator.naming import path_segment
from delegate.simulator.statuses import Cause
from delegate.simulator.validation.values import chosen, named

_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_LONGEST_WINDOW = 3600
_LONGEST_PERIOD = 1800


def _autoscaler(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes: list[Cause] = []
    low, high = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    if low < 1:
        causes.append(statuses.invalid_value("spec.minReplicas", low, "must be greater than or equal to 1"))
    if high < 0:
        causes.append(statuses.invalid_value("spec.maxReplicas", high, "must be greater than or equal to 1"))
    elif high < 1:
        causes.append(statuses.required("spec.maxReplicas", "must be set and greater than 0"))
    if high < low:
        causes.append(statuses.invalid_value("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`"))
    causes += _reference(spec["scaleTargetRef"], "spec.scaleTargetRef", "apiVersion")
    if body.get("apiVersion") == "autoscaling/v1":
        return causes + _utilization(spec)
    for index, metric in enumerate(spec.get("metrics") or ()):
        causes += _metric(metric, f"spec.metrics[{index}]")
    for key in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(key)
        if rules is not None:
            causes += _rules(rules, f"spec.behavior.{key}")
    return causes


def _utilization(spec: JsonObject) -> list[Cause]:
    value = spec.get("targetCPUUtilizationPercentage", 1)
    path = "spec.metrics[0].resource.target.averageUtilization"
    return [] if value > 0 else [statuses.invalid_value(path, value, "must be greater than 0")]


def _reference(reference: JsonObject, path: str, version: str = "") -> list[Cause]:
    causes: list[Cause] = []
    for key in ("kind", "name"):
        value = reference.get(key, "")
        causes += named(f"{path}.{key}", value, path_segment) if value else [statuses.required(f"{path}.{key}")]
    given = reference.get("apiVersion", "")
    if version and "/" not in given and reference.get("kind") != "ReplicationController":
        causes.append(statuses.invalid_value(f"{path}.{version}", given, "apiVersion must specify API group"))
    return causes


def _metric(metric: JsonObject, path: str) -> list[Cause]:
    kind = metric.get("type", "")
    if not kind:
        return [statuses.required(f"{path}.type", "must specify a metric source type")]
    if kind not in _SOURCES:
        return chosen(f"{path}.type", kind, tuple(_SOURCES))
    key = _SOURCES[kind]
    source = metric.get(key)
    if source is None:
        return [statuses.required(f"{path}.{key}", "must populate information for the given metric source")]
    here = f"{path}.{key}"
    causes: list[Cause] = []
    if kind in ("Resource", "ContainerResource"):
        causes += [] if source.get("name") else [statuses.required(f"{here}.name", "must specify a resource name")]
        if kind == "ContainerResource" and not source.get("container"):
            causes.append(statuses.required(f"{here}.container", "must specify a container"))
    else:
        if kind == "Object":
            causes += _reference(source.get("describedObject") or {}, f"{here}.describedObject")
        if not (source.get("metric") or {}).get("name"):
            causes.append(statuses.required(f"{here}.metric.name", "must specify a metric name"))
    return causes + _target(source.get("target") or {}, f"{here}.target", kind)


def _target(target: JsonObject, path: str, kind: str) -> list[Cause]:
    causes: list[Cause] = []
    form = target.get("type", "")
    if not form:
        causes.append(statuses.required(f"{path}.type", "must specify a metric target type"))
    if form not in ("Utilization", "Value", "AverageValue"):
        causes.append(statuses.invalid_value(f"{path}.type", form, "must be either Utilization, Value, or AverageValue"))
    causes += [
        statuses.invalid_value(f"{path}.{key}", target[key], "must be positive")
        for key in ("value", "averageValue")
        if key in target and quantities.parse(target[key]) <= 0
    ]
    if target.get("averageUtilization", 1) < 1:
        causes.append(statuses.invalid_value(f"{path}.averageUtilization", target["averageUtilization"], "must be greater than 0"))
    return causes + _needed(target, path, kind)


def _needed(target: JsonObject, path: str, kind: str) -> list[Cause]:
    """The form of a target that its kind of metric needs."""
    has_value, has_average, has_use = (key in target for key in ("value", "averageValue", "averageUtilization"))
    match kind:
        case "Resource" | "ContainerResource" if not has_average and not has_use:
            return [statuses.required(f"{path}.averageUtilization", "must set either a target raw value or a target utilization")]
        case "Resource" | "ContainerResource" if has_average and has_use:
            return [statuses.forbidden_value(f"{path}.averageValue", "may not set both a target raw value and a target utilization")]
        case "Pods" if not has_average:
            return [statuses.required(f"{path}.averageValue", "must specify a positive target averageValue")]
        case "Object" if not has_value and not has_average:
            return [statuses.required(f"{path}.averageValue", "must set either a target value or averageValue")]
        case "External" if not has_value and not has_average:
            return [statuses.required(f"{path}.averageValue", "must set either a target value for metric or a per-pod target")]
        case "External" if has_value and has_average:
            text = "may not set both a target value for metric and a per-pod target"
            return [statuses.forbidden_value(f"{path}.value", text)]
        case _:
            return []


def _rules(rules: JsonObject, path: str) -> list[Cause]:
    causes: list[Cause] = []
    window: Any = rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        causes.append(statuses.invalid_value(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW:
        text = f"must be less than or equal to {_LONGEST_WINDOW}"
        causes.append(statuses.invalid_value(f"{path}.stabilizationWindowSeconds", window, text))
    causes += chosen(f"{path}.selectPolicy", rules.get("selectPolicy"), ("Disabled", "Max", "Min"), optional=True)
    policies = rules.get("policies") or ()
    if not policies:
        causes.append(statuses.required(f"{path}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        here = f"{path}.policies[{index}]"
        causes += chosen(f"{here}.type", policy.get("type"), ("Percent", "Pods"))
        for key in ("value", "periodSeconds"):
            if policy.get(key, 0) <= 0:
                causes.append(statuses.invalid_value(f"{here}.{key}", policy.get(key, 0), "must be greater than zero"))
        if policy.get("periodSeconds", 0) > _LONGEST_PERIOD:
            text = f"must be less than or equal to {_LONGEST_PERIOD}"
            causes.append(statuses.invalid_value(f"{here}.periodSeconds", policy["periodSeconds"], text))
    return causes


TABLE = {("autoscaling", "HorizontalPodAutoscaler"): _autoscaler}
