"""Defaults of Services, endpoints, ingresses and network policies."""

from delegate.model.resources import JsonObject


def _service(body: JsonObject) -> None:
    spec = body["spec"]
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("type", "ClusterIP")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        client.setdefault("timeoutSeconds", 10800)
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port", 0)
    external = spec["type"] in ("NodePort", "LoadBalancer") or (spec["type"] == "ClusterIP" and spec.get("externalIPs"))
    if external:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _endpoints(body: JsonObject) -> None:
    for subset in body.get("subsets", ()):
        for port in subset.get("ports", ()):
            port.setdefault("protocol", "TCP")


def _endpoint_slice(body: JsonObject) -> None:
    for port in body.get("ports") or ():
        port.setdefault("name", "")
        port.setdefault("protocol", "TCP")


def _network_policy(body: JsonObject) -> None:
    spec = body["spec"]
    for direction in ("ingress", "egress"):
        for rule in spec.get(direction, ()):
            for port in rule.get("ports", ()):
                port.setdefault("protocol", "TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]


def _ingress_class(body: JsonObject) -> None:
    parameters = (body.get("spec") or {}).get("parameters")
    if parameters is not None:
        parameters.setdefault("scope", "Cluster")


TABLE = {
    ("", "Service"): _service,
    ("", "Endpoints"): _endpoints,
    ("discovery.k8s.io", "EndpointSlice"): _endpoint_slice,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
    ("networking.k8s.io", "IngressClass"): _ingress_class,
}
