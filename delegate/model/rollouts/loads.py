"""What leads to the new version at a moment: a share of all requests, and those with certain headers whatever the share. Pure."""

import re
from collections.abc import Iterable, Sequence

import msgspec

from delegate.model.strict import Strict
from delegate.model.verification.checks import Fault

ROUTERS_BY_HEADERS = ("gatewayAPI", "istio", "nginx")
_MOST_HEADERS = 16
_LONGEST_VALUE = 4096
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}")
# What ingress-nginx lets stand in these annotations (its `parser.BasicCharsRegex` and `parser.IsValidRegex`); it drops others in silence.
_NGINX_VALUE = re.compile(r"[-._~a-zA-Z0-9/:]+")
_NGINX_PATTERN = re.compile(r"[-._~a-zA-Z0-9/:^$\[\](){}*+?|&=\\]+")


class HeaderValue(Strict, frozen=True):
    """Exactly one of its fields. `regex` has to match the whole value (RE2, for nginx PCRE)."""

    exact: str = ""
    prefix: str = ""
    regex: str = ""

    @property
    def pattern(self) -> str:
        """As a regular expression, for whoever looks for one anywhere in a value, too."""
        if self.regex:
            return f"^(?:{self.regex})$"
        return f"^{re.escape(self.prefix)}.*" if self.prefix else f"^{re.escape(self.exact)}$"


class HeaderMatch(Strict, frozen=True):
    header_name: str
    header_value: HeaderValue


class HeaderRoute(Strict, frozen=True):
    """Requests in which all of `match` holds go to the new version. Without `match`: the route of that name is taken away."""

    name: str
    match: tuple[HeaderMatch, ...] = ()


class Load(msgspec.Struct, frozen=True):
    """`weight` percent of all requests, and those that one of the header routes takes."""

    weight: float = 0.0
    header_routes: tuple[HeaderRoute, ...] = ()

    @property
    def is_any(self) -> bool:
        """Whether any request at all may lead to the new version."""
        return self.weight > 0 or bool(self.header_routes)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(route.name for route in self.header_routes)

    def with_route(self, route: HeaderRoute) -> "Load":
        """With it in the place of the one of its name, or without that."""
        if route.match and route.name in self.names:
            routes = tuple(route if each.name == route.name else each for each in self.header_routes)
        else:
            routes = tuple(each for each in self.header_routes if each.name != route.name)
            routes += (route,) if route.match else ()
        return Load(self.weight, routes)

    def __str__(self) -> str:
        if not self.is_any:
            return "no load"
        share = f"{self.weight:g}%"
        return f"{share} and the header {_plural(self.names)} {', '.join(self.names)}" if self.header_routes else share


def by_headers(name: str, headers: dict[str, str]) -> HeaderRoute:
    """A route for requests that carry all these headers."""
    return HeaderRoute(name, tuple(HeaderMatch(header, HeaderValue(exact=value)) for header, value in sorted(headers.items())))


def _plural(names: Sequence[str]) -> str:
    return "route" if len(names) == 1 else "routes"


def faults_of_header_route(route: HeaderRoute, load: Load, router: str) -> Iterable[Fault]:
    """Field (below the step), words, hint. `load`: what leads to the new version before it; `router`: its word, empty for none."""
    if router not in ROUTERS_BY_HEADERS:
        words = f"{router} knows nothing of headers" if router else "without a router nothing tells requests apart by their headers"
        yield "setHeaderRoute", f"{route.name}: {words}", f"route by {', '.join(ROUTERS_BY_HEADERS)}, or leave it out"
        return
    if not _NAME.fullmatch(route.name):
        yield "setHeaderRoute.name", f"{route.name!r} is no name", "write up to 63 small letters, digits and dashes"
    if not route.match and route.name not in load.names:
        yield "setHeaderRoute", f"no step before has set the header route {route.name}", "say what it matches, or leave the step out"
    if len(route.match) > _MOST_HEADERS:
        yield "setHeaderRoute.match", f"{len(route.match)} headers are more than {_MOST_HEADERS}", "name fewer"
    names = [each.header_name.lower() for each in route.match]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield "setHeaderRoute.match", f"{name} stands there twice, and all of a match has to hold", "make a header route of each"
    for match in route.match:
        yield from _faults_of_match(match)
    if router == "nginx" and route.match:
        yield from _faults_of_nginx(route, load)


def _faults_of_match(match: HeaderMatch) -> Iterable[Fault]:
    value = match.header_value
    given = [each for each in (value.exact, value.prefix, value.regex) if each]
    if not _HEADER_NAME.fullmatch(match.header_name):
        yield "setHeaderRoute.match", f"{match.header_name!r} is no name of a header", "write its name alone"
    if len(given) != 1:
        words = f"{match.header_name}: its value is told by exactly one of exact, prefix and regex"
        yield "setHeaderRoute.match", words, "give one of them"
    if any(len(each) > _LONGEST_VALUE or not each.isprintable() for each in given):
        yield "setHeaderRoute.match", f"{match.header_name}: no header has such a value", "write printable text of up to 4096 characters"


def _faults_of_nginx(route: HeaderRoute, load: Load) -> Iterable[Fault]:
    others = [name for name in load.names if name != route.name]
    if others or len(route.match) > 1:
        words = f"ingress-nginx tells versions by one header: {route.name} would be the second" if others else "it takes one header"
        yield "setHeaderRoute", f"{route.name}: {words}", "take the other one away first, or route by gatewayAPI or istio"
    for match in route.match:
        value = match.header_value
        fits = _NGINX_VALUE.fullmatch(value.exact) if value.exact else _NGINX_PATTERN.fullmatch(value.pattern)
        if not fits:
            words = f"{match.header_name}: ingress-nginx takes no such characters in an annotation"
            yield "setHeaderRoute.match", words, "choose a value of letters, digits and -._~/:"
