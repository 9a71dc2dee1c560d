"""HorizontalPodAutoscaler and PodDisruptionBudget."""

import msgspec

from delegate.model.health.conditions import (
    Circumstances,
    condition_of,
    conditions_of,
    is_observed,
    mapping,
    metadata_of,
    status_of,
)
from delegate.model.health.verdicts import HEALTHY, Health, degraded, progressing
from delegate.model.resources import JsonObject

_CONDITIONS = "autoscaling.alpha.kubernetes.io/conditions"
_NO_SCALE = frozenset({"FailedGetScale", "FailedUpdateScale"})
_NO_METRIC = frozenset(
    {
        "FailedGetResourceMetric",
        "FailedGetContainerResourceMetric",
        "FailedGetObjectMetric",
        "FailedGetPodsMetric",
        "FailedGetExternalMetric",
        "FailedComputeMetricsReplicas",
        "InvalidSelector",
    }
)


def assess_autoscaler(obj: JsonObject, circumstances: Circumstances) -> Health:
    """Done when it can scale. Missing metrics are Degraded once settled: every new workload has none for a minute."""
    obj = _with_conditions(obj)
    able, active = condition_of(obj, "AbleToScale"), condition_of(obj, "ScalingActive")
    if able and able.is_false and able.reason in _NO_SCALE:
        return degraded(able.reason, able.message)
    if active and active.is_false and active.reason in _NO_METRIC:
        return (degraded if circumstances.settled else progressing)(active.reason, active.message)
    limited = condition_of(obj, "ScalingLimited")
    if (able and able.is_true) or (limited and limited.is_true):
        return HEALTHY
    return progressing(able.reason if able else "NotScaledYet", able.message if able else "")


def _with_conditions(obj: JsonObject) -> JsonObject:
    """As autoscaling/v1 has it: there the conditions are an annotation, as JSON."""
    written = mapping(metadata_of(obj), "annotations").get(_CONDITIONS)
    if obj.get("apiVersion") != "autoscaling/v1" or not isinstance(written, str):
        return obj
    try:
        conditions = msgspec.json.decode(written)
    except msgspec.DecodeError:
        return obj
    return {**obj, "status": {**status_of(obj), "conditions": conditions}}


def assess_disruption_budget(obj: JsonObject, _circumstances: Circumstances) -> Health:
    """Done when its controller has counted; that nothing may be disrupted now is no fault."""
    if not is_observed(obj):
        return progressing("GenerationNotObserved", "its controller has not looked at it yet")
    for condition in conditions_of(obj):
        if condition.is_false and condition.reason != "InsufficientPods":
            return degraded(condition.reason, condition.message)
    return HEALTHY
