"""APIServices: kept for what definitions define, and whether those of other servers can be reached (kube-aggregator `status`)."""

from collections.abc import Iterable

from delegate.model.resources import JsonObject
from delegate.simulator.aggregation import API_SERVICES, AUTOMANAGED, managed
from delegate.simulator.controllers.base import Controller, Key, condition_of
from delegate.simulator.store import Change, StorageKey, Stored
from delegate.simulator.storing import Options
from delegate.simulator.strategies import LOCAL_API
from delegate.simulator.writes import Write

DEFINITIONS: StorageKey = ("apiextensions.k8s.io", "customresourcedefinitions")
SLICES: StorageKey = ("discovery.k8s.io", "endpointslices")
SERVICES: StorageKey = ("", "services")
GROUP, KIND = "apiregistration.k8s.io", "APIService"
MANAGER = "kube-apiserver"
_SERVICE_LABEL = "kubernetes.io/service-name"


class ApiServiceController(Controller):
    rank = 3
    watched = (API_SERVICES, DEFINITIONS, SERVICES, SLICES)

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        body = change.stored.body
        if table == API_SERVICES:
            yield "", change.stored.name
        elif table == DEFINITIONS:
            for held in (change.before, change.stored):
                for version in held.body["spec"]["versions"] if held is not None else ():
                    yield "", f"{version['name']}.{body['spec']['group']}"
        else:
            name = change.stored.name if table == SERVICES else (body["metadata"].get("labels") or {}).get(_SERVICE_LABEL)
            for stored in self.store.table(API_SERVICES).items():
                service = stored.body["spec"].get("service") or {}
                if (service.get("namespace"), service.get("name")) == (change.stored.namespace, name):
                    yield "", stored.name

    def sync(self, key: Key) -> float | None:
        stored = self._kept(key[1])
        if stored is None:
            return None
        state, reason, message = self._judge(stored.body)
        before = condition_of(stored.body, "Available")
        if before is not None and (before["status"], before.get("reason"), before.get("message")) == (state, reason, message):
            return None
        at = before["lastTransitionTime"] if before is not None and before["status"] == state else self.registry.now()
        body = stored.copy()
        condition = {"type": "Available", "status": state, "lastTransitionTime": at, "reason": reason, "message": message}
        body["status"] = {"conditions": [condition]}
        options = Options(manager=MANAGER, subresource="status")
        Write(self.registry, self.resource(GROUP, KIND), "", stored.name, options=options).replace(body)
        return None

    def _kept(self, name: str) -> Stored | None:
        """The APIService of a name, made or removed where definitions want it."""
        stored = self.store.table(API_SERVICES).get("", name)
        version, _, group = name.partition(".")
        defined = self._is_defined(group, version)
        if stored is None and defined:
            resource = self.resource(GROUP, KIND)
            body = {"apiVersion": resource.api_version, "kind": KIND, **managed(group, version)}
            Write(self.registry, resource, "", options=Options(manager=MANAGER)).create(body)
        elif stored is not None and not defined and (stored.body["metadata"].get("labels") or {}).get(AUTOMANAGED) == "true":
            self.delete(stored, GROUP, KIND)
        return self.store.table(API_SERVICES).get("", name)

    def _is_defined(self, group: str, version: str) -> bool:
        specs = [
            stored.body["spec"]
            for stored in self.store.table(DEFINITIONS).items()
            if (condition_of(stored.body, "Established") or {}).get("status") == "True" and stored.body["spec"]["group"] == group
        ]
        return any(item["name"] == version and item.get("served") for spec in specs for item in spec["versions"])

    def _judge(self, body: JsonObject) -> tuple[str, str, str]:
        """Whether an API is available, and why. Nothing answers at a simulated Service's address."""
        service = body["spec"].get("service")
        if service is None:
            return "True", LOCAL_API["reason"], LOCAL_API["message"]
        namespace, name, port = service["namespace"], service["name"], service.get("port", 443)
        place = f'service/{name} in "{namespace}"'
        found = self.find("", "Service", (namespace, name))
        if found is None:
            return "False", "ServiceNotFound", f"{place} is not present"
        address = found.body["spec"].get("clusterIP") or f"{name}.{namespace}.svc"
        if found.body["spec"].get("type", "ClusterIP") == "ClusterIP":
            ports = [item for item in found.body["spec"].get("ports") or () if item["port"] == port]
            if not ports:
                return "False", "ServicePortError", f"{place} is not listening on port {port}"
            missing = self._missing(namespace, name, ports[0].get("name", ""))
            if missing is not None:
                return missing
        url = f"https://{address}:{port}/apis/{body['spec'].get('group', '')}/{body['spec'].get('version', '')}"
        dial = f'Get "{url}": dial tcp {address}:{port}: connect: connection refused'
        return "False", "FailedDiscoveryCheck", f"failing or missing response from {url}: {dial}"

    def _missing(self, namespace: str, name: str, port: str) -> tuple[str, str, str] | None:
        """What a Service's endpoints lack."""
        slices = [
            item.body
            for item in self.store.table(SLICES).items(namespace)
            if (item.body["metadata"].get("labels") or {}).get(_SERVICE_LABEL) == name
        ]
        place = f'service/{name} in "{namespace}"'
        if not slices:
            return "False", "EndpointsNotFound", f"cannot find endpointslices for {place}"
        for body in slices:
            named = any((item.get("name") or "") == port for item in body.get("ports") or ())
            if named and any((item.get("conditions") or {}).get("ready", True) for item in body.get("endpoints") or ()):
                return None
        return "False", "MissingEndpoints", f'endpointslices for {place} have no addresses with port name "{port}"'
