"""Faults of shifting load.

TrafficError
├── UnknownRoutingError      a way to shift load that this delegate doesn't know      input
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


class ForeignRouteError(TrafficError):
    default_code = "conflict.foreign_route"
    category = Category.CONFLICT


class RouteNotInForceError(TrafficError):
    default_code = "dependency.route_not_in_force"
