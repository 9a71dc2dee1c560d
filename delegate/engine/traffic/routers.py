"""What a canary asks of whatever shifts its load.

    check -> snapshot -> prepare -> set_load, read_load, ... -> restore, read_load -> (drain) -> clear

Every method may be called again after a crash, with the same arguments, and then finds its work done. Each write is preceded by
`place.guard()`, which raises once the attempt's authority is gone, and carries the resourceVersion that was read: a 409 is answered by
`place.verify()` and another look, never by sending it again blindly. A value that is neither ours nor the snapshot's is a foreign hand:
ForeignRouteError, and it is not written over.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.discovery import Discovery
from delegate.engine.traffic.errors import UnknownRoutingError
from delegate.model.resources import JsonObject
from delegate.model.rollouts.loads import Load


class RoutePlace(msgspec.Struct, frozen=True):
    """What is to be routed: the stable workload's name, the Services in front of its pods, the labels that select the new pods.

    `application` and `fence` are written into what is made for the canary.
    """

    client: ApiClient
    discovery: Discovery
    namespace: str
    application: str
    workload: str
    services: tuple[str, ...]
    canary_selector: dict[str, str]
    fence: int
    guard: Callable[[], None]
    verify: Callable[[], Awaitable[None]]


class Router(Protocol):
    """Shifts load between the stable pods and the new ones."""

    separates: bool
    """Whether each version has a Service of its own; otherwise both stand behind the same one."""

    async def check(self, loads: Sequence[Load]) -> None:
        """Raises before the first write what could not be routed: no such route, none that names the Service, a foreign weight, one of
        `loads` that the route can't take."""

    async def snapshot(self) -> JsonObject:
        """All that will be changed, as it stands before the first weight: for `restore`, in JSON. Objects to be made are no part of it."""

    async def prepare(self, snapshot: JsonObject) -> None:
        """Makes the objects that the new version needs of its own, with no load yet."""

    async def set_load(self, load: Load, snapshot: JsonObject) -> None:
        """Writes it and returns once it is in force, as far as whoever routes tells."""

    async def read_load(self, snapshot: JsonObject) -> Load | None:
        """As it stands in the cluster: the weight, and those header routes that were written and still stand whole. None where that is
        nobody's to say."""

    async def open_preview(self, snapshot: JsonObject) -> None:
        """Has a Service of theirs lead to the new pods alone, and waits until it leads to one that is ready."""

    async def preview_strays(self, snapshot: JsonObject) -> str:
        """How a preview of the task's choice leads elsewhere than to the new pods; empty where it doesn't, or there is none."""

    async def restore(self, snapshot: JsonObject) -> None:
        """Returns every field that was changed, and reads it back: after this no load goes to the new version."""

    async def clear(self, snapshot: JsonObject) -> None:
        """Takes away what `prepare` has made, the route before the Service. After the drain."""


class ReplicaShare:
    """No router: the share is that of ready pods behind one Service, so there is nothing to write and nothing to drain."""

    separates = False

    async def check(self, loads: Sequence[Load]) -> None:
        del loads

    async def snapshot(self) -> JsonObject:
        return {}

    async def prepare(self, snapshot: JsonObject) -> None:
        del snapshot

    async def set_load(self, load: Load, snapshot: JsonObject) -> None:
        del load, snapshot

    async def read_load(self, snapshot: JsonObject) -> Load | None:
        del snapshot
        return None

    async def open_preview(self, snapshot: JsonObject) -> None:
        del snapshot

    async def preview_strays(self, snapshot: JsonObject) -> str:
        del snapshot
        return ""

    async def restore(self, snapshot: JsonObject) -> None:
        del snapshot

    async def clear(self, snapshot: JsonObject) -> None:
        del snapshot


RouterFactory = Callable[[JsonObject, RoutePlace], Router]
"""Makes a router from what the task says of it."""
ROUTERS: dict[str, RouterFactory] = {}
"""By the word of `spec.routing`: gatewayAPI, istio, nginx. Each module adds its own in `engine.tasks`'s builder."""


def routing_kind(routing: JsonObject | str | None) -> tuple[str, JsonObject]:
    """The word and what it says: `none` where there is no router. Raises UnknownRoutingError."""
    if routing is None or routing in ("none", "replicas", {}):
        return "none", {}
    if isinstance(routing, dict) and len(routing) == 1:
        word, said = next(iter(routing.items()))
        if word in ("none", "argoRollouts"):  # there its own controller shifts it
            return "none", {}
        if word in ROUTERS and isinstance(said, dict):
            return word, said
    known = ", ".join(sorted((*ROUTERS, "argoRollouts", "none")))
    raise UnknownRoutingError(f"spec.routing {routing!r} names no way to shift load that this delegate knows", hint=f"one of: {known}")


def separates(routing: JsonObject | str | None) -> bool:
    """Whether each version gets a Service of its own. Raises UnknownRoutingError."""
    return routing_kind(routing)[0] != "none"


def router_of(routing: JsonObject | str | None, place: RoutePlace) -> Router:
    """Raises UnknownRoutingError."""
    word, said = routing_kind(routing)
    return ReplicaShare() if word == "none" else ROUTERS[word](said, place)
