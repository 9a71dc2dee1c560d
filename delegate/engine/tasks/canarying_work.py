"""Drives a canary from where its journal stands to its end. All that it does may be done again: what is done already is found so.

Before anything is changed, the journal says what will be; after it, that it was. So whoever comes next, after a SIGKILL at any moment, goes
on at the same step by looking at the cluster.
"""

import asyncio
import datetime as dt
from collections.abc import Callable

import msgspec
import structlog

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import ClusterError
from delegate.engine.records.errors import JournalChangedError, LateWriterError, LeaseLostError
from delegate.engine.records.journals import JournalStore, StoredJournal
from delegate.engine.tasks.canarying_background import BackgroundChecks
from delegate.engine.tasks.canarying_patience import MOST_REPEATS, may_pass, pause_before, repeated
from delegate.engine.tasks.canarying_plans import Evidence, Plan, Promote, RunChecks
from delegate.engine.tasks.canarying_pods import NewPods
from delegate.engine.tasks.canarying_sets import Authority, Sets, Wait
from delegate.engine.tasks.canarying_smoke import SmokeJob
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.errors import CanaryFailedError, ForeignSetError
from delegate.engine.traffic.errors import ForeignRouteError, RouteNotInForceError
from delegate.engine.traffic.routers import Router
from delegate.foundation.errors import DelegateError
from delegate.model.rollouts.journals import Journal, resume_mark
from delegate.model.rollouts.shares import Share
from delegate.model.rollouts.smoke import SmokeTest
from delegate.model.rollouts.specs import OnFailure, Step
from delegate.model.rollouts.states import ENDED, Move, Phase, may
from delegate.model.rollouts.workloads import wanted_replicas

log = structlog.get_logger(__name__)
_TICK_SECONDS = 1.0
_NEVER_HANDLED = (LeaseLostError, LateWriterError, JournalChangedError)


