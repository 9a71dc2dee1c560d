"""The composition root of the daemon: builds the parts, wires them with callables, starts and stops them in order.

Starting. The directories of state and of dead letters are proved to keep files before anything else; then the identity is counted up
and the journal of the outbox is opened, which takes over what earlier processes left. Probes answer from then on. The control lane
starts in its thread: it enrols, opens the session with a report of every attempt that is known here, and sends heartbeats. Beside it,
the outer group of parts begins: reporter, releases, progress, announcer, adoption of journals of processes that ended, and the courier of
dead letters. Last comes the inner group, the work: the pool, and the poller that asks for tasks as soon as there is a session.

Stopping is the same in reverse, and the outer group outlives the inner one. A stop request (a signal, or a part that failed for good)
ends the poller at once; a batch on its way is handed back. Attempts that have not begun are released. The rest get until the drain
timeout less a margin, then the word to stop as interrupted, then their cancellation. Their results reach the disk, and the manager if
it is there; what it will never take reaches the bucket. Then the process says bye, the control lane ends, and what is still owed waits on
disk for the next start. A second signal skips the wait. So after SIGTERM nothing is worse than after SIGKILL, where the journal alone
tells the next process what began.

Revoked and superseded processes stop at once: their work has no authority any more.
"""

import asyncio
import os
import uuid
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from delegate import __version__
from delegate.daemon.certificates import Certificates
from delegate.daemon.conditions import Conditions, Watchdog
from delegate.daemon.connection.errors import OutdatedError, RevokedError, SupersededError
from delegate.daemon.connection.journal import Began
from delegate.daemon.connection.outbox import Outbox, OutboxLimits
from delegate.daemon.connection.transport import Limits
from delegate.daemon.deadletters.courier import CourierRules
from delegate.daemon.directories import prepare_directory
from delegate.daemon.identity.store import IdentityStore
from delegate.daemon.lanes import LaneHooks, LaneRules, Lanes, Myself
from delegate.daemon.mailroom import Mailroom
from delegate.daemon.pool.workers import PoolHooks, PoolRules, WorkerPool
from delegate.daemon.results import keep_result
from delegate.daemon.trusting import TrustGate
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.stopping import StopVerdict
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.errors import DelegateError
from delegate.foundation.lifecycle import DeathLimit, LoopMonitor, PartFailedError, StopReason, StopRequests, supervise
from delegate.foundation.lifecycle.reaping import Reaper
from delegate.foundation.settings.programs import DelegateSettings
from delegate.foundation.telemetry.metrics import DelegateMetrics
from delegate.foundation.telemetry.probes import ProbeServer
from delegate.foundation.telemetry.systemd import Notifier
from delegate.model.results import TaskResult
from delegate.model.tasks import Task
from delegate.protocol.enrolment import ClusterName
from delegate.protocol.versions import PROTOCOL_MAX
from delegate.protocol.work import LeasedTask

log = structlog.get_logger(__name__)
_MARGIN_SECONDS = 10.0


class Engine(Protocol):
    """What does the work; `engine.tasks.building.Engine`, or a test's own."""

    @property
    def kinds(self) -> tuple[str, ...]: ...

    async def run(self, task: Task, context: AttemptContext) -> TaskResult: ...

    async def announce_clusters(self) -> tuple[ClusterName, ...]: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class DaemonRules:
    """What the settings don't say; tests shorten it. `stall_limit`: seconds after which nothing vouches for a stuck main loop."""

    pool: PoolRules = field(default_factory=PoolRules)
    outbox: OutboxLimits = field(default_factory=OutboxLimits)
    courier: CourierRules = field(default_factory=CourierRules)
    limits: Limits = field(default_factory=Limits)
    deaths: DeathLimit = field(default_factory=DeathLimit)
    stall_limit: float = 300.0
    exit_on_outdated: bool = False


@dataclass(frozen=True)
class Ending:
    """How the daemon ended: whether work was interrupted, and the part that failed for good, if one did."""

    interrupted: bool
    failed_part: str = ""


