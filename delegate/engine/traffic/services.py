"""The Service of the new version: the stable one's ports in front of the new pods. Also the preview, before it gets any load."""

from collections.abc import Collection

from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.traffic.endpoints import await_empty
from delegate.engine.traffic.errors import RouteNotFoundError, RoutingSpecError
from delegate.engine.traffic.routers import RoutePlace
from delegate.engine.traffic.writing import Writer
from delegate.model.inventory import APPLICATION_LABEL
from delegate.model.resource_types import SERVICES
from delegate.model.resources import JsonObject
from delegate.model.rollouts.journals import JOURNAL_LABEL
from delegate.model.rollouts.workloads import FENCE_ANNOTATION, canary_name

_PORT_FIELDS = ("name", "protocol", "appProtocol", "port", "targetPort")
_KEPT_FIELDS = ("internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy", "sessionAffinity", "sessionAffinityConfig", "trafficDistribution")


def chosen_service(route: str, named: Collection[str], fronts: Collection[str], wanted: str = "") -> str:
    """The stable Service of a route: the one that the task says, or the only one that leads to the stable pods and that the route names.

    Raises RouteNotFoundError where there is none, RoutingSpecError where there are several.
    """
    candidates = sorted({each for each in named if each in fronts})
    if wanted:
        if wanted in candidates:
            return wanted
        words = "does not lead to the stable pods" if wanted not in fronts else "is not named by it"
        raise RouteNotFoundError(f"{route}: Service {wanted} {words}", hint=f"it could be: {', '.join(candidates) or 'none'}", object=route)
    if not candidates:
        raise RouteNotFoundError(
            f"{route} names no Service of the stable pods",
            hint=f"it names {', '.join(sorted(named)) or 'none'}; the stable pods stand behind {', '.join(sorted(fronts)) or 'none'}",
            object=route,
        )
    if len(candidates) > 1:
        raise RoutingSpecError(
            f"{route} names several Services of the stable pods: {', '.join(candidates)}", hint="say which: service: NAME", object=route
        )
    return candidates[0]


def canary_service(stable: JsonObject, place: RoutePlace, name: str) -> JsonObject:
    """Its body. No port of the nodes and no load balancer: whatever comes from outside comes by the route."""
    spec = stable.get("spec") or {}
    ports = [{field: port[field] for field in _PORT_FIELDS if field in port} for port in spec.get("ports") or ()]
    kept = {field: spec[field] for field in _KEPT_FIELDS if field in spec}
    headless = {"clusterIP": "None"} if spec.get("clusterIP") == "None" else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": place.namespace,
            "labels": {APPLICATION_LABEL: place.application, JOURNAL_LABEL: "canary"},
            "annotations": {FENCE_ANNOTATION: str(place.fence)},
        },
        "spec": {"type": "ClusterIP", "selector": dict(place.canary_selector), "ports": ports, **kept, **headless},
    }


def preview_of(snapshot: JsonObject) -> str:
    """The Service by which the new pods alone are reached, by what a router has taken down; empty where there is no router."""
    preview = snapshot.get("preview") or {}
    return str(preview.get("name") or "") or (canary_name(str(snapshot["service"])) if snapshot.get("service") else "")


class CanaryService:
    """The Service of the new version, beside the stable one of that name; `name`: where it is called otherwise."""

    def __init__(self, place: RoutePlace, stable: str, name: str = "") -> None:
        self._place = place
        self._stable = stable
        self._writer = Writer(place, SERVICES)
        self.name = name or canary_name(stable)

    async def check(self) -> None:
        """Raises ForeignRouteError where its name is taken, RoutingSpecError where the stable Service could not be copied."""
        found = await self._writer.find(self.name)
        if found is not None:
            self._writer.check_ours(found, self.name)
        stable = await self._writer.find(self._stable)
        if stable is not None and (stable.get("spec") or {}).get("type") == "ExternalName":
            raise RoutingSpecError(f"Service {self._place.namespace}/{self._stable} is a name of something outside, with no pods behind it")

    async def prepare(self) -> None:
        """Creates it; one that is there gets the ports and the selector that it has to have."""
        try:
            stable = await self._place.client.get(SERVICES, self._place.namespace, self._stable)
        except NotFoundError as error:
            raise RouteNotFoundError(f"there is no Service {self._place.namespace}/{self._stable}", hint="sync it first") from error
        wanted = canary_service(stable, self._place, self.name)

        def update(live: JsonObject) -> JsonObject:
            spec = live["spec"]
            if spec.get("selector") == wanted["spec"]["selector"] and _ports(live) == _ports(stable):
                return live
            return {**live, "spec": {**spec, "selector": wanted["spec"]["selector"], "ports": wanted["spec"]["ports"]}}

        await self._writer.ensure(self.name, lambda: wanted, update)

    async def clear(self, seconds: float) -> None:
        """Deletes it once it leads nowhere any more. Raises RouteNotInForceError where that takes longer."""
        found = await self._writer.find(self.name)
        if found is None or JOURNAL_LABEL not in (found["metadata"].get("labels") or {}):
            return
        await await_empty(self._place, self.name, seconds)
        await self._writer.delete(self.name)


def _ports(service: JsonObject) -> list[JsonObject]:
    return [{field: port[field] for field in _PORT_FIELDS if field in port} for port in service["spec"].get("ports") or ()]
