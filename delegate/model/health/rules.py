"""The health of any object: the rules of all kinds, asked in one order.

The answer is about the object as it is wanted now: as long as its controller has not seen the newest generation, nothing
that it says counts, neither success nor failure.
"""

from collections.abc import Mapping

from delegate.model.health.autoscaling import assess_autoscaler, assess_disruption_budget
from delegate.model.health.batch import assess_cron_job, assess_job
from delegate.model.health.conditions import (
    TERMINATING,
    Circumstances,
    Rule,
    assess_conditions,
    assess_done,
    assess_lifecycle,
    mapping,
    metadata_of,
)
from delegate.model.health.custom import HealthRules, assess_by_rule
from delegate.model.health.dating import dated
from delegate.model.health.definitions import assess_api_service, assess_definition
from delegate.model.health.namespaces import assess_namespace
from delegate.model.health.networking import assess_ingress, assess_service
from delegate.model.health.pods import assess_pod
from delegate.model.health.shipped import shipped_rules
from delegate.model.health.storage import assess_claim, assess_volume
from delegate.model.health.verdicts import Health, HealthStatus
from delegate.model.health.workloads import assess_daemon_set, assess_deployment, assess_replica_set, assess_stateful_set
from delegate.model.resources import GroupKind, JsonObject, Manifest

_RULES: Mapping[GroupKind, Rule] = {
    GroupKind("", "Namespace"): assess_namespace,
    GroupKind("", "PersistentVolume"): assess_volume,
    GroupKind("", "PersistentVolumeClaim"): assess_claim,
    GroupKind("", "Pod"): assess_pod,
    GroupKind("", "ReplicationController"): assess_replica_set,
    GroupKind("", "Service"): assess_service,
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): assess_definition,
    GroupKind("apiregistration.k8s.io", "APIService"): assess_api_service,
    GroupKind("apps", "DaemonSet"): assess_daemon_set,
    GroupKind("apps", "Deployment"): assess_deployment,
    GroupKind("apps", "ReplicaSet"): assess_replica_set,
    GroupKind("apps", "StatefulSet"): assess_stateful_set,
    GroupKind("autoscaling", "HorizontalPodAutoscaler"): assess_autoscaler,
    GroupKind("batch", "CronJob"): assess_cron_job,
    GroupKind("batch", "Job"): assess_job,
    GroupKind("networking.k8s.io", "Ingress"): assess_ingress,
    GroupKind("policy", "PodDisruptionBudget"): assess_disruption_budget,
}
_DONE_BY_EXISTING = frozenset(
    {
        GroupKind("", "ConfigMap"),
        GroupKind("", "LimitRange"),
        GroupKind("", "ResourceQuota"),
        GroupKind("", "Secret"),
        GroupKind("", "ServiceAccount"),
        GroupKind("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
        GroupKind("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
        GroupKind("networking.k8s.io", "IngressClass"),
        GroupKind("networking.k8s.io", "NetworkPolicy"),
        GroupKind("node.k8s.io", "RuntimeClass"),
        GroupKind("rbac.authorization.k8s.io", "ClusterRole"),
        GroupKind("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        GroupKind("rbac.authorization.k8s.io", "Role"),
        GroupKind("rbac.authorization.k8s.io", "RoleBinding"),
        GroupKind("scheduling.k8s.io", "PriorityClass"),
        GroupKind("storage.k8s.io", "StorageClass"),
    }
)
_IGNORE_ANNOTATIONS = ("argocd.argoproj.io/ignore-healthcheck", "delegate.gitops/ignore-healthcheck")
_LEFT_OUT = Health(HealthStatus.HEALTHY, "HealthIgnored", "its annotation says that its health does not count")
_MISSING = Health(HealthStatus.MISSING, "NotFound", "the object does not exist")
# Not by suffix: the Gateway API and others of k8s.io have controllers of their own, which may not have looked yet.
_OF_KUBERNETES = frozenset(
    {
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "extensions",
        "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    }
)
_SETTLE_SECONDS = {
    GroupKind("autoscaling", "HorizontalPodAutoscaler"): 90.0,
    GroupKind("apiregistration.k8s.io", "APIService"): 60.0,
}
_SETTLE_SECONDS_OF_CUSTOM_RESOURCES = 5.0


def assess(obj: JsonObject | None, circumstances: Circumstances | None = None, rules: HealthRules | None = None) -> Health:
    """The health of a live object (None: it is not there), as the design names the states.

    Order: deletion, generation, Reconciling and Stalled conditions, the rule of its kind, its Ready condition. `rules` are those in
    CEL that may replace the rule of a kind; None: the shipped ones. One that is to be left out counts as Healthy while it exists.
    """
    if obj is None:
        return _MISSING
    known = circumstances or Circumstances()
    group_kind = Manifest(obj).group_kind
    gone = assess_lifecycle(obj, known)
    if is_left_out(obj) and (gone is None or gone.reason != TERMINATING):
        return _LEFT_OUT
    return dated(gone or _by_kind(group_kind, obj, known, rules), obj)


def is_left_out(obj: JsonObject) -> bool:
    """Whether an object asks for its health not to count."""
    annotations = mapping(metadata_of(obj), "annotations")
    return any(annotations.get(name) == "true" for name in _IGNORE_ANNOTATIONS)


def _by_kind(group_kind: GroupKind, obj: JsonObject, known: Circumstances, rules: HealthRules | None) -> Health:
    custom = rules.rule_of(group_kind) if rules is not None else None
    if custom is None and rules is None and group_kind.group not in _OF_KUBERNETES:
        custom = shipped_rules().rule_of(group_kind)
    return assess_by_rule(custom, obj, known) if custom is not None else _rule_of(group_kind)(obj, known)


def reads_status(group_kind: GroupKind, rules: HealthRules | None = None) -> bool:
    """Whether the health of a kind can differ from Healthy while it exists, so that a wait has to read its body."""
    return group_kind not in _DONE_BY_EXISTING or (rules is not None and rules.rule_of(group_kind) is not None)


def _rule_of(group_kind: GroupKind) -> Rule:
    return assess_done if group_kind in _DONE_BY_EXISTING else _RULES.get(group_kind, assess_conditions)


def settle_seconds(group_kind: GroupKind) -> float:
    """How long after a write silence or a complaint of a kind's controller is no answer yet; 0 for kinds that write at once."""
    default = 0.0 if group_kind.group in _OF_KUBERNETES else _SETTLE_SECONDS_OF_CUSTOM_RESOURCES
    return _SETTLE_SECONDS.get(group_kind, default)
