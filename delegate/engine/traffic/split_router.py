"""The router over routes that are lists of weighted targets: reads, decides by `splitting`, writes, waits until it is in force."""

from abc import ABC, abstractmethod

import msgspec

from delegate.engine.traffic.endpoints import await_ready
from delegate.engine.traffic.errors import ForeignRouteError, RouteNotFoundError, RouteNotInForceError
from delegate.engine.traffic.marks import Mark, mark_of, marked
from delegate.engine.traffic.routers import RoutePlace
from delegate.engine.traffic.services import CanaryService, chosen_service
from delegate.engine.traffic.splitting import (
    FirstRule,
    Shape,
    first_rules,
    names_canary,
    weight_of,
    weights_in,
    with_weight,
    without_canary,
)
from delegate.engine.traffic.writing import Pauses, Writer, type_of
from delegate.model.resources import GroupKind, JsonObject


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
        self._headers = headers
        self._seconds = seconds
        self._known: Writer | None = None
        self._shape_in_use: Shape | None = None

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

    async def check(self) -> None:
        body = await self._read()
        stable = self._stable(body)
        service = CanaryService(self._place, stable)
        await service.check()
        shape = self.shape(stable, service.name)
        place = await self._named()
        if names_canary(body, shape):
            raise ForeignRouteError(f"{place} leads to {service.name} already", hint="take that out of it", object=place)
        first = self.first_rules(body, shape)
        with_weight(body, shape, first, 50.0, self._headers)
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

    async def set_weight(self, weight: float, snapshot: JsonObject) -> None:
        first = _read(snapshot)
        service = CanaryService(self._place, first.service)
        shape = self.shape(first.service, service.name)
        if weight > 0:
            await await_ready(self._place, service.name, self._seconds)
        place = await self._named()

        def decide(live: JsonObject) -> JsonObject:
            self._refuse_foreign(live, shape, first, place)
            mark = Mark(self._place.fence, weight)
            return marked(with_weight(live, shape, first.rules, weight, self._headers), self._place.workload, mark)

        if await (await self._writer()).change(self._name, decide) is None:
            raise self._gone(place)
        self._shape_in_use = shape
        await self._await_in_force()

    async def read_weight(self) -> float | None:
        body = await (await self._writer()).find(self._name)
        if body is None:
            return 0.0
        shape = self._shape_in_use
        if shape is None:
            stable = self._stable(body)
            shape = self.shape(stable, CanaryService(self._place, stable).name)
        return weight_of(body, shape)

    async def restore(self, snapshot: JsonObject) -> None:
        first = _read(snapshot)
        service = CanaryService(self._place, first.service)
        self._shape_in_use = shape = self.shape(first.service, service.name)

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

    async def clear(self) -> None:
        body = await (await self._writer()).find(self._name)
        fronts = self._place.services
        named = [each for each in fronts if body is not None and each in self.services_named(body)]
        for stable in [self._wanted] if self._wanted else named or fronts:
            service = CanaryService(self._place, stable)
            if body is not None and names_canary(body, self.shape(stable, service.name)):
                place = await self._named()
                raise RouteNotInForceError(f"{place} still leads to {service.name}", hint="see who else writes it", object=place)
            await service.clear(self._seconds)

    def _refuse_foreign(self, live: JsonObject, shape: Shape, first: _Snapshot, place: str) -> None:
        """Weights are ours where they are those of our mark, or as before the first one."""
        mark = mark_of(live, self._place.workload)
        stands = weights_in(live, shape)
        if stands == weights_in(without_canary(live, shape, first.rules), shape):
            return
        if mark is not None and stands == weights_in(with_weight(live, shape, first.rules, mark.weight, {}), shape):
            return
        said = f"{mark.weight:g}% was written" if mark is not None else "none was written by this canary"
        raise ForeignRouteError(
            f"somebody else changed weights of {place}: it gives {weight_of(live, shape):g}% to the new version where {said}",
            hint="let nobody else write its weights (a GitOps tool has to ignore them), then resume or cancel the task",
            object=place,
        )

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
