"""The composition root of the daemon: builds the parts, wires them with callables, starts and stops them in order.

Starting. The state directory is proved to keep files before anything else; then the identity is counted up and the journal of
the outbox is opened, which takes over what earlier processes left. Probes answer from then on. The control lane starts in its
thread: it enrols, opens the session with a report of every attempt that is known here, and sends heartbeats. Beside it, the outer
group of parts begins: reporter, releases, progress, announcer, adoption of journals of processes that ended. Last comes the inner
group, the work: the pool, and the poller that asks for tasks as soon as there is a session.

Stopping is the same in reverse, and the outer group outlives the inner one. A stop request (a signal, or a part that failed for good)
ends the poller at once; a batch on its way is handed back. Attempts that have not begun are released. The rest get until the drain
timeout less a margin, then the word to stop as interrupted, then their cancellation. Their results reach the disk, and the manager if
it is there. Then the process says bye, the control lane ends, and what is still owed waits on disk for the next start. A second signal
skips the wait. So after SIGTERM nothing is worse than after SIGKILL, where the journal alone tells the next process what began.

Revoked and superseded processes stop at once: their work has no authority any more.
"""

import asyncio
import os
import sys
import time
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
import structlog

from delegate import __version__
from delegate.daemon.announcing import Announcer
from delegate.daemon.conditions import Conditions, Watchdog
from delegate.daemon.connection.control_lane import Condition, ControlHooks, ControlLane
from delegate.daemon.connection.errors import OutdatedError, RefusalError, RevokedError, SupersededError, TransportError
from delegate.daemon.connection.faults import Faults
from delegate.daemon.connection.journal import Began, Kept
from delegate.daemon.connection.outbox import Outbox, OutboxLimits
from delegate.daemon.connection.progress import ProgressSender
from delegate.daemon.connection.releases import Releaser
from delegate.daemon.connection.reporter import Reporter
from delegate.daemon.connection.sessions import Caller, Credentials, Introduction, Session, SessionHooks, SessionKeeper
from delegate.daemon.connection.transport import Endpoint, Limits, Transport
from delegate.daemon.connection.trust import tls_context
from delegate.daemon.connection.work_lane import Poller
from delegate.daemon.directories import prepare_directory
from delegate.daemon.identity.store import IdentityStore
from delegate.daemon.metering import LinkCounters
from delegate.daemon.pool.slots import Reservation
from delegate.daemon.pool.workers import PoolHooks, PoolRules, WorkerPool
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.stopping import StopVerdict
from delegate.foundation.clocks import SYSTEM_CLOCK
from delegate.foundation.errors import DelegateError
from delegate.foundation.lifecycle import DeathLimit, LoopMonitor, PartFailedError, StopReason, StopRequests, supervise
from delegate.foundation.secrets import Secret
from delegate.foundation.settings.programs import DelegateSettings
from delegate.foundation.settings.proxies import ProxyRules
from delegate.foundation.telemetry.metrics import DelegateMetrics
from delegate.foundation.telemetry.probes import ProbeServer
from delegate.foundation.telemetry.systemd import Notifier
from delegate.model.resources import JsonObject
from delegate.model.results import TaskResult
from delegate.model.tasks import Task
from delegate.protocol import codec
from delegate.protocol.codec import UndecodableTask
from delegate.protocol.control import HeldAttempt, LeaseVerdict
from delegate.protocol.enrolment import (
    AttemptDecision,
    AttemptReport,
    AttemptState,
    AttemptVerdict,
    BuildInfo,
    ClusterName,
)
from delegate.protocol.messages import known
from delegate.protocol.versions import PROTOCOL_MAX
from delegate.protocol.work import LeasedTask, ReleaseReason, ResultItem

