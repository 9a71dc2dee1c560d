"""What a cluster holds from the start: namespaces, a node, the usual roles, the APIServices of its own kinds."""

from delegate.model.resources import JsonObject
from delegate.simulator import aggregation
from delegate.simulator.registry import Registry
from delegate.simulator.storing import Options
from delegate.simulator.writes import MERGE_PATCH, Write

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
NODE = "sim-1"
RBAC = "rbac.authorization.k8s.io"
AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_CONTENT = ("", "apps", "autoscaling", "batch", "discovery.k8s.io", "networking.k8s.io", "policy")
_SEEN_ONLY = {"bindings", "controllerrevisions", "endpointslices", "events", "limitranges", "namespaces", "pods/log", "resourcequotas"}
_VIEWED = _SEEN_ONLY | {
    "configmaps",
    "cronjobs",
    "daemonsets",
    "deployments",
    "deployments/scale",
    "endpoints",
    "horizontalpodautoscalers",
    "ingresses",
    "jobs",
    "networkpolicies",
    "persistentvolumeclaims",
    "poddisruptionbudgets",
    "pods",
    "replicasets",
    "replicasets/scale",
    "replicationcontrollers",
    "serviceaccounts",
    "services",
    "statefulsets",
    "statefulsets/scale",
}
_SERVER = Options(manager="kube-apiserver", user="system:apiserver")


def populate(registry: Registry) -> None:
    """Creates the objects of an empty cluster."""
    for name in NAMESPACES:
        if registry.get(registry.kind("", "Namespace"), "", name) is None:
            _create(registry, "", "Namespace", "", {"metadata": {"name": name}})
    for role in roles():
        _create(registry, RBAC, "ClusterRole", "", role)
    _create(registry, "", "Node", "", node())
    nodes = registry.kind("", "Node")
    Write(registry, nodes, "", NODE, options=_SERVER).patch(MERGE_PATCH, {"spec": {"taints": None}})
    for body in aggregation.built_in(registry):
        _create(registry, "apiregistration.k8s.io", "APIService", "", body)
    service = {
        "metadata": {"name": "kubernetes"},
        "spec": {"clusterIP": "10.0.0.1", "ports": [{"name": "https", "port": 443, "targetPort": 6443}]},
    }
    _create(registry, "", "Service", "default", service)


def roles() -> list[JsonObject]:
    """The roles that people are bound to everywhere: cluster-admin, and admin, edit and view, which gather what is labelled for them."""
    everything = [_rule(["*"], ["*"], ["*"]), {"nonResourceURLs": ["*"], "verbs": ["*"]}]
    found = [_role("cluster-admin", everything)]
    secret = [_rule([""], ["secrets"], [*_READ, *_WRITE])]
    access = [_rule([RBAC], ["roles", "rolebindings"], [*_READ, *_WRITE])]
    gathered = {
        "view": [_rule(list(_CONTENT), list(_VIEWED), list(_READ))],
        "edit": [_rule(list(_CONTENT), list(_VIEWED - _SEEN_ONLY), list(_WRITE)), *secret, _rule([""], ["pods/eviction"], ["create"])],
        "admin": access,
    }
    for name, rules in gathered.items():
        above = {"view": "edit", "edit": "admin"}.get(name)
        found.append(_role(f"system:aggregate-to-{name}", rules, {f"{AGGREGATE}{name}": "true"}))
        role = _role(name, [], {f"{AGGREGATE}{above}": "true"} if above else {})
        role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {f"{AGGREGATE}{name}": "true"}}]}
        del role["rules"]
        found.append(role)
    return found


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> JsonObject:
    return {"apiGroups": sorted(groups), "resources": sorted(resources), "verbs": verbs}


def _role(name: str, rules: list[JsonObject], labels: dict[str, str] | None = None) -> JsonObject:
    return {"metadata": {"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})}}, "rules": rules}


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
