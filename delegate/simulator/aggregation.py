"""Aggregated APIs: the group versions that APIServices hand to other servers, of which a simulated cluster can reach none.

They are seen in discovery, as stale, and every request for them is answered that the server can't handle it now; so a client meets
what it meets with a metrics server that is down.
"""

from typing import NamedTuple

from delegate.model.resources import JsonObject
from delegate.simulator.registry import Registry
from delegate.simulator.statuses import StatusError
from delegate.simulator.store import StorageKey

API_SERVICES: StorageKey = ("apiregistration.k8s.io", "apiservices")
AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"
_CORE_PRIORITY = 18000
_USUAL_PRIORITY = 15
_PRIORITIES = {
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
}
_VERSION_PRIORITIES = {"": 1, "flowcontrol.apiserver.k8s.io": 21, "resource.k8s.io": 21}
_CUSTOM_PRIORITIES = (1000, 100)


class GroupVersion(NamedTuple):
    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}"


def built_in(registry: Registry) -> list[JsonObject]:
    """The APIServices that the control plane registers itself with when it starts."""
    found = []
    for group in registry.groups:
        if group and group not in _PRIORITIES:
            continue  # its own, or a definition's
        for version in registry.versions(group):
            priority = 30 if (group, version) == ("autoscaling", "v2") else _VERSION_PRIORITIES.get(group, _USUAL_PRIORITY)
            found.append(managed(group, version, "onstart", (_PRIORITIES.get(group, _CORE_PRIORITY), priority)))
    return found


def managed(group: str, version: str, when: str = "true", priorities: tuple[int, int] = _CUSTOM_PRIORITIES) -> JsonObject:
    """An APIService that the control plane keeps: `onstart` for its own, `true` for those of definitions."""
    named = {"group": group} if group else {}
    spec = {**named, "version": version, "groupPriorityMinimum": priorities[0], "versionPriority": priorities[1]}
    return {"metadata": {"name": f"{version}.{group}", "labels": {AUTOMANAGED: when}}, "spec": spec}


def remote(registry: Registry) -> list[GroupVersion]:
    """The group versions that are to be served elsewhere."""
    found = []
    for stored in registry.store.table(API_SERVICES).items():
        spec = stored.body["spec"]
        named = GroupVersion(spec.get("group", ""), spec.get("version", ""))
        if spec.get("service") and not registry.served(*named):
            found.append(named)
    return found


def is_remote(registry: Registry, group: str, version: str) -> bool:
    stored = registry.store.table(API_SERVICES).get("", f"{version}.{group}")
    return stored is not None and bool(stored.body["spec"].get("service"))


def unavailable() -> StatusError:
    """What the aggregator answers for a server that it can't reach."""
    return StatusError(503, "service unavailable\n", plain=True)