class CanaryWork:
    """One attempt's work on one journal, under its Lease."""

    def __init__(
        self,
        plan: Plan,
        *,
        client: ApiClient,
        authority: Authority,
        sets: Sets,
        pods: NewPods,
        router: Router,
        store: JournalStore,
        stored: StoredJournal,
        context: AttemptContext,
        promote: Promote,
        run_checks: RunChecks | None = None,
        smoke_job: SmokeJob,
        background: BackgroundChecks,
    ) -> None:
        assert stored.journal is not None
        self._plan = plan
        self._spec = plan.spec
        self._clock = client.clock
        self._authority = authority
        self._sets = sets
        self._pods = pods
        self._router = router
        self._store = store
        self._stored = stored
        self._context = context
        self._promote = promote
        self._run_checks = run_checks
        self._smoke_job = smoke_job
        self._background = background
        self._restarts: int | None = None
        self.journal: Journal = stored.journal

    # Driving.

    async def drive(self, *, before_promotion: bool = False) -> None:
        """To the end: promoted or restored; or until all is ready to be promoted by somebody else.

        Raises what ends our authority, and what keeps an abort or a clearing from coming through.
        """
        try:
            await self._drive(before_promotion=before_promotion)
        finally:
            await self._background.stop()

    async def _drive(self, *, before_promotion: bool) -> None:
        repeats = 0
        while self.journal.phase not in ENDED:
            before = self.journal
            try:
                if before_promotion and before.phase is Phase.PROMOTING:
                    await self._cover()
                    return
                await self._advance()
            except _NEVER_HANDLED:
                raise
            except DelegateError as error:
                repeats = repeats + 1 if self.journal == before else 1
                if repeats <= MOST_REPEATS and may_pass(error):
                    log.info("canary.step_repeated", phase=self.journal.phase.value, code=error.code, times=repeats)
                    await self._clock.sleep(pause_before(repeats))
                    continue
                if self.journal.phase in (Phase.ABORTING, Phase.CLEARING):
                    raise
                await self._fail(error)
            else:
                repeats = 0

    async def abort(self, reason: str) -> None:
        """Has it taken back, unless the new version is the stable one already."""
        if may(self.journal.phase, Move.ABORT) and self.journal.phase is not Phase.ABORTING:
            await self._record(msgspec.structs.replace(self.journal.moved(Move.ABORT, self._now(), f"taken back: {reason}"), reason=reason))

    async def _fail(self, error: DelegateError) -> None:
        await self._background.stop()
        foreign = isinstance(error, (ForeignSetError, ForeignRouteError))
        if (foreign or self._spec.on_failure is OnFailure.HOLD) and may(self.journal.phase, Move.HOLD):
            self._context.resume.take()
            held = self.journal.moved(Move.HOLD, self._now(), f"held: {error.message}")
            await self._record(msgspec.structs.replace(held, reason=error.message))
            return
        await self.abort(error.message)

    async def _advance(self) -> None:
        match self.journal.phase:
            case Phase.STARTING:
                await self._start()
            case Phase.STEPPING if self.journal.step >= len(self._spec.steps):
                words = await self._conclude_background()
                promotes = msgspec.structs.replace(self.journal.moved(Move.PROMOTE, self._now(), f"promotes{words}"), promotes=True)
                await self._record(promotes)
            case Phase.STEPPING:
                if self.journal.weight:
                    self._background.begin(self._evidence())
                await self._step(self._spec.steps[self.journal.step])
            case Phase.HELD:
                await self._hold()
            case Phase.PROMOTING:
                await self._make_stable()
            case Phase.CLEARING:
                await self._take_away()
            case _:
                await self._restore_stable()
                await self._take_away()

    async def _record(self, journal: Journal, *, keep_resume: bool = True) -> None:
        self._authority.check()
        stored = self._stored
        self._stored = await repeated(self._clock, lambda: self._store.write(stored, journal, keep_resume=keep_resume))
        if journal.entries != self.journal.entries:
            last = journal.entries[-1].words
            self._context.report("canary.moved", {"phase": journal.phase.value, "step": journal.step, "words": last})
        self.journal = journal

    # Forward.

    async def _start(self) -> None:
        for body in (*self._plan.copies, *(body for _, body in self._plan.kept)):
            await self._sets.ensure_copy(body)
        await self._router.prepare(self.journal.routes)
        words = "begins"
        if self._spec.smoke_test is not None:
            words = f"the smoke test passed: {await self._smoke(self._spec.smoke_test)}"
        await self._record(self.journal.moved(Move.STEP, self._now(), words))
        await self._clear_smoke_job()  # only now: whoever found it gone would run it again

    async def _smoke(self, test: SmokeTest) -> str:
        """Before any load. Checks look at a first pod, which the router keeps load from."""
        if test.verify:
            await self._size(Share(0.0, 0.0, 1, wanted_replicas(await self._sets.stable())))
            await self._await_canary(1)
            return await self._check(test.verify)
        if not self.journal.smoke_job:
            await self._record(msgspec.structs.replace(self.journal, smoke_job=self._smoke_job.name))
        async with self._context.parked():
            return await self._smoke_job.run(self._plan.template, test)

    async def _clear_smoke_job(self) -> None:
        if self.journal.smoke_job:
            await self._smoke_job.clear()

    async def _step(self, step: Step) -> None:
        if step.set_weight is not None:
            await self._set_weight(step.set_weight)
        elif step.pause is not None:
            await self._pause(step.pause.seconds)
        else:
            names = step.verify or ()
            words = await self._check(names)
            await self._record(self.journal.stepped(self._now(), f"verified {', '.join(names)}: {words}"))

    async def _set_weight(self, weight: float) -> None:
        share = self._pods.share_of(await self._sets.stable(), self.journal, weight)
        if self._router.separates and weight < self.journal.weight:
            await self._route(weight)
        await self._size(share)
        await self._await_canary(share.count)
        if self._router.separates:
            await self._route(weight)
        self._restarts = await self._pods.restarts()
        self._background.check()
        await self._background.stop()  # begun anew: of all the pods, with the share that they have now
        changed = msgspec.structs.replace(self.journal, weight=weight, count=share.count)
        await self._record(changed.stepped(self._now(), f"setWeight {weight:g}: {share}"))

    async def _size(self, share: Share) -> None:
        """Has as many new pods wanted as the share takes; the journal says so first."""
        stable = await self._sets.stable()
        sized = msgspec.structs.replace(self.journal, count=share.count, replicas=wanted_replicas(stable))
        if self.journal != sized:
            await self._record(sized)
        await self._pods.size(stable, share.count)

    async def _await_canary(self, count: int) -> None:
        async with self._context.parked():
            await self._pods.await_ready(count, self._wait)

    @property
    def _wait(self) -> Wait:
        return Wait(self._spec.progress_seconds, self._plan.fail_fast_after)

    async def _route(self, weight: float) -> None:
        """A weight, only to a set that bears it, and read back."""
        self._authority.check()
        self._background.check()
        await self._router.set_weight(weight, self.journal.routes)
        await self._read_back(weight)

    async def _read_back(self, weight: float) -> None:
        stands = await self._router.read_weight()
        if stands is not None and abs(stands - weight) > 0.5:
            raise RouteNotInForceError(f"the weight reads {stands:g}% after {weight:g}% was written", hint="see who else writes the route")

    async def _pause(self, seconds: float | None) -> None:
        if not self.journal.since:
            self._context.resume.take()  # a word that came before is about another pause, maybe said twice
            words = "pauses until the task is resumed" if seconds is None else f"pauses for {seconds:g} s"
            await self._record(msgspec.structs.replace(self.journal.noted(self._now(), words), since=self._now()))
        async with self._context.parked():
            resumed = await self._mind_until(lambda: seconds is not None and self._since() >= seconds, until_resumed=True)
        words = "resumed" if resumed else f"paused for {seconds or 0:g} s"
        await self._record(self.journal.stepped(self._now(), words), keep_resume=False)

    async def _hold(self) -> None:
        """Leaves everything as it stands until somebody says how it goes on: the new version then has its share again."""
        async with self._context.parked():
            while not await self._is_resumed():
                self._authority.check()
                await self._clock.sleep(_TICK_SECONDS)
        if self.journal.count:
            await self._size(Share(self.journal.weight, self.journal.weight, self.journal.count, 0))
        await self._record(msgspec.structs.replace(self.journal.moved(Move.RESUME, self._now(), "resumed"), reason=""), keep_resume=False)

    async def _check(self, names: tuple[str, ...]) -> str:
        """While the sets are minded; the verdict in words."""
        if self._run_checks is None:
            raise CanaryFailedError("this delegate runs no checks, so nothing is verified", hint="leave the verify steps out")
        evidence = self._evidence()
        async with self._context.parked():
            checks = asyncio.ensure_future(self._run_checks(names, evidence))
            minding = asyncio.ensure_future(self._mind_until(checks.done))
            try:
                await asyncio.wait({checks, minding}, return_when=asyncio.FIRST_COMPLETED)
                if minding.done() and not checks.done():
                    minding.result()
                return await checks
            finally:
                for each in (checks, minding):
                    each.cancel()
                await asyncio.gather(checks, minding, return_exceptions=True)

    def _evidence(self) -> Evidence:
        return Evidence(
            namespace=self._sets.namespace,
            workload=self._sets.workload,
            canary=self._pods.name,
            since=self._now(),
            share=self.journal.weight,
            kind=self._pods.kind,
            count=self.journal.count if self._pods.counts_pods else None,
        )

    async def _conclude_background(self) -> str:
        """What the checks beside the steps have come to, in words; they need an answer each before anything is promoted."""
        async with self._context.parked():
            if self.journal.weight:
                self._background.begin(self._evidence())
            await self._mind_until(self._background.has_evidence)
            words = await self._background.conclude()
        return f"; in the background {words}" if words else ""

    async def _mind_until(self, is_over: Callable[[], bool], *, until_resumed: bool = False) -> bool:
        """Minds the sets until it is over, or somebody resumes the task where that ends it: whether that is why it ended."""
        misses = 0
        while not is_over():
            try:
                await self._mind()
                if until_resumed and await self._is_resumed():
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
        pause = self._spec.steps[self.journal.step].pause if self.journal.step < len(self._spec.steps) else None
        left = pause.seconds - self._since() if pause is not None and pause.seconds else _TICK_SECONDS
        return min(_TICK_SECONDS, max(0.02, left))

    async def _mind(self) -> None:
        """One look at both sets: the new one keeps its share of an old one whose size is somebody else's, and keeps running."""
        self._authority.check()
        self._background.check()
        stable = await self._sets.stable()
        await self._pods.check(stable, self.journal)
        if not self.journal.count:
            return
        share = self._pods.share_of(stable, self.journal, self.journal.weight)
        if self.journal.weight and (share.count, wanted_replicas(stable)) != (self.journal.count, self.journal.replicas):
            await self._size(share)
        restarts = await self._pods.restarts()
        if self._restarts is not None and restarts > self._restarts:
            raise CanaryFailedError(f"containers of the new version were restarted {restarts - self._restarts} times")
        self._restarts = restarts

    async def _is_resumed(self) -> bool:
        """By a command of the manager, or by the annotation of the journal that names this step (or `now`)."""
        if self._context.resume.take():
            return True
        current = await self._store.read()
        return resume_mark(current.config_map) in ("now", str(self.journal.step))

    async def _cover(self) -> None:
        """While the old set is rolled over, the new one beside it makes up for what the old one's own rule lets go."""
        stable = await self._sets.stable()
        cover = self._pods.covering(stable)
        if cover > self.journal.count:
            await self._size(Share(self.journal.weight, self.journal.weight, cover, wanted_replicas(stable)))
            await self._await_canary(cover)

    async def _make_stable(self) -> None:
        """Promotion."""
        await self._cover()
        await self._promote()
        async with self._context.parked():
            await self._pods.await_promoted(self._wait)
        await self._record(self.journal.moved(Move.PROMOTED, self._now(), "the new version is the stable one"))

    # Back, and away.

    async def _restore_stable(self) -> None:
        """The stable version as it was, and able to bear all of the load, before any load goes back to it."""
        if self.journal.promotes:
            for kind, name, copy in self.journal.kept:
                await self._sets.restore_config(kind, name, copy)
        async with self._context.parked():
            await self._pods.restore(self.journal, self._wait)

    async def _take_away(self) -> None:
        """The load off the set beside, its drain, its end, and that of all that was made for it; read back."""
        await self._router.restore(self.journal.routes)
        await self._read_back(0.0)
        if self._router.separates:
            await self._drain()
        async with self._context.parked():
            await self._pods.remove(self._spec.progress_seconds)
        await self._router.clear()
        await self._clear_smoke_job()
        for kind, name in (*self.journal.copies, *((kind, copy) for kind, _, copy in self.journal.kept)):
            await self._sets.delete_copy(kind, name)
        ended = self.journal.moved(Move.CLEARED, self._now(), "nothing of the canary is left beside the stable version")
        await self._record(msgspec.structs.replace(ended, count=0, weight=0.0))

    async def _drain(self) -> None:
        if not self.journal.since:
            await self._record(msgspec.structs.replace(self.journal, since=self._now(), weight=0.0))
        async with self._context.parked():
            while (left := self.journal.drain_seconds - self._since()) > 0:
                self._authority.check()
                await self._clock.sleep(min(_TICK_SECONDS, left))

    # Time.

    def _now(self) -> str:
        return self._clock.now().isoformat()

    def _since(self) -> float:
        """Seconds since what is being waited for began, by the clock of the day: it may have begun in another process."""
        if not self.journal.since:
            return 0.0
        return max(0.0, (self._clock.now() - dt.datetime.fromisoformat(self.journal.since)).total_seconds())
