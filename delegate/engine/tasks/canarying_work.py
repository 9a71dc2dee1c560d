"""Drives a canary from where its journal stands to its end. All that it does may be done again: what is done already is found so.

Before anything is changed, the journal says what will be; after it, that it was. So whoever comes next, after a SIGKILL at any moment, goes
on at the same step by looking at the cluster.
"""

import msgspec
import structlog

from delegate.engine.clusters.client import ApiClient
from delegate.engine.records.errors import JournalChangedError, LateWriterError, LeaseLostError
from delegate.engine.records.journals import JournalStore, StoredJournal
from delegate.engine.tasks.canarying_background import BackgroundChecks
from delegate.engine.tasks.canarying_keeping import JournalKeeper
from delegate.engine.tasks.canarying_minding import TICK_SECONDS, Minder
from delegate.engine.tasks.canarying_patience import MOST_REPEATS, may_pass, pause_before
from delegate.engine.tasks.canarying_plans import AskStable, Plan, RunChecks
from delegate.engine.tasks.canarying_pods import NewPods
from delegate.engine.tasks.canarying_routing import Traffic
from delegate.engine.tasks.canarying_sets import Authority, Sets
from delegate.engine.tasks.canarying_smoke import SmokeJob
from delegate.engine.tasks.canarying_steps import Steps
from delegate.engine.tasks.canarying_storms import CanaryGroup
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.errors import ForeignSetError, NotTheReleaseError
from delegate.engine.traffic.autoscalers import Autoscalers
from delegate.engine.traffic.errors import ForeignRouteError
from delegate.engine.traffic.routers import Router
from delegate.engine.verification.errors import CheckFailedError
from delegate.foundation.errors import DelegateError
from delegate.model.rollouts.journals import Journal
from delegate.model.rollouts.shares import Share
from delegate.model.rollouts.smoke import SmokeTest, with_variable
from delegate.model.rollouts.specs import OnFailure
from delegate.model.rollouts.states import ENDED, Move, Phase, may
from delegate.model.rollouts.steps import CanaryScale
from delegate.model.rollouts.storms import BadVersion, with_bad