class Daemon:
    """One life of the daemon; `run` it once, in a loop that `stops` belongs to."""

    def __init__(
        self,
        settings: DelegateSettings,
        engine: Callable[[DelegateMetrics], Engine],
        stops: StopRequests,
        *,
        rules: DaemonRules | None = None,
        notifier: Notifier | None = None,
        instance: str = "",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`engine` is given the metrics to build with. `instance` names a new identity (a pod's uid). `clock` is for certificates."""
        self._settings = settings
        self._stops = stops
        self._rules = rules or DaemonRules()
        self._notifier = notifier or Notifier()
        self._instance = instance
        self._clock = clock
        self.metrics = DelegateMetrics(settings.identity.name, version=__version__, protocol=str(PROTOCOL_MAX))
        self.conditions = Conditions(stall_limit=self._rules.stall_limit)
        self.registered = asyncio.Event()
        self._engine = engine(self.metrics)
        self._crashes: deque[float] = deque(maxlen=self._rules.deaths.deaths)
        self._fatal: DelegateError | None = None

    @property
    def port(self) -> int:
        """Where probes are served, once it runs."""
        return self._probes.port

    async def run(self) -> Ending:
        """Lives until a stop is requested and drained.

        Raises StateDirectoryError, SpoolUnusableError, SettingsError, ProbesUnavailableError, AuthoritiesError before anything was begun,
        EnrolmentRefusedError or UntrustedError when a manager does not take a delegate that was never enrolled.
        """
        async with AsyncExitStack() as exits:
            exits.push_async_callback(self._engine.close)
            self._open_state()
            exits.push_async_callback(self._mailroom.close)
            exits.push_async_callback(self._outbox.close)
            self._build_pool()
            self._build_lanes()
            self._watch_metrics()
            self.conditions.monitor = exits.enter_context(LoopMonitor())
            self._probes = exits.enter_context(
                ProbeServer(self._settings.probes, self.conditions.report, self.metrics.expose, self.metrics.expose_with_aliases)
            )
            exits.enter_context(Watchdog(self._notifier, self.conditions))
            log.info("daemon.started", version=__version__, probes_port=self._probes.port, capacity=self._settings.pool.capacity)
            exits.push_async_callback(self._lanes.close)
            interrupted = await self._live()
        if self._fatal is not None:
            raise self._fatal
        return Ending(interrupted, self.conditions.failed_part)

    # Building.

    def _open_state(self) -> None:
        state = self._settings.identity.state_dir
        prepare_directory(state)
        self._mailroom = Mailroom(self._settings, self.metrics, self._rules.courier)
        self._mailroom.open()
        self.conditions.spool_full = self._mailroom.is_full
        store = IdentityStore(state)
        identity = store.begin(self._instance)
        if not identity.enrolled:
            self._settings.link.require_any_token()
        self._certificates = Certificates(self._settings, self.metrics, clock=self._clock)
        self._certificates.load()
        self.conditions.certificate = self._certificates.rotator.reason
        self._myself = Myself(
            identity=identity,
            store=store,
            incarnation=str(uuid.uuid4()),
            kinds=self._engine.kinds,
            find_clusters=self._engine.announce_clusters,
        )
        self._trust = TrustGate(self._settings.trust.policy, state, self._clock)
        self._trust.open()
        self._outbox = Outbox(state / "outbox", self._myself.incarnation, limits=self._rules.outbox)
        self._outbox.open()
        self.conditions.outbox_full = lambda: self._outbox.full_reason

    def _build_pool(self) -> None:
        hooks = PoolHooks(
            on_began=lambda leased: self._outbox.began(
                Began(leased.attempt_id, leased.task_id, leased.fence, leased.kind, leased.application)
            ),
            on_result=self._keep_result,
            on_release=lambda leased, reason, message: self._lanes.releaser.release(leased.attempt_id, leased.fence, reason, message),
            on_progress=lambda leased, event, data: self._lanes.progress.report(leased.attempt_id, leased.fence, event, data),
            on_crash=self._count_crash,
            on_paused=self._beat_soon,
        )
        self._pool = WorkerPool(self._settings.pool.capacity, self._trust.guard(self._engine.run), hooks, self._rules.pool)

    def _beat_soon(self) -> None:
        self._lanes.control.beat_soon()

    def _build_lanes(self) -> None:
        rules = LaneRules(limits=self._rules.limits, deaths=self._rules.deaths, stall_limit=self._rules.stall_limit)
        hooks = LaneHooks(
            on_registered=self._show_registered,
            on_ended=self._end_for,
            on_outdated=self._outdated,
            on_part_failed=self._give_up,
        )
        self._lanes = Lanes(
            self._settings,
            rules,
            hooks,
            myself=self._myself,
            pool=self._pool,
            outbox=self._outbox,
            mailroom=self._mailroom,
            certificates=self._certificates,
            conditions=self.conditions,
            metrics=self.metrics,
        )

    def _watch_metrics(self) -> None:
        self.metrics.task_capacity.set(self._settings.pool.capacity)
        self.metrics.watch(self.metrics.tasks_running, lambda: len(self._pool.roster))
        self.metrics.watch(self.metrics.outbox_entries, lambda: self._outbox.entries)
        self.metrics.watch(self.metrics.up, lambda: float(self.conditions.link_fresh))
        self.metrics.watch(self.metrics.loop_lag, lambda: self.conditions.lag_seconds)

    # Living.

    async def _live(self) -> bool:
        self._lanes.start()
        async with asyncio.TaskGroup() as sidecars:
            kept = [sidecars.create_task(self._lanes.control.run(), name="control lane")]
            parts = (*self._lanes.sidecars(), ("courier", self._mailroom.run), ("reaper", Reaper().run))
            kept += [sidecars.create_task(self._supervised(name, start), name=name) for name, start in parts]
            interrupted = await self._work()
            await self._lanes.deliver_rest(self._drain_until)
            await self._mailroom.send_rest(self._drain_until, self._stops.wait_until_hurried)
            await self._lanes.say_bye(self._farewell())
            for part in kept:
                part.cancel()
        return interrupted

    async def _work(self) -> bool:
        """The inner group: from the first poll to the end of the drain. Whether work was interrupted."""
        async with asyncio.TaskGroup() as work:
            pool = [
                work.create_task(self._supervised("pool", self._pool.run), name="pool"),
                work.create_task(self._supervised("leases", self._pool.keep_leases), name="leases"),
            ]
            poller = work.create_task(self._supervised("poller", self._lanes.poller.run, until=self._stops), name="poller")
            self._drain_until = await self._wait_for_stop()
            self._lanes.poller.stop()
            interrupted = await self._drain()
            await poller  # what it was handed in the last moment is released by now
            for part in pool:
                part.cancel()
        return interrupted

    async def _wait_for_stop(self) -> float:
        request = await self._stops.wait()
        timeout = self._settings.pool.drain_timeout
        self.conditions.draining = "the delegate stops"
        self._notifier.stopping("draining")
        log.info(
            "daemon.draining", reason=request.reason.value, detail=request.detail, running=len(self._pool.roster), timeout_seconds=timeout
        )
        return asyncio.get_running_loop().time() + timeout

    async def _drain(self) -> bool:
        timeout = self._settings.pool.drain_timeout
        margin = min(_MARGIN_SECONDS, timeout / 2)
        drained = await self._pool.drain(
            finish_seconds=timeout - margin, end_seconds=0.7 * margin, hurry=self._stops.wait_until_hurried, verdict=self._stop_verdict
        )
        log.info("daemon.drained", interrupted=drained.interrupted, stuck=drained.stuck)
        return bool(drained.interrupted or drained.stuck)

    def _stop_verdict(self) -> StopVerdict:
        decisive = self._stops.decisive
        reason = decisive.reason if decisive is not None else StopReason.SIGTERM
        return {StopReason.REVOKED: StopVerdict.CANCEL, StopReason.SUPERSEDED: StopVerdict.LOST}.get(reason, StopVerdict.INTERRUPTED)

    def _farewell(self) -> str:
        decisive = self._stops.decisive
        return decisive.reason.value if decisive is not None else ""

    # Parts.

    async def _supervised(self, name: str, start: Callable[[], Awaitable[None]], until: StopRequests | None = None) -> None:
        """Keeps a part alive; one that fails for good has the process drain, and cancels nobody."""
        try:
            await supervise(name, start, until=until, limit=self._rules.deaths, on_death=self.metrics.record_part_death)
        except PartFailedError as error:
            self._give_up(error.part, str(error))

    def _count_crash(self, error: Exception) -> None:
        """A fault of a worker outside of its task: as bad as the death of a part."""
        self.metrics.record_part_death("worker", error)
        now = SYSTEM_CLOCK.monotonic()
        self._crashes.append(now)
        limit = self._rules.deaths
        if len(self._crashes) == limit.deaths and now - self._crashes[0] <= limit.window_seconds:
            self._give_up("worker", f"worker died {limit.deaths} times in {limit.window_seconds:g} s")

    def _give_up(self, part: str, words: str) -> None:
        log.error("daemon.part_failed", part=part, error=words)
        if not self.conditions.failed_part:
            self.conditions.failed_part = part
            self._stops.request(StopReason.PART_FAILED, words)

    # What the pool tells.

    async def _keep_result(self, leased: LeasedTask, result: TaskResult, seconds: float) -> None:
        self.metrics.record_task(leased.kind, result.outcome.value, seconds)
        if leased.kind == "sync":
            self.metrics.record_sync(result.application, result.outcome.value, seconds)
        self._lanes.progress.forget(leased.attempt_id)
        await keep_result(self._outbox, leased, result)
        await self._trust.note_ended(leased.document, leased.task_id, result.outcome)

    # What the lanes tell.

    def _show_registered(self) -> None:
        self.registered.set()
        self._notifier.ready("registered with the manager")

    def _end_for(self, error: DelegateError) -> None:
        if isinstance(error, RevokedError):
            self._stops.request(StopReason.REVOKED, str(error), hurry=True)
        elif isinstance(error, SupersededError):
            self._stops.request(StopReason.SUPERSEDED, str(error), hurry=True)
        else:
            self._fatal = error
            self._stops.request(StopReason.DONE, str(error), hurry=True)

    def _outdated(self, error: OutdatedError) -> None:
        self.conditions.outdated = str(error)
        if self._rules.exit_on_outdated:
            self._stops.request(StopReason.OUTDATED, str(error))


def pod_uid() -> str:
    """The pod's uid where its manifest passes it down; it names the instance of an identity that is new."""
    return os.environ.get("POD_UID", "")
