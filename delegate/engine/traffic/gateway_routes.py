"""HTTPRoutes of the Gateway API, and whether what they say is in force (GEP-1364: conditions of each parent, with their generation)."""

import copy
from dataclasses import dataclass

from delegate.model.resources import JsonObject
from delegate.model.rollouts.loads import HeaderMatch, HeaderRoute

_ANY_PATH = {"path": {"type": "PathPrefix", "value": "/"}}  # what a server fills in where a rule names no requests
_FAULTS = {"ResolvedRefs": "does not resolve its backends"}


@dataclass(frozen=True)
class HttpRouteShape:
    """Services by name, in the route's own namespace or said to be in it."""

    stable: str
    canary: str
    namespace: str
    rules: str = "rules"
    targets: str = "backendRefs"
    matches: str = "matches"
    default_weight: int = 1
    decimals: bool = True

    def is_stable(self, target: JsonObject) -> bool:
        return service_of(target, self.namespace) == self.stable

    def is_canary(self, target: JsonObject) -> bool:
        return service_of(target, self.namespace) == self.canary

    def canary_target(self, target: JsonObject) -> JsonObject:
        return {**copy.deepcopy(target), "name": self.canary}

    def header_rule(self, rule: JsonObject, route: HeaderRoute) -> JsonObject:
        wanted = [_header_match(each) for each in route.match]
        matches = [{**match, "headers": [*(match.get("headers") or ()), *wanted]} for match in rule.get("matches") or [_ANY_PATH]]
        # A rule's name is its own (and unique); retries and time-outs hold for both.
        return {**{field: value for field, value in rule.items() if field != "name"}, "matches": matches}


def _header_match(match: HeaderMatch) -> JsonObject:
    """A prefix is none of its types; whether a regular expression has to match the whole value is the implementation's to say."""
    value = match.header_value
    if value.exact:
        return {"type": "Exact", "name": match.header_name, "value": value.exact}
    return {"type": "RegularExpression", "name": match.header_name, "value": value.pattern}


def service_of(target: JsonObject, namespace: str) -> str:
    """The Service of this namespace that a backendRef names; empty for anything else."""
    is_service = target.get("kind", "Service") == "Service" and not target.get("group")
    return str(target.get("name") or "") if is_service and target.get("namespace", namespace) == namespace else ""


def services_named(route: JsonObject, namespace: str) -> set[str]:
    rules = (route.get("spec") or {}).get("rules") or ()
    return {service_of(target, namespace) for rule in rules for target in rule.get("backendRefs") or ()} - {""}


def not_in_force(route: JsonObject) -> str:
    """Why the newest state of a route is not in force with all of its parents; empty where it is."""
    metadata, spec = route["metadata"], route.get("spec") or {}
    generation, namespace = int(metadata.get("generation") or 0), str(metadata.get("namespace") or "")
    parents = (route.get("status") or {}).get("parents") or ()
    wanted = spec.get("parentRefs") or ()
    if not wanted:
        return "it has no parent"
    for reference in wanted:
        key = _parent_key(reference, namespace)
        told = [parent for parent in parents if _parent_key(parent.get("parentRef") or {}, namespace) == key]
        if not told:
            return f"nobody says that {key[1]} {key[2]}/{key[3]} has taken it"
        reasons = [_fault(parent, generation) for parent in told]
        if all(reasons):
            return f"{key[1]} {key[2]}/{key[3]} {reasons[0]}"
    return ""


def _fault(parent: JsonObject, generation: int) -> str:
    conditions = {str(each.get("type")): each for each in parent.get("conditions") or ()}
    accepted = conditions.get("Accepted")
    if accepted is None:
        return "does not say whether it accepts it"
    if int(accepted.get("observedGeneration") or 0) < generation:
        return f"has not seen its newest state (generation {accepted.get('observedGeneration')} of {generation})"
    if accepted.get("status") != "True":
        return f"does not accept it: {accepted.get('reason', '')}: {accepted.get('message', '')}"
    for type, words in _FAULTS.items():
        condition = conditions.get(type)
        if condition is not None and condition.get("status") == "False":
            return f"{words}: {condition.get('reason', '')}: {condition.get('message', '')}"
    return ""


def _parent_key(reference: JsonObject, namespace: str) -> tuple[str, str, str, str, str, str]:
    return (
        str(reference.get("group", "gateway.networking.k8s.io")),
        str(reference.get("kind") or "Gateway"),
        str(reference.get("namespace") or namespace),
        str(reference.get("name") or ""),
        str(reference.get("sectionName") or ""),
        str(reference.get("port") or ""),
    )