log = structlog.get_logger(__name__)
_ADOPTION_SECONDS = 15.0
_MARGIN_SECONDS = 10.0
_UNREACHABLE_SECONDS = 3.0
_GOODBYE_SECONDS = 2.0


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
    ) -> None:
        """`engine` is given the metrics to build with. `instance` names a new identity (a pod's uid)."""
        self._settings = settings
        self._stops = stops
        self._rules = rules or DaemonRules()
        self._notifier = notifier or Notifier()
        self._instance = instance
        self.metrics = DelegateMetrics(settings.identity.name, version=__version__, protocol=str(PROTOCOL_MAX))
        self.conditions = Conditions(stall_limit=self._rules.stall_limit)
        self.registered = asyncio.Event()
        self._counters = LinkCounters(self.metrics)
        self._engine = engine(self.metrics)
        self._crashes: deque[float] = deque(maxlen=self._rules.deaths.deaths)
        self._fatal: DelegateError | None = None
        self._cordoned = ""

    @property
    def port(self) -> int:
        """Where probes are served, once it runs."""
        return self._probes.port

    async def run(self) -> Ending:
        """Lives until a stop is requested and drained.

        Raises StateDirectoryError, SettingsError, ProbesUnavailableError, AuthoritiesError before anything was begun, EnrolmentRefusedError
        or UntrustedError when a manager does not take a delegate that was never enrolled.
        """
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as exits:
            exits.push_async_callback(self._engine.close)
            self._open_state()
            exits.push_async_callback(self._outbox.close)
            self._build_pool()
            self._build_lanes()
            exits.push_async_callback(self._work_transport.close)
            self._watch_metrics()
            self.conditions.monitor = exits.enter_context(LoopMonitor())
            self._probes = exits.enter_context(ProbeServer(self._settings.probes, self.conditions.report, self.metrics.expose))
            exits.enter_context(Watchdog(self._notifier, self.conditions))
            log.info("daemon.started", version=__version__, probes_port=self._probes.port, capacity=self._settings.pool.capacity)
            exits.callback(self._control.close)
            interrupted = await self._live()
        if self._fatal is not None:
            raise self._fatal
        return Ending(interrupted, self.conditions.failed_part)

    # Building.

    def _open_state(self) -> None:
        state = self._settings.identity.state_dir
        prepare_directory(state)
        self._store = IdentityStore(state)
        self._identity = self._store.begin(self._instance)
        if not self._identity.enrolled:
            self._settings.link.require_token()
        self._incarnation = str(uuid.uuid4())
        self._outbox = Outbox(state / "outbox", self._incarnation, limits=self._rules.outbox)
        self._outbox.open()
        self.conditions.outbox_full = lambda: self._outbox.full_reason

    def _build_lanes(self) -> None:
        settings = self._settings
        proxies = ProxyRules.from_settings(settings.network)
        endpoint = Endpoint(
            join=settings.link.join,
            tls=tls_context(settings.network.ssl_cert_file) if settings.link.url.startswith("https:") else None,
            proxy=proxies.address_for,
        )

        def transport() -> Transport:
            return Transport(endpoint, limits=self._rules.limits)

        control_faults, work_faults = Faults("control", self._counters.count_fault), Faults("work", self._counters.count_fault)
        self.conditions.link_faults = lambda: control_faults.words or work_faults.words
        self._announcer = Announcer(self._engine.announce_clusters, self._introduce_again)
        self._keeper = SessionKeeper(
            self._introduction(),
            Credentials(delegate_id=self._identity.delegate_id, refresh_token=self._identity.refresh_token),
            SessionHooks(
                bootstrap_token=settings.link.require_token,
                clusters=self._announcer.tell,
                attempts=self._report_attempts,
                on_enrolled=self._keep_enrolment,
                on_opened=self._hear_opening,
                on_token_expiry=self._show_token_expiry,
                on_ended=lambda error: self._in_main(self._end_for, error),
                on_outdated=lambda error: self._in_main(self._outdated, error),
            ),
            faults=control_faults,
        )
        self._control = ControlLane(
            self._keeper,
            ControlHooks(
                condition=self._condition,
                on_renewed=self._pool.roster.renewed,
                on_verdict=self._hear_verdict,
                on_drain=lambda: self._in_main(self._cordon),
                on_revoke=lambda reason: self._keeper.end(RevokedError(f"the manager revoked this delegate: {reason}".rstrip(": "))),
                on_unknown_command=lambda kind: self._counters.count_unknown_command(),
                on_contact=self.conditions.touch,
                on_death=self.metrics.record_part_death,
                on_part_failed=lambda error: self._in_main(self._give_up, error.part, str(error)),
            ),
            transport=transport,
            faults=control_faults,
            stall_limit=self._rules.stall_limit,
            deaths=self._rules.deaths,
        )
        self._work_transport = transport()
        caller = Caller(self._keeper, self._work_transport)
        self._releaser = Releaser(caller, work_faults, self._outbox.settle)
        self._progress = ProgressSender(caller, self._keeper, work_faults)
        self._reporter = Reporter(
            self._outbox,
            self._keeper,
            self._work_transport,
            work_faults,
            on_settled=lambda attempt, verdict: self._counters.count_result(verdict),
        )
        self._poller: Poller[Reservation] = Poller(
            caller,
            self._keeper,
            work_faults,
            reserve=self._pool.slots.reserve,
            submit=self._pool.submit,
            refuse=self._refuse,
            running=lambda: [attempt.id for attempt in self._pool.roster.all()],
            blocked=lambda: self._outbox.full_reason or self._cordoned,
        )

    def _introduction(self) -> Introduction:
        identity = self._settings.identity
        version = sys.version_info
        return Introduction(
            name=identity.name,
            instance=self._identity.instance,
            incarnation=self._incarnation,
            boot_count=self._identity.boot_count,
            capacity=self._settings.pool.capacity,
            labels=dict(identity.labels),
            kinds=self._engine.kinds,
            build=BuildInfo(version=__version__, python=f"{version.major}.{version.minor}.{version.micro}"),
        )

    def _build_pool(self) -> None:
        hooks = PoolHooks(
            on_began=lambda leased: self._outbox.began(
                Began(leased.attempt_id, leased.task_id, leased.fence, leased.kind, leased.application)
            ),
            on_result=self._keep_result,
            on_release=lambda leased, reason, message: self._releaser.release(leased.attempt_id, leased.fence, reason, message),
            on_progress=lambda leased, event, data: self._progress.report(leased.attempt_id, leased.fence, event, data),
            on_crash=self._count_crash,
        )
        self._pool = WorkerPool(self._settings.pool.capacity, self._engine.run, hooks, self._rules.pool)

    def _watch_metrics(self) -> None:
        self.metrics.task_capacity.set(self._settings.pool.capacity)
        self.metrics.watch(self.metrics.tasks_running, lambda: len(self._pool.roster))
        self.metrics.watch(self.metrics.outbox_entries, lambda: self._outbox.entries)
        self.metrics.watch(self.metrics.up, lambda: float(self.conditions.link_fresh))
        self.metrics.watch(self.metrics.loop_lag, lambda: self.conditions.lag_seconds)

    # Living.

    async def _live(self) -> bool:
        self._control.start()
        async with asyncio.TaskGroup() as sidecars:
            kept = [
                sidecars.create_task(self._control.run(), name="control lane"),
                *(
                    sidecars.create_task(self._supervised(name, start), name=name)
                    for name, start in (
                        ("reporter", self._reporter.run),
                        ("releases", self._releaser.run),
                        ("progress", self._progress.run),
                        ("announcer", self._announcer.run),
                        ("adoption", self._adopt_orphans),
                    )
                ),
            ]
            interrupted = await self._work()
            await self._deliver_rest()
            await self._keeper.say_bye(self._farewell(), _GOODBYE_SECONDS)
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
            poller = work.create_task(self._supervised("poller", self._poller.run, until=self._stops), name="poller")
            self._drain_until = await self._wait_for_stop()
            self._poller.stop()
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
        return self._loop.time() + timeout

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

    async def _deliver_rest(self) -> None:
        """Results and releases that the manager can still be told of in the time that is left."""
        try:
            async with asyncio.timeout_at(max(self._loop.time() + 1.0, self._drain_until)):
                await self._reporter.wait_until_delivered(unreachable_seconds=_UNREACHABLE_SECONDS)
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await self._releaser.wait_until_told()
        except TimeoutError:
            log.info("daemon.stopped_waiting_for_manager", outbox_entries=self._outbox.entries)
        if self._outbox.entries:
            log.warning("outbox.kept_for_next_start", results=self._outbox.entries, directory=str(self._outbox.directory))

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

    async def _adopt_orphans(self) -> None:
        while True:
            await asyncio.sleep(_ADOPTION_SECONDS)
            if await self._outbox.adopt():
                await self._introduce_again()

    async def _introduce_again(self) -> None:
        if not self.conditions.registered:
            return  # the session that is being opened will say it
        try:
            await self._keeper.introduce_again()
        except (TransportError, RefusalError) as error:
            log.info("session.not_reopened", error=str(error))

    # What the pool tells.

    async def _keep_result(self, leased: LeasedTask, result: TaskResult, seconds: float) -> None:
        document: JsonObject = msgspec.to_builtins(result)
        item = ResultItem(
            attempt_id=leased.attempt_id,
            task_id=leased.task_id,
            fence=leased.fence,
            attempt_token=leased.attempt_token,
            digest=codec.result_digest(document),
            result=document,
        )
        self.metrics.record_task(leased.kind, result.outcome.value, seconds)
        if leased.kind == "sync":
            self.metrics.record_sync(result.application, result.outcome.value, seconds)
        self._progress.forget(leased.attempt_id)
        kept_at = SYSTEM_CLOCK.now().isoformat(timespec="seconds")
        await self._outbox.keep(Kept(item, leased.kind, leased.application, result.outcome.value, kept_at))

    def _refuse(self, task: UndecodableTask) -> None:
        if task.attempt_id:
            self._releaser.release(task.attempt_id, task.fence, ReleaseReason.UNSUPPORTED, task.reason)

    # What the control lane asks and tells, in its own thread.

    def _in_main(self, call: Callable[..., object], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(call, *arguments)

    def _condition(self) -> Condition:
        finished, _ = self._outbox.owed_attempts()
        held = {each.attempt_id: each for each in self._pool.roster.held()}
        for began in finished:
            held[began.attempt_id] = HeldAttempt(attempt_id=began.attempt_id, fence=began.fence, state="finished")
        return Condition(
            attempts=tuple(held.values()),
            capacity=self._settings.pool.capacity,
            free_slots=self._pool.slots.free + self._pool.slots.reserved,
            outbox_entries=self._outbox.entries,
            outbox_bytes=self._outbox.stored_bytes,
            loop_lag_seconds=self.conditions.lag_seconds,
            draining=bool(self.conditions.draining or self._cordoned),
        )

    def _report_attempts(self) -> Sequence[AttemptReport]:
        finished, lost = self._outbox.owed_attempts()
        reports = {
            attempt.id: _report(attempt.id, attempt.leased.task_id, attempt.leased.fence, AttemptState.RUNNING)
            for attempt in self._pool.roster.all()
        }
        for began, state in (*((each, AttemptState.FINISHED) for each in finished), *((each, AttemptState.LOST) for each in lost)):
            reports[began.attempt_id] = _report(began.attempt_id, began.task_id, began.fence, state)
        return tuple(reports.values())

    def _hear_opening(self, session: Session, reports: Sequence[AttemptReport], decisions: Iterable[AttemptDecision]) -> None:
        self.conditions.heartbeat_seconds = session.settings.heartbeat_seconds
        self.conditions.touch()
        self.conditions.registered = True
        verdicts = {each.attempt_id: known(AttemptVerdict, each.verdict, AttemptVerdict.KEEP) for each in decisions}
        self._in_main(self._settle_attempts, reports, verdicts)

    def _hear_verdict(self, attempt_id: str, verdict: LeaseVerdict, reason: str) -> None:
        if self._pool.roster.stop_asked(attempt_id):
            self._in_main(self._pool.stop, attempt_id, StopVerdict(verdict.value), reason)

    def _keep_enrolment(self, delegate_id: str, refresh_token: Secret) -> None:
        self._store.enrol(delegate_id, refresh_token)

    def _show_token_expiry(self, seconds: float | None) -> None:
        self.metrics.set_token_expiry(None if seconds is None else time.time() + seconds)

    # The same, in the main loop.

    def _settle_attempts(self, reports: Iterable[AttemptReport], verdicts: dict[str, AttemptVerdict]) -> None:
        if not self.registered.is_set():
            self.registered.set()
            self._notifier.ready("registered with the manager")
        self._announcer.compare()
        for report in reports:
            if report.state == AttemptState.LOST:
                self._outbox.settle(report.attempt_id)  # the manager knows it now
            elif report.state == AttemptState.RUNNING and verdicts.get(report.attempt_id) is AttemptVerdict.DROP:
                self._pool.stop(report.attempt_id, StopVerdict.LOST, "the manager gave it to another")

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

    def _cordon(self) -> None:
        self._cordoned = self.conditions.draining = "the manager asked this delegate to drain"
        log.info("daemon.cordoned", running=len(self._pool.roster))


def _report(attempt_id: str, task_id: str, fence: int, state: AttemptState) -> AttemptReport:
    return AttemptReport(attempt_id=attempt_id, task_id=task_id, fence=fence, state=state)


def pod_uid() -> str:
    """The pod's uid where its manifest passes it down; it names the instance of an identity that is new."""
    return os.environ.get("POD_UID", "")
