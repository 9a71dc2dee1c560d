"""What a task says of a route, read strictly."""

from typing import TypeVar

import msgspec

from delegate.engine.traffic.errors import RoutingSpecError
from delegate.foundation.quantities import parse_duration
from delegate.model.resources import JsonObject

DEFAULT_IN_FORCE = "30s"


class RouteSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """`service`: the stable one, where the route names several. `headers`: requests with all of them go to the new version at any weight.

    `preview`: a Service that leads to the new pods alone as long as there are any. `timeout`: how long a written weight may take until it
    is in force.
    """

    service: str = ""
    headers: dict[str, str] = {}
    preview: str = ""
    timeout: str = DEFAULT_IN_FORCE

    @property
    def seconds(self) -> float:
        return parse_duration(self.timeout)


T = TypeVar("T", bound=RouteSpec)


def read_spec(word: str, said: JsonObject, type: type[T]) -> T:
    """Raises RoutingSpecError that names the field."""
    try:
        spec = msgspec.convert(said, type)
        _ = spec.seconds
    except msgspec.ValidationError as error:
        words = str(error).replace("`$.", f"`spec.routing.{word}.").replace("$", f"spec.routing.{word}")
        raise RoutingSpecError(f"the routing can't be meant: {words}", hint="see docs/routing.md for what it may hold") from error
    except ValueError as error:
        raise RoutingSpecError(f"spec.routing.{word}.timeout: {error}", hint="write a number and a unit, such as 30s") from error
    return spec
