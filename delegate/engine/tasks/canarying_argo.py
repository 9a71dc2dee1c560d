"""An Argo Rollout as a canary drives it: its controller shifts the load, and goes on from its pauses when our steps are done.

What is written is what its own command line tool writes: the status for promote, abort and retry, the template for the image. An abort
gives the old template back as well, so that nothing tries the new version again.
"""

from collections.abc import Awaitable, Callable

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.tasks.canarying_plans import Plan
from delegate.engine.tasks.canarying_renewing import is_tried, renew
from delegate.engine.tasks.canarying_sets import Sets, Wait
from delegate.engine.tasks.errors import CanaryFailedError, CanaryUnreadyError
from delegate.model.health.failing import ROLLOUT_HASH
from delegate.model.resource_types import PODS
from delegate.model.resources import JsonObject
from delegate.model.rollouts.argo import Stop, degraded, failure_of, is_aborted, is_at, is_observed, is_settled, stops_of
from delegate.model.rollouts.journals import Journal
from delegate.model.rollouts.shares import Share
from delegate.model.rollouts.versions import digest
from delegate.model.rollouts.workloads import restarts_of


class ArgoRollout:
    """Implements NewPods; what the driver counts are the pauses that the Rollout has come to."""

    kind = "Rollout"
    counts_pods = False

    def __init__(self, client: ApiClient, plan: Plan, sets: Sets) -> None:
        self._client = client
        self._plan = plan
        self._sets = sets
        self.name = sets.workload

    def share_of(self, stable: JsonObject, journal: Journal, weight: float) -> Share:
        number = journal.step // 2 + 1
        return Share(weight, weight, number, 0, words=f"the Rollout's pause {number} of {len(stops_of(stable['spec']))}")

    async def size(self, stable: JsonObject, count: int) -> None:
        """On its way to that pause: with the image set, or promoted from the pause before."""
        if count == 1:
            await self._set_template()
        elif not self._plan.is_new(stable["spec"]["template"]):
            raise CanaryFailedError(f"somebody took the new version out of Rollout {self.name}")
        else:
            await self._leave(_stop(stable, count - 1))

    async def await_ready(self, count: int, wait: Wait) -> None:
        since: float | None = None
        clock = self._client.clock

        def done(body: JsonObject) -> bool:
            nonlocal since
            self._refuse_failed(body)
            words = degraded(body)
            since = (since or clock.monotonic()) if words else None
            if since is not None and clock.monotonic() - since >= wait.fail_fast_after:
                raise CanaryUnreadyError(f"Rollout {self.name} is degraded: {words}", hint="look at its pods and their events")
            return not words and is_at(body, _stop(body, count))

        await self._sets.await_available(self._sets.stable, done, wait)

    async def restarts(self) -> int:
        stable = await self._sets.stable()
        newest = (stable.get("status") or {}).get("currentPodHash")
        pods = (await self._client.list(PODS, self._sets.namespace, labels=f"{ROLLOUT_HASH}={newest}")).items if newest else ()
        return restarts_of(pods)

    async def check(self, stable: JsonObject, journal: Journal) -> None:
        if not journal.count:
            return
        if not self._plan.is_new(stable["spec"]["template"]):
            raise CanaryFailedError(f"the template of Rollout {self.name} was changed by somebody else meanwhile")
        self._refuse_failed(stable)
        if is_observed(stable) and not is_at(stable, _stop(stable, journal.count)):
            raise CanaryFailedError(f"somebody had Rollout {self.name} go on from its pause before the step there was done")

    def covering(self, stable: JsonObject) -> int:
        del stable
        return 0

    async def fill(self, journal: Journal, wait: Wait) -> None:
        """Promoted from its last pause: where the sync gives its new version other names to read by, no step is done again for that."""
        stable = await self._sets.stable()
        if journal.count and is_tried(self._plan, stable["spec"]["template"], journal):
            await self._leave(_stop(stable, journal.count))
            await self._await_settled(self._sets.stable, self._plan.is_new, wait)

    async def promote(self, journal: Journal) -> None:
        if self._plan.spec.source is not None:
            if not self._plan.spec.steps:
                await self._sets.mark_stable_config(journal)
        elif not self._plan.spec.steps:
            await self._set_template()
        elif journal.count:
            await self._leave(_stop(await self._sets.stable(), journal.count))

    async def await_promoted(self, wait: Wait) -> None:
        """What was judged at its steps takes none again because a sync has given it other names to read by."""
        judged = self._plan.spec.source is not None and bool(self._plan.spec.steps)
        read = self._past_steps(self._plan.is_promoted) if judged else self._sets.stable
        await self._await_settled(read, self._plan.is_promoted, wait)

    async def _await_settled(self, read: Callable[[], Awaitable[JsonObject]], is_wanted: Callable[[JsonObject], bool], wait: Wait) -> None:
        def done(body: JsonObject) -> bool:
            self._refuse_failed(body)
            return is_settled(body) and is_wanted(body["spec"]["template"])

        await self._sets.await_available(read, done, wait)

    async def restore(self, journal: Journal, wait: Wait) -> None:
        if not journal.count and not journal.promotes:
            return

        def is_old(template: JsonObject) -> bool:
            return digest(template) == digest(journal.template)

        def abort(body: JsonObject) -> JsonObject | None:
            return None if is_old(body["spec"]["template"]) else self._abortion(body)

        try:
            await self._sets.patch_stable_status(abort)
        except NotFoundError:
            return  # somebody deleted it: there is nothing to go back to
        # Where the new version was the stable one already, the old one takes no steps on its way back.
        await self._sets.restore_stable({"template": journal.template}, self._past_steps(is_old), is_settled, wait)

    async def remove(self, seconds: float) -> None:
        """Its controller takes its pods away."""
        del seconds

    async def _set_template(self) -> None:
        """And has it try again what it has aborted before."""
        await renew(self._sets, self._plan)
        await self._sets.patch_stable_status(lambda body: {"abort": False} if is_aborted(body) else None)

    async def _leave(self, stop: Stop) -> None:
        await self._sets.patch_stable_status(lambda body: {"pauseConditions": None} if is_at(body, stop) else None)

    def _abortion(self, body: JsonObject) -> JsonObject | None:
        status = body.get("status") or {}
        under_way = status.get("currentPodHash") != status.get("stableRS")
        template = body["spec"]["template"]
        is_new = self._plan.is_new(template) or self._plan.is_promoted(template)
        return {"abort": True} if under_way and is_new and not status.get("abort") else None

    def _past_steps(self, is_wanted: Callable[[JsonObject], bool]) -> Callable[[], Awaitable[JsonObject]]:
        """Reads it, and has it go past all of its steps to this template."""

        def full(body: JsonObject) -> JsonObject | None:
            status = body.get("status") or {}
            behind = is_observed(body) and status.get("currentPodHash") != status.get("stableRS")
            return {"promoteFull": True} if behind and is_wanted(body["spec"]["template"]) and not status.get("promoteFull") else None

        return lambda: self._sets.patch_stable_status(full)

    def _refuse_failed(self, body: JsonObject) -> None:
        words = failure_of(body)
        if words:
            raise CanaryFailedError(f"Rollout {self.name}: {words}")


def _stop(body: JsonObject, number: int) -> Stop:
    """Raises CanaryFailedError."""
    stops = stops_of(body["spec"])
    if number > len(stops):
        raise CanaryFailedError(f"somebody took the pause {number} out of the Rollout's steps")
    return stops[number - 1]
