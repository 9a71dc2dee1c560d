"""Reading and writing the objects that shift load: each write is guarded, and what has changed meanwhile is decided anew."""

from collections.abc import Awaitable, Callable

import structlog

from delegate.engine.clusters.errors import (
    AdmissionDeniedError,
    AlreadyExistsError,
    ClusterError,
    InvalidError,
    NotFoundError,
    RecreatedObjectError,
    SchemaError,
    StaleObjectError,
    UnknownKindError,
)
from delegate.engine.traffic.errors import ForeignRouteError, RoutingSpecError, RoutingUnavailableError
from delegate.engine.traffic.marks import mark_of
from delegate.engine.traffic.patching import guarded_patch
from delegate.engine.traffic.routers import RoutePlace
from delegate.model.applied import CANARY_MANAGER
from delegate.model.inventory import APPLICATION_LABEL
from delegate.model.resources import GroupKind, JsonObject, ResourceType
from delegate.model.rollouts.journals import JOURNAL_LABEL

log = structlog.get_logger(__name__)
_MOST_TRIES = 8
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0

Decision = Callable[[JsonObject], JsonObject]
"""The wanted body for the live one; pure. Raises TrafficError."""
Attempt = Callable[[], Awaitable[JsonObject | None]]


class Writer:
    """Writes to one kind of object at a place."""

    def __init__(self, place: RoutePlace, type: ResourceType) -> None:
        self._place = place
        self._type = type

    @property
    def kind(self) -> str:
        return self._type.kind

    def named(self, name: str) -> str:
        """As messages name it."""
        return f"{self._type.group_kind} {self._place.namespace}/{name}"

    async def find(self, name: str) -> JsonObject | None:
        try:
            return await self._place.client.get(self._type, self._place.namespace, name)
        except NotFoundError:
            return None

    async def list(self) -> tuple[JsonObject, ...]:
        return tuple((await self._place.client.list(self._type, self._place.namespace)).items)

    async def change(self, name: str, decide: Decision) -> JsonObject | None:
        """The object as `decide` wants it, written only where it is not so yet; None where there is no such object.

        Raises ForeignRouteError where a newer attempt has written it, and what `decide` and the guards raise.
        """

        async def attempt() -> JsonObject | None:
            live = await self.find(name)
            if live is None:
                return None
            await self._refuse_late(live, name)
            patch = guarded_patch(live, decide(live))
            if not patch:
                return live
            self._place.guard()
            place = self._place
            return await place.client.patch(self._type, place.namespace, name, patch, kind="json", manager=CANARY_MANAGER)

        return await self._decided(attempt)

    async def try_out(self, name: str, decide: Decision) -> None:
        """Has the server say beforehand what it has against a change; nothing is written. Raises RoutingSpecError in its words."""

        async def attempt() -> JsonObject | None:
            live = await self.find(name)
            patch = guarded_patch(live, decide(live)) if live is not None else []
            if not patch:
                return live
            place = self._place
            return await place.client.patch(self._type, place.namespace, name, patch, kind="json", manager=CANARY_MANAGER, dry_run=True)

        try:
            await self._decided(attempt)
        except (InvalidError, SchemaError, AdmissionDeniedError) as error:
            words = f"{self.named(name)} could not be written as the steps want it: {error.message}"
            raise RoutingSpecError(words, hint="change the steps, or what speaks against them", object=self.named(name)) from error

    async def ensure(self, name: str, make: Callable[[], JsonObject], update: Decision) -> JsonObject:
        """An object of the canary's own: created, or changed by `update`. Raises ForeignRouteError where its name is taken."""

        async def attempt() -> JsonObject | None:
            live = await self.find(name)
            if live is not None:
                self.check_ours(live, name)
                return await self.change(name, update)
            self._place.guard()
            return await self._place.client.create(self._type, make(), manager=CANARY_MANAGER)

        made = await self._decided(attempt)
        if made is None:
            raise ForeignRouteError(f"{self.named(name)} was deleted as it was written", hint="see who deletes it", object=self.named(name))
        return made

    def check_ours(self, live: JsonObject, name: str) -> None:
        """Raises ForeignRouteError unless it was made for a canary of this application."""
        labels = live["metadata"].get("labels") or {}
        if JOURNAL_LABEL not in labels or labels.get(APPLICATION_LABEL) != self._place.application:
            raise ForeignRouteError(
                f"{self.named(name)} stands where the new version's would, and is not of this canary's making",
                hint="rename or remove it",
                object=self.named(name),
            )

    async def delete(self, name: str) -> None:
        """Deletes an object of the canary's own; somebody else's of that name stays."""

        async def attempt() -> JsonObject | None:
            live = await self.find(name)
            if live is None or live["metadata"].get("deletionTimestamp") or JOURNAL_LABEL not in (live["metadata"].get("labels") or {}):
                return None
            self._place.guard()
            metadata = live["metadata"]
            try:
                await self._place.client.delete(
                    self._type, self._place.namespace, name, uid=metadata["uid"], resource_version=metadata["resourceVersion"]
                )
            except NotFoundError:
                return None
            return live

        await self._decided(attempt)

    async def _refuse_late(self, live: JsonObject, name: str) -> None:
        mark = mark_of(live, self._place.workload)
        if mark is None or mark.fence <= self._place.fence:
            return
        await self._place.verify()
        raise ForeignRouteError(
            f"{self.named(name)} was written under fence {mark.fence}, this attempt has {self._place.fence}",
            hint="nothing to do where a newer attempt goes on",
            object=self.named(name),
        )

    async def _decided(self, attempt: Attempt) -> JsonObject | None:
        """Decides anew where what was read has changed, or where nobody knows whether a write arrived; a few times."""
        tries = 0
        while True:
            tries += 1
            try:
                return await attempt()
            except ClusterError as error:
                changed = isinstance(error, (StaleObjectError, RecreatedObjectError, AlreadyExistsError))
                if tries >= _MOST_TRIES or not (changed or error.retryable):
                    raise
                log.info("traffic.decided_anew", object=error.object, code=error.code)
                if not changed:
                    await self._place.client.clock.sleep(min(_LONGEST_PAUSE, max(error.retry_after or 0.0, _FIRST_PAUSE * 2**tries)))
                await self._place.verify()


async def type_of(place: RoutePlace, kind: GroupKind, hint: str) -> ResourceType:
    """Raises RoutingUnavailableError where the cluster serves no such kind."""
    try:
        return await place.discovery.resource_for(kind)
    except UnknownKindError as error:
        raise RoutingUnavailableError(f"the cluster serves no {kind.kind} of {kind.group}", hint=hint, object=str(kind)) from error


class Pauses:
    """Growing pauses up to a deadline by our own clock."""

    def __init__(self, place: RoutePlace, seconds: float) -> None:
        self._place = place
        self._ends_at = place.client.clock.monotonic() + seconds
        self._pause = _FIRST_PAUSE

    async def another(self) -> bool:
        """Whether there is time for another look, after a pause."""
        self._place.guard()
        left = self._ends_at - self._place.client.clock.monotonic()
        if left <= 0:
            return False
        await self._place.client.clock.sleep(min(self._pause, left))
        self._pause = min(self._pause * 1.5, _LONGEST_PAUSE)
        return True
