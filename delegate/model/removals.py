"""API versions that Kubernetes has removed (the deprecated API migration guide), and what to write instead."""

from collections.abc import Mapping

import msgspec


class Removal(msgspec.Struct, frozen=True):
    """`since`: the minor version of 1.x that no longer serves it. `successor` is empty where there is none."""

    since: int
    successor: str

    @property
    def advice(self) -> str:
        return f"write apiVersion: {self.successor}" if self.successor else "nothing replaces it: take it out"


def _removals(since: int, successor: str, *kinds: str) -> dict[str, Removal]:
    return dict.fromkeys(kinds, Removal(since, successor))


_EXTENSIONS = "extensions/v1beta1"
REMOVED: Mapping[str, Mapping[str, Removal]] = {
    _EXTENSIONS: {
        **_removals(16, "apps/v1", "DaemonSet", "Deployment", "ReplicaSet"),
        **_removals(16, "networking.k8s.io/v1", "NetworkPolicy"),
        **_removals(16, "", "PodSecurityPolicy"),
        **_removals(22, "networking.k8s.io/v1", "Ingress"),
    },
    "apps/v1beta1": _removals(16, "apps/v1", "Deployment", "StatefulSet", "ReplicaSet"),
    "apps/v1beta2": _removals(16, "apps/v1", "DaemonSet", "Deployment", "StatefulSet", "ReplicaSet"),
    "admissionregistration.k8s.io/v1beta1": _removals(
        22, "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
    ),
    "apiextensions.k8s.io/v1beta1": _removals(22, "apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    "apiregistration.k8s.io/v1beta1": _removals(22, "apiregistration.k8s.io/v1", "APIService"),
    "authentication.k8s.io/v1beta1": _removals(22, "authentication.k8s.io/v1", "TokenReview"),
    "certificates.k8s.io/v1beta1": _removals(22, "certificates.k8s.io/v1", "CertificateSigningRequest"),
    "coordination.k8s.io/v1beta1": _removals(22, "coordination.k8s.io/v1", "Lease"),
    "networking.k8s.io/v1beta1": _removals(22, "networking.k8s.io/v1", "Ingress", "IngressClass"),
    "rbac.authorization.k8s.io/v1beta1": _removals(
        22, "rbac.authorization.k8s.io/v1", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"
    ),
    "scheduling.k8s.io/v1beta1": _removals(22, "scheduling.k8s.io/v1", "PriorityClass"),
    "storage.k8s.io/v1beta1": {
        **_removals(22, "storage.k8s.io/v1", "CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"),
        **_removals(27, "storage.k8s.io/v1", "CSIStorageCapacity"),
    },
    "batch/v1beta1": _removals(25, "batch/v1", "CronJob"),
    "discovery.k8s.io/v1beta1": _removals(25, "discovery.k8s.io/v1", "EndpointSlice"),
    "events.k8s.io/v1beta1": _removals(25, "events.k8s.io/v1", "Event"),
    "autoscaling/v2beta1": _removals(25, "autoscaling/v2", "HorizontalPodAutoscaler"),
    "autoscaling/v2beta2": _removals(26, "autoscaling/v2", "HorizontalPodAutoscaler"),
    "policy/v1beta1": {**_removals(25, "policy/v1", "PodDisruptionBudget"), **_removals(25, "", "PodSecurityPolicy")},
    "node.k8s.io/v1beta1": _removals(25, "node.k8s.io/v1", "RuntimeClass"),
    "flowcontrol.apiserver.k8s.io/v1beta1": _removals(26, "flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "PriorityLevelConfiguration"),
    "flowcontrol.apiserver.k8s.io/v1beta2": _removals(29, "flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "PriorityLevelConfiguration"),
    "flowcontrol.apiserver.k8s.io/v1beta3": _removals(32, "flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "PriorityLevelConfiguration"),
}


def removal_of(api_version: str, kind: str) -> Removal | None:
    """Whether Kubernetes has stopped serving a kind in this version; None where it has not, or where it isn't known."""
    return REMOVED.get(api_version, {}).get(kind)


def describe_removal(api_version: str, kind: str) -> str:
    """In a sentence, or empty."""
    removal = removal_of(api_version, kind)
    return f"{kind} of {api_version} is gone since Kubernetes 1.{removal.since}: {removal.advice}" if removal else ""
