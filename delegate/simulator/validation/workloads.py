"""Validation of Deployments, ReplicaSets, StatefulSets, DaemonSets and replication controllers."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.naming import label
from delegate.simulator.selectors import of_label_selector
from delegate.simulator.statuses import Cause
from delegate.simulator.validation.pods import template_causes
from delegate.simulator.validation.selectors import selector_causes
from delegate.simulator.validation.values import at_most_all, chosen, named, not_negative, percent_or_number
from delegate.simulator.validation.volumes import claim_causes

MISMATCH = "`selector` does not match template `labels`"
NO_DEADLINE = "activeDeadlineSeconds in {} is not Supported"


def labels_of(template: Any) -> JsonObject:
    return ((template or {}).get("metadata") or {}).get("labels") or {}


def mismatch(labels: JsonObject) -> Cause:
    return statuses.invalid_value("spec.template.metadata.labels", dict(sorted(labels.items())) or None, MISMATCH)


def _selector(spec: JsonObject, kind: str) -> list[Cause]:
    """The selector is there and says something."""
    selector = spec.get("selector")
    if selector is None:
        return [statuses.required("spec.selector")]
    causes = selector_causes(selector, "spec.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        causes.append(statuses.invalid_value("spec.selector", selector, f"empty selector is invalid for {kind}"))
    return causes


def _template(spec: JsonObject, kind: str, claims: Any = ()) -> list[Cause]:
    """The template is what the selector selects, and its pods are to run for ever."""
    selector, template = spec.get("selector"), spec.get("template") or {}
    if selector is not None and selector_causes(selector, ""):
        return [statuses.invalid_value("spec.selector", selector, "invalid label selector")]
    labels = labels_of(template)
    empty = selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions")
    causes = []
    if not empty and (selector is None or not of_label_selector(selector)(labels)):
        causes.append(mismatch(labels))
    return causes + template_causes(template, "spec.template", claims) + _runs_for_ever(template, kind)


def _runs_for_ever(template: JsonObject, kind: str) -> list[Cause]:
    pod = template.get("spec") or {}
    causes: list[Cause] = []
    policy = pod.get("restartPolicy")
    if policy in ("OnFailure", "Never"):
        causes.append(statuses.unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    if "activeDeadlineSeconds" in pod:
        causes.append(statuses.forbidden_value("spec.template.spec.activeDeadlineSeconds", NO_DEADLINE.format(kind)))
    return causes


def _deployment(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes = not_negative("spec.replicas", spec.get("replicas"))
    causes += _selector(spec, "deployment") + _template(spec, "ReplicaSet")
    strategy = spec["strategy"]
    if strategy.get("type") == "Recreate" and "rollingUpdate" in strategy:
        text = "may not be specified when strategy `type` is 'Recreate'"
        causes.append(statuses.forbidden_value("spec.strategy.rollingUpdate", text))
    elif strategy.get("type") not in ("Recreate", "RollingUpdate"):
        causes.append(statuses.unsupported("spec.strategy.type", strategy.get("type"), ("Recreate", "RollingUpdate")))
    elif strategy.get("type") == "RollingUpdate":
        causes += _rolling(strategy.get("rollingUpdate") or {}, "spec.strategy.rollingUpdate")
    for key in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        causes += not_negative(f"spec.{key}", spec.get(key))
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds", 0)
    if deadline is not None and deadline <= ready:
        causes.append(statuses.invalid_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return causes


def _amount(value: Any) -> int:
    """How many, or how many percent; 0 for what is neither."""
    if isinstance(value, int):
        return value
    number = str(value).removesuffix("%")
    return int(number) if number.isdigit() else 0


def _rolling(rolling: JsonObject, path: str) -> list[Cause]:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    causes = percent_or_number(f"{path}.maxUnavailable", unavailable) + percent_or_number(f"{path}.maxSurge", surge)
    if _amount(unavailable) == 0 and _amount(surge) == 0:
        causes.append(statuses.invalid_value(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return causes + at_most_all(f"{path}.maxUnavailable", unavailable)


def _replica_set(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes = not_negative("spec.replicas", spec.get("replicas")) + not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    return causes + _selector(spec, "deployment") + _template(spec, "ReplicaSet")


def _go_strategy(strategy: JsonObject) -> JsonObject:
    return {"Type": strategy.get("type", ""), "RollingUpdate": strategy.get("rollingUpdate")}


def _stateful_set(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes = []
    if spec.get("podManagementPolicy") not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        causes.append(statuses.invalid_value("spec.podManagementPolicy", spec.get("podManagementPolicy"), text))
    causes += _set_strategy(spec["updateStrategy"], "spec.updateStrategy")
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for key in ("whenDeleted", "whenScaled"):
        causes += chosen(f"spec.persistentVolumeClaimRetentionPolicy.{key}", retention.get(key), ("Retain", "Delete"))
    claims = spec.get("volumeClaimTemplates") or ()
    for index, claim in enumerate(claims):
        causes += claim_causes(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
    causes += not_negative("spec.replicas", spec.get("replicas")) + not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    causes += not_negative("spec.ordinals.start", (spec.get("ordinals") or {}).get("start"))
    causes += named("spec.serviceName", spec.get("serviceName"), label)
    return causes + _selector(spec, "statefulset") + _template(spec, "StatefulSet", claims)


def _set_strategy(strategy: JsonObject, path: str) -> list[Cause]:
    rolling = strategy.get("rollingUpdate")
    match strategy.get("type"):
        case "OnDelete":
            if rolling is None:
                return []
            shown = {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}
            return [statuses.invalid_value(f"{path}.rollingUpdate", shown, "only allowed for updateStrategy 'RollingUpdate'")]
        case "RollingUpdate":
            causes = not_negative(f"{path}.rollingUpdate.partition", (rolling or {}).get("partition"))
            if "maxUnavailable" in (rolling or {}):
                causes += percent_or_number(f"{path}.rollingUpdate.maxUnavailable", (rolling or {})["maxUnavailable"])
            return causes
        case _:
            return [statuses.invalid_value(path, _go_strategy(strategy), "must be 'RollingUpdate' or 'OnDelete'")]


def _daemon_set(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    selector, template = spec.get("selector"), spec.get("template") or {}
    causes = selector_causes(selector, "spec.selector")
    if not causes and (selector is None or not of_label_selector(selector)(labels_of(template))):
        causes.append(mismatch(labels_of(template)))
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        causes.append(statuses.invalid_value("spec.selector", selector, "empty selector is invalid for daemonset"))
    causes += template_causes(template, "spec.template") + _runs_for_ever(template, "DaemonSet")
    causes += not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    strategy = spec["updateStrategy"]
    if strategy.get("type") == "RollingUpdate":
        causes += _surging(strategy.get("rollingUpdate") or {}, "spec.updateStrategy.rollingUpdate")
    elif strategy.get("type") != "OnDelete":
        causes.append(statuses.unsupported("spec.updateStrategy", _go_strategy(strategy), ("RollingUpdate", "OnDelete")))
    return causes + not_negative("spec.revisionHistoryLimit", spec.get("revisionHistoryLimit"))


def _surging(rolling: JsonObject, path: str) -> list[Cause]:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    causes = percent_or_number(f"{path}.maxUnavailable", unavailable) + percent_or_number(f"{path}.maxSurge", surge)
    causes += at_most_all(f"{path}.maxUnavailable", unavailable) + at_most_all(f"{path}.maxSurge", surge)
    if _amount(unavailable) and _amount(surge):
        causes.append(statuses.invalid_value(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
    elif not _amount(unavailable) and not _amount(surge):
        causes.append(statuses.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return causes


def _replication_controller(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes = not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    selector = spec.get("selector") or {}
    if not selector:
        causes.append(statuses.required("spec.selector"))
    causes += not_negative("spec.replicas", spec.get("replicas"))
    template = spec.get("template")
    if not template:
        return [*causes, statuses.required("spec.template")]
    labels = labels_of(template)
    if any(labels.get(key) != value for key, value in selector.items()):
        causes.append(mismatch(labels))
    return causes + template_causes(template, "spec.template") + _runs_for_ever(template, "ReplicationController")


def _revision(body: JsonObject) -> list[Cause]:
    causes = not_negative("revision", body.get("revision"))
    if body.get("data") is None:
        causes.append(statuses.required("data", "data is mandatory"))
    elif not isinstance(body["data"], dict):
        causes.append(statuses.required("data", "data must be a valid JSON object"))
    return causes


TABLE = {
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "ControllerRevision"): _revision,
    ("", "ReplicationController"): _replication_controller,
}
