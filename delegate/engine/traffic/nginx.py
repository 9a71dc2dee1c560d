"""Weights by a canary Ingress of ingress-nginx beside the main one, which is never written.

No status says when the proxies have reloaded: a weight counts as in force once it reads as written, and the drain covers the rest. The
Ingress keeps standing, with weight 0, while the new pods drain; it goes before its Service does.
"""

from collections.abc import Sequence

from delegate.engine.traffic.endpoints import await_ready
from delegate.engine.traffic.errors import ForeignRouteError, RouteNotFoundError, RoutingSpecError
from delegate.engine.traffic.ingresses import DEFAULT_PREFIX, CanaryIngress, services_named
from delegate.engine.traffic.marks import Mark, mark_for, mark_of
from delegate.engine.traffic.routers import RoutePlace
from delegate.engine.traffic.services import CanaryService, chosen_service
from delegate.engine.traffic.specs import RouteSpec, read_spec
from delegate.engine.traffic.writing import Writer
from delegate.model.resource_types import INGRESSES
from delegate.model.resources import JsonObject
from delegate.model.rollouts.loads import Load
from delegate.model.rollouts.workloads import canary_name


class IngressSpec(RouteSpec, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """At most one header: ingress-nginx takes no more. `annotationPrefix`: where the controller runs with another one."""

    ingress: str
    annotation_prefix: str = DEFAULT_PREFIX


class NginxRouter:
    """See `Router`."""

    separates = True

    def __init__(self, place: RoutePlace, spec: IngressSpec) -> None:
        self._place = place
        self._spec = spec
        self._writer = Writer(place, INGRESSES)
        self._name = canary_name(spec.ingress)
        self._main_place = self._writer.named(spec.ingress)

    async def check(self, loads: Sequence[Load]) -> None:
        del loads  # what the annotations can't say is refused when the steps are read
        main = await self._main()
        stable = self._stable(main)
        ingress = self._ingress(stable)
        if ingress.is_canary(main):
            raise RoutingSpecError(f"{self._main_place} is a canary Ingress itself", hint="name the main one", object=self._main_place)
        await self._refuse_rivals(main, ingress)
        found = await self._writer.find(self._name)
        if found is not None:
            self._writer.check_ours(found, self._name)
        await CanaryService(self._place, stable).check()

    async def snapshot(self) -> JsonObject:
        return {"service": self._stable(await self._main())}

    async def prepare(self, snapshot: JsonObject) -> None:
        stable = str(snapshot["service"])
        await CanaryService(self._place, stable).prepare()
        await self._write(stable, Load())

    async def set_load(self, load: Load, snapshot: JsonObject) -> None:
        stable = str(snapshot["service"])
        if load.is_any:
            await await_ready(self._place, canary_name(stable), self._spec.seconds)
        await self._write(stable, load)

    async def read_load(self, snapshot: JsonObject) -> Load | None:
        found = await self._writer.find(self._name)
        if found is None:
            return Load()
        return self._ingress(str(snapshot["service"])).load_of(found, mark_of(found, self._place.workload))

    async def open_preview(self, snapshot: JsonObject) -> None:
        await await_ready(self._place, canary_name(str(snapshot["service"])), self._spec.seconds)

    async def preview_strays(self, snapshot: JsonObject) -> str:
        del snapshot
        return ""

    async def restore(self, snapshot: JsonObject) -> None:
        ingress = self._ingress(str(snapshot["service"]))
        found = await self._writer.find(self._name)
        if found is not None:
            self._writer.check_ours(found, self._name)
            await self._writer.change(self._name, lambda live: ingress.loaded(live, self._mark(Load())))

    async def clear(self, snapshot: JsonObject) -> None:
        await self._writer.delete(self._name)
        await CanaryService(self._place, str(snapshot["service"])).clear(self._spec.seconds)

    async def _write(self, stable: str, load: Load) -> None:
        main = await self._main()
        ingress = self._ingress(stable)
        await self._refuse_rivals(main, ingress)

        def update(live: JsonObject) -> JsonObject:
            self._refuse_foreign(live, ingress)
            return ingress.changed(live, main, self._mark(load))

        await self._writer.ensure(self._name, lambda: ingress.made(main, self._mark(load)), update)

    def _refuse_foreign(self, live: JsonObject, ingress: CanaryIngress) -> None:
        mark = mark_of(live, self._place.workload)
        if ingress.is_loaded(live, mark.load if mark is not None else Load()):
            return
        place = self._writer.named(self._name)
        raise ForeignRouteError(
            f"somebody else changed {place}: it gives {ingress.weight_of(live):g}% to the new version",
            hint="let nobody else write its annotations, then resume or cancel the task",
            object=place,
        )

    async def _refuse_rivals(self, main: JsonObject, ingress: CanaryIngress) -> None:
        rivals = ingress.rivals(main, await self._writer.list())
        if rivals:
            raise ForeignRouteError(
                f"there is a canary Ingress for the same rules as {self._main_place} already: {', '.join(rivals)}",
                hint="remove it: ingress-nginx takes one for each rule",
                object=self._main_place,
            )

    async def _main(self) -> JsonObject:
        found = await self._writer.find(self._spec.ingress)
        if found is None:
            raise RouteNotFoundError(f"there is no {self._main_place}", hint="sync it first, or name another one", object=self._main_place)
        return found

    def _stable(self, main: JsonObject) -> str:
        return chosen_service(self._main_place, services_named(main), self._place.services, self._spec.service)

    def _ingress(self, stable: str) -> CanaryIngress:
        return CanaryIngress(
            name=self._name,
            application=self._place.application,
            workload=self._place.workload,
            stable=stable,
            canary=canary_name(stable),
            headers=self._spec.headers,
            prefix=self._spec.annotation_prefix,
        )

    def _mark(self, load: Load) -> Mark:
        return mark_for(self._place.fence, load)


def nginx_router(said: JsonObject, place: RoutePlace) -> NginxRouter:
    """Raises RoutingSpecError."""
    spec = read_spec("nginx", said, IngressSpec)
    if len(spec.headers) > 1:
        raise RoutingSpecError("spec.routing.nginx.headers: ingress-nginx tells versions by one header", hint="leave one of them")
    return NginxRouter(place, spec)
