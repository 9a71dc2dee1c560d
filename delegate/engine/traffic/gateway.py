"""Weights by an HTTPRoute of the Gateway API.

In force once each parent says that it has accepted this very generation; backends that don't resolve count as not in force too.
"""

from delegate.engine.traffic.gateway_routes import HttpRouteShape, not_in_force, services_named
from delegate.engine.traffic.routers import RoutePlace
from delegate.engine.traffic.specs import RouteSpec, read_spec
from delegate.engine.traffic.split_router import SplitRouter
from delegate.engine.traffic.splitting import Shape
from delegate.model.resources import GroupKind, JsonObject


class HttpRouteSpec(RouteSpec, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    http_route: str


class GatewayRouter(SplitRouter):
    group_kind = GroupKind("gateway.networking.k8s.io", "HTTPRoute")
    install_hint = "install the Gateway API's definitions, or choose another routing"

    def shape(self, stable: str, canary: str) -> Shape:
        return HttpRouteShape(stable, canary, self._place.namespace)

    def services_named(self, body: JsonObject) -> set[str]:
        return services_named(body, self._place.namespace)

    def not_in_force(self, body: JsonObject) -> str:
        return not_in_force(body)


def gateway_router(said: JsonObject, place: RoutePlace) -> GatewayRouter:
    """Raises RoutingSpecError."""
    spec = read_spec("gatewayAPI", said, HttpRouteSpec)
    return GatewayRouter(place, spec.http_route, service=spec.service, headers=spec.headers, seconds=spec.seconds)
