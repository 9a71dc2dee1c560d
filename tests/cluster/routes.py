"""Routes for tests: small definitions of HTTPRoute and VirtualService, a controller that accepts routes, and the place of a canary."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import AlreadyExistsError, NotFoundError, UnknownKindError
from delegate.engine.clusters.registry import Cluster
from delegate.engine.traffic.routers import RoutePlace
from delegate.model.resource_types import ENDPOINT_SLICES, SERVICES
from delegate.model.resources import GroupKind, JsonObject, ResourceType
from tests.cluster.servers import eventually

DEFINITIONS = ResourceType(
    group="apiextensions.k8s.io", version="v1", kind="CustomResourceDefinition", plural="customresourcedefinitions", namespaced=False
)
HTTP_ROUTE = GroupKind("gateway.networking.k8s.io", "HTTPRoute")
VIRTUAL_SERVICE = GroupKind("networking.istio.io", "VirtualService")
CANARY_SELECTOR = {"app": "web-canary"}
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _items(**properties: object) -> JsonObject:
    made = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": properties}
    return {"type": "array", "items": made}


_BACKENDS = _items(
    group={"type": "string", "default": ""},
    kind={"type": "string", "default": "Service"},
    name={"type": "string"},
    weight={"type": "integer", "default": 1, "minimum": 0, "maximum": 1_000_000},
)
_MATCHES = _items(path={**_OPEN, "default": {"type": "PathPrefix", "value": "/"}})
_SPECS: dict[GroupKind, JsonObject] = {
    HTTP_ROUTE: {**_OPEN, "properties": {"rules": {**_items(backendRefs=_BACKENDS, matches=_MATCHES), "maxItems": 16}}},
    VIRTUAL_SERVICE: {**_OPEN, "properties": {"http": _items(route=_items(weight={"type": "integer", "minimum": 0, "maximum": 100}))}},
}


def definition(kind: GroupKind) -> JsonObject:
    plural = f"{kind.kind.lower()}s"
    schema = {"type": "object", "properties": {"spec": _SPECS[kind], "status": _OPEN}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
    metadata = {
        "name": f"{plural}.{kind.group}",
        "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/gateway-api/pull/2997"},
    }
    names = {"plural": plural, "singular": kind.kind.lower(), "kind": kind.kind, "listKind": f"{kind.kind}List"}
    spec = {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": spec}


async def served(cluster: Cluster, kind: GroupKind) -> ResourceType:
    """Has the cluster serve a kind of route."""
    with contextlib.suppress(AlreadyExistsError):
        await cluster.client.create(DEFINITIONS, definition(kind))

    async def is_served() -> bool:
        cluster.discovery.invalidate()
        try:
            type = await cluster.discovery.resource_for(kind)
            await cluster.client.list(type, "default")
        except (UnknownKindError, NotFoundError):
            return False
        return True

    await eventually(is_served, within=20)
    return await cluster.discovery.resource_for(kind)


@dataclass
class Ground:
    """A place with a stable Service `web`; counts how often the Lease was asked for."""

    cluster: Cluster
    namespace: str
    verified: list[None] = field(default_factory=list)

    @property
    def client(self) -> ApiClient:
        return self.cluster.client

    def place(self, *services: str, fence: int = 1) -> RoutePlace:
        async def verify() -> None:
            self.verified.append(None)

        return RoutePlace(
            client=self.client,
            discovery=self.cluster.discovery,
            namespace=self.namespace,
            application="shop",
            workload="web",
            services=services or ("web",),
            canary_selector=CANARY_SELECTOR,
            fence=fence,
            guard=lambda: None,
            verify=verify,
        )

    async def stands(self) -> None:
        ports = [{"name": "http", "port": 80, "targetPort": 8080}]
        await self.client.create(SERVICES, self.body("Service", "v1", "web", {"selector": {"app": "web"}, "ports": ports}))

    def body(self, kind: str, api_version: str, name: str, spec: JsonObject, **metadata: object) -> JsonObject:
        return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": self.namespace, **metadata}, "spec": spec}

    async def pods_are_ready(self, service: str = "web-canary") -> None:
        """Behind a Service, by a slice of the test's own."""
        labels = {"kubernetes.io/service-name": service}
        endpoints = [{"addresses": ["10.1.1.1"], "conditions": {"ready": True}}]
        metadata = {"name": f"{service}-test", "namespace": self.namespace, "labels": labels}
        body = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata, "addressType": "IPv4"}
        await self.client.create(ENDPOINT_SLICES, {**body, "endpoints": endpoints, "ports": []})

    async def pods_are_gone(self, service: str = "web-canary") -> None:
        found = await self.client.get(ENDPOINT_SLICES, self.namespace, f"{service}-test")
        await self.client.delete(ENDPOINT_SLICES, self.namespace, f"{service}-test", uid=found["metadata"]["uid"])

    async def exists(self, type: ResourceType, name: str) -> bool:
        try:
            await self.client.get(type, self.namespace, name)
        except NotFoundError:
            return False
        return True


def main_ingress(ground: Ground, name: str = "web", **metadata: object) -> JsonObject:
    """One host with a path to `web` and one to another Service."""

    def path(service: str, place: str) -> JsonObject:
        return {"path": place, "pathType": "Prefix", "backend": {"service": {"name": service, "port": {"number": 80}}}}

    rule = {"host": "shop.example", "http": {"paths": [path("web", "/"), path("other", "/other")]}}
    return ground.body("Ingress", "networking.k8s.io/v1", name, {"ingressClassName": "nginx", "rules": [rule]}, **metadata)


async def accept(client: ApiClient, type: ResourceType, namespace: str, name: str) -> None:
    """What a gateway's controller says of a route's present generation."""
    live = await client.get(type, namespace, name)
    generation = live["metadata"]["generation"]
    if any(
        condition["observedGeneration"] == generation
        for parent in (live.get("status") or {}).get("parents") or ()
        for condition in parent["conditions"]
    ):
        return
    said = {"type": "Accepted", "status": "True", "observedGeneration": generation, "reason": "Accepted", "message": ""}
    parents = [
        {"parentRef": reference, "controllerName": "example.org/gate", "conditions": [said]} for reference in live["spec"]["parentRefs"]
    ]
    await client.patch(type, namespace, name, {"status": {"parents": parents}}, subresource="status")


@asynccontextmanager
async def accepted(client: ApiClient, type: ResourceType, namespace: str, name: str) -> AsyncIterator[None]:
    """A controller that accepts every generation of a route for a while."""

    async def follow() -> None:
        while True:
            await accept(client, type, namespace, name)
            await asyncio.sleep(0.02)

    await accept(client, type, namespace, name)
    following = asyncio.create_task(follow())
    try:
        yield
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
