"""Weights by a VirtualService of Istio.

Nobody tells when proxies have heard of it: a weight counts as in force once it is written, and the drain covers the rest.
"""

from delegate.engine.traffic.errors import RouteNotFoundError, RoutingSpecError
from delegate.engine.traffic.istio_routes import VirtualServiceShape, services_named
from delegate.engine.traffic.routers import RoutePlace
from delegate.engine.traffic.specs import RouteSpec, read_spec
from delegate.engine.traffic.split_router import SplitRouter
from delegate.engine.traffic.splitting import FirstRule, Shape, first_rules
from delegate.model.resources import GroupKind, JsonObject


class VirtualServiceSpec(RouteSpec, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """`routes`: names of the http routes to weight; none where only one leads to the stable Service."""

    virtual_service: str
    routes: tuple[str, ...] = ()


class IstioRouter(SplitRouter):
    group_kind = GroupKind("networking.istio.io", "VirtualService")
    install_hint = "install Istio's definitions, or choose another routing"
    routes: tuple[str, ...] = ()

    def shape(self, stable: str, canary: str) -> Shape:
        return VirtualServiceShape(stable, canary, self._place.namespace)

    def services_named(self, body: JsonObject) -> set[str]:
        return services_named(body, self._place.namespace, self.routes)

    def not_in_force(self, body: JsonObject) -> str:
        del body
        return ""

    def first_rules(self, body: JsonObject, shape: Shape) -> tuple[FirstRule, ...]:
        place = f"{self.group_kind} {self._place.namespace}/{self._name}"
        found = first_rules(body, shape, self.routes)
        for name in self.routes:
            if name not in {each.name for each in found}:
                raise RouteNotFoundError(f"{place}: no http route {name!r} leads to the stable Service", object=place)
        if len(found) > 1 and not self.routes:
            names = ", ".join(each.name or "(without a name)" for each in found)
            raise RoutingSpecError(
                f"{place}: several http routes lead to the stable Service: {names}", hint="name them: routes", object=place
            )
        return found


def istio_router(said: JsonObject, place: RoutePlace) -> IstioRouter:
    """Raises RoutingSpecError."""
    spec = read_spec("istio", said, VirtualServiceSpec)
    router = IstioRouter(place, spec.virtual_service, service=spec.service, headers=spec.headers, seconds=spec.seconds)
    router.routes = spec.routes
    return router
