"""What a cluster holds from the start: namespaces, a node, the administrator's role."""

from delegate.model.resources import JsonObject
from delegate.simulator.registry import Registry
from delegate.simulator.storing import Options
from delegate.simulator.writes import MERGE_PATCH, Write

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
NODE = "sim-1"
_SERVER = Options(manager="kube-apiserver", user="system:apiserver")


def populate(registry: Registry) -> None:
    """Creates the objects of an empty cluster."""
    for name in NAMESPACES:
        if registry.get(registry.kind("", "Namespace"), "", name) is None:
            _create(registry, "", "Namespace", "", {"metadata": {"name": name}})
    _create(
        registry,
        "rbac.authorization.k8s.io",
        "ClusterRole",
        "",
        _role("cluster-admin", [_rule("*", "*", "*"), {"nonResourceURLs": ["*"], "verbs": ["*"]}]),
    )
    _create(registry, "", "Node", "", node())
    nodes = registry.kind("", "Node")
    Write(registry, nodes, "", NODE, options=_SERVER).patch(MERGE_PATCH, {"spec": {"taints": None}})
    service = {
        "metadata": {"name": "kubernetes"},
        "spec": {"clusterIP": "10.0.0.1", "ports": [{"name": "https", "port": 443, "targetPort": 6443}]},
    }
    _create(registry, "", "Service", "default", service)


def _rule(group: str, resource: str, verb: str) -> JsonObject:
    return {"apiGroups": [group], "resources": [resource], "verbs": [verb]}


def _role(name: str, rules: list[JsonObject]) -> JsonObject:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    return {"metadata": {"name": name, "labels": labels}, "rules": rules}


def node() -> JsonObject:
    """A node with room for everything."""
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "5000", "ephemeral-storage": "1Ti"}
    labels = {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
    return {
        "metadata": {"name": NODE, "labels": labels},
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [condition],
            "addresses": [{"type": "InternalIP", "address": "192.0.2.10"}, {"type": "Hostname", "address": NODE}],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "operatingSystem": "linux", "architecture": "amd64"},
        },
    }


def _create(registry: Registry, group: str, kind: str, namespace: str, body: JsonObject) -> None:
    resource = registry.kind(group, kind)
    if registry.get(resource, namespace, body["metadata"]["name"]) is None:
        Write(registry, resource, namespace, options=_SERVER).create({"apiVersion": resource.api_version, "kind": kind, **body})
