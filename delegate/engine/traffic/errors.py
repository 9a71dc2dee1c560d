"""Faults of shifting load.

TrafficError
├── UnknownRoutingError      a way to shift load that this delegate doesn't know      input
├── RoutingSpecError         what the task says of a route can't be meant or done     input
├── RouteNotFoundError       no route of that name, or none that names the Service    input
├── RoutingUnavailableError  the cluster serves no such kind of route                 dependency
├── ForeignRouteError        a weight that somebody else has set                      conflict
└── RouteNotInForceError     a weight that was written and does not take effect       dependency
"""

from delegate.foundation.errors import Category, DelegateError


class TrafficError(DelegateError):
    """The root of this package's errors."""

    default_code = "dependency.traffic"
    category = Category.DEPENDENCY


class UnknownRoutingError(TrafficError):
    default_code = "input.routing"
    category = Category.INPUT


class RoutingSpecError(TrafficError):
    default_code = "input.routing_spec"
    category = Category.INPUT


class RouteNotFoundError(TrafficError):
    default_code = "input.no_such_route"
    category = Category.INPUT


class RoutingUnavailableError(TrafficError):
    default_code = "dependency.routing_kind"


class ForeignRouteError(TrafficError):
    default_code = "conflict.foreign_route"
    category = Category.CONFLICT


class RouteNotInForceError(TrafficError):
    default_code = "dependency.route_not_in_force"
