"""Validation of Services and of their endpoints."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.naming import label, qualified, subdomain
from delegate.simulator.statuses import Cause
from delegate.simulator.validation.metadata import validate_labels
from delegate.simulator.validation.values import address, chosen, cidr, ip, named, port_or_name, port_range

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_EXPOSED = ("NodePort", "LoadBalancer")
_FAMILIES = ("IPv4", "IPv6")
_LONGEST_AFFINITY = 86400


def _service(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    kind = spec.get("type")
    causes = _families(spec)
    if causes:
        return causes
    ports = spec.get("ports") or []
    headless = spec.get("clusterIP") == "None" or "None" in (spec.get("clusterIPs") or ())
    if not ports and kind != "ExternalName" and not headless:
        causes.append(statuses.required("spec.ports"))
    causes += _kind(spec, kind, headless=headless)
    causes += _ports(ports)
    causes += validate_labels(spec.get("selector"), "spec.selector")
    causes += chosen("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None"))
    timeout = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds", 1)
    if not 0 < timeout <= _LONGEST_AFFINITY:
        text = f"must be greater than 0 and less than {_LONGEST_AFFINITY}"
        causes.append(statuses.invalid_value("spec.sessionAffinityConfig.clientIP.timeoutSeconds", timeout, text))
    for index, item in enumerate(spec.get("externalIPs") or ()):
        causes += ip(f"spec.externalIPs[{index}]", item)
    causes += chosen("spec.type", kind, _TYPES)
    return causes + _pairs(ports) + _exposure(spec, kind)


def _families(spec: JsonObject) -> list[Cause]:
    """What makes the server stop looking: families, and addresses that are none."""
    causes: list[Cause] = []
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        causes += chosen(f"spec.ipFamilies[{index}]", family, _FAMILIES)
    causes += chosen(
        "spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), ("PreferDualStack", "RequireDualStack", "SingleStack"), optional=True
    )
    given, first = spec.get("clusterIPs") or [], spec.get("clusterIP")
    if given and not first and spec.get("type") != "ExternalName":
        causes.append(statuses.invalid_value("spec.clusterIPs", given, "must be empty when `clusterIP` is not specified"))
    elif given and given[0] != first:
        causes.append(statuses.invalid_value("spec.clusterIPs", given, "first value must match `clusterIP`"))
    for index, item in enumerate(given or ([first] if first else [])):
        if item not in ("", "None") and address(item) is None:
            causes += ip(f"spec.clusterIPs[{index}]", item)
    if causes or spec.get("type") == "ExternalName":
        return causes
    headless = first == "None"
    for index, family in enumerate(spec.get("ipFamilies") or ()):
        if family == "IPv6" and not (headless and not spec.get("selector")):
            causes.append(statuses.invalid_value(f"spec.ipFamilies[{index}]", family, "not configured on this cluster"))
    if spec.get("ipFamilyPolicy") == "RequireDualStack" and not (headless and not spec.get("selector")):
        text = "this cluster is not configured for dual-stack services"
        causes.append(statuses.invalid_value("spec.ipFamilyPolicy", "RequireDualStack", text))
    return causes


def _kind(spec: JsonObject, kind: Any, *, headless: bool) -> list[Cause]:
    causes: list[Cause] = []
    if kind in _EXPOSED and headless:
        causes.append(statuses.invalid_value("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        if spec.get("clusterIP") or spec.get("clusterIPs"):
            causes.append(statuses.forbidden_value("spec.clusterIPs", "may not be set for ExternalName services"))
        name = spec.get("externalName", "")
        causes += named("spec.externalName", name.rstrip("."), subdomain) if name else [statuses.required("spec.externalName")]
    return causes


def _ports(ports: Any) -> list[Cause]:
    causes: list[Cause] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name", "")
        if len(ports) > 1 and not name:
            causes.append(statuses.required(f"{path}.name"))
        elif name:
            causes += named(f"{path}.name", name, label)
            if name in names:
                causes.append(statuses.duplicate(f"{path}.name", name))
            names.add(name)
        causes += port_range(f"{path}.port", port.get("port", 0))
        causes += chosen(f"{path}.protocol", port.get("protocol"), _PROTOCOLS)
        causes += port_or_name(f"{path}.targetPort", port.get("targetPort"))
        if port.get("appProtocol"):
            causes += [statuses.invalid_value(f"{path}.appProtocol", port["appProtocol"], text) for text in qualified(port["appProtocol"])]
    return causes


def _pairs(ports: Any) -> list[Cause]:
    causes: list[Cause] = []
    pairs: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        pair = (port.get("port"), port.get("protocol"))
        if pair in pairs:
            causes.append(statuses.duplicate(f"spec.ports[{index}]", {"protocol": pair[1], "port": pair[0]}))
        pairs.add(pair)
    return causes


def _exposure(spec: JsonObject, kind: Any) -> list[Cause]:
    """Fields that only exposed Services may have."""
    causes: list[Cause] = []
    if kind == "ClusterIP":
        for index, port in enumerate(spec.get("ports") or ()):
            if port.get("nodePort"):
                text = "may not be used when `type` is 'ClusterIP'"
                causes.append(statuses.forbidden_value(f"spec.ports[{index}].nodePort", text))
    only = "may only be used when `type` is 'LoadBalancer'"
    if spec.get("loadBalancerSourceRanges"):
        if kind != "LoadBalancer":
            causes.append(statuses.forbidden_value("spec.LoadBalancerSourceRanges", only))
        for index, item in enumerate(spec["loadBalancerSourceRanges"]):
            causes += cidr(f"spec.LoadBalancerSourceRanges[{index}]", item)
    if kind != "LoadBalancer":
        causes += [
            statuses.forbidden_value(f"spec.{key}", only)
            for key in ("allocateLoadBalancerNodePorts", "loadBalancerClass")
            if spec.get(key) is not None
        ]
    policy = spec.get("externalTrafficPolicy")
    if policy and not (kind in _EXPOSED or (kind == "ClusterIP" and spec.get("externalIPs"))):
        causes.append(statuses.invalid_value("spec.externalTrafficPolicy", policy, "may only be set for externally-accessible services"))
    elif policy:
        causes += chosen("spec.externalTrafficPolicy", policy, ("Cluster", "Local"))
    health = spec.get("healthCheckNodePort")
    if health and not (kind == "LoadBalancer" and policy == "Local"):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        causes.append(statuses.invalid_value("spec.healthCheckNodePort", health, text))
    return causes + chosen("spec.internalTrafficPolicy", spec.get("internalTrafficPolicy"), ("Cluster", "Local"), optional=True)


def _not_special(path: str, value: Any) -> list[Cause]:
    """An address that packets can be sent to."""
    found = address(value)
    if found is None:
        return [statuses.invalid_value(path, value, "must be a valid IP address")]
    causes: list[Cause] = []
    if found.is_unspecified:
        causes.append(statuses.invalid_value(path, value, f"may not be unspecified ({found})"))
    if found.is_loopback:
        causes.append(statuses.invalid_value(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if found.is_link_local:
        causes.append(statuses.invalid_value(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    if found in (address("224.0.0.0"),) or (found.is_multicast and str(found).startswith(("224.0.0.", "ff02"))):
        causes.append(statuses.invalid_value(path, value, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"))
    return causes


def _endpoints(body: JsonObject) -> list[Cause]:
    causes: list[Cause] = []
    for index, subset in enumerate(body.get("subsets") or ()):
        path = f"subsets[{index}]"
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            causes.append(statuses.required(path, "must specify `addresses` or `notReadyAddresses`"))
        for key in ("addresses", "notReadyAddresses"):
            for at, item in enumerate(subset.get(key) or ()):
                here = f"{path}.{key}[{at}]"
                causes += ip(f"{here}.ip", item.get("ip", ""))
                causes += named(f"{here}.hostname", item.get("hostname"), label)
                causes += named(f"{here}.nodeName", item.get("nodeName"), subdomain)
                causes += _not_special(f"{here}.ip", item.get("ip", ""))
        ports = subset.get("ports") or ()
        for at, port in enumerate(ports):
            here = f"{path}.ports[{at}]"
            name = port.get("name", "")
            causes += [statuses.required(f"{here}.name")] if len(ports) > 1 and not name else named(f"{here}.name", name, label)
            causes += port_range(f"{here}.port", port.get("port", 0))
            causes += chosen(f"{here}.protocol", port.get("protocol"), _PROTOCOLS)
    return causes


def _slice(body: JsonObject) -> list[Cause]:
    kind = body.get("addressType", "")
    causes = chosen("addressType", kind, ("FQDN", *_FAMILIES)) if kind else [statuses.required("addressType")]
    for index, endpoint in enumerate(body.get("endpoints") or ()):
        path = f"endpoints[{index}]"
        given = endpoint.get("addresses") or ()
        if not given:
            causes.append(statuses.required(f"{path}.addresses", "must contain at least 1 address"))
        for at, item in enumerate(given):
            causes += _slice_address(kind, f"{path}.addresses", at, item)
        causes += named(f"{path}.nodeName", endpoint.get("nodeName"), subdomain) + named(
            f"{path}.hostname", endpoint.get("hostname"), label
        )
    names: set[str] = set()
    for index, port in enumerate(body.get("ports") or ()):
        path, name = f"ports[{index}]", port.get("name", "")
        causes += named(f"{path}.name", name, label)
        if name in names:
            causes.append(statuses.duplicate(f"{path}.name", name))
        names.add(name)
        causes += chosen(f"{path}.protocol", port.get("protocol"), _PROTOCOLS)
        if port.get("appProtocol"):
            causes += [statuses.invalid_value(f"{path}.appProtocol", port["appProtocol"], text) for text in qualified(port["appProtocol"])]
    return causes


def _slice_address(kind: str, path: str, at: int, item: Any) -> list[Cause]:
    if kind == "FQDN":
        return named(f"{path}[{at}]", item, subdomain)
    if kind not in _FAMILIES:
        return []
    found = address(item)
    if found is None:
        return ip(f"{path}[{at}]", item)
    causes = []
    if f"IPv{found.version}" != kind:
        causes.append(statuses.invalid_value(path, item, f"must be an {kind} address"))
    return causes + _not_special(f"{path}[{at}]", item)


TABLE = {
    ("", "Service"): _service,
    ("", "Endpoints"): _endpoints,
    ("discovery.k8s.io", "EndpointSlice"): _slice,
}
