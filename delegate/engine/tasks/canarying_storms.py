"""One canary among those of its group: whether it may begin, and whose turn it is when several are taken back.

The record stands in the cluster, so that it holds over all delegates and outlives each of them. It bounds what is done and never keeps a
canary from being taken back: where it can't be read or written, the canary goes back without it.
"""

import datetime as dt
from collections.abc import Callable

import structlog

from delegate.engine.clusters.client import ApiClient
from delegate.engine.records.canary_groups import GroupStore
from delegate.engine.records.journals import StoredJournal
from delegate.engine.tasks.canarying_patience import repeated
from delegate.engine.tasks.canarying_sets import Authority
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.errors import GroupStoppedError, KnownBadError
from delegate.foundation.errors import DelegateError
from delegate.model.rollouts.specs import CanarySpec
from delegate.model.rollouts.storms import (
    CLEARED_ANNOTATION,
    Conviction,
    Group,
    changed,
    convicted,
    convictions_of_late,
    find,
    may_abort,
    with_alarm,
    without_cleared,
)

log = structlog.get_logger(__name__)
Decide = Callable[[Group], Group]
_TICK_SECONDS = 0.5
_HEARD_OF_SECONDS = 30.0
"""Whoever waits for its turn says so three times in this time; without that it has died, and the next one goes."""


class CanaryGroup:
    """The group as one canary sees it. `task` is the one that its journal names."""

    def __init__(self, client: ApiClient, namespace: str, spec: CanarySpec, task: str) -> None:
        self._store = GroupStore(client, namespace, spec.storm.group)
        self._spec = spec
        self._clock = client.clock
        self._me = (f"{spec.workload.kind} {spec.workload.name}", task)

    async def check_may_begin(self, stored: StoredJournal, version: str, *, force: bool) -> None:
        """Raises KnownBadError for a version that was convicted, GroupStoppedError where nothing of the group begins now, ClusterError."""
        if force:
            return
        place = stored.config_map.get("metadata") or {}
        bad = without_cleared(stored.journal.bad, stored.config_map) if stored.journal is not None else ()
        found = next((each for each in bad if each.digest == version), None)
        clear = f"kubectl -n {place.get('namespace')} annotate configmap {place.get('name')} {CLEARED_ANNOTATION}="
        if found is not None:
            raise KnownBadError(
                f"known bad digest {version}: task {found.task} convicted this version at {found.at}: {found.reason}",
                hint=f"bring another version; or clear it: {clear}{version}; or once: options {{force: true}}",
            )
        per_hour = self._spec.storm.per_hour
        if per_hour is not None and convictions_of_late(bad, self._clock.now()) >= per_hour:
            raise KnownBadError(
                f"{per_hour} versions of {self._me[0]} were convicted within the last hour: no further one is tried",
                hint=f"look what they have in common; or clear them: {clear}all; or once: options {{force: true}}",
            )
        group = await repeated(self._clock, self._store.read)
        if group.stopped:
            raise GroupStoppedError(
                f"no canary of the group {self._spec.storm.group!r} begins: {group.stopped}",
                hint=f"when that is over: kubectl -n {self._store.place.partition(' ')[2].replace('/', ' delete configmap ', 1)}; "
                "or once: options {force: true}",
            )

    async def convict(self, context: AttemptContext, *, shared: bool) -> None:
        """Tells the others; the alarm of a storm is raised by one of them."""
        now = self._clock.now()
        alarmed = False

        def decide(group: Group) -> Group:
            nonlocal alarmed
            mine = Conviction(*self._me, at=now.isoformat(), until=self._until(_HEARD_OF_SECONDS), shared=shared)
            after, alarmed = with_alarm(convicted(group, mine, self._spec.storm, now), group, self._spec.storm, now)
            return after

        group = await self._changed(decide)
        if alarmed and group is not None:
            words = group.stopped or "the stable versions fail as well: this is not caused by a release"
            log.warning("canary.group_alarm", group=self._spec.storm.group, words=words)
            context.report("canary.group_alarm", {"group": self._spec.storm.group, "words": words})

    async def await_turn(self, authority: Authority, seconds: float) -> None:
        """Until fewer of the group are being taken back than may be at once; then this one is, in so many seconds."""
        heard_of = self._clock.monotonic()
        while True:
            authority.check()
            began = False

            def decide(group: Group) -> Group:
                nonlocal began
                began = may_abort(group, *self._me, self._spec.storm, self._clock.now())
                if not began:
                    return group
                return changed(group, *self._me, begun=True, until=self._until(seconds))

            if await self._changed(decide) is None or began:
                return
            if self._clock.monotonic() - heard_of > _HEARD_OF_SECONDS / 3:
                heard_of = self._clock.monotonic()
                await self._changed(lambda group: changed(group, *self._me, until=self._until(_HEARD_OF_SECONDS)))
            await self._clock.sleep(_TICK_SECONDS)

    async def end(self) -> None:
        """It is taken back: the next one may."""

        def decide(group: Group) -> Group:
            return changed(group, *self._me, ended=True) if find(group, *self._me) is not None else group

        await self._changed(decide)

    async def _changed(self, decide: Decide) -> Group | None:
        """None where the record can't be had: nobody's way back depends on it."""
        try:
            return await repeated(self._clock, lambda: self._store.change(decide))
        except DelegateError as error:
            log.warning("canary.group_unknown", group=self._spec.storm.group, error=error.message)
            return None

    def _until(self, seconds: float) -> str:
        return (self._clock.now() + dt.timedelta(seconds=seconds)).isoformat()
