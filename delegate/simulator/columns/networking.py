"""Columns of Services, of their endpoints, and of what leads to them."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator.columns.base import NONE, UNSET, Printer, age_of, columns, labelled, name_of, selected, status_of

MOST_ENDPOINTS = 3


def _service(body: JsonObject, now: str) -> list[Any]:
    spec = body["spec"]
    kind = spec.get("type", "")
    given = [item.get("ip") or item.get("hostname", "") for item in status_of(body).get("loadBalancer", {}).get("ingress") or ()]
    match kind:
        case "ExternalName":
            outside = spec.get("externalName", "")
        case "LoadBalancer":
            outside = ",".join([*given, *(spec.get("externalIPs") or ())]) or "<pending>"
        case _:
            outside = ",".join(spec.get("externalIPs") or ()) or NONE
    ports = ",".join(_port(port) for port in spec.get("ports") or ()) or NONE
    return [name_of(body), kind, spec.get("clusterIP") or NONE, outside, ports, age_of(body, now), labelled(spec.get("selector"))]


def _port(port: JsonObject) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{node}/{port.get('protocol', 'TCP')}"


def _endpoints(body: JsonObject, now: str) -> list[Any]:
    found = [
        f"{address.get('ip', '')}:{port.get('port', 0)}"
        for subset in body.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    return [name_of(body), _some(found), age_of(body, now)]


def _some(found: list[str]) -> str:
    more = f" + {len(found) - MOST_ENDPOINTS} more..." if len(found) > MOST_ENDPOINTS else ""
    return (",".join(found[:MOST_ENDPOINTS]) or NONE) + more


def _slice(body: JsonObject, now: str) -> list[Any]:
    ports = [str(port.get("port", "*")) for port in body.get("ports") or ()]
    found = [address for endpoint in body.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    return [
        name_of(body),
        body.get("addressType", ""),
        _some(ports) if ports else UNSET,
        _some(found) if found else UNSET,
        age_of(body, now),
    ]


def _ingress(body: JsonObject, now: str) -> list[Any]:
    spec = body["spec"]
    hosts = [rule["host"] for rule in spec.get("rules") or () if rule.get("host")]
    given = status_of(body).get("loadBalancer", {}).get("ingress") or ()
    address = ",".join(item.get("ip") or item.get("hostname", "") for item in given)
    ports = "80, 443" if spec.get("tls") else "80"
    return [name_of(body), spec.get("ingressClassName", NONE), ",".join(hosts) or "*", address, ports, age_of(body, now)]


def _network_policy(body: JsonObject, now: str) -> list[Any]:
    return [name_of(body), selected(body["spec"].get("podSelector")), age_of(body, now)]


def _ingress_class(body: JsonObject, now: str) -> list[Any]:
    spec = body.get("spec") or {}
    given = spec.get("parameters")
    parameters = NONE
    if given:
        group = f".{given['apiGroup']}" if given.get("apiGroup") else ""
        parameters = f"{given.get('kind', '')}{group}/{given.get('name', '')}"
    return [name_of(body), spec.get("controller", ""), parameters, age_of(body, now)]


PRINTERS: dict[tuple[str, str], Printer] = {
    ("", "Service"): Printer(columns("Type, Cluster-IP, External-IP, Port(s), Age, Selector+"), _service),
    ("", "Endpoints"): Printer(columns("Endpoints, Age"), _endpoints),
    ("discovery.k8s.io", "EndpointSlice"): Printer(columns("AddressType, Ports, Endpoints, Age"), _slice),
    ("networking.k8s.io", "Ingress"): Printer(columns("Class, Hosts, Address, Ports, Age"), _ingress),
    ("networking.k8s.io", "IngressClass"): Printer(columns("Controller, Parameters, Age"), _ingress_class),
    ("networking.k8s.io", "NetworkPolicy"): Printer(columns("Pod-Selector, Age"), _network_policy),
}
