"""Validation of Services, ingresses and network policies."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.statuses import Cause
from delegate.simulator.validation.metadata import label, subdomain, validate_labels
from delegate.simulator.validation.pods import port_range
from delegate.simulator.validation.workloads import selector_causes

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")


def _service(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes: list[Cause] = []
    kind = spec.get("type")
    ports = spec.get("ports") or []
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        causes.append(statuses.required("spec.ports"))
    if kind == "ExternalName":
        name = spec.get("externalName", "")
        causes += [statuses.required("spec.externalName")] if not name else []
        causes += [statuses.invalid_value("spec.externalName", name, text) for text in subdomain(name.rstrip("."))] if name else []
    elif kind not in _TYPES:
        causes.append(statuses.unsupported("spec.type", kind, _TYPES))
    if kind in ("NodePort", "LoadBalancer") and spec.get("clusterIP") == "None":
        causes.append(statuses.invalid_value("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    names: set[str] = set()
    pairs: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        causes += _port(port, f"spec.ports[{index}]", named=len(ports) > 1, names=names)
        pair = (port.get("port"), port.get("protocol"))
        if pair in pairs:
            causes.append(statuses.duplicate(f"spec.ports[{index}]", {"protocol": pair[1], "port": pair[0]}))
        pairs.add(pair)
    causes += validate_labels(spec.get("selector"), "spec.selector")
    if spec.get("sessionAffinity") not in ("ClientIP", "None"):
        causes.append(statuses.unsupported("spec.sessionAffinity", spec.get("sessionAffinity"), ("ClientIP", "None")))
    if spec.get("externalTrafficPolicy") not in (None, "Cluster", "Local"):
        causes.append(statuses.unsupported("spec.externalTrafficPolicy", spec["externalTrafficPolicy"], ("Cluster", "Local")))
    return causes


def _port(port: JsonObject, path: str, *, named: bool, names: set[str]) -> list[Cause]:
    causes = []
    name = port.get("name", "")
    if named and not name:
        causes.append(statuses.required(f"{path}.name"))
    elif name:
        causes += [statuses.invalid_value(f"{path}.name", name, text) for text in label(name)]
        if name in names:
            causes.append(statuses.duplicate(f"{path}.name", name))
        names.add(name)
    number = port.get("port", 0)
    causes += port_range(f"{path}.port", number)
    if port.get("protocol") not in ("SCTP", "TCP", "UDP"):
        causes.append(statuses.unsupported(f"{path}.protocol", port.get("protocol"), ("SCTP", "TCP", "UDP")))
    target = port.get("targetPort")
    causes += port_range(f"{path}.targetPort", target)
    return causes


def _ingress(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes = []
    if not spec.get("rules") and not spec.get("defaultBackend"):
        text = "either `defaultBackend` or `rules` must be specified"
        causes.append(statuses.invalid_value("spec", [], text))
    for index, rule in enumerate(spec.get("rules") or ()):
        path = f"spec.rules[{index}]"
        host = rule.get("host", "")
        if host:
            causes += [statuses.invalid_value(f"{path}.host", host, text) for text in subdomain(host.removeprefix("*."))]
        paths = (rule.get("http") or {}).get("paths")
        if rule.get("http") is not None and not paths:
            causes.append(statuses.required(f"{path}.http.paths"))
        for at, item in enumerate(paths or ()):
            causes += _ingress_path(item, f"{path}.http.paths[{at}]")
    if spec.get("defaultBackend"):
        causes += _backend(spec["defaultBackend"], "spec.defaultBackend")
    return causes


def _ingress_path(item: JsonObject, path: str) -> list[Cause]:
    causes = []
    kind = item.get("pathType")
    if kind is None:
        causes.append(statuses.required(f"{path}.pathType", "pathType must be specified"))
    elif kind not in _PATH_TYPES:
        causes.append(statuses.unsupported(f"{path}.pathType", kind, _PATH_TYPES))
    elif kind in ("Exact", "Prefix") and not item.get("path", "").startswith("/"):
        causes.append(statuses.invalid_value(f"{path}.path", item.get("path", ""), "must be an absolute path"))
    return causes + _backend(item.get("backend") or {}, f"{path}.backend")


def _backend(backend: JsonObject, path: str) -> list[Cause]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is None and resource is None:
        return [statuses.invalid_value(path, "", "resource or service backend is required")]
    if service is not None and resource is not None:
        return [statuses.invalid_value(path, "", "cannot set both resource and service backends")]
    causes = []
    if service is not None:
        if not service.get("name"):
            causes.append(statuses.required(f"{path}.service.name"))
        port = service.get("port") or {}
        if not port.get("name") and not port.get("number"):
            causes.append(statuses.required(path, "port name or number is required"))
        elif port.get("number"):
            causes += port_range(f"{path}.service.port.number", port["number"])
    return causes


def _network_policy(body: JsonObject) -> list[Cause]:
    return selector_causes(body["spec"].get("podSelector"), "spec.podSelector")


TABLE = {
    ("", "Service"): _service,
    ("networking.k8s.io", "Ingress"): _ingress,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
}
