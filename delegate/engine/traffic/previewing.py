"""A preview of the task's own choice beside any router: a Service that leads to the new pods alone, as long as there are any.

One that is there gets its selector back with the load; one that is made goes like the new version's own Service.
"""

from collections.abc import Sequence

import msgspec

from delegate.engine.traffic.endpoints import ready_pods
from delegate.engine.traffic.errors import ForeignRouteError, RouteNotFoundError, RouteNotInForceError, RoutingSpecError
from delegate.engine.traffic.marks import mark_for, marked
from delegate.engine.traffic.routers import RoutePlace, Router, RouterFactory
from delegate.engine.traffic.services import CanaryService
from delegate.engine.traffic.specs import DEFAULT_IN_FORCE
from delegate.engine.traffic.writing import Pauses, Writer
from delegate.foundation.quantities import parse_duration
from delegate.model.resource_types import SERVICES
from delegate.model.resources import JsonObject
from delegate.model.rollouts.journals import JOURNAL_LABEL
from delegate.model.rollouts.loads import Load

_FIELD = "preview"


class _Preview(msgspec.Struct, frozen=True):
    """`selector`: that of the Service as it was; None where there was none."""

    name: str
    selector: dict[str, str] | None = None


class PreviewedRouter:
    """See `Router`: what shifts the load is the router inside."""

    separates = True

    def __init__(self, router: Router, place: RoutePlace, name: str, seconds: float) -> None:
        self._router = router
        self._place = place
        self._name = name
        self._seconds = seconds
        self._writer = Writer(place, SERVICES)
        self._named = self._writer.named(name)

    async def check(self, loads: Sequence[Load]) -> None:
        await self._router.check(loads)
        live = await self._writer.find(self._name)
        if live is None or _is_made(live):
            if live is not None:
                self._writer.check_ours(live, self._name)
            return
        selector = live["spec"].get("selector")
        if not selector or live["spec"].get("type") == "ExternalName":
            raise RoutingSpecError(f"{self._named} selects no pods, so it can't be a preview", hint="name another one", object=self._named)
        if selector == self._place.canary_selector:
            raise ForeignRouteError(f"{self._named} leads to the new pods already", hint="return its selector", object=self._named)

    async def snapshot(self) -> JsonObject:
        live = await self._writer.find(self._name)
        selector = live["spec"].get("selector") if live is not None and not _is_made(live) else None
        return {**await self._router.snapshot(), _FIELD: msgspec.to_builtins(_Preview(self._name, selector))}

    async def prepare(self, snapshot: JsonObject) -> None:
        await self._router.prepare(snapshot)
        await self._ensure(snapshot)

    async def _ensure(self, snapshot: JsonObject) -> None:
        if _preview(snapshot).selector is None:
            await CanaryService(self._place, str(snapshot["service"]), self._name).prepare()
        else:
            await self._lead(snapshot)

    async def set_load(self, load: Load, snapshot: JsonObject) -> None:
        await self._router.set_load(load, snapshot)

    async def read_load(self, snapshot: JsonObject) -> Load | None:
        return await self._router.read_load(snapshot)

    async def preview_strays(self, snapshot: JsonObject) -> str:
        live = await self._writer.find(self._name)
        if live is None:
            return f"there is no {self._named} any more"
        return "" if live["spec"].get("selector") == self._place.canary_selector else f"{self._named} leads elsewhere than to the new pods"

    async def open_preview(self, snapshot: JsonObject) -> None:
        await self._router.open_preview(snapshot)
        await self._ensure(snapshot)
        pauses = Pauses(self._place, self._seconds)
        while True:
            found = await ready_pods(self._place.client, self._place.namespace, self._name, self._place.canary_selector)
            if found.canary and not found.stable:
                return
            if not await pauses.another():
                words = f"{self._named} leads to {found.stable} old and {found.canary} new pods after {self._seconds:g} s"
                raise RouteNotInForceError(words, hint="look at its EndpointSlices", object=self._named)

    async def restore(self, snapshot: JsonObject) -> None:
        await self._router.restore(snapshot)
        selector = _preview(snapshot).selector
        if selector is None:
            return

        def decide(live: JsonObject) -> JsonObject:
            return marked(_selecting(live, selector), self._place.workload, None)

        if await self._writer.change(self._name, decide) is None:
            return  # somebody deleted it: it leads nowhere
        live = await self._writer.find(self._name)
        if live is not None and decide(live) != live:
            words = f"{self._named} reads otherwise than it was restored"
            raise RouteNotInForceError(words, hint="see who else writes it", object=self._named)

    async def clear(self, snapshot: JsonObject) -> None:
        await self._router.clear(snapshot)
        await CanaryService(self._place, "", self._name).clear(self._seconds)

    async def _lead(self, snapshot: JsonObject) -> None:
        """One that was there, to the new pods."""
        before, wanted = _preview(snapshot).selector, self._place.canary_selector

        def decide(live: JsonObject) -> JsonObject:
            if live["spec"].get("selector") not in (before, wanted):
                hint = "let nobody else write it, then resume or cancel the task"
                raise ForeignRouteError(f"somebody else changed the selector of {self._named}", hint=hint, object=self._named)
            return marked(_selecting(live, wanted), self._place.workload, mark_for(self._place.fence, Load()))

        if await self._writer.change(self._name, decide) is None:
            raise RouteNotFoundError(f"there is no {self._named} any more", hint="sync it first, or name another one", object=self._named)


def previewed(factory: RouterFactory) -> RouterFactory:
    """The same routers, with a preview where the task names one."""

    def made(said: JsonObject, place: RoutePlace) -> Router:
        router = factory(said, place)  # reads all of it strictly
        if not said.get(_FIELD):
            return router
        return PreviewedRouter(router, place, str(said[_FIELD]), parse_duration(said.get("timeout", DEFAULT_IN_FORCE)))

    return made


def _preview(snapshot: JsonObject) -> _Preview:
    return msgspec.convert(snapshot[_FIELD], _Preview)


def _is_made(live: JsonObject) -> bool:
    return JOURNAL_LABEL in (live["metadata"].get("labels") or {})


def _selecting(live: JsonObject, selector: dict[str, str]) -> JsonObject:
    return {**live, "spec": {**live["spec"], "selector": dict(selector)}}
