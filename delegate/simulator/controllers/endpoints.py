"""EndpointSlices (and the older Endpoints) of Services: the addresses of the pods they select, ready or not."""

from collections.abc import Iterable

from delegate.model.resources import JsonObject
from delegate.simulator.controllers.base import Controller, Key, is_finished, is_ready, owner_reference
from delegate.simulator.store import Change, StorageKey, Stored

SERVICES: StorageKey = ("", "services")
PODS: StorageKey = ("", "pods")
SLICES = ("discovery.k8s.io", "EndpointSlice")
SERVICE_LABEL = "kubernetes.io/service-name"
MANAGED_LABEL = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
HEADLESS = "service.kubernetes.io/headless"
TRIGGERED = "endpoints.kubernetes.io/last-change-trigger-time"
MOST_ENDPOINTS = 1000


class EndpointController(Controller):
    rank = 7
    watched = (SERVICES, PODS)

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        stored = change.stored
        if table == SERVICES:
            yield stored.namespace, stored.name
            return
        labels = stored.body["metadata"].get("labels") or {}
        before = change.before.body["metadata"].get("labels") or {} if change.before is not None else {}
        for service in self.store.table(SERVICES).items(stored.namespace):
            selector = service.body["spec"].get("selector")
            if selector and (_selects(selector, labels) or (before and _selects(selector, before))):
                yield service.namespace, service.name

    def sync(self, key: Key) -> float | None:
        service = self.find("", "Service", key)
        if service is None:
            legacy = self.find("", "Endpoints", key)
            if legacy is not None:
                self.delete(legacy, "", "Endpoints")
            return None
        selector = service.body["spec"].get("selector")
        if not selector or service.body["spec"].get("type") == "ExternalName":
            return None
        pods = [pod for pod in self.store.table(PODS).items(key[0]) if _selects(selector, pod.body["metadata"].get("labels") or {})]
        pods = [pod for pod in pods if pod.body["status"].get("podIP") and not is_finished(pod.body)]
        self._write_slice(service, pods)
        self._write_endpoints(service, pods)
        return None

    def _write_slice(self, service: Stored, pods: list[Stored]) -> None:
        slices = [
            item for item in self.owned(*SLICES, service) if (item.body["metadata"].get("labels") or {}).get(MANAGED_LABEL) == MANAGER
        ]
        publish = bool(service.body["spec"].get("publishNotReadyAddresses"))
        by_pod = {pod.uid: _endpoint(pod, publish=publish) for pod in pods[:MOST_ENDPOINTS]}
        ports = _slice_ports(service.body, pods)
        headless = service.body["spec"].get("clusterIP") == "None"
        labels = {**(service.body["metadata"].get("labels") or {}), MANAGED_LABEL: MANAGER, SERVICE_LABEL: service.name}
        if headless:
            labels[HEADLESS] = ""
        if not slices:
            metadata: JsonObject = {"generateName": f"{service.name}-", "labels": labels, "ownerReferences": [owner_reference(service)]}
            metadata["annotations"] = {TRIGGERED: self.registry.now()}
            body = {"metadata": metadata, "addressType": "IPv4", "endpoints": list(by_pod.values()), "ports": ports}
            self.create(*SLICES, service.namespace, body)
            return
        held = slices[0]
        kept = [item for item in held.body.get("endpoints") or () if (item.get("targetRef") or {}).get("uid") in by_pod]
        order = [item["targetRef"]["uid"] for item in kept]
        endpoints = [by_pod[uid] for uid in order] + [endpoint for uid, endpoint in by_pod.items() if uid not in order]
        if (
            endpoints == (held.body.get("endpoints") or [])
            and ports == (held.body.get("ports") or [])
            and labels == held.body["metadata"]["labels"]
        ):
            return
        copy = held.copy()
        copy |= {"endpoints": endpoints, "ports": ports}
        copy["metadata"]["labels"] = labels
        copy["metadata"].setdefault("annotations", {})[TRIGGERED] = self.registry.now()
        self.update(held, *SLICES, copy)

    def _write_endpoints(self, service: Stored, pods: list[Stored]) -> None:
        """The older form: ready and not ready addresses apart."""
        ready = [_address(pod) for pod in pods if is_ready(pod.body) and not pod.body["metadata"].get("deletionTimestamp")]
        waiting = [_address(pod) for pod in pods if not is_ready(pod.body) and not pod.body["metadata"].get("deletionTimestamp")]
        subset: JsonObject = {}
        if ready:
            subset["addresses"] = ready
        if waiting:
            subset["notReadyAddresses"] = waiting
        ports = [{key: value for key, value in port.items() if value != ""} for port in _slice_ports(service.body, pods)]
        if subset and ports:
            subset["ports"] = ports
        subsets = [subset] if subset else []
        held = self.find("", "Endpoints", (service.namespace, service.name))
        labels = {**(service.body["metadata"].get("labels") or {}), "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        if service.body["spec"].get("clusterIP") == "None":
            labels[HEADLESS] = ""
        if held is None:
            self.create("", "Endpoints", service.namespace, {"metadata": {"name": service.name, "labels": labels}, "subsets": subsets})
        elif (held.body.get("subsets") or []) != subsets:
            copy = held.copy()
            copy["subsets"] = subsets
            copy["metadata"]["labels"] = labels
            self.update(held, "", "Endpoints", copy)


def _selects(selector: JsonObject, labels: JsonObject) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())


def _target(pod: Stored) -> JsonObject:
    return {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}


def _endpoint(pod: Stored, *, publish: bool) -> JsonObject:
    terminating = bool(pod.body["metadata"].get("deletionTimestamp"))
    serving = is_ready(pod.body)
    endpoint: JsonObject = {
        "addresses": [pod.body["status"]["podIP"]],
        "conditions": {"ready": publish or (serving and not terminating), "serving": serving, "terminating": terminating},
        "targetRef": _target(pod),
    }
    if pod.body["spec"].get("nodeName"):
        endpoint["nodeName"] = pod.body["spec"]["nodeName"]
    if pod.body["spec"].get("hostname") and pod.body["spec"].get("subdomain"):
        endpoint["hostname"] = pod.body["spec"]["hostname"]
    return endpoint


def _address(pod: Stored) -> JsonObject:
    found: JsonObject = {"ip": pod.body["status"]["podIP"]}
    if pod.body["spec"].get("nodeName"):
        found["nodeName"] = pod.body["spec"]["nodeName"]
    return {**found, "targetRef": _target(pod)}


def _slice_ports(service: JsonObject, pods: list[Stored]) -> list[JsonObject]:
    ports = []
    for port in service["spec"].get("ports") or ():
        target = port.get("targetPort", port["port"])
        number = target if isinstance(target, int) else _named_port(target, pods)
        if number is None:
            continue
        ports.append({"name": port.get("name", ""), "protocol": port.get("protocol", "TCP"), "port": number})
    return ports


def _named_port(name: str, pods: list[Stored]) -> int | None:
    for pod in pods:
        for container in pod.body["spec"].get("containers") or ():
            for port in container.get("ports") or ():
                if port.get("name") == name:
                    return int(port["containerPort"])
    return None
