"""VirtualServices of Istio: destinations of http routes, whose weights sum up to 100."""

import copy
from dataclasses import dataclass

import msgspec

from delegate.model.resources import JsonObject
from delegate.model.rollouts.loads import HeaderRoute


@dataclass(frozen=True)
class VirtualServiceShape:
    """Hosts as Istio reads them: a short name is one of the route's own namespace."""

    stable: str
    canary: str
    namespace: str
    rules: str = "http"
    targets: str = "route"
    matches: str = "match"
    default_weight: int = 100
    decimals: bool = False

    def is_stable(self, target: JsonObject) -> bool:
        return service_of(target, self.namespace) == self.stable

    def is_canary(self, target: JsonObject) -> bool:
        return service_of(target, self.namespace) == self.canary

    def canary_target(self, target: JsonObject) -> JsonObject:
        copied = copy.deepcopy(target)
        destination = copied["destination"]
        _, dot, rest = str(destination["host"]).partition(".")
        destination["host"] = f"{self.canary}{dot}{rest}"
        # A subset is defined for the stable host; behind the canary's Service there is nothing but the new version.
        destination.pop("subset", None)
        return copied

    def header_rule(self, rule: JsonObject, route: HeaderRoute) -> JsonObject:
        wanted = {each.header_name.lower(): msgspec.to_builtins(each.header_value) for each in route.match}
        matches = [{**match, "headers": {**(match.get("headers") or {}), **wanted}} for match in rule.get("match") or [{}]]
        return {**rule, "name": f"{self.canary}-{route.name}", "match": matches}


def service_of(target: JsonObject, namespace: str) -> str:
    """The Service of this namespace that a destination names; empty for anything else."""
    name, _, rest = str((target.get("destination") or {}).get("host") or "").partition(".")
    home = rest.removesuffix(".").split(".")
    return name if not rest or (home[0] == namespace and home[1:2] in ([], ["svc"])) else ""


def services_named(body: JsonObject, namespace: str, names: tuple[str, ...] = ()) -> set[str]:
    """By the http routes with these names, or by all."""
    routes = [each for each in (body.get("spec") or {}).get("http") or () if not names or each.get("name") in names]
    return {service_of(target, namespace) for each in routes for target in each.get("route") or ()} - {""}
