"""LimitRanges: defaults for containers, and bounds for containers and claims."""

from delegate.model.resources import JsonObject
from delegate.simulator import quantities, statuses
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry

ANNOTATION = "kubernetes.io/limit-ranger"


def _limits(registry: Registry, namespace: str, kind: str) -> list[JsonObject]:
    ranges = registry.store.table(("", "limitranges")).items(namespace)
    return [item for stored in ranges for item in (stored.body.get("spec") or {}).get("limits") or () if item.get("type") == kind]


def fill_in(registry: Registry, resource: Resource, namespace: str, body: JsonObject) -> None:
    """Sets requests and limits that a container leaves out, and says so in an annotation."""
    if (resource.group, resource.kind) != ("", "Pod"):
        return
    limits = _limits(registry, namespace, "Container")
    if not limits:
        return
    said = []
    for key, word in (("initContainers", "init container"), ("containers", "container")):
        for container in body["spec"].get(key) or ():
            for section, source, name in (("requests", "defaultRequest", "request"), ("limits", "default", "limit")):
                said += [f"{what} {name} for {word} {container['name']}" for what in _set(container, section, source, limits)]
    if said:
        text = "LimitRanger plugin set: " + "; ".join(said)
        body["metadata"].setdefault("annotations", {})[ANNOTATION] = text


def _set(container: JsonObject, section: str, source: str, limits: list[JsonObject]) -> list[str]:
    amounts = {name: amount for item in limits for name, amount in (item.get(source) or {}).items()}
    held = container["resources"].get(section) or {}
    missing = {name: amount for name, amount in amounts.items() if name not in held}
    if missing:
        container["resources"][section] = {**held, **missing}
    return sorted(missing)


def check(registry: Registry, resource: Resource, namespace: str, body: JsonObject) -> None:
    """Refuses what is outside the bounds."""
    problems: list[str] = []
    match resource.group, resource.kind:
        case "", "Pod":
            limits = _limits(registry, namespace, "Container")
            for container in body["spec"].get("containers") or () if limits else ():
                problems += _outside(container["resources"], "Container", limits)
        case "", "PersistentVolumeClaim":
            limits = _limits(registry, namespace, "PersistentVolumeClaim")
            problems += _outside(body["spec"]["resources"], "PersistentVolumeClaim", limits)
        case _:
            return
    if problems:
        why = problems[0] if len(problems) == 1 else "[" + ", ".join(problems) + "]"
        raise statuses.forbidden(resource.plural, resource.group, body["metadata"].get("name", ""), why)


def _outside(resources: JsonObject, kind: str, limits: list[JsonObject]) -> list[str]:
    found = []
    requests, bounds = resources.get("requests") or {}, resources.get("limits") or {}
    for item in limits:
        for name, low in (item.get("min") or {}).items():
            if name not in requests:
                found.append(f"minimum {name} usage per {kind} is {low}.  No request is specified")
            elif quantities.parse(requests[name]) < quantities.parse(low):
                found.append(f"minimum {name} usage per {kind} is {low}, but request is {requests[name]}")
        for name, high in (item.get("max") or {}).items():
            amount, word = (bounds.get(name), "limit") if kind == "Container" else (requests.get(name), "request")
            if amount is None:
                found.append(f"maximum {name} usage per {kind} is {high}.  No limit is specified")
            elif quantities.parse(amount) > quantities.parse(high):
                found.append(f"maximum {name} usage per {kind} is {high}, but {word} is {amount}")
    return found
