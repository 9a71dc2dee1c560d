"""Validation of ingresses, their classes, and network policies."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.naming import SUBDOMAIN, label, path_segment, subdomain
from delegate.simulator.statuses import Cause
from delegate.simulator.validation.selectors import selector_causes
from delegate.simulator.validation.values import address, chosen, cidr, domain_path, named, network, port_name, port_or_name, port_range

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case"
    " alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is"
    rf" '\*\.{SUBDOMAIN}')"
)
_BAD_PARTS = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS = ("/..", "/.")


def _ingress(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes: list[Cause] = []
    if not spec.get("rules") and not spec.get("defaultBackend"):
        text = "either `defaultBackend` or `rules` must be specified"
        causes.append(statuses.invalid_value("spec", spec.get("rules"), text))
    if spec.get("defaultBackend"):
        causes += _backend(spec["defaultBackend"], "spec.defaultBackend")
    for index, rule in enumerate(spec.get("rules") or ()):
        causes += _rule(rule, f"spec.rules[{index}]")
    for index, item in enumerate(spec.get("tls") or ()):
        for at, host in enumerate(item.get("hosts") or ()):
            causes += _host(f"spec.tls[{index}].hosts[{at}]", host, any_address=True)
        causes += named(f"spec.tls[{index}].secretName", item.get("secretName"), subdomain)
    return causes + named("spec.ingressClassName", spec.get("ingressClassName"), subdomain)


def _host(path: str, host: str, *, any_address: bool = False) -> list[Cause]:
    if address(host) is not None and not any_address:
        return [statuses.invalid_value(path, host, "must be a DNS name, not an IP address")]
    if "*" in host:
        right = host.startswith("*.") and not subdomain(host[2:])
        return [] if right else [statuses.invalid_value(path, host, _WILDCARD_TEXT)]
    return named(path, host, subdomain)


def _rule(rule: JsonObject, path: str) -> list[Cause]:
    host = rule.get("host", "")
    causes = _host(f"{path}.host", host) if host else []
    paths = (rule.get("http") or {}).get("paths")
    if rule.get("http") is not None and not paths:
        causes.append(statuses.required(f"{path}.http.paths"))
    for at, item in enumerate(paths or ()):
        causes += _path(item, f"{path}.http.paths[{at}]")
    return causes


def _path(item: JsonObject, path: str) -> list[Cause]:
    kind, place = item.get("pathType"), item.get("path", "")
    if kind is None:
        return [statuses.required(f"{path}.pathType", "pathType must be specified")]
    causes: list[Cause] = []
    if kind in ("Exact", "Prefix"):
        if not place.startswith("/"):
            causes.append(statuses.invalid_value(f"{path}.path", place, "must be an absolute path"))
        if place:
            causes += [statuses.invalid_value(f"{path}.path", place, f"must not contain '{part}'") for part in _BAD_PARTS if part in place]
            causes += [
                statuses.invalid_value(f"{path}.path", place, f"cannot end with '{end}'") for end in _BAD_ENDS if place.endswith(end)
            ]
    elif kind == "ImplementationSpecific":
        if place and not place.startswith("/"):
            causes.append(statuses.invalid_value(f"{path}.path", place, "must be an absolute path"))
    else:
        causes.append(statuses.unsupported(f"{path}.pathType", kind, _PATH_TYPES))
    return causes + _backend(item.get("backend") or {}, f"{path}.backend")


def _backend(backend: JsonObject, path: str) -> list[Cause]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [statuses.invalid_value(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return [statuses.required(f"{path}.resource.{key}") for key in ("kind", "name") if not resource.get(key)]
    if service is None:
        return [statuses.invalid_value(path, "", "resource or service backend is required")]
    name, port = service.get("name", ""), service.get("port") or {}
    causes = named(f"{path}.service.name", name, label) if name else [statuses.required(f"{path}.service.name")]
    if port.get("name") and port.get("number"):
        causes.append(statuses.invalid_value(path, "", "cannot set both port name & port number"))
    elif port.get("name"):
        causes += [statuses.invalid_value(f"{path}.service.port.name", port["name"], text) for text in port_name(port["name"])]
    elif port.get("number"):
        causes += port_range(f"{path}.service.port.number", port["number"])
    else:
        causes.append(statuses.required(path, "port name or number is required"))
    return causes


def _ingress_class(body: JsonObject) -> list[Cause]:
    spec = body.get("spec") or {}
    controller = spec.get("controller", "")
    causes = domain_path("spec.controller", controller) if controller else [statuses.required("spec.controller")]
    if len(controller) > 250:
        causes.append(statuses.too_long("spec.controller", 250))
    parameters = spec.get("parameters")
    return causes + (_parameters(parameters, "spec.parameters") if parameters is not None else [])


def _parameters(parameters: JsonObject, path: str) -> list[Cause]:
    causes = named(f"{path}.apiGroup", parameters.get("apiGroup"), subdomain)
    for key in ("kind", "name"):
        value = parameters.get(key, "")
        causes += named(f"{path}.{key}", value, path_segment) if value else [statuses.required(f"{path}.{key}")]
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    if scope == "Namespace" and not namespace:
        causes.append(statuses.required(f"{path}.namespace", "`parameters.scope` is set to 'Namespace'"))
    elif scope == "Cluster" and namespace is not None:
        causes.append(statuses.forbidden_value(f"{path}.namespace", "`parameters.scope` is set to 'Cluster'"))
    elif scope not in ("Cluster", "Namespace"):
        causes.append(statuses.unsupported(f"{path}.scope", scope, ("Cluster", "Namespace")))
    return causes


def _network_policy(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes = selector_causes(spec.get("podSelector"), "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            path = f"spec.{direction}[{index}]"
            for at, port in enumerate(rule.get("ports") or ()):
                causes += _policy_port(port, f"{path}.ports[{at}]")
            for at, peer in enumerate(rule.get(peers) or ()):
                causes += _peer(peer, f"{path}.{peers}[{at}]")
    kinds = spec.get("policyTypes") or []
    if len(kinds) > 2:
        causes.append(statuses.invalid_value("spec.policyTypes", kinds, "may not specify more than two policyTypes"))
        return causes
    for index, kind in enumerate(kinds):
        causes += chosen(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"))
    return causes


def _policy_port(port: JsonObject, path: str) -> list[Cause]:
    causes = chosen(f"{path}.protocol", port.get("protocol"), ("TCP", "UDP", "SCTP"), optional=True)
    number, end = port.get("port"), port.get("endPort")
    if number is None:
        if end is not None:
            causes.append(statuses.invalid_value(f"{path}.endPort", end, "may not be specified when `port` is not specified"))
        return causes
    if isinstance(number, str):
        if end is not None:
            causes.append(statuses.invalid_value(f"{path}.endPort", end, "may not be specified when `port` is non-numeric"))
        return causes + port_or_name(f"{path}.port", number)
    if end is not None and end < number:
        causes.append(statuses.invalid_value(f"{path}.endPort", end, "must be greater than or equal to `port`"))
    if end is not None:
        causes += port_range(f"{path}.endPort", end)
    return causes + port_range(f"{path}.port", number)


def _peer(peer: JsonObject, path: str) -> list[Cause]:
    causes: list[Cause] = []
    found = [key for key in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(key) is not None]
    for key in found:
        causes += _block(peer[key], f"{path}.ipBlock") if key == "ipBlock" else selector_causes(peer[key], f"{path}.{key}")
    if not found:
        causes.append(statuses.required(path, "must specify a peer"))
    elif len(found) > 1 and "ipBlock" in found:
        causes.append(statuses.forbidden_value(path, "may not specify both ipBlock and another peer"))
    return causes


def _block(block: JsonObject, path: str) -> list[Cause]:
    given: Any = block.get("cidr", "")
    if not given:
        return [statuses.required(f"{path}.cidr")]
    whole = network(given)
    causes = cidr(f"{path}.cidr", given)
    if whole is None:
        return causes
    for index, item in enumerate(block.get("except") or ()):
        here, part = f"{path}.except[{index}]", network(item)
        if part is None:
            causes += cidr(here, item)
        elif part.version != whole.version or part == whole or not part.subnet_of(whole):  # type: ignore[arg-type]
            causes.append(statuses.invalid_value(here, item, "must be a strict subset of `cidr`"))
    return causes


TABLE = {
    ("networking.k8s.io", "Ingress"): _ingress,
    ("networking.k8s.io", "IngressClass"): _ingress_class,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
}
