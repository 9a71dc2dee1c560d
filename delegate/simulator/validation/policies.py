"""Validation of access rules, disruption budgets, leases, priorities, limits and quotas."""

import re
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import quantities, statuses
from delegate.simulator.naming import path_segment, qualified, subdomain
from delegate.simulator.statuses import Cause
from delegate.simulator.validation.selectors import selector_causes
from delegate.simulator.validation.values import NOT_NEGATIVE, amounts, at_most_all, chosen, named, not_negative, percent_or_number

RBAC = "rbac.authorization.k8s.io"
_LARGEST_PRIORITY = 1_000_000_000
_SYSTEM_CLASSES = ("system-cluster-critical", "system-node-critical")
_QUOTED = frozenset(
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ]
)
_COUNTED = frozenset(
    [
        "pods",
        "services",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ]
)
_SCOPES = ("Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "PriorityClass", "CrossNamespacePodAffinity")
_SECURITY_LABELS = tuple(f"pod-security.kubernetes.io/{mode}" for mode in ("enforce", "audit", "warn"))
_SECURITY_LEVELS = ("privileged", "baseline", "restricted")
_LIMITED = ("Pod", "Container", "PersistentVolumeClaim")


def _role(body: JsonObject) -> list[Cause]:
    causes: list[Cause] = []
    for index, rule in enumerate(body.get("rules") or ()):
        causes += _rule(rule, f"rules[{index}]", namespaced=bool(body["metadata"].get("namespace")))
    aggregation = body.get("aggregationRule")
    if aggregation is None:
        return causes
    selectors = aggregation.get("clusterRoleSelectors")
    if not selectors:
        text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        return [*causes, statuses.required("aggregationRule.clusterRoleSelectors", text)]
    for index, selector in enumerate(selectors):
        here = f"aggregationRule.clusterRoleSelectors[{index}]"
        wrong = selector_causes(selector, here)
        causes += [*wrong, statuses.invalid_value(here, None, "invalid label selector.")] if wrong else []
    return causes


def _rule(rule: JsonObject, path: str, *, namespaced: bool) -> list[Cause]:
    causes: list[Cause] = []
    if not rule.get("verbs"):
        causes.append(statuses.required(f"{path}.verbs", "verbs must contain at least one value"))
    places = rule.get("nonResourceURLs")
    if places:
        if namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            causes.append(statuses.invalid_value(f"{path}.nonResourceURLs", places, text))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            causes.append(statuses.invalid_value(f"{path}.nonResourceURLs", places, text))
        return causes
    if not rule.get("apiGroups"):
        causes.append(statuses.required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        causes.append(statuses.required(f"{path}.resources", "resource rules must supply at least one resource"))
    return causes


def _binding(body: JsonObject) -> list[Cause]:
    role = body["roleRef"]
    kinds = ("Role", "ClusterRole") if body["kind"] == "RoleBinding" else ("ClusterRole",)
    causes = chosen("roleRef.apiGroup", role.get("apiGroup"), (RBAC,)) + chosen("roleRef.kind", role.get("kind"), kinds)
    name = role.get("name", "")
    causes += named("roleRef.name", name, path_segment) if name else [statuses.required("roleRef.name")]
    for index, subject in enumerate(body.get("subjects") or ()):
        causes += _subject(subject, f"subjects[{index}]", in_cluster=body["kind"] == "ClusterRoleBinding")
    return causes


def _subject(subject: JsonObject, path: str, *, in_cluster: bool) -> list[Cause]:
    name, group = subject.get("name", ""), subject.get("apiGroup", "")
    causes = [] if name else [statuses.required(f"{path}.name")]
    match subject.get("kind"):
        case "ServiceAccount":
            causes += named(f"{path}.name", name, subdomain)
            causes += chosen(f"{path}.apiGroup", group, ("",))
            if in_cluster and not subject.get("namespace"):
                causes.append(statuses.required(f"{path}.namespace"))
        case "User" | "Group":
            causes += chosen(f"{path}.apiGroup", group, (RBAC,))
        case kind:
            causes.append(statuses.unsupported(f"{path}.kind", kind or "", ("ServiceAccount", "User", "Group")))
    return causes


def _budget(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes: list[Cause] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        shown = {
            "MinAvailable": spec["minAvailable"],
            "Selector": spec.get("selector"),
            "MaxUnavailable": spec["maxUnavailable"],
            "UnhealthyPodEvictionPolicy": spec.get("unhealthyPodEvictionPolicy"),
        }
        causes.append(statuses.invalid_value("spec", shown, "minAvailable and maxUnavailable cannot be both set"))
    for key in ("minAvailable", "maxUnavailable"):
        causes += percent_or_number(f"spec.{key}", spec.get(key)) + at_most_all(f"spec.{key}", spec.get(key))
    causes += selector_causes(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    return causes + chosen("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"), optional=policy is None)


def _lease(body: JsonObject) -> list[Cause]:
    spec = body.get("spec") or {}
    causes: list[Cause] = []
    if "leaseDurationSeconds" in spec and spec["leaseDurationSeconds"] <= 0:
        causes.append(statuses.invalid_value("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0"))
    return causes + not_negative("spec.leaseTransitions", spec.get("leaseTransitions"))


def _priority_class(body: JsonObject) -> list[Cause]:
    name, value = body["metadata"].get("name", ""), body.get("value", 0)
    causes: list[Cause] = []
    if name.startswith("system-"):
        if name not in _SYSTEM_CLASSES:
            text = (
                "priority class names with 'system-' prefix are reserved for system use only. error: "
                f"{name} is not a known system priority class"
            )
            causes.append(statuses.forbidden_value("metadata.name", text))
    elif value > _LARGEST_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {_LARGEST_PRIORITY}"
        causes.append(statuses.forbidden_value("value", text))
    return causes + chosen("preemptionPolicy", body.get("preemptionPolicy"), ("PreemptLowerPriority", "Never"), optional=True)


def _quota(body: JsonObject) -> list[Cause]:
    spec = body.get("spec") or {}
    causes: list[Cause] = []
    for name, amount in (spec.get("hard") or {}).items():
        path = f"spec.hard[{name}]"
        wrong = qualified(name)
        causes += [statuses.invalid_value(path, name, text) for text in wrong]
        if not wrong and "/" not in name and name not in _QUOTED and not re.match(r"(requests\.|limits\.)?hugepages-", name):
            causes.append(statuses.invalid_value(path, name, "must be a standard resource type or fully qualified"))
            causes.append(statuses.invalid_value(path, name, "must be a standard resource for quota"))
        number = quantities.parse(amount)
        if number < 0:
            causes.append(statuses.invalid_value(path, amount, NOT_NEGATIVE))
        if (name in _COUNTED or name.startswith("count/")) and number.denominator != 1:
            causes.append(statuses.invalid_value(path, amount, "must be an integer"))
    scopes = spec.get("scopes") or []
    causes += [statuses.invalid_value("spec.scopes", scopes, "unsupported scope") for scope in scopes if scope not in _SCOPES]
    return causes


def _limit_range(body: JsonObject) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, item in enumerate((body.get("spec") or {}).get("limits") or ()):
        path, kind = f"spec.limits[{index}]", item.get("type", "")
        wrong = qualified(kind)
        causes += [statuses.invalid_value(f"{path}.type", kind, text) for text in wrong]
        if not wrong and "/" not in kind and kind not in _LIMITED:
            causes.append(statuses.invalid_value(f"{path}.type", kind, "must be a standard limit type or fully qualified"))
        if kind in seen:
            causes.append(statuses.duplicate(f"{path}.type", kind))
        seen.add(kind)
        causes += _limits(item, path, kind)
    return causes


def _limits(item: JsonObject, path: str, kind: str) -> list[Cause]:
    causes: list[Cause] = []
    if kind == "Pod":
        text = "may not be specified when `type` is 'Pod'"
        causes += [statuses.forbidden_value(f"{path}.{key}", text) for key in ("default", "defaultRequest") if item.get(key)]
    if kind == "PersistentVolumeClaim" and "storage" not in {**(item.get("min") or {}), **(item.get("max") or {})}:
        text = "either minimum or maximum storage value is required, but neither was provided"
        causes.append(statuses.required(f"{path}.limits", text))
    if kind in ("Pod", "Container"):
        for key in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            causes += amounts(f"{path}.{key}", item.get(key))
    parts: dict[str, Any] = {key: item.get(key) or {} for key in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")}
    for name in sorted({name for part in parts.values() for name in part}):
        causes += _limit(parts, path, name)
    return causes


def _limit(parts: dict[str, Any], path: str, name: str) -> list[Cause]:
    """One resource's bounds have to be in order: min, default request, default, max."""
    causes: list[Cause] = []
    given = {key: part[name] for key, part in parts.items() if name in part}
    value = {key: quantities.parse(amount) for key, amount in given.items()}
    if "min" in value and "max" in value and value["min"] > value["max"]:
        text = f"min value {given['min']} is greater than max value {given['max']}"
        causes.append(statuses.invalid_value(f"{path}.min[{name}]", given["min"], text))
    for key, what in (("defaultRequest", "default request"), ("default", "default")):
        if key not in value:
            continue
        here = f"{path}.{key}[{name}]"
        if "min" in value and value["min"] > value[key]:
            text = f"min value {given['min']} is greater than {what} value {given[key]}"
            causes.append(statuses.invalid_value(here, given[key], text))
        if "max" in value and value[key] > value["max"]:
            text = f"{what} value {given[key]} is greater than max value {given['max']}"
            causes.append(statuses.invalid_value(here, given["max"] if key == "default" else given[key], text))
    if "defaultRequest" in value and "default" in value and value["defaultRequest"] > value["default"]:
        text = f"default request value {given['defaultRequest']} is greater than default limit value {given['default']}"
        causes.append(statuses.invalid_value(f"{path}.defaultRequest[{name}]", given["defaultRequest"], text))
    if "maxLimitRequestRatio" in value and value["maxLimitRequestRatio"] < 1:
        text = f"ratio {given['maxLimitRequestRatio']} is less than 1"
        causes.append(statuses.invalid_value(f"{path}.maxLimitRequestRatio[{name}]", given["maxLimitRequestRatio"], text))
    return causes


def _storage_class(body: JsonObject) -> list[Cause]:
    provisioner = body.get("provisioner", "")
    causes = named("provisioner", provisioner.lower(), qualified) if provisioner else [statuses.required("provisioner")]
    if "" in (body.get("parameters") or {}):
        causes.append(statuses.invalid_value("parameters", "", "field can not be empty."))
    causes += chosen("reclaimPolicy", body.get("reclaimPolicy"), ("Delete", "Retain"))
    return causes + chosen("volumeBindingMode", body.get("volumeBindingMode"), ("Immediate", "WaitForFirstConsumer"))


def _namespace(body: JsonObject) -> list[Cause]:
    """The levels of pod security that its labels name."""
    causes: list[Cause] = []
    for key, value in (body["metadata"].get("labels") or {}).items():
        if key in _SECURITY_LABELS and value not in _SECURITY_LEVELS:
            text = f"must be one of {', '.join(_SECURITY_LEVELS)}"
            causes.append(statuses.invalid_value(f"metadata.labels[{key}]", value, text))
    return causes


TABLE = {
    (RBAC, "Role"): _role,
    (RBAC, "ClusterRole"): _role,
    (RBAC, "RoleBinding"): _binding,
    (RBAC, "ClusterRoleBinding"): _binding,
    ("policy", "PodDisruptionBudget"): _budget,
    ("coordination.k8s.io", "Lease"): _lease,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("storage.k8s.io", "StorageClass"): _storage_class,
    ("", "ResourceQuota"): _quota,
    ("", "Namespace"): _namespace,
    ("", "LimitRange"): _limit_range,
}
