"""The new pods of a canary at the size that its journal says, and a look at both sets while something else is waited for."""

import math
from collections.abc import Callable

import msgspec

from delegate.engine.clusters.errors import ClusterError
from delegate.engine.tasks.canarying_background import BackgroundChecks
from delegate.engine.tasks.canarying_keeping import JournalKeeper
from delegate.engine.tasks.canarying_patience import MOST_REPEATS, may_pass
from delegate.engine.tasks.canarying_plans import Plan
from delegate.engine.tasks.canarying_pods import NewPods
from delegate.engine.tasks.canarying_routing import Traffic
from delegate.engine.tasks.canarying_sets import Authority, Sets, Wait
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.errors import CanaryFailedError
from delegate.foundation.clocks import Clock
from delegate.model.rollouts.shares import Share
from delegate.model.rollouts.workloads import wanted_replicas

TICK_SECONDS = 1.0
_BLIND_SECONDS = 10.0
"""So long may a router send load to a set of which no pod is ready: those requests fail."""


class Minder:
    """Sizes the new set, and sees to it that both sets stay as they have to be."""

    def __init__(
        self,
        plan: Plan,
        *,
        keeper: JournalKeeper,
        authority: Authority,
        sets: Sets,
        pods: NewPods,
        background: BackgroundChecks,
        context: AttemptContext,
        clock: Clock,
        traffic: Traffic,
    ) -> None:
        self._traffic = traffic
        self._spec = plan.spec
        self.wait = Wait(plan.spec.progress_seconds, plan.fail_fast_after)
        self._keeper = keeper
        self._authority = authority
        self._sets = sets
        self._pods = pods
        self._background = background
        self._context = context
        self._clock = clock
        self._restarts: int | None = None
        self._short_since: float | None = None

    async def size(self, share: Share) -> None:
        """Has as many new pods wanted as the share takes; the journal says so first."""
        journal, stable = self._keeper.journal, await self._sets.stable()
        sized = msgspec.structs.replace(journal, count=share.count, replicas=wanted_replicas(stable))
        if journal != sized:
            await self._keeper.record(sized)
        await self._pods.size(stable, share.count)

    async def await_ready(self, count: int) -> None:
        async with self._context.parked():
            await self._pods.await_ready(count, self.wait)

    async def count_restarts(self) -> None:
        """Restarts up to now are nothing to be minded about."""
        self._restarts = await self._pods.restarts()

    async def cover(self) -> None:
        """While the old set is rolled over, the new one beside it makes up for what the old one's own rule lets go."""
        journal, stable = self._keeper.journal, await self._sets.stable()
        cover = self._pods.covering(stable)
        if cover > journal.count:
            await self.size(Share(journal.weight, journal.weight, cover, wanted_replicas(stable)))
            await self.await_ready(cover)

    async def mind_until(self, is_over: Callable[[], bool], *, until_resumed: bool = False) -> bool:
        """Minds the sets until it is over, or somebody resumes the task where that ends it: whether that is why it ended."""
        misses = 0
        while not is_over():
            try:
                await self._mind()
                if until_resumed and await self._keeper.is_resumed():
                    return True
            except ClusterError as error:
                misses += 1
                if misses > MOST_REPEATS or not may_pass(error):
                    raise
            else:
                misses = 0
            await self._clock.sleep(self._tick())
        return False

    def _tick(self) -> float:
        step = self._keeper.journal.step
        pause = self._spec.steps[step].pause if step < len(self._spec.steps) else None
        left = pause.seconds - self._keeper.since() if pause is not None and pause.seconds else TICK_SECONDS
        return min(TICK_SECONDS, max(0.02, left))

    async def _mind(self) -> None:
        """One look at both sets: the new one keeps its share of an old one whose size is somebody else's, and keeps running."""
        self._authority.check()
        self._background.check()
        await self._keep_fails()
        journal, stable = self._keeper.journal, await self._sets.stable()
        serving = await self._pods.check(stable, journal)
        if not journal.count:
            return
        await self._traffic.mind(journal)
        if serving is not None:
            self._refuse_short(serving, journal.count)
        share = self._pods.share_of(stable, journal, journal.weight)
        if self._traffic.separates:  # an old set that has lost its load may be scaled down: the new one bears that load
            share = msgspec.structs.replace(share, count=max(share.count, journal.count))
        if (journal.weight or journal.scale) and (share.count, wanted_replicas(stable)) != (journal.count, journal.replicas):
            await self.size(share)
        restarts = await self._pods.restarts()
        if self._restarts is not None and restarts > self._restarts:
            raise CanaryFailedError(f"containers of the new version were restarted {restarts - self._restarts} times")
        self._restarts = restarts

    def _refuse_short(self, serving: int, count: int) -> None:
        """Pods that no longer serve have no share, and nothing is seen of them: a moment may pass, but not a step."""
        if serving >= count:
            self._short_since = None
            return
        now = self._clock.monotonic()
        self._short_since = self._short_since or now
        patience = self.wait.seconds if serving else min(self.wait.fail_fast_after, _BLIND_SECONDS if self._traffic.separates else math.inf)
        if now - self._short_since >= patience:
            raise CanaryFailedError(
                f"{serving} of {count} new pods are ready, for {patience:g} s now", hint="look at the new version's pods and their events"
            )

    async def _keep_fails(self) -> None:
        """What checks have seen against the new version counts for whoever goes on after us too."""
        fails = self._background.fails
        if fails != self._keeper.journal.fails:
            await self._keeper.record(msgspec.structs.replace(self._keeper.journal, fails=dict(fails)))
