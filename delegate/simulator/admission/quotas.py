"""ResourceQuotas on counts of objects; amounts of cpu, memory and storage are not counted."""

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry

_PLAIN = (
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
)
_BY_SERVICE_TYPE = {"services.nodeports": ("NodePort", "LoadBalancer"), "services.loadbalancers": ("LoadBalancer",)}


def used(registry: Registry, namespace: str, name: str) -> int | None:
    """How many objects a quota's name counts; None for a name that is no count."""
    if name in _BY_SERVICE_TYPE:
        services = registry.store.table(("", "services")).items(namespace)
        return sum(item.body["spec"].get("type") in _BY_SERVICE_TYPE[name] for item in services)
    plural, group = name, ""
    if name.startswith("count/"):
        plural, _, group = name.removeprefix("count/").partition(".")
    elif name not in _PLAIN:
        return None
    items = registry.store.table((group, plural)).items(namespace)
    if (group, plural) == ("", "pods") and not name.startswith("count/"):
        return sum((item.body.get("status") or {}).get("phase") not in ("Succeeded", "Failed") for item in items)
    return len(items)


def _names(resource: Resource, body: JsonObject) -> list[str]:
    """What a new object counts as."""
    names = [f"count/{resource.qualified}"]
    if not resource.group and resource.plural in _PLAIN:
        names.append(resource.plural)
    if (resource.group, resource.kind) == ("", "Service"):
        names += [name for name, types in _BY_SERVICE_TYPE.items() if body["spec"].get("type") in types]
    return names


def check(registry: Registry, resource: Resource, namespace: str, body: JsonObject) -> None:
    """Refuses what would exceed a quota."""
    if not resource.namespaced:
        return
    for quota in registry.store.table(("", "resourcequotas")).items(namespace):
        hard = (quota.body.get("spec") or {}).get("hard") or {}
        for name in _names(resource, body):
            count = used(registry, namespace, name) if name in hard else None
            if count is not None and count + 1 > int(hard[name]):
                why = f"exceeded quota: {quota.name}, requested: {name}=1, used: {name}={count}, limited: {name}={hard[name]}"
                raise statuses.forbidden(resource.plural, resource.group, body["metadata"].get("name", ""), why)