log = structlog.get_logger(__name__)
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
        autoscalers: Autoscalers,
        store: JournalStore,
        stored: StoredJournal,
        context: AttemptContext,
        run_checks: RunChecks | None = None,
        ask_stable: AskStable | None = None,
        group: CanaryGroup,
        smoke_job: SmokeJob,
        background: BackgroundChecks,
    ) -> None:
        self._plan = plan
        self._ask_stable = ask_stable
        self._group = group
        self._spec = plan.spec
        self._clock = client.clock
        self._authority = authority
        self._sets = sets
        self._pods = pods
        self._traffic = Traffic(router, authority, sets.namespace)
        self._autoscalers = autoscalers
        self._context = context
        self._smoke_job = smoke_job
        self._background = background
        self._keeper = JournalKeeper(store, stored, authority, context, clock=client.clock, steps=plan.spec.steps)
        self._minder = Minder(
            plan,
            keeper=self._keeper,
            authority=authority,
            sets=sets,
            pods=pods,
            background=background,
            context=context,
            clock=client.clock,
            traffic=self._traffic,
        )
        self._steps = Steps(
            keeper=self._keeper,
            minder=self._minder,
            sets=sets,
            pods=pods,
            traffic=self._traffic,
            background=background,
            context=context,
            run_checks=run_checks,
        )

    @property
    def journal(self) -> Journal:
        return self._keeper.journal

    # Driving.

    async def drive(self, *, before_promotion: bool = False) -> None:
        """To the end: promoted or restored; or until all is ready to be promoted by somebody else.

        Raises what ends our authority, and what keeps an abort or a clearing from coming through.
        """
        self._keeper.show()
        try:
            await self._drive(before_promotion=before_promotion)
        finally:
            await self._background.stop()
        if self.journal.phase is Phase.RESTORED:
            await self._group.end()

    async def _drive(self, *, before_promotion: bool) -> None:
        repeats = 0
        while self.journal.phase not in ENDED:
            before = self.journal
            try:
                if before_promotion and before.phase is Phase.PROMOTING:
                    await self._minder.cover()
                    async with self._context.parked():
                        await self._pods.fill(self.journal, self._minder.wait)
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
            await self._keeper.record(
                msgspec.structs.replace(self.journal.moved(Move.ABORT, self._keeper.now(), f"taken back: {reason}"), reason=reason)
            )

    async def _fail(self, error: DelegateError) -> None:
        await self._background.stop()
        if isinstance(error, CheckFailedError):
            error = await self._convict(error)
        kept = isinstance(error, (ForeignSetError, ForeignRouteError, NotTheReleaseError))
        if (kept or self._spec.on_failure is OnFailure.HOLD) and may(self.journal.phase, Move.HOLD):
            held = msgspec.structs.replace(self.journal.moved(Move.HOLD, self._keeper.now()), reason=error.message)
            await self._keeper.pause(held, f"held: {error.message}")
            return
        if isinstance(error, CheckFailedError):
            async with self._context.parked():
                await self._group.await_turn(self._authority, self._spec.drain_seconds + self._spec.progress_seconds)
        await self.abort(error.message)

    async def _convict(self, error: CheckFailedError) -> DelegateError:
        """There is evidence against the new version; where the stable one fails as well, it is not the release's fault.

        Otherwise the version is known as bad from here on, whatever becomes of this attempt.
        """
        of_stable = await self._of_stable()
        await self._group.convict(self._context, shared=bool(of_stable))
        if of_stable:
            return NotTheReleaseError(
                f"not caused by the release: the stable version fails as well ({of_stable}); of the new one {error.message}",
                hint="look at what both depend on; then resume the task, or cancel it",
            )
        bad = BadVersion(self._plan.version, self._keeper.now(), self.journal.task, error.message[:300])
        await self._keeper.record(msgspec.structs.replace(self.journal, bad=with_bad(self.journal.bad, bad)))
        return error

    async def _of_stable(self) -> str:
        if self._ask_stable is None or not may(self.journal.phase, Move.HOLD):
            return ""
        try:
            async with self._context.parked():
                return await self._ask_stable(self._steps.evidence())
        except DelegateError as fault:
            log.info("canary.stable_not_asked", code=fault.code, error=fault.message)
            return ""

    async def _advance(self) -> None:
        match self.journal.phase:
            case Phase.STARTING:
                await self._start()
            case Phase.STEPPING if self.journal.step >= len(self._spec.steps):
                words = await self._steps.conclude_watching()
                promotes = msgspec.structs.replace(self.journal.moved(Move.PROMOTE, self._keeper.now(), f"promotes{words}"), promotes=True)
                await self._keeper.record(promotes)
            case Phase.STEPPING:
                self._steps.watch()
                await self._steps.do(self._spec.steps[self.journal.step])
            case Phase.HELD:
                await self._hold()
            case Phase.PROMOTING:
                await self._make_stable()
            case Phase.CLEARING:
                await self._take_away()
            case _:
                await self._restore_stable()
                await self._take_away()

    # Forward.

    async def _start(self) -> None:
        for body in (*self._plan.copies, *(body for _, body in self._plan.kept)):
            await self._sets.ensure_copy(body)
        await self._autoscalers.hold(self.journal.autoscalers)
        await self._traffic.prepare(self.journal)
        words = "begins"
        if self._spec.smoke_test is not None:
            words = f"the smoke test passed: {await self._smoke(self._spec.smoke_test)}"
        await self._keeper.record(self.journal.moved(Move.STEP, self._keeper.now(), words))
        await self._clear_smoke_job()  # only now: whoever found it gone would run it again

    async def _smoke(self, test: SmokeTest) -> str:
        """Before any load. Checks look at a first pod, which the router keeps load from; all of blue/green at the preview."""
        template, blue_green = self._plan.template, self._spec.blue_green
        if test.verify or blue_green is not None:
            scaled = msgspec.structs.replace(self.journal, scale=blue_green.preview_scale if blue_green else CanaryScale(replicas=1))
            await self._minder.size(self._pods.share_of(await self._sets.stable(), scaled, 0.0))
            await self._minder.await_ready(self.journal.count)
        if test.verify:
            return await self._steps.check(test.verify)
        if blue_green is not None:
            await self._traffic.open_preview(self.journal)
            template = with_variable(template, "PREVIEW", self._traffic.preview(self.journal))
        if not self.journal.smoke_job:
            await self._keeper.record(msgspec.structs.replace(self.journal, smoke_job=self._smoke_job.name))
        async with self._context.parked():
            return await self._smoke_job.run(template, test)

    async def _clear_smoke_job(self) -> None:
        if self.journal.smoke_job:
            await self._smoke_job.clear()

    async def _hold(self) -> None:
        """Leaves everything as it stands until somebody says how it goes on: the new version then has its share again."""
        async with self._context.parked():
            while not await self._keeper.is_resumed():
                self._authority.check()
                await self._clock.sleep(TICK_SECONDS)
        if self.journal.count:
            await self._minder.size(Share(self.journal.weight, self.journal.weight, self.journal.count, 0))
        if self.journal.count and self._traffic.separates:
            await self._minder.await_ready(self.journal.count)
            await self._traffic.renew(self.journal)
        resumed = self.journal.moved(Move.RESUME, self._keeper.now(), "resumed")
        await self._keeper.record(msgspec.structs.replace(resumed, reason="", fails={}, loaded=self._keeper.now()))
        self._background.carry({})

    async def _make_stable(self) -> None:
        """Promotion."""
        await self._minder.cover()
        await self._pods.promote(self.journal)
        async with self._context.parked():
            await self._pods.await_promoted(self._minder.wait)
        await self._keeper.record(self.journal.moved(Move.PROMOTED, self._keeper.now(), "the new version is the stable one"))

    # Back, and away.

    async def _restore_stable(self) -> None:
        """The stable version as it was, and able to bear all of the load, before any load goes back to it."""
        if self.journal.promotes:
            for kind, name, copy in self.journal.kept:
                await self._sets.restore_config(kind, name, copy)
        async with self._context.parked():
            await self._pods.restore(self.journal, self._minder.wait)

    async def _take_away(self) -> None:
        """The load off the set beside, its drain, its end, and that of all that was made for it; read back."""
        await self._traffic.take_back(self.journal)
        if self._traffic.separates:
            await self._drain()
        async with self._context.parked():
            await self._pods.remove(self._spec.progress_seconds)
            await self._sets.await_unread(self.journal.copies, self._spec.progress_seconds)
        await self._traffic.clear(self.journal)
        await self._clear_smoke_job()
        for kind, name in (*self.journal.copies, *((kind, copy) for kind, _, copy in self.journal.kept)):
            await self._sets.delete_copy(kind, name)
        await self._autoscalers.release(self.journal.autoscalers)  # as late as can be: they remember the time without load
        ended = self.journal.moved(Move.CLEARED, self._keeper.now(), "nothing of the canary is left beside the stable version")
        await self._keeper.record(msgspec.structs.replace(ended, count=0, weight=0.0, header_routes=()))

    async def _drain(self) -> None:
        if not self.journal.since:
            await self._keeper.record(msgspec.structs.replace(self.journal, since=self._keeper.now(), weight=0.0, header_routes=()))
        async with self._context.parked():
            while (left := self.journal.drain_seconds - self._keeper.since()) > 0:
                self._authority.check()
                await self._clock.sleep(min(TICK_SECONDS, left))
