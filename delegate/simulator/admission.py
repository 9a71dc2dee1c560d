"""Built-in admission: the life cycle of namespaces, default classes and accounts, quotas on counts.

Webhooks and admission policies are stored but never called.
"""

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry, annotations_of

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def admit_create(registry: Registry, resource: Resource, namespace: str, body: JsonObject) -> None:
    """Raises what the namespace's life cycle refuses; fills in what admission plug-ins fill in."""
    if resource.namespaced:
        _check_namespace(registry, resource, namespace, body)
    match resource.group, resource.kind:
        case "", "PersistentVolumeClaim":
            _default_class(registry, body)
        case "", "Pod":
            _default_account(body)
        case _:
            pass


def _check_namespace(registry: Registry, resource: Resource, namespace: str, body: JsonObject) -> None:
    found = registry.store.table(("", "namespaces")).get("", namespace)
    if found is None:
        raise statuses.not_found("namespaces", "", namespace)
    if found.body["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = statuses.Cause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
        raise statuses.forbidden(resource.plural, resource.group, body["metadata"].get("name", ""), why, [cause])


def _default_class(registry: Registry, body: JsonObject) -> None:
    if "storageClassName" in body["spec"]:
        return
    for stored in registry.store.table(("storage.k8s.io", "storageclasses")).items():
        if annotations_of(stored.body).get(DEFAULT_CLASS) == "true":
            body["spec"]["storageClassName"] = stored.name
            return


def _default_account(body: JsonObject) -> None:
    spec = body["spec"]
    if not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"] = "default"
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    tolerations = spec.setdefault("tolerations", [])
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        if not any(item.get("key") == key and item.get("effect") in ("NoExecute", None) for item in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def check_quota(registry: Registry, resource: Resource, namespace: str, body: JsonObject) -> None:
    """Refuses what would exceed a ResourceQuota on object counts."""
    if not resource.namespaced:
        return
    quotas = registry.store.table(("", "resourcequotas")).items(namespace)
    if not quotas:
        return
    names = (f"count/{resource.qualified}", resource.plural) if not resource.group else (f"count/{resource.qualified}",)
    used = len(registry.store.table(resource.storage).items(namespace))
    for quota in quotas:
        hard = (quota.body.get("spec") or {}).get("hard") or {}
        for name in names:
            if name in hard and used + 1 > int(hard[name]):
                why = f"exceeded quota: {quota.name}, requested: {name}=1, used: {name}={used}, limited: {name}={hard[name]}"
                raise statuses.forbidden(resource.plural, resource.group, body["metadata"].get("name", ""), why)
