"""New pods in a second Deployment beside the stable one."""

from delegate.engine.tasks.canarying_plans import Plan
from delegate.engine.tasks.canarying_sets import Authority, Sets, Wait
from delegate.engine.tasks.errors import CanaryFailedError, ForeignSetError
from delegate.model.resources import JsonObject
from delegate.model.rollouts.journals import Journal
from delegate.model.rollouts.loads import Load
from delegate.model.rollouts.shares import Share, covering_count, reached_share, scaled_share
from delegate.model.rollouts.versions import digest
from delegate.model.rollouts.workloads import available, canary_deployment, is_rolled_out, serving, wanted_replicas


class SecondDeployment:
    """Implements NewPods. `routed`: a router makes the share, and the pods only bear it."""

    kind = "Deployment"
    counts_pods = True

    def __init__(self, plan: Plan, sets: Sets, authority: Authority, *, routed: bool) -> None:
        self._plan = plan
        self._sets = sets
        self._authority = authority
        self._routed = routed
        self.name = sets.canary_name

    def share_of(self, stable: JsonObject, journal: Journal, weight: float) -> Share:
        replicas = wanted_replicas(stable)
        share = reached_share(self.kind, replicas, weight, self._plan.spec.max_effective_share, routed=self._routed)
        return scaled_share(share, replicas, Load(weight, journal.header_routes), journal.scale)

    async def size(self, stable: JsonObject, count: int) -> None:
        await self._sets.ensure(lambda: self._body(stable, count))

    def _body(self, stable: JsonObject, count: int) -> JsonObject:
        return canary_deployment(
            stable,
            self._plan.template,
            self._plan.tracks,
            application=self._plan.application,
            count=count,
            min_ready_seconds=self._plan.spec.min_ready_seconds,
            fence=self._authority.fence,
        )

    async def await_ready(self, count: int, wait: Wait) -> None:
        def done(body: JsonObject) -> bool:
            return wanted_replicas(body) == count and available(body) >= count

        await self._sets.await_available(self._sets.canary, done, wait)

    async def restarts(self) -> int:
        return await self._sets.restarts()

    async def check(self, stable: JsonObject, journal: Journal) -> int:
        canary = await self._sets.canary()
        if digest(stable["spec"]["template"]) != digest(journal.template):
            raise CanaryFailedError("the stable version was changed by somebody else meanwhile")
        if not journal.count:
            return 0
        if canary is None or canary["metadata"].get("deletionTimestamp"):
            raise CanaryFailedError("somebody deleted the new version's Deployment")
        if wanted_replicas(canary) != journal.count:
            raise ForeignSetError(
                f"somebody set the new version to {wanted_replicas(canary)} pods where {journal.count} were wanted",
                hint="resume the task to have its share again, or cancel it",
            )
        return serving(canary)

    def covering(self, stable: JsonObject) -> int:
        strategy = stable["spec"].get("strategy") or {}
        most = (strategy.get("rollingUpdate") or {}).get("maxUnavailable")
        return covering_count(wanted_replicas(stable), most, recreate=strategy.get("type") == "Recreate")

    async def fill(self, journal: Journal, wait: Wait) -> None:
        """The stable pods are others, and are rolled over by the sync."""

    async def promote(self, journal: Journal) -> None:
        if self._plan.spec.source is None:
            await self._sets.set_stable_images(self._plan.spec.images)
        else:
            await self._sets.mark_stable_config(journal)

    async def await_promoted(self, wait: Wait) -> None:
        await self._sets.await_available(self._sets.stable, is_rolled_out, wait)

    async def restore(self, journal: Journal, wait: Wait) -> None:
        if journal.promotes:
            await self._sets.restore_stable({"template": journal.template}, self._sets.stable, is_rolled_out, wait)

    async def remove(self, seconds: float) -> None:
        if await self._sets.scale_canary(0) is not None:
            await self._sets.await_gone(seconds)
            await self._sets.delete_canary()
