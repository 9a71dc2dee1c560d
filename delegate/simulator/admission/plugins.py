"""The namespace's life cycle, and what admission fills in: classes, accounts, priorities, tolerations."""

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry, annotations_of

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
DEFAULT_INGRESS_CLASS = "ingressclass.kubernetes.io/is-default-class"
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  # a path
SERVICE_CA = "openshift-service-ca.crt"
"""A fourth source of the token volume that the recorded control plane adds."""
NOT_READY = "node.kubernetes.io/not-ready"
_TOKEN_SECONDS = 3607
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def check_namespace(registry: Registry, resource: Resource, namespace: str, body: JsonObject) -> None:
    """Nothing is created in a namespace that is missing or terminating."""
    found = registry.store.table(("", "namespaces")).get("", namespace)
    if found is None:
        raise statuses.not_found("namespaces", "", namespace)
    if found.body["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = statuses.Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
        raise statuses.forbidden(resource.plural, resource.group, body["metadata"].get("name", ""), why, [cause])


def fill_in(registry: Registry, resource: Resource, body: JsonObject) -> None:
    match resource.group, resource.kind:
        case "", "PersistentVolumeClaim":
            _default_class(registry, body)
        case "networking.k8s.io", "Ingress":
            _default_ingress_class(registry, body)
        case "", "Pod":
            _priority(registry, body)
            _account(registry, body)
            _tolerations(body["spec"])
        case "", "Node":
            _not_ready(body["spec"])
        case _:
            pass


def _default_class(registry: Registry, body: JsonObject) -> None:
    if "storageClassName" in body["spec"]:
        return
    for stored in registry.store.table(("storage.k8s.io", "storageclasses")).items():
        if annotations_of(stored.body).get(DEFAULT_CLASS) == "true":
            body["spec"]["storageClassName"] = stored.name
            return


def _default_ingress_class(registry: Registry, body: JsonObject) -> None:
    if "ingressClassName" in body["spec"] or "kubernetes.io/ingress.class" in annotations_of(body):
        return
    for stored in registry.store.table(("networking.k8s.io", "ingressclasses")).items():
        if annotations_of(stored.body).get(DEFAULT_INGRESS_CLASS) == "true":
            body["spec"]["ingressClassName"] = stored.name
            return


def _priority(registry: Registry, body: JsonObject) -> None:
    spec = body["spec"]
    name = spec.get("priorityClassName", "")
    classes = registry.store.table(("scheduling.k8s.io", "priorityclasses"))
    found = classes.get("", name) if name else next((item for item in classes.items() if item.body.get("globalDefault")), None)
    if name and found is None and name not in _SYSTEM_PRIORITIES:
        why = f"no PriorityClass with name {name} was found"
        raise statuses.forbidden("pods", "", body["metadata"].get("name", ""), why)
    if found is not None:
        spec["priorityClassName"] = found.name
    spec["priority"] = found.body["value"] if found is not None else _SYSTEM_PRIORITIES.get(name, 0)
    spec.setdefault("preemptionPolicy", found.body.get("preemptionPolicy", "PreemptLowerPriority") if found else "PreemptLowerPriority")


def _account(registry: Registry, body: JsonObject) -> None:
    """The pod's account, and the volume that its token comes in."""
    spec = body["spec"]
    name = spec.get("serviceAccountName") or "default"
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = registry.store.table(("", "serviceaccounts")).get(body["metadata"]["namespace"], name)
    if account is None and name != "default":
        why = f'error looking up service account {body["metadata"]["namespace"]}/{name}: serviceaccount "{name}" not found'
        raise statuses.forbidden("pods", "", body["metadata"].get("name", ""), why)
    pull = account.body.get("imagePullSecrets") if account is not None else None
    if pull and not spec.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [dict(item) for item in pull]
    mounted = spec.get("automountServiceAccountToken", (account.body if account else {}).get("automountServiceAccountToken", True))
    if mounted:
        _mount_token(registry, spec)


def _mount_token(registry: Registry, spec: JsonObject) -> None:
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    bare = [item for item in containers if not any(mount.get("mountPath") == TOKEN_PATH for mount in item.get("volumeMounts") or ())]
    if not bare:
        return
    name = registry.generated("kube-api-access-")
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
        {"configMap": {"name": SERVICE_CA, "items": [{"key": "service-ca.crt", "path": "service-ca.crt"}]}},
    ]
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, "projected": {"sources": sources, "defaultMode": 0o644}}]
    for container in bare:
        mount = {"name": name, "readOnly": True, "mountPath": TOKEN_PATH}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def _not_ready(spec: JsonObject) -> None:
    """A new node takes no pods until its own controller has seen it ready."""
    taints = spec.setdefault("taints", [])
    if not any(item.get("key") == NOT_READY and item.get("effect") == "NoSchedule" for item in taints):
        taints.append({"key": NOT_READY, "effect": "NoSchedule"})


def _tolerations(spec: JsonObject) -> None:
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(item.get("key") == key and item.get("effect") in ("NoExecute", None) for item in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
