"""The router over routes that are lists of weighted targets: reads, decides by `splitting`, writes, waits until it is in force."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial

import msgspec

from delegate.engine.traffic.endpoints import await_ready
from delegate.engine.traffic.errors import ForeignRouteError, RouteNotFoundError, RouteNotInForceError
from delegate.engine.traffic.marks import mark_for, mark_of, marked
from delegate.engine.traffic.routers import RoutePlace
from delegate.engine.traffic.services import CanaryService, chosen_service
from delegate.engine.traffic.splitting import (
    FirstRule,
    Shape,
    first_rules,
    header_matches,
    names_canary,
    standing_routes,
    weight_of,
    weights_in,
    with_load,
    without_canary,
)
from delegate.engine.traffic.writing import Pauses, Writer, type_of
from delegate.model.resources import GroupKind, JsonObject
from delegate.model.rollouts.loads import Load, by_headers


class _Snapshot(msgspec.Struct, frozen=True):
    """What is to be returned: of which stable Service, in which rules."""

    service: str
    rules: tuple[FirstRule, ...]


class SplitRouter(ABC):
    """Shifts load by the weights of one route. See `Router`.

    A foreign weight stops a new one, but not `restore`: the new version's Service ends after it, so nothing may lead to it any more.
    """

    separates = True
    group_kind: GroupKind
    install_hint: str

    def __init__(self, place: RoutePlace, name: str, *, service: str, headers: dict[str, str], seconds: float) -> None:
        self._place = place
        self._name = name
        self._wanted = service
        self._always = (by_headers("header", headers),) if headers else ()
        self._seconds = seconds
        self._known: Writer | None = None

    @abstractmethod
    def shape(self, stable: str, canary: str) -> Shape: ...

    @abstractmethod
    def services_named(self, body: JsonObject) -> set[str]: ...

    @abstractmethod
    def not_in_force(self, body: JsonObject) -> str:
        """Why the newest state has no effect yet; empty where it has, or where nobody tells."""

    def first_rules(self, body: JsonObject, shape: Shape) -> tuple[FirstRule, ...]:
        """The rules that are to be weighted. Raises TrafficError where the task leaves open which."""
        return first_rules(body, shape)

    async def check(self, loads: Sequence[Load]) -> None:
        body = await self._read()
        stable = self._stable(body)
        service = CanaryService(self._place, stable)
        await service.check()
        shape = self.shape(stable, service.name)
        place = await self._named()
        if names_canary(body, shape):
            raise ForeignRouteError(f"{place} leads to {service.name} already", hint="take that out of it", object=place)
        first = self.first_rules(body, shape)
        self._with_load(body, shape, first, Load(50.0))
        for load in loads:
            if load.header_routes:
                await (await self._writer()).try_out(self._name, partial(self._with_load, shape=shape, first=first, load=load))
        if reason := self.not_in_force(body):
            raise RouteNotInForceError(f"{place} is not in force: {reason}", hint="see to that first", object=place)

    async def snapshot(self) -> JsonObject:
        body = await self._read()
        stable = self._stable(body)
        shape = self.shape(stable, CanaryService(self._place, stable).name)
        taken: JsonObject = msgspec.to_builtins(_Snapshot(stable, self.first_rules(without_canary(body, shape, ()), shape)))
        return taken

    async def prepare(self, snapshot: JsonObject) -> None:
        await CanaryService(self._place, _read(snapshot).service).prepare()

    async def set_load(self, load: Load, snapshot: JsonObject) -> None:
        first = _read(snapshot)
        service = CanaryService(self._place, first.service)
        shape = self.shape(first.service, service.name)
        if load.is_any:
            await await_ready(self._place, service.name, self._seconds)
        place = await self._named()

        def decide(live: JsonObject) -> JsonObject:
            self._refuse_foreign(live, shape, first, place)
            return marked(self._with_load(live, shape, first.rules, load), self._place.workload, mark_for(self._place.fence, load))

        if await (await self._writer()).change(self._name, decide) is None:
            raise self._gone(place)
        await self._await_in_force()

    async def read_load(self, snapshot: JsonObject) -> Load | None:
        first, body = _read(snapshot), await (await self._writer()).find(self._name)
        if body is None:
            return Load()
        shape = self.shape(first.service, CanaryService(self._place, first.service).name)
        mark = mark_of(body, self._place.workload)
        routes = mark.header_routes if mark is not None else ()
        return Load(weight_of(body, shape), standing_routes(body, shape, first.rules, routes))

    async def open_preview(self, snapshot: JsonObject) -> None:
        await await_ready(self._place, CanaryService(self._place, _read(snapshot).service).name, self._seconds)

    async def preview_strays(self, snapshot: JsonObject) -> str:
        del snapshot
        return ""

    async def restore(self, snapshot: JsonObject) -> None:
        first = _read(snapshot)
        service = CanaryService(self._place, first.service)
        shape = self.shape(first.service, service.name)

        def decide(live: JsonObject) -> JsonObject:
            return marked(without_canary(live, shape, first.rules), self._place.workload, None)

        writer = await self._writer()
        if await writer.change(self._name, decide) is None:
            return  # somebody deleted it: it leads nowhere
        await self._await_in_force()
        place = await self._named()
        body = await writer.find(self._name)
        if body is not None and (names_canary(body, shape) or decide(body) != body):
            raise RouteNotInForceError(f"{place} reads otherwise than it was restored", hint="see who else writes it", object=place)

    async def clear(self, snapshot: JsonObject) -> None:
        stable = _read(snapshot).service
        body, service = await (await self._writer()).find(self._name), CanaryService(self._place, stable)
        if body is not None and names_canary(body, self.shape(stable, service.name)):
            place = await self._named()
            raise RouteNotInForceError(f"{place} still leads to {service.name}", hint="see who else writes it", object=place)
        await service.clear(self._seconds)

    def _refuse_foreign(self, live: JsonObject, shape: Shape, first: _Snapshot, place: str) -> None:
        """Weights and header rules are ours where they are those of our mark, or as before the first one."""

        def told(body: JsonObject) -> tuple[object, list[object]]:
            return weights_in(body, shape), [*header_matches(body, shape)]

        mark, stands = mark_of(live, self._place.workload), told(live)
        if stands == told(without_canary(live, shape, first.rules)):
            return
        if mark is not None and stands == told(self._with_load(live, shape, first.rules, mark.load)):
            return
        hint = "let nobody else write its weights and header rules (a GitOps tool has to ignore them), then resume or cancel the task"
        gives = f"it gives {weight_of(live, shape):g}% to the new version, and has {len(stands[1])} rules for it alone,"
        said = f"where {mark.load} was written" if mark is not None else "where nothing was written by this canary"
        raise ForeignRouteError(f"somebody else changed {place}: {gives} {said}", hint=hint, object=place)

    def _with_load(self, body: JsonObject, shape: Shape, first: tuple[FirstRule, ...], load: Load) -> JsonObject:
        """Those of the task's own headers come and go with the weight."""
        always = self._always if load.weight > 0 else ()
        return with_load(body, shape, first, Load(load.weight, (*always, *load.header_routes)))

    async def _await_in_force(self) -> None:
        pauses, place = Pauses(self._place, self._seconds), await self._named()
        while True:
            body = await (await self._writer()).find(self._name)
            if body is None:
                raise self._gone(place)
            reason = self.not_in_force(body)
            if not reason:
                return
            if not await pauses.another():
                words = f"{place} was written and is not in force after {self._seconds:g} s: {reason}"
                raise RouteNotInForceError(words, hint="look at its status and at the controller of its parent", object=place)

    def _stable(self, body: JsonObject) -> str:
        place = f"{self.group_kind} {self._place.namespace}/{self._name}"
        return chosen_service(place, self.services_named(body), self._place.services, self._wanted)

    async def _read(self) -> JsonObject:
        body = await (await self._writer()).find(self._name)
        if body is None:
            raise self._gone(await self._named())
        return body

    def _gone(self, place: str) -> RouteNotFoundError:
        return RouteNotFoundError(f"there is no {place}", hint="sync it first, or name another one in spec.routing", object=place)

    async def _named(self) -> str:
        return (await self._writer()).named(self._name)

    async def _writer(self) -> Writer:
        if self._known is None:
            self._known = Writer(self._place, await type_of(self._place, self.group_kind, self.install_hint))
        return self._known


def _read(snapshot: JsonObject) -> _Snapshot:
    return msgspec.convert(snapshot, _Snapshot)
