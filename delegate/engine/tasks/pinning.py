"""Foreign owners of what a rollback restores: found before its first write, kept from setting it back where that is agreed, let go again.

    find -> (refuse | pin) -> the rollback -> (Git is taken back -> release)

Nothing is ever written against an owner that is at work: it would set the object back, and two writers in turns are worse than a bad
version.
"""

import asyncio
import datetime as dt
from collections.abc import Callable, Iterable

import msgspec
import structlog

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.discovery import Discovery
from delegate.engine.clusters.errors import ConflictError, NotFoundError, UnknownKindError
from delegate.engine.tasks.errors import OwnedElsewhereError, OwnerBusyError, SetBackError
from delegate.foundation.quantities import format_duration
from delegate.model.gitops import (
    GIT_REPOSITORY,
    GitOpsSpec,
    OwnerMark,
    Pin,
    at_work,
    has_caught_up,
    how_to_unpin,
    maker_of,
    mark_of,
    owns,
    pin_of,
    pinning,
    refreshing,
    sets_back,
    setting_of,
    source_of,
    unpinning,
    watch_seconds,
)
from delegate.model.resources import JsonObject, ResourceKey, ResourceType

log = structlog.get_logger(__name__)
_POLL_SECONDS = 0.5
_BUSY_SECONDS = 60.0
_SETTLE_SECONDS = 2.0
_TRIES = 5
Decide = Callable[[JsonObject], JsonObject | None]
"""The patch for an owner as it is read; None for none."""


class _Found(msgspec.Struct):
    """An owner as it was last read, and where it is served. `pin` is ours, once it stands."""

    mark: OwnerMark
    type: ResourceType
    body: JsonObject
    pin: Pin | None = None


