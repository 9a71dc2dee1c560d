"""Both lanes to the manager, wired to the pool, the outbox and what is known of the delegate's condition.

What the control lane asks and tells comes in its thread: answers are read from values that may be read from anywhere, and whatever
changes something is carried over to the main loop.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

import structlog

from delegate import __version__
from delegate.daemon.announcing import Announcer
from delegate.daemon.certificates import Certificates
from delegate.daemon.conditions import Conditions
from delegate.daemon.connection.calling import Caller
from delegate.daemon.connection.control_lane import Condition, ControlHooks, ControlLane
from delegate.daemon.connection.errors import OutdatedError, RefusalError, RevokedError, TransportError
from delegate.daemon.connection.faults import Faults
from delegate.daemon.connection.keeper import SessionKeeper
from delegate.daemon.connection.outbox import Outbox
from delegate.daemon.connection.progress import ProgressSender
from delegate.daemon.connection.releases import Releaser
from delegate.daemon.connection.reporter import Reporter
from delegate.daemon.connection.sessions import Credentials, Introduction, Session, SessionHooks
from delegate.daemon.connection.telling import LetterTeller
from delegate.daemon.connection.transport import Limits, Transport
from delegate.daemon.connection.work_lane import Poller
from delegate.daemon.identity.store import Identity, IdentityStore
from delegate.daemon.identity.tokens import TokenFollower, TokenHooks, is_account_token, mark_of
from delegate.daemon.mailroom import Mailroom
from delegate.daemon.metering import LinkCounters
from delegate.daemon.pool.slots import Reservation
from delegate.daemon.pool.workers import WorkerPool
from delegate.engine.tasks.stopping import StopVerdict
from delegate.foundation.errors import DelegateError
from delegate.foundation.lifecycle import DeathLimit
from delegate.foundation.secrets import Secret
from delegate.foundation.settings.programs import DelegateSettings
from delegate.foundation.telemetry.metrics import DelegateMetrics
from delegate.protocol.codec import UndecodableTask
from delegate.protocol.control import HeldAttempt, LeaseVerdict
from delegate.protocol.enrolment import AttemptDecision, AttemptReport, AttemptState, AttemptVerdict, BuildInfo, ClusterName
from delegate.protocol.messages import known
from delegate.protocol.versions import skew_of
from delegate.protocol.work import ReleaseReason

log = structlog.get_logger(__name__)
_ADOPTION_SECONDS = 15.0
_UNREACHABLE_SECONDS = 3.0
_GOODBYE_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class LaneRules:
    """Seconds; `stall_limit` is that of the main loop."""

    limits: Limits
    deaths: DeathLimit
    stall_limit: float


@dataclass(frozen=True, kw_only=True)
class LaneHooks:
    """What the lanes tell the process, in the main loop."""

    on_registered: Callable[[], None]
    on_ended: Callable[[DelegateError], None]
    on_outdated: Callable[[OutdatedError], None]
    on_part_failed: Callable[[str, str], None]


@dataclass(frozen=True, kw_only=True)
class Myself:
    """Who this process is: the identity, counted up, where it is kept, and what it can do."""

    identity: Identity
    store: IdentityStore
    incarnation: str
    kinds: tuple[str, ...]
    find_clusters: Callable[[], Awaitable[tuple[ClusterName, ...]]]


class Lanes:
    """`start`, then `sidecars` and `poller.run` as parts, then `close`. Made in the main loop."""

    def __init__(
        self,
        settings: DelegateSettings,
        rules: LaneRules,
        hooks: LaneHooks,
        *,
        myself: Myself,
        pool: WorkerPool,
        outbox: Outbox,
        mailroom: Mailroom,
        certificates: Certificates,
        conditions: Conditions,
        metrics: DelegateMetrics,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._settings = settings
        self._hooks = hooks
        self._myself = myself
        self._pool = pool
        self._outbox = outbox
        self._mailroom = mailroom
        self._certificates = certificates
        self._conditions = conditions
        self._metrics = metrics
        self._counters = LinkCounters(metrics)
        self._cordoned = ""
        self._registered = False
        self._token_mark = myself.identity.token_mark
        self._tokens = TokenFollower(
            TokenHooks(
                delegate_token=settings.link.bootstrap_token,
                account_token=settings.link.account_token,
                enrolled_with=lambda: self._token_mark,
                is_enrolled=lambda: self.keeper.current is not None,
                enrol=self._enrol_with,
                on_end=metrics.set_token_expiry,
            )
        )
        self._announcer = Announcer(myself.find_clusters, self._introduce_again)

        def transport() -> Transport:
            return Transport(certificates.endpoint, limits=rules.limits)

        control_faults, work_faults = Faults("control", self._counters.count_fault), Faults("work", self._counters.count_fault)
        conditions.link_faults = lambda: control_faults.words or work_faults.words
        self.keeper = self._make_keeper(control_faults)
        certificates.attach(self.keeper)
        self.control = ControlLane(
            self.keeper,
            self._control_hooks(),
            transport=transport,
            faults=control_faults,
            stall_limit=rules.stall_limit,
            deaths=rules.deaths,
        )
        self._transport = transport()
        caller = Caller(self.keeper, self._transport)
        self.releaser = Releaser(caller, work_faults, outbox.settle)
        self.progress = ProgressSender(caller, self.keeper, work_faults)
        mailroom.tell = LetterTeller(caller, self.keeper, work_faults).tell
        self.reporter = Reporter(
            outbox,
            self.keeper,
            self._transport,
            work_faults,
            bury=mailroom.keep_result,
            bury_task=mailroom.keep_exhausted,
            on_settled=lambda attempt, verdict: self._counters.count_result(verdict),
        )
        self.poller: Poller[Reservation] = Poller(
            caller,
            self.keeper,
            work_faults,
            reserve=pool.slots.reserve,
            submit=pool.submit,
            refuse=self._refuse,
            running=lambda: [attempt.id for attempt in pool.roster.all()],
            blocked=lambda: outbox.full_reason or mailroom.is_full() or self._cordoned,
        )

    def start(self) -> None:
        """Starts the control lane's thread."""
        self.control.start()

    def sidecars(self) -> tuple[tuple[str, Callable[[], Awaitable[None]]], ...]:
        """The parts that outlive the work, by name."""
        return (
            ("reporter", self.reporter.run),
            ("releases", self.releaser.run),
            ("progress", self.progress.run),
            ("announcer", self._announcer.run),
            ("adoption", self._adopt_orphans),
            ("rotator", self._certificates.run),
            ("authorities", self._certificates.follow_files),
            ("tokens", self._tokens.run),
            ("doubts", self._certificates.settle_doubts),
        )

    async def deliver_rest(self, until: float) -> None:
        """Tells the manager what can still be told: results until this loop time, releases a moment longer."""
        try:
            async with asyncio.timeout_at(max(self._loop.time() + 1.0, until)):
                await self.reporter.wait_until_delivered(unreachable_seconds=_UNREACHABLE_SECONDS)
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await self.releaser.wait_until_told()
        except TimeoutError:
            log.info("daemon.stopped_waiting_for_manager", outbox_entries=self._outbox.entries)
        if self._outbox.entries:
            log.warning("outbox.kept_for_next_start", results=self._outbox.entries, directory=str(self._outbox.directory))

    async def say_bye(self, reason: str) -> None:
        await self.keeper.say_bye(reason, _GOODBYE_SECONDS)

    async def close(self) -> None:
        self.control.close()
        await self._transport.close()

    # Building.

    def _make_keeper(self, faults: Faults) -> SessionKeeper:
        identity = self._myself.identity
        return SessionKeeper(
            self._introduction(),
            Credentials(delegate_id=identity.delegate_id, refresh_token=identity.refresh_token),
            SessionHooks(
                prepare=self._certificates.find_authority,
                account_token=self._settings.link.account_token,
                bootstrap_token=self._settings.link.require_token,
                signing_request=self._certificates.signing_request,
                on_certificate=self._certificates.keep,
                on_certificate_refused=self._certificates.rotator.refuse,
                on_cut=self._certificates.doubt,
                clusters=self._announcer.tell,
                attempts=self._report_attempts,
                on_token_used=self._note_token,
                has_another_token=self._tokens.has_another,
                on_enrolled=lambda delegate_id, refresh: self._myself.store.enrol(delegate_id, refresh, self._token_mark),
                on_opened=self._hear_opening,
                on_token_expiry=self._show_token_expiry,
                on_ended=lambda error: self._in_main(self._hooks.on_ended, error),
                on_outdated=lambda error: self._in_main(self._hooks.on_outdated, error),
            ),
            faults=faults,
        )

    def _introduction(self) -> Introduction:
        settings, version = self._settings, sys.version_info
        return Introduction(
            name=settings.identity.name,
            instance=self._myself.identity.instance,
            incarnation=self._myself.incarnation,
            boot_count=self._myself.identity.boot_count,
            capacity=settings.pool.capacity,
            labels=dict(settings.identity.labels),
            kinds=self._myself.kinds,
            build=BuildInfo(version=__version__, python=f"{version.major}.{version.minor}.{version.micro}"),
        )

    def _control_hooks(self) -> ControlHooks:
        return ControlHooks(
            condition=self._condition,
            on_renewed=self._pool.roster.renewed,
            on_verdict=self._hear_verdict,
            on_resume=lambda attempt_id, pause: self._in_main(self._pool.resume, attempt_id, pause),
            on_drain=lambda: self._in_main(self._cordon),
            on_revoke=lambda reason: self.keeper.end(RevokedError(f"the manager revoked this delegate: {reason}".rstrip(": "))),
            on_unknown_command=lambda kind: self._counters.count_unknown_command(),
            on_contact=self._hear_contact,
            on_death=self._metrics.record_part_death,
            on_part_failed=lambda error: self._in_main(self._hooks.on_part_failed, error.part, str(error)),
        )

    # In the control lane's thread.

    def _in_main(self, call: Callable[..., object], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(call, *arguments)

    def _hear_contact(self) -> None:
        self._conditions.touch()
        if self.poller.waits_for_contact:
            self._in_main(self.poller.wake)

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
            loop_lag_seconds=self._conditions.lag_seconds,
            draining=bool(self._conditions.draining),
            blocked=self._outbox.full_reason or self._mailroom.is_full(),
            certificate_expires_in_seconds=self._certificates.holder.expires_in_seconds(),
        )

    def _report_attempts(self) -> Sequence[AttemptReport]:
        finished, lost = self._outbox.owed_attempts()
        running = [(each.id, each.leased.task_id, each.leased.fence, AttemptState.RUNNING) for each in self._pool.roster.all()]
        ended = [(each.attempt_id, each.task_id, each.fence, AttemptState.FINISHED) for each in finished]
        gone = [(each.attempt_id, each.task_id, each.fence, AttemptState.LOST) for each in lost]
        reports = {
            attempt: AttemptReport(attempt_id=attempt, task_id=task, fence=fence, state=state)
            for attempt, task, fence, state in (*running, *ended, *gone)
        }
        return tuple(reports.values())

    def _hear_opening(self, session: Session, reports: Sequence[AttemptReport], decisions: Iterable[AttemptDecision]) -> None:
        self._conditions.heartbeat_seconds = session.settings.heartbeat_seconds
        self._conditions.touch()
        self._conditions.registered = True
        self._metrics.set_skew(skew_of(__version__, session.manager_version))
        verdicts = {each.attempt_id: known(AttemptVerdict, each.verdict, AttemptVerdict.KEEP) for each in decisions}
        self._in_main(self._settle_attempts, reports, verdicts)

    def _hear_verdict(self, attempt_id: str, verdict: LeaseVerdict, reason: str) -> None:
        if self._pool.roster.stop_asked(attempt_id):
            self._in_main(self._pool.stop, attempt_id, StopVerdict(verdict.value), reason)

    def _note_token(self, token: Secret) -> None:
        self._token_mark = "" if is_account_token(token) else mark_of(token)

    def _show_token_expiry(self, seconds: float | None) -> None:
        self._metrics.set_token_expiry(None if seconds is None else time.time() + seconds)

    # In the main loop.

    async def _enrol_with(self, token: Secret) -> None:
        """With another token come other labels, maybe: a new session says which ones hold."""
        await self._certificates.enrol_with(token)
        await self._introduce_again()

    def _settle_attempts(self, reports: Iterable[AttemptReport], verdicts: dict[str, AttemptVerdict]) -> None:
        if not self._registered:
            self._registered = True
            self._hooks.on_registered()
        self._announcer.compare()
        for report in reports:
            if report.state == AttemptState.LOST:
                self._outbox.settle(report.attempt_id)  # the manager knows it now
            elif report.state == AttemptState.RUNNING and verdicts.get(report.attempt_id) is AttemptVerdict.DROP:
                self._pool.stop(report.attempt_id, StopVerdict.LOST, "the manager gave it to another")

    async def _refuse(self, task: UndecodableTask) -> None:
        await self._mailroom.keep_task(task)
        if task.attempt_id:
            self.releaser.release(task.attempt_id, task.fence, ReleaseReason.UNSUPPORTED, task.reason)

    def _cordon(self) -> None:
        self._cordoned = self._conditions.draining = "the manager asked this delegate to drain"
        log.info("daemon.cordoned", running=len(self._pool.roster))

    async def _adopt_orphans(self) -> None:
        while True:
            await asyncio.sleep(_ADOPTION_SECONDS)
            if await self._outbox.adopt():
                await self._introduce_again()

    async def _introduce_again(self) -> None:
        if not self._conditions.registered:
            return  # the session that is being opened will say it
        try:
            await self.keeper.introduce_again()
        except (TransportError, RefusalError) as error:
            log.info("session.not_reopened", error=error)
