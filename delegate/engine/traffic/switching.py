"""Blue/green: all load at once, by the selector of the stable Service. The canary's own Service is the preview."""

from collections.abc import Sequence

import msgspec

from delegate.engine.traffic.endpoints import await_ready, ready_pods
from delegate.engine.traffic.errors import ForeignRouteError, RouteNotFoundError, RouteNotInForceError, RoutingSpecError
from delegate.engine.traffic.marks import mark_for, marked
from delegate.engine.traffic.routers import RoutePlace
from delegate.engine.traffic.services import CanaryService, chosen_service
from delegate.engine.traffic.specs import RouteSpec, read_spec
from delegate.engine.traffic.writing import Pauses, Writer
from delegate.model.resource_types import SERVICES
from delegate.model.resources import JsonObject
from delegate.model.rollouts.loads import Load


class SwitchSpec(RouteSpec, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """Of the Service itself: nothing more is needed."""


class _Snapshot(msgspec.Struct, frozen=True):
    service: str
    selector: dict[str, str]


class SelectorRouter:
    """Weights of 0 and 100, and none between. In force once the Service leads to ready pods of that version alone. See `Router`."""

    separates = True

    def __init__(self, place: RoutePlace, spec: SwitchSpec) -> None:
        self._place = place
        self._spec = spec
        self._writer = Writer(place, SERVICES)

    async def check(self, loads: Sequence[Load]) -> None:
        for load in loads:
            _refuse_part(load)
        stable = self._chosen()
        if (await self._read(stable))["spec"].get("selector") == self._place.canary_selector:
            place = self._writer.named(stable)
            raise ForeignRouteError(f"{place} leads to the new pods already", hint="return its selector", object=place)
        await CanaryService(self._place, stable).check()

    async def snapshot(self) -> JsonObject:
        stable = self._chosen()
        selector = (await self._read(stable))["spec"].get("selector") or {}
        taken: JsonObject = msgspec.to_builtins(_Snapshot(stable, selector))
        return taken

    async def prepare(self, snapshot: JsonObject) -> None:
        await CanaryService(self._place, _first(snapshot).service).prepare()

    async def set_load(self, load: Load, snapshot: JsonObject) -> None:
        first, weight = _first(snapshot), load.weight
        _refuse_part(load)
        if weight:
            await await_ready(self._place, CanaryService(self._place, first.service).name, self._spec.seconds)
        wanted = self._place.canary_selector if weight else first.selector
        place = self._writer.named(first.service)

        def decide(live: JsonObject) -> JsonObject:
            if live["spec"].get("selector") not in (first.selector, self._place.canary_selector):
                hint = "let nobody else write it, then resume or cancel the task"
                raise ForeignRouteError(f"somebody else changed the selector of {place}", hint=hint, object=place)
            return marked(_selecting(live, wanted), self._place.workload, mark_for(self._place.fence, load))

        if await self._writer.change(first.service, decide) is None:
            raise self._gone(first.service)
        await self._await_in_force(first.service, new=weight > 0)

    async def read_load(self, snapshot: JsonObject) -> Load | None:
        found = await self._writer.find(_first(snapshot).service)
        switched = found is not None and found["spec"].get("selector") == self._place.canary_selector
        return Load(100.0 if switched else 0.0)

    async def open_preview(self, snapshot: JsonObject) -> None:
        await await_ready(self._place, CanaryService(self._place, _first(snapshot).service).name, self._spec.seconds)

    async def preview_strays(self, snapshot: JsonObject) -> str:
        del snapshot
        return ""

    async def restore(self, snapshot: JsonObject) -> None:
        first = _first(snapshot)

        def decide(live: JsonObject) -> JsonObject:
            return marked(_selecting(live, first.selector), self._place.workload, None)

        if await self._writer.change(first.service, decide) is None:
            return
        await self._await_in_force(first.service, new=False)
        body, place = await self._writer.find(first.service), self._writer.named(first.service)
        if body is not None and decide(body) != body:
            raise RouteNotInForceError(f"{place} reads otherwise than it was restored", hint="see who else writes it", object=place)

    async def clear(self, snapshot: JsonObject) -> None:
        await CanaryService(self._place, _first(snapshot).service).clear(self._spec.seconds)

    async def _await_in_force(self, service: str, *, new: bool) -> None:
        pauses, place = Pauses(self._place, self._spec.seconds), self._writer.named(service)
        while True:
            found = await ready_pods(self._place.client, self._place.namespace, service, self._place.canary_selector)
            if (found.canary and not found.stable) if new else not found.canary:
                return
            if not await pauses.another():
                words = f"{place} still leads to {found.stable} old and {found.canary} new pods after {self._spec.seconds:g} s"
                raise RouteNotInForceError(words, hint="look at its EndpointSlices", object=place)

    def _chosen(self) -> str:
        fronts = self._place.services
        return chosen_service(f"namespace {self._place.namespace}", fronts, fronts, self._spec.service)

    async def _read(self, name: str) -> JsonObject:
        found = await self._writer.find(name)
        if found is None:
            raise self._gone(name)
        return found

    def _gone(self, name: str) -> RouteNotFoundError:
        place = self._writer.named(name)
        return RouteNotFoundError(f"there is no {place}", hint="sync it first, or name another one", object=place)


def _refuse_part(load: Load) -> None:
    if load.weight not in (0, 100) or load.header_routes:
        raise RoutingSpecError(
            f"{load}: a Service's selector leads to one version alone", hint="set weights of 0 and 100, no header routes"
        )


def _first(snapshot: JsonObject) -> _Snapshot:
    return msgspec.convert(snapshot, _Snapshot)


def _selecting(live: JsonObject, selector: dict[str, str]) -> JsonObject:
    return {**live, "spec": {**live["spec"], "selector": dict(selector)}}


def selector_router(said: JsonObject, place: RoutePlace) -> SelectorRouter:
    """Raises RoutingSpecError."""
    spec = read_spec("service", said, SwitchSpec)
    if spec.headers:
        raise RoutingSpecError("spec.routing.service.headers: a Service knows nothing of headers", hint="leave them out")
    return SelectorRouter(place, spec)
