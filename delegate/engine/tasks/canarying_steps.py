"""The steps of a canary, one at a time: each may be done again after a crash, and then finds its work done."""

import asyncio

import msgspec

from delegate.engine.tasks.canarying_background import BackgroundChecks
from delegate.engine.tasks.canarying_keeping import JournalKeeper
from delegate.engine.tasks.canarying_minding import Minder
from delegate.engine.tasks.canarying_plans import Evidence, RunChecks
from delegate.engine.tasks.canarying_pods import NewPods
from delegate.engine.tasks.canarying_routing import Traffic
from delegate.engine.tasks.canarying_sets import Sets
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.errors import CanaryFailedError
from delegate.model.rollouts.journals import Journal
from delegate.model.rollouts.loads import HeaderRoute, Load
from delegate.model.rollouts.steps import CanaryScale, Step


class Steps:
    """Does what a step says, and has the journal say that it was done."""

    def __init__(
        self,
        *,
        keeper: JournalKeeper,
        minder: Minder,
        sets: Sets,
        pods: NewPods,
        traffic: Traffic,
        background: BackgroundChecks,
        context: AttemptContext,
        run_checks: RunChecks | None,
    ) -> None:
        self._keeper = keeper
        self._minder = minder
        self._sets = sets
        self._pods = pods
        self._traffic = traffic
        self._background = background
        self._context = context
        self._run_checks = run_checks
        self._paused_since = ""

    async def do(self, step: Step) -> None:
        if step.set_weight is not None:
            await self._set_weight(step.set_weight)
        elif step.set_header_route is not None:
            await self._set_header_route(step.set_header_route)
        elif step.set_canary_scale is not None:
            await self._set_scale(step.set_canary_scale)
        elif step.pause is not None:
            await self._pause(step.pause.seconds)
        else:
            names, load = step.verify or (), self._keeper.journal.load
            words = f"verified {', '.join(names)} with {load}: {await self.check(names)}"
            await self._keeper.record(self._keeper.journal.stepped(self._keeper.now(), words))

    async def _set_weight(self, weight: float) -> None:
        load = Load(weight, self._keeper.journal.header_routes)
        share = self._pods.share_of(await self._sets.stable(), self._keeper.journal, weight)
        if weight < self._keeper.journal.weight:
            await self._shift(load)
        await self._minder.size(share)
        await self._minder.await_ready(share.count)
        await self._shift(load)
        await self._has_changed(msgspec.structs.replace(self._keeper.journal, weight=weight), f"setWeight {weight:g}: {share}")

    async def _set_header_route(self, route: HeaderRoute) -> None:
        """Whoever comes by it finds a ready pod. Where one is taken away, the pods stay: requests may still be on their way."""
        journal = self._keeper.journal
        load = journal.load.with_route(route)
        changed = msgspec.structs.replace(journal, header_routes=load.header_routes)
        share = self._pods.share_of(await self._sets.stable(), changed, journal.weight)
        if route.match:
            await self._minder.size(msgspec.structs.replace(share, count=max(share.count, journal.count)))
            await self._minder.await_ready(self._keeper.journal.count)
        await self._shift(load)
        words = f"setHeaderRoute {route.name}: {'set' if route.match else 'taken away'}, {load} in force"
        await self._has_changed(msgspec.structs.replace(self._keeper.journal, header_routes=load.header_routes), words)

    async def _set_scale(self, scale: CanaryScale) -> None:
        scaled = msgspec.structs.replace(self._keeper.journal, scale=None if scale.match_traffic_weight else scale)
        share = self._pods.share_of(await self._sets.stable(), scaled, scaled.weight)
        await self._minder.size(share)
        await self._minder.await_ready(share.count)
        words = f"setCanaryScale {scale}: {share.count} new beside {share.stable} old pods"
        await self._has_changed(msgspec.structs.replace(self._keeper.journal, scale=scaled.scale), words)

    async def _has_changed(self, journal: Journal, words: str) -> None:
        """The step is done. Checks beside the steps begin anew: of all the pods, with the load that they have now."""
        await self._minder.count_restarts()
        self._background.check()
        await self._background.stop()
        now = self._keeper.now()
        await self._keeper.record(msgspec.structs.replace(journal, loaded=now).stepped(now, words))

    async def _shift(self, load: Load) -> None:
        self._background.check()
        await self._traffic.shift(load, self._keeper.journal)

    async def _pause(self, seconds: float | None) -> None:
        keeper = self._keeper
        unwatched = self._background.is_any and keeper.journal.since != self._paused_since
        if not keeper.journal.since:
            await keeper.pause(keeper.journal, "pauses until the task is resumed" if seconds is None else f"pauses for {seconds:g} s")
        elif unwatched and seconds is not None:
            await keeper.pause(keeper.journal, f"pauses for {seconds:g} s from now on: nobody watched for a part of it")
        self._paused_since = keeper.journal.since
        async with self._context.parked():
            resumed = await self._minder.mind_until(lambda: seconds is not None and keeper.since() >= seconds, until_resumed=True)
        words = "resumed" if resumed else f"paused for {seconds or 0:g} s"
        await keeper.record(keeper.journal.stepped(keeper.now(), words))

    async def check(self, names: tuple[str, ...]) -> str:
        """While the sets are minded; the verdict in words. What counts is the load in force, which has to stay so meanwhile."""
        if self._run_checks is None:
            raise CanaryFailedError("this delegate runs no checks, so nothing is verified", hint="leave the verify steps out")
        await self._traffic.open_preview(self._keeper.journal)
        evidence = self.evidence()
        async with self._context.parked():
            checks = asyncio.ensure_future(self._run_checks(names, evidence))
            minding = asyncio.ensure_future(self._minder.mind_until(checks.done))
            try:
                await asyncio.wait({checks, minding}, return_when=asyncio.FIRST_COMPLETED)
                if minding.done() and not checks.done():
                    minding.result()
                words = await checks
            finally:
                for each in (checks, minding):
                    each.cancel()
                await asyncio.gather(checks, minding, return_exceptions=True)
        await self._traffic.mind(self._keeper.journal)
        return words

    def watch(self) -> None:
        """Has the checks beside the steps run from now on, as soon as there is any load."""
        if self._keeper.journal.load.is_any:
            self._background.begin(self.evidence())

    async def conclude_watching(self) -> str:
        """What the checks beside the steps have come to, in words; they need an answer each before anything is promoted."""
        async with self._context.parked():
            self.watch()
            await self._minder.mind_until(self._background.has_evidence)
            words = await self._background.conclude()
        if words:
            await self._traffic.mind(self._keeper.journal)
        return f"; in the background {words}" if words else ""

    def evidence(self) -> Evidence:
        journal = self._keeper.journal
        return Evidence(
            namespace=self._sets.namespace,
            workload=self._sets.workload,
            canary=self._pods.name,
            since=journal.loaded or self._keeper.now(),
            load=journal.load,
            preview=self._traffic.preview(journal),
            kind=self._pods.kind,
            count=journal.count if self._pods.counts_pods else None,
            step=journal.step,
        )
