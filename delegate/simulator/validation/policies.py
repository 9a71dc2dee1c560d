"""Validation of access rules, autoscalers, budgets, definitions, leases and priorities."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.statuses import Cause
from delegate.simulator.validation.metadata import label, subdomain
from delegate.simulator.validation.workloads import not_negative, selector_causes


def _role(body: JsonObject) -> list[Cause]:
    causes = []
    for index, rule in enumerate(body.get("rules") or ()):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            causes.append(statuses.required(f"{path}.verbs", "verbs must contain at least one value"))
        if rule.get("nonResourceURLs"):
            if body["metadata"].get("namespace"):
                text = "namespaced rules cannot apply to non-resource URLs"
                causes.append(statuses.invalid_value(f"{path}.nonResourceURLs", rule["nonResourceURLs"], text))
            continue
        if not rule.get("apiGroups"):
            causes.append(statuses.required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
        if not rule.get("resources"):
            causes.append(statuses.required(f"{path}.resources", "resource rules must supply at least one resource"))
    return causes


def _binding(body: JsonObject) -> list[Cause]:
    causes = []
    role = body["roleRef"]
    kinds = ("Role", "ClusterRole") if body["kind"] == "RoleBinding" else ("ClusterRole",)
    if role.get("apiGroup") != "rbac.authorization.k8s.io":
        causes.append(statuses.unsupported("roleRef.apiGroup", role.get("apiGroup", ""), ("rbac.authorization.k8s.io",)))
    if role.get("kind") not in kinds:
        causes.append(statuses.unsupported("roleRef.kind", role.get("kind", ""), kinds))
    if not role.get("name"):
        causes.append(statuses.required("roleRef.name"))
    for index, subject in enumerate(body.get("subjects") or ()):
        path = f"subjects[{index}]"
        if not subject.get("name"):
            causes.append(statuses.required(f"{path}.name"))
        if subject.get("kind") not in ("ServiceAccount", "User", "Group"):
            causes.append(statuses.unsupported(f"{path}.kind", subject.get("kind", ""), ("Group", "ServiceAccount", "User")))
        if subject.get("kind") == "ServiceAccount" and body["kind"] == "ClusterRoleBinding" and not subject.get("namespace"):
            causes.append(statuses.required(f"{path}.namespace"))
    return causes


def _autoscaler(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes = []
    low, high = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    if low < 1:
        causes.append(statuses.invalid_value("spec.minReplicas", low, "must be greater than or equal to 1"))
    if high < 1:
        causes.append(statuses.invalid_value("spec.maxReplicas", high, "must be greater than 0"))
    if high < low:
        causes.append(statuses.invalid_value("spec.maxReplicas", high, "must be greater than or equal to `minReplicas`"))
    return causes + [statuses.required(f"spec.scaleTargetRef.{key}") for key in ("kind", "name") if not spec["scaleTargetRef"].get(key)]


def _budget(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        text = "minAvailable and maxUnavailable cannot be both set"
        causes.append(statuses.invalid_value("spec", spec, text))
    for key in ("minAvailable", "maxUnavailable"):
        causes += not_negative(f"spec.{key}", spec.get(key))
    return causes + selector_causes(spec.get("selector"), "spec.selector")


def _definition(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    names = spec.get("names") or {}
    causes = []
    expected = f"{names.get('plural', '')}.{spec.get('group', '')}"
    if body["metadata"].get("name") != expected:
        text = 'must be spec.names.plural+"."+spec.group'
        causes.append(statuses.invalid_value("metadata.name", body["metadata"].get("name", ""), text))
    group = spec.get("group", "")
    if not group:
        causes.append(statuses.required("spec.group"))
    elif len(group.split(".")) < 2:
        causes.append(statuses.invalid_value("spec.group", group, "should be a domain with at least one dot"))
    else:
        causes += [statuses.invalid_value("spec.group", group, text) for text in subdomain(group)]
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        causes.append(statuses.unsupported("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced")))
    versions = spec.get("versions") or []
    stored = [version for version in versions if version.get("storage")]
    if len(stored) != 1:
        text = "must have exactly one version marked as storage version"
        causes.append(statuses.invalid_value("spec.versions", versions, text))
    for index, version in enumerate(versions):
        causes += _definition_version(version, f"spec.versions[{index}]")
    for key in ("plural", "kind"):
        if not names.get(key):
            causes.append(statuses.required(f"spec.names.{key}"))
    return causes


def _definition_version(version: JsonObject, path: str) -> list[Cause]:
    causes = [statuses.invalid_value(f"{path}.name", version.get("name", ""), text) for text in label(version.get("name", ""))]
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        text = "schemas are required"
        causes.append(statuses.required(f"{path}.schema.openAPIV3Schema", text))
    elif schema.get("type") != "object":
        text = "must be object" if "type" in schema else "must not be empty at the root"
        kind = (
            statuses.invalid_value(f"{path}.schema.openAPIV3Schema.type", schema["type"], text)
            if "type" in schema
            else statuses.required(f"{path}.schema.openAPIV3Schema.type", text)
        )
        causes.append(kind)
    return causes


def _lease(body: JsonObject) -> list[Cause]:
    spec = body.get("spec") or {}
    causes = []
    if "leaseDurationSeconds" in spec and spec["leaseDurationSeconds"] <= 0:
        causes.append(statuses.invalid_value("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0"))
    if "leaseTransitions" in spec and spec["leaseTransitions"] < 0:
        causes.append(statuses.invalid_value("spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0"))
    return causes


def _storage_class(body: JsonObject) -> list[Cause]:
    return [] if body.get("provisioner") else [statuses.required("provisioner")]


def _quota(body: JsonObject) -> list[Cause]:
    return []


RBAC = "rbac.authorization.k8s.io"
Table = dict[tuple[str, str], Any]
TABLE: Table = {
    (RBAC, "Role"): _role,
    (RBAC, "ClusterRole"): _role,
    (RBAC, "RoleBinding"): _binding,
    (RBAC, "ClusterRoleBinding"): _binding,
    ("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    ("policy", "PodDisruptionBudget"): _budget,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("coordination.k8s.io", "Lease"): _lease,
    ("storage.k8s.io", "StorageClass"): _storage_class,
}