class Owners:
    """The foreign owners of one rollback's objects. `notices` is what there is to say of them; `restored`: whether any was written."""

    def __init__(self, agreed: GitOpsSpec, *, task_id: str, application: str, force: bool, through_git: bool) -> None:
        self._agreed = agreed
        self._task_id = task_id
        self._application = application
        self._force = force
        self._through_git = through_git
        self._found: dict[OwnerMark, _Found] = {}
        self._client: ApiClient | None = None
        self._discovery: Discovery | None = None
        self.restored = False
        self.notices: list[str] = []

    async def find(self, client: ApiClient, discovery: Discovery, objects: Iterable[tuple[ResourceKey, JsonObject]]) -> None:
        """Looks whose the objects are, by their metadata. Raises OwnedElsewhereError where one would be set back and nothing is agreed."""
        self._client, self._discovery = client, discovery
        for key, metadata in objects:
            mark = mark_of(key, metadata, self._agreed.namespace)
            if mark is None or mark in self._found:
                continue
            found = await self._read(mark)
            if found is None or not owns(mark, found.body, key):
                self._refuse_unknown(mark, key)
                continue
            self._found[mark] = found
            self._judge(found, key)

    @property
    def sets_back(self) -> bool:
        """Whether any of them would undo a write, and is not pinned by us."""
        return any(sets_back(found.mark, found.body) for found in self._found.values())

    @property
    def acts_through_git(self) -> bool:
        """Whether the way back is Git's alone: the owner brings what it says, and nothing is written beside it."""
        return self._through_git and self.sets_back and not self._agreed.pin and not self._force

    @property
    def watch_seconds(self) -> float | None:
        """Two intervals of the slowest of them; None where there is none."""
        return max((watch_seconds(found.mark, found.body) for found in self._found.values()), default=None)

    @property
    def pinned(self) -> bool:
        return any(found.pin is not None for found in self._found.values())

    async def pin(self, now: dt.datetime) -> None:
        """Keeps those that would set back from it, each recorded with its end; nothing where it is not agreed.

        Raises OwnerBusyError where one is at work or is somebody else's to pin, SetBackError where a pin does not hold. Nothing is
        pinned then.
        """
        if not self._agreed.pin:
            return
        holds = False
        try:
            for found in self._found.values():
                if sets_back(found.mark, found.body) or pin_of(found.body) is not None:
                    await self._pin(found, now)
            for found in self._found.values():
                if found.pin is not None:
                    await self._await_quiet(found)
            holds = True
        finally:
            if not holds:
                await self.unpin()

    async def unpin(self) -> None:
        """Gives back what stood there before. Raises ClusterError."""
        for found in self._found.values():
            if found.pin is None:
                continue
            await self._let_go(found)
            self.notices.append(f"{found.mark} is as it was before: it brings what Git says")

    async def release(self, commit: str, deadline: float) -> bool:
        """Unpins each as soon as what it would bring is what runs; whether all are free. What is left pinned is told, with its end."""
        for found in self._found.values():
            if found.pin is not None:
                await self._ask_to_look(found)
        loop = asyncio.get_running_loop()
        while True:
            for found in self._found.values():
                if found.pin is not None and await self._has_caught_up(found, commit):
                    await self._let_go(found)
                    self.notices.append(f"{found.mark} has seen that Git is taken back, and is no longer pinned")
            if not self.pinned or loop.time() + _POLL_SECONDS >= deadline:
                return not self.pinned
            await asyncio.sleep(_POLL_SECONDS)

    async def leave(self) -> None:
        """At the end, however it came: who has written nothing has nothing to keep pinned, and what stays so is told."""
        if not self.restored:
            await self.unpin()
        for found in self._found.values():
            if found.pin is not None:
                words = f"{found.mark} stays pinned until {found.pin.until}, for it would bring back what was left"
                self.notices.append(f"{words}; once Git is taken back: {how_to_unpin(found.mark, found.pin)}")

    # What is found.

    async def _read(self, mark: OwnerMark) -> _Found | None:
        assert self._client is not None
        assert self._discovery is not None
        try:
            type = await self._discovery.resource_for(mark.kind)
            return _Found(mark, type, await self._client.get(type, mark.namespace, mark.name))
        except (NotFoundError, UnknownKindError):
            return None

    def _refuse_unknown(self, mark: OwnerMark, key: ResourceKey) -> None:
        """An owner that is somewhere else can't be asked, nor pinned."""
        if not mark.sure:
            return
        words = f"{key} belongs to {mark}, which would set it back and can't be pinned from here: this cluster has no such object for it"
        if self._force:
            self.notices.append(words)
            return
        raise OwnedElsewhereError(
            words,
            hint="say where it is (spec.gitops.namespace), take the change back in Git, or turn its sync off where it runs and "
            "then use options {force: true}",
            object=str(key),
        )

    def _judge(self, found: _Found, key: ResourceKey) -> None:
        mark, pin = found.mark, pin_of(found.body)
        if pin is not None and pin.task == self._task_id:
            found.pin, self.restored = pin, True  # an earlier attempt of ours got at least as far
            return
        if not sets_back(mark, found.body):
            self.notices.append(f"{mark} sets nothing back by itself: Git and cluster differ until Git is taken back")
            return
        if self._agreed.pin or self._through_git:
            return
        if self._force:
            self.notices.append(f"{key} belongs to {mark}, which may set it back: it is not pinned")
            return
        raise OwnedElsewhereError(
            f"{key} belongs to {mark}, which would set it back",
            hint="take the change back in Git (spec.git {mode: revert, commit, repoURL}), or agree that it is pinned meanwhile "
            f"(spec.gitops {{pin: true, for: {self._agreed.duration}}})",
            object=str(key),
        )

    # Pinning.

    async def _pin(self, found: _Found, now: dt.datetime) -> None:
        until = (now + dt.timedelta(seconds=self._agreed.seconds)).isoformat(timespec="seconds")

        def decide(live: JsonObject) -> JsonObject | None:
            stands = pin_of(live)
            if stands is not None and stands.task != self._task_id and not stands.is_over(now):
                raise OwnerBusyError(
                    f"{found.mark} is pinned by task {stands.task} of {stands.application} until {stands.until}",
                    hint="wait for that task, or unpin it: " + how_to_unpin(found.mark, stands),
                )
            if stands is not None and not sets_back(found.mark, live):
                found.pin = msgspec.structs.replace(stands, task=self._task_id, application=self._application, until=until)
            else:
                reason = f"{self._application} is rolled back"
                found.pin = Pin(self._task_id, self._application, until, reason, setting_of(found.mark, live))
            return pinning(found.mark, live, found.pin)

        await self._change(found, decide)
        log.info("owner.pinned", owner=str(found.mark), until=until)
        self.notices.append(f"{found.mark} is pinned for {format_duration(self._agreed.seconds)}, until {until}")

    async def _await_quiet(self, found: _Found) -> None:
        """Until what it was at is over, and the pin is seen to hold."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        # Whoever makes the owner itself answers its change: it is given the time for that.
        settles = began + (_SETTLE_SECONDS if maker_of(found.body) else 0.0)
        while True:
            await self._reread(found)
            if sets_back(found.mark, found.body):
                maker = maker_of(found.body) or "somebody"
                raise OwnerBusyError(
                    f"{found.mark} can't be pinned: {maker} gives it its automation back",
                    hint=f"pin it where {maker} gets it from, or take the change back in Git",
                )
            if not at_work(found.mark, found.body) and loop.time() >= settles:
                return
            if loop.time() - began > _BUSY_SECONDS:
                raise OwnerBusyError(f"{found.mark} is still at work after {_BUSY_SECONDS:g} s", hint="look at what it does, and try again")
            await asyncio.sleep(_POLL_SECONDS)

    async def _let_go(self, found: _Found) -> None:
        def decide(live: JsonObject) -> JsonObject | None:
            stands = pin_of(live)
            if stands is None or stands.task != self._task_id:
                return None  # somebody has ended it, or has taken it over
            return unpinning(found.mark, live, stands)

        await self._change(found, decide)
        found.pin = None

    async def _has_caught_up(self, found: _Found, commit: str) -> bool:
        await self._reread(found)
        source = await self._source(found)
        return has_caught_up(found.mark, found.body, source, commit)

    async def _source(self, found: _Found) -> JsonObject | None:
        place = source_of(found.mark, found.body)
        if place is None:
            return None
        assert self._client is not None
        assert self._discovery is not None
        try:
            return await self._client.get(await self._discovery.resource_for(GIT_REPOSITORY), *place)
        except (NotFoundError, UnknownKindError):
            return None

    async def _ask_to_look(self, found: _Found) -> None:
        assert self._client is not None
        assert self._discovery is not None
        type, place = found.type, (found.mark.namespace, found.mark.name)
        source = source_of(found.mark, found.body)
        try:
            if source is not None:
                type, place = await self._discovery.resource_for(GIT_REPOSITORY), source
            await self._client.patch(type, *place, refreshing(found.mark, self._client.clock.now()))
        except (NotFoundError, UnknownKindError):
            log.info("owner.source_not_found", owner=str(found.mark))

    async def _reread(self, found: _Found) -> None:
        assert self._client is not None
        try:
            found.body = await self._client.get(found.type, found.mark.namespace, found.mark.name)
        except NotFoundError as error:
            raise SetBackError(f"{found.mark} was deleted meanwhile", hint="see who takes its objects over") from error

    async def _change(self, found: _Found, decide: Decide) -> None:
        assert self._client is not None
        for attempt in range(_TRIES):
            try:
                live = await self._client.get(found.type, found.mark.namespace, found.mark.name)
                patch = decide(live)
                found.body = live if patch is None else await self._client.patch(found.type, found.mark.namespace, found.mark.name, patch)
            except NotFoundError:
                return
            except ConflictError:
                if attempt == _TRIES - 1:
                    raise
            else:
                return
