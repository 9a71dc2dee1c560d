"""Probes, resources and host namespaces of pods."""

from collections.abc import Collection, Iterator
from typing import Any

from delegate.model.policies.pod_specs import containers_of, pod_spec_of
from delegate.model.policies.violations import Flaw
from delegate.model.resources import JsonObject

_SERVING = frozenset({"Deployment", "StatefulSet", "DaemonSet", "Rollout", "ReplicaSet"})
_HOST = ("hostNetwork", "hostPID", "hostIPC")


def missing_probes(body: JsonObject, probes: Collection[str]) -> Iterator[Flaw]:
    """Containers of workloads that serve, without the probes that are wanted (`readinessProbe`, `livenessProbe`, `startupProbe`)."""
    if body.get("kind") not in _SERVING:
        return
    for way, container in containers_of(body, ("containers",)):
        for probe in probes:
            if not container.get(probe):
                yield Flaw(
                    f"container {container.get('name')} has no {probe}",
                    way,
                    f"add a {probe}: without it, a pod that does not work counts as one that does",
                )


def missing_resources(body: JsonObject, wanted: Collection[str]) -> Iterator[Flaw]:
    """Containers that don't say what they need. `wanted` names ways such as `requests.cpu`."""
    for way, container in containers_of(body, ("initContainers", "containers")):
        missing = [name for name in wanted if not _has(container.get("resources"), name)]
        if missing:
            yield Flaw(
                f"container {container.get('name')} states no {', '.join(f'resources.{name}' for name in missing)}",
                f"{way}.resources",
                "say what it needs, so that nodes are not overcommitted and it is not the first to be evicted",
            )


def host_namespaces(body: JsonObject) -> Iterator[Flaw]:
    """Pods that share a namespace of their node, and containers that are privileged."""
    found = pod_spec_of(body)
    if found is None:
        return
    way, spec = found
    for name in _HOST:
        if spec.get(name) is True:
            yield Flaw(f"pods share the node's namespace ({name})", f"{way}.{name}", f"leave {name} out, or have the rule allow it")
    for place, container in containers_of(body):
        security = container.get("securityContext")
        if isinstance(security, dict) and security.get("privileged") is True:
            yield Flaw(
                f"container {container.get('name')} is privileged",
                f"{place}.securityContext.privileged",
                "name the single capabilities that it needs",
            )


def _has(value: Any, way: str) -> bool:
    for name in way.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value not in (None, "")
