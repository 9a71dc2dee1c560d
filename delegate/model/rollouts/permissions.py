"""What a canary asks of a cluster, beside its records: the least, by the kind of its workload."""

from delegate.model.rollouts.journals import journal_name
from delegate.model.rollouts.specs import KINDS

PERMISSIONS: dict[str, tuple[tuple[str, str, tuple[str, ...]], ...]] = {
    "Deployment": (
        ("apps", "deployments", ("get", "create", "update", "patch", "delete")),
        ("apps", "replicasets", ("list",)),
        ("", "pods", ("list",)),
        ("", "services", ("list",)),
        ("autoscaling", "horizontalpodautoscalers", ("list",)),
    ),
    "StatefulSet": (
        ("apps", "statefulsets", ("get", "update")),
        ("", "pods", ("list", "delete")),
    ),
    "Rollout": (
        ("argoproj.io", "rollouts", ("get", "update")),
        ("argoproj.io", "rollouts/status", ("patch",)),
        ("apps", "replicasets", ("list",)),
        ("", "pods", ("list",)),
    ),
}
"""API group, resource and verbs."""


def kind_of_journal(name: str) -> str:
    """The kind of workload that a journal of this name is about; empty where there is none."""
    return next((kind for kind in KINDS if name.startswith(journal_name(kind, ""))), "")
