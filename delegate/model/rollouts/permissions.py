"""What a canary asks of a cluster, beside its records: the least, by the kind of its workload and by who shifts its load."""

from collections.abc import Iterator

from delegate.model.rollouts.journals import Journal, journal_name
from delegate.model.rollouts.specs import KINDS

Rule = tuple[str, str, tuple[str, ...]]
"""API group, resource and verbs."""
_OF_THE_KIND: dict[str, tuple[Rule, ...]] = {
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
OF_A_SMOKE_TEST: Rule = ("batch", "jobs", ("get", "create", "delete"))
_OF_SECRETS: Rule = ("", "secrets", ("get", "create", "update", "delete"))
"""Copies of them, and the way back of what the stable version reads. Those of ConfigMaps are had with the records."""

_OF_ANY_ROUTER: tuple[Rule, ...] = (
    ("", "services", ("get", "create", "patch", "delete")),
    ("discovery.k8s.io", "endpointslices", ("list",)),
)
_OF_THE_ROUTER: dict[str, tuple[Rule, ...]] = {
    "gatewayAPI": (("gateway.networking.k8s.io", "httproutes", ("get", "patch")), *_OF_ANY_ROUTER),
    "istio": (("networking.istio.io", "virtualservices", ("get", "patch")), *_OF_ANY_ROUTER),
    "nginx": (("networking.k8s.io", "ingresses", ("get", "list", "create", "patch", "delete")), *_OF_ANY_ROUTER),
    "service": _OF_ANY_ROUTER,
}

TO_HOLD_AUTOSCALERS: Rule = ("autoscaling", "horizontalpodautoscalers", ("get", "patch"))
"""Where a router leads load away from a set that they drive; without it they may shrink that."""


def rules_of(kind: str, journal: Journal) -> Iterator[Rule]:
    """What a canary of a workload of this kind has asked for, by what its journal holds."""
    yield from _OF_THE_KIND.get(kind, ())
    for router in journal.routing:
        yield from _OF_THE_ROUTER.get(router, ())
    if journal.autoscalers:
        yield TO_HOLD_AUTOSCALERS
    if journal.smoke_job:
        yield OF_A_SMOKE_TEST
    if "Secret" in {copied[0] for copied in (*journal.copies, *journal.kept)}:
        yield _OF_SECRETS


def kind_of_journal(name: str) -> str:
    """The kind of workload that a journal of this name is about; empty where there is none."""
    return next((kind for kind in KINDS if name.startswith(journal_name(kind, ""))), "")
