"""Autoscalers of the stable set, kept from scaling it down while a router leads its load elsewhere: it may have to bear that again.

By their own rule (`behavior.scaleDown.selectPolicy: Disabled`, autoscaling/v2); how many pods there are stays theirs to say.
"""

from collections.abc import Iterable

from delegate.engine.traffic.marks import mark_for, marked
from delegate.engine.traffic.routers import RoutePlace
from delegate.engine.traffic.writing import Writer
from delegate.model.resource_types import AUTOSCALERS
from delegate.model.resources import JsonObject
from delegate.model.rollouts.loads import Load

_NEVER = "Disabled"


class Autoscalers:
    """Those that the journal holds, by name, with the behavior that each had; empty for none."""

    def __init__(self, place: RoutePlace) -> None:
        self._place = place
        self._writer = Writer(place, AUTOSCALERS)

    async def look(self, names: Iterable[str]) -> dict[str, JsonObject]:
        """As they are before the first write. Raises ClusterError."""
        found = {name: await self._writer.find(name) for name in names}
        return {name: live["spec"].get("behavior") or {} for name, live in found.items() if live is not None}

    async def hold(self, first: dict[str, JsonObject]) -> None:
        def decide(live: JsonObject) -> JsonObject:
            behavior = held(live["spec"].get("behavior") or {})
            return marked(_behaving(live, behavior), self._place.workload, mark_for(self._place.fence, Load()))

        for name in first:
            await self._writer.change(name, decide)

    async def release(self, first: dict[str, JsonObject]) -> None:
        """Each as it was; what somebody else has changed of it meanwhile stays."""
        for name, behavior in first.items():
            await self._writer.change(name, lambda live, was=behavior: self._released(live, was))  # type: ignore[misc]

    def _released(self, live: JsonObject, first: JsonObject) -> JsonObject:
        return marked(_behaving(live, released(live["spec"].get("behavior") or {}, first)), self._place.workload, None)


def held(behavior: JsonObject) -> JsonObject:
    return {**behavior, "scaleDown": {**(behavior.get("scaleDown") or {}), "selectPolicy": _NEVER}}


def released(behavior: JsonObject, first: JsonObject) -> JsonObject:
    """`behavior` as it stands, without what `held` has done to `first`. A server fills in the rest of what was empty."""
    down = behavior.get("scaleDown") or {}
    if down.get("selectPolicy") != _NEVER:
        return behavior
    if not first or behavior == held(first):
        return first
    before = (first.get("scaleDown") or {}).get("selectPolicy")
    kept = {field: value for field, value in down.items() if field != "selectPolicy"}
    return {**behavior, "scaleDown": {**kept, **({"selectPolicy": before} if before else {})}}


def _behaving(live: JsonObject, behavior: JsonObject) -> JsonObject:
    rest = {field: value for field, value in live["spec"].items() if field != "behavior"}
    return {**live, "spec": {**rest, "behavior": behavior} if behavior else rest}
