"""New pods inside a StatefulSet: the new template for its highest ordinals, by the partition of its own update.

There is no second set: each pod has an identity and claims that no other set could take over. So the set's template is the new one from
the first share on, and the way back is to give it the old one, and the update strategy that it had.
"""

import copy

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import NotFoundError, RecreatedObjectError
from delegate.engine.tasks.canarying_plans import Plan
from delegate.engine.tasks.canarying_renewing import is_tried, renew
from delegate.engine.tasks.canarying_sets import Authority, Sets, Wait
from delegate.engine.tasks.errors import CanaryFailedError, ForeignSetError
from delegate.model.resource_types import PODS
from delegate.model.resources import JsonObject
from delegate.model.rollouts.journals import Journal
from delegate.model.rollouts.partitions import is_ready, is_whole, new_pods, partition_for, partition_of, stuck_pods
from delegate.model.rollouts.shares import Share, share_by_ordinals
from delegate.model.rollouts.versions import digest, with_images
from delegate.model.rollouts.workloads import label_selector, restarts_of, wanted_replicas


class Partition:
    """Implements NewPods."""

    kind = "StatefulSet"
    counts_pods = True

    def __init__(self, client: ApiClient, plan: Plan, sets: Sets, authority: Authority) -> None:
        self._client = client
        self._plan = plan
        self._sets = sets
        self._authority = authority
        self.name = sets.workload

    def share_of(self, stable: JsonObject, journal: Journal, weight: float) -> Share:
        del journal
        return share_by_ordinals(wanted_replicas(stable), weight, self._plan.spec.max_effective_share)

    async def size(self, stable: JsonObject, count: int) -> None:
        if not count:
            return  # no new pod yet, so the set is not touched
        await renew(self._sets, self._plan, partition_for(stable["spec"], wanted_replicas(stable), count))

    async def await_ready(self, count: int, wait: Wait) -> None:
        """Ready for as long as the task wants: the set's own minReadySeconds stay as they are."""
        clock = self._client.clock
        since: float | None = None

        async def read() -> JsonObject:
            nonlocal since
            stable = await self._sets.stable()
            ready = sum(map(is_ready, new_pods(stable, await self._pods(stable))))
            since = None if ready < count else since or clock.monotonic()
            return stable

        def done(_: JsonObject) -> bool:
            return since is not None and clock.monotonic() - since >= self._plan.spec.min_ready_seconds

        if count:
            await self._sets.await_available(read, done, wait)

    async def restarts(self) -> int:
        stable = await self._sets.stable()
        return restarts_of(new_pods(stable, await self._pods(stable)))

    async def check(self, stable: JsonObject, journal: Journal) -> int:
        spec = stable["spec"]
        wanted = self._plan.template if journal.count else journal.template
        if digest(spec["template"]) != digest(wanted):
            raise CanaryFailedError(f"the template of StatefulSet {self.name} was changed by somebody else meanwhile")
        if not journal.count:
            return 0
        stands, ought = partition_of(spec.get("updateStrategy") or {}), partition_for(spec, journal.replicas, journal.count)
        if stands != ought:
            raise ForeignSetError(
                f"somebody set the partition of StatefulSet {self.name} to {stands} where {ought} was wanted",
                hint="set it back and resume the task, or cancel it",
            )
        return sum(map(is_ready, new_pods(stable, await self._pods(stable))))

    def covering(self, stable: JsonObject) -> int:
        del stable
        return 0

    async def fill(self, journal: Journal, wait: Wait) -> None:
        """All ordinals: the old ones would read the new configuration."""
        if journal.count and is_tried(self._plan, (await self._sets.stable())["spec"]["template"], journal):
            await renew(self._sets, self._plan, 0)
            await self.await_promoted(wait)

    async def promote(self, journal: Journal) -> None:
        if self._plan.spec.source is None:
            images, strategy = self._plan.spec.images, copy.deepcopy(journal.strategy)
            await self._sets.change_stable(
                lambda spec: {**spec, "template": with_images(spec["template"], images), "updateStrategy": strategy}
            )
        elif not journal.count:
            await self._sets.mark_stable_config(journal)

    async def await_promoted(self, wait: Wait) -> None:
        await self._sets.await_available(self._sets.stable, is_whole, wait)

    async def restore(self, journal: Journal, wait: Wait) -> None:
        if not journal.count and not journal.promotes:
            return
        before = {"template": journal.template, "updateStrategy": journal.strategy}
        await self._sets.restore_stable(before, self._freed, is_whole, wait)

    async def remove(self, seconds: float) -> None:
        """Nothing stands beside it."""
        del seconds

    async def _freed(self) -> JsonObject:
        """The set, with those new pods deleted that it would wait for for ever."""
        stable = await self._sets.stable()
        for pod in stuck_pods(stable, await self._pods(stable)):
            self._authority.check()
            metadata = pod["metadata"]
            try:
                await self._client.delete(PODS, self._sets.namespace, metadata["name"], uid=metadata["uid"])
            except (NotFoundError, RecreatedObjectError):
                continue
        return stable

    async def _pods(self, stable: JsonObject) -> list[JsonObject]:
        matched = (stable["spec"].get("selector") or {}).get("matchLabels") or {}
        return list((await self._client.list(PODS, self._sets.namespace, labels=label_selector(matched))).items)
