"""The ways to shift load that this delegate knows, by their word in `spec.routing`."""

from delegate.engine.traffic.gateway import gateway_router
from delegate.engine.traffic.istio import istio_router
from delegate.engine.traffic.nginx import nginx_router
from delegate.engine.traffic.previewing import previewed
from delegate.engine.traffic.routers import ROUTERS, RouterFactory
from delegate.engine.traffic.switching import selector_router


def add_routers() -> None:
    """Makes them known; may be called again."""
    routers: dict[str, RouterFactory] = {
        "gatewayAPI": gateway_router,
        "istio": istio_router,
        "nginx": nginx_router,
        "service": selector_router,
    }
    ROUTERS.update({word: previewed(factory) for word, factory in routers.items()})
