"""The control lane: heartbeats up, verdicts and commands down, from a thread with a loop and connections of its own.

So no task starves it. It says of the attempts what the roster says, also while the main loop is too busy to be asked; but when
the main loop has been stuck beyond a limit, it stops vouching: heartbeats then name no attempt and say `stalled`. It also is the home
of the session keeper.
"""

import asyncio
import contextlib
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass

import structlog

from delegate.daemon.connection.calling import Caller
from delegate.daemon.connection.cuts import IdleCuts
from delegate.daemon.connection.errors import RefusalError, TransportError
from delegate.daemon.connection.faults import Faults
from delegate.daemon.connection.keeper import SessionKeeper
from delegate.daemon.connection.sessions import Session, new_request_id
from delegate.daemon.connection.transport import Transport
from delegate.daemon.connection.waits import Waits
from delegate.foundation.lifecycle import DeathLimit, PartFailedError, supervise
from delegate.protocol import routes
from delegate.protocol.control import (
    Command,
    CommandKind,
    CommandsAnswer,
    CommandsRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    HeldAttempt,
    LeaseDecision,
    LeaseVerdict,
)
from delegate.protocol.messages import known

log = structlog.get_logger(__name__)
_dice = random.Random()  # noqa: S311 - it spreads load, and guards nothing
_MOST_FINISHED_TOLD = 1_000
_REMEMBERED_COMMANDS = 1_000
_JOIN_SECONDS = 5.0
_GATHER_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Condition:
    """How the delegate is, for a heartbeat."""

    attempts: tuple[HeldAttempt, ...] = ()
    capacity: int = 0
    free_slots: int = 0
    outbox_entries: int = 0
    outbox_bytes: int = 0
    loop_lag_seconds: float = 0.0
    draining: bool = False
    blocked: str = ""
    certificate_expires_in_seconds: float | None = None


def _resume_nothing(attempt_id: str, pause: int) -> None:
    del attempt_id, pause


@dataclass(frozen=True, kw_only=True)
class ControlHooks:
    """All are called in the lane's thread; none may block. `on_renewed` gets the time at which the request was made."""

    condition: Callable[[], Condition]
    on_renewed: Callable[[Iterable[str], float, float], None]
    on_verdict: Callable[[str, LeaseVerdict, str], None]
    on_drain: Callable[[], None]
    on_revoke: Callable[[str], None]
    on_unknown_command: Callable[[str], None]
    on_contact: Callable[[], None]
    on_death: Callable[[str, Exception], None]
    on_part_failed: Callable[[PartFailedError], None]
    on_resume: Callable[[str, int], None] = _resume_nothing


class ControlLane:
    """`start`, then `run` beside other parts until cancelled, then `close`."""

    def __init__(
        self,
        keeper: SessionKeeper,
        hooks: ControlHooks,
        *,
        transport: Callable[[], Transport],
        faults: Faults,
        stall_limit: float,
        deaths: DeathLimit,
    ) -> None:
        self._keeper = keeper
        self._hooks = hooks
        self._transport_factory = transport
        self._faults = faults
        self._stall_limit = stall_limit
        self._deaths = deaths
        self._cuts = IdleCuts()
        self._wait = 0.0
        self._sequence = 0
        self._to_acknowledge: dict[str, None] = {}
        self._seen_commands: dict[str, None] = {}
        self._told: dict[str, str] = {}
        self._contact = asyncio.Event()
        self._news = asyncio.Event()
        self._stalled = False
        self._home: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._live, name="control-lane", daemon=True)

    # In the main loop.

    def start(self) -> None:
        """Starts the thread; when this returns, the keeper can be asked."""
        ready = threading.Event()
        self._ready = ready
        self._thread.start()
        ready.wait()

    async def run(self) -> None:
        """Until cancelled. Raises what broke the thread itself."""
        await asyncio.shield(asyncio.wrap_future(self._ended))

    def beat_soon(self) -> None:
        """Something has changed that a person wants to know of before the next heartbeat is due."""
        if self._home is not None and self._thread.is_alive():
            self._home[0].call_soon_threadsafe(self._news.set)

    def close(self) -> None:
        """Ends the thread. Blocks for a moment at most."""
        if self._home is not None and self._thread.is_alive():
            loop, stop = self._home
            loop.call_soon_threadsafe(stop.set)
            self._thread.join(_JOIN_SECONDS)

    # In the lane's thread.

    def _live(self) -> None:
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(self._main())
        except BaseException as error:  # noqa: BLE001 - carried over to the main loop, where it is raised again
            self._ended.set_exception(_single(error))
        else:
            self._ended.set_result(None)
        finally:
            self._ready.set()

    async def _main(self) -> None:
        stop = asyncio.Event()
        transport = self._transport_factory()
        caller = Caller(self._keeper, transport)
        self._keeper.live_in(asyncio.get_running_loop(), transport)
        self._home = (asyncio.get_running_loop(), stop)
        self._ready.set()
        try:
            async with asyncio.TaskGroup() as parts:
                tasks = [
                    parts.create_task(self._supervised("session", self._keeper.run)),
                    parts.create_task(self._supervised("heartbeats", lambda: self._send_heartbeats(caller, transport))),
                    parts.create_task(self._supervised("commands", lambda: self._hear_commands(caller))),
                ]
                await stop.wait()
                for task in tasks:
                    task.cancel()
        finally:
            await transport.close()

    async def _supervised(self, name: str, start: Callable[[], Awaitable[None]]) -> None:
        """One that fails for good is told, and leaves the others to work on until the process has drained."""
        try:
            await supervise(name, start, limit=self._deaths, on_death=self._hooks.on_death)
        except PartFailedError as error:
            self._hooks.on_part_failed(error)

    async def _send_heartbeats(self, caller: Caller, transport: Transport) -> None:
        waits: Waits | None = None
        due_at = time.monotonic()
        share = _dice.random()  # of the first interval: delegates that came together don't beat together for ever
        while True:
            session = await self._keeper.session()
            interval = session.settings.heartbeat_seconds
            # Whatever patience is asked for, the leases have to be renewed in time.
            transport.patience.cap(routes.HEARTBEAT, session.settings.lease_seconds / 3)
            try:
                interval = await self._beat(caller, session)
            except (TransportError, RefusalError) as error:
                waits = waits or Waits(min(1.0, interval), interval, self._keeper.reconnect_schedule)
                wait = waits.after(error)
                self._faults.failed(routes.HEARTBEAT, error, wait)
                await asyncio.sleep(wait)
                due_at, share = time.monotonic(), _dice.random()
                continue
            waits = None
            due_at, share = max(time.monotonic(), due_at + share * interval), 1.0
            await self._wait_for_news(due_at - time.monotonic())
            due_at = min(due_at, time.monotonic())

    async def _wait_for_news(self, seconds: float) -> None:
        """So long; less where there is news, for all of which a moment's heartbeat is enough."""
        moment = min(seconds, _GATHER_SECONDS)
        await asyncio.sleep(moment)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds - moment):
                await self._news.wait()
        self._news.clear()

    async def _beat(self, caller: Caller, session: Session) -> float:
        """One heartbeat; seconds until the next."""
        condition = self._hooks.condition()
        acknowledged = tuple(self._to_acknowledge)
        self._sequence += 1
        request_id, sequence, asked_at = new_request_id(), self._sequence, time.monotonic()
        stalled = self._is_stalled(condition)

        def build(session: Session) -> HeartbeatRequest:
            return HeartbeatRequest(
                request_id=request_id,
                epoch=session.epoch,
                sequence=sequence,
                attempts=() if stalled else condition.attempts[: condition.capacity + _MOST_FINISHED_TOLD],
                capacity=condition.capacity,
                free_slots=condition.free_slots,
                outbox_entries=condition.outbox_entries,
                outbox_bytes=condition.outbox_bytes,
                loop_lag_seconds=round(condition.loop_lag_seconds, 3),
                stalled=stalled,
                draining=condition.draining,
                blocked=condition.blocked,
                certificate_expires_in_seconds=condition.certificate_expires_in_seconds,
                acknowledged=acknowledged,
            )

        answer = await caller.call(routes.HEARTBEAT, build, HeartbeatAnswer, within_seconds=session.settings.lease_seconds / 3)
        self._faults.worked(routes.HEARTBEAT)
        if answer.come_back_seconds > 0:
            self._keeper.reconnect_schedule.seconds = answer.come_back_seconds
        self._contact.set()
        self._hooks.on_contact()
        self._forget_acknowledged(acknowledged)
        self._take_decisions(answer.attempts, asked_at, answer.lease_seconds)
        self._take_commands(answer.commands)
        return max(0.05, answer.heartbeat_seconds)

    def _is_stalled(self, condition: Condition) -> bool:
        stalled = condition.loop_lag_seconds > self._stall_limit
        if stalled and not self._stalled:
            log.error("loop.not_vouched_for", lag_seconds=round(condition.loop_lag_seconds, 1), limit_seconds=self._stall_limit)
        self._stalled = stalled
        return stalled

    def _take_decisions(self, decisions: Iterable[LeaseDecision], asked_at: float, lease_seconds: float) -> None:
        renewed: list[str] = []
        told: dict[str, str] = {}
        for decision in decisions:
            verdict = known(LeaseVerdict, decision.verdict, LeaseVerdict.OK)
            if verdict is LeaseVerdict.OK:
                renewed.append(decision.attempt_id)
                continue
            told[decision.attempt_id] = verdict
            if self._told.get(decision.attempt_id) != verdict:
                self._hooks.on_verdict(decision.attempt_id, verdict, decision.reason)
        self._told = told
        self._hooks.on_renewed(renewed, asked_at, lease_seconds)

    async def _hear_commands(self, caller: Caller) -> None:
        waits = Waits(0.5, 30.0, self._keeper.reconnect_schedule)
        while True:
            session = await self._keeper.session()
            if "commands" not in session.features:
                await asyncio.sleep(session.settings.poll_seconds)
                continue
            try:
                await self._poll_commands(caller, session)
            except (TransportError, RefusalError) as error:
                if isinstance(error, TransportError) and self._was_idle_cut(error):
                    continue
                wait = waits.after(error)
                self._faults.failed(routes.COMMANDS, error, wait)
                await self._wait_for_contact(wait)
            else:
                self._faults.worked(routes.COMMANDS)
                waits.reset()

    async def _wait_for_contact(self, seconds: float) -> None:
        """So long, or until a heartbeat was answered: then there is no reason to wait any longer."""
        self._contact.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._contact.wait()

    async def _poll_commands(self, caller: Caller, session: Session) -> None:
        acknowledged = tuple(self._to_acknowledge)
        self._wait = wait = self._cuts.bound(session.settings.poll_seconds)
        request_id = new_request_id()

        def build(session: Session) -> CommandsRequest:
            return CommandsRequest(request_id=request_id, epoch=session.epoch, wait_seconds=wait, acknowledged=acknowledged)

        answer = await caller.call(routes.COMMANDS, build, CommandsAnswer, wait_seconds=wait)
        self._forget_acknowledged(acknowledged)
        self._take_commands(answer.commands)

    def _was_idle_cut(self, error: TransportError) -> bool:
        if error.cut_after is None or not self._cuts.is_idle_cut(error.cut_after, self._wait):
            return False
        self._faults.cut(error.cut_after)
        limit = self._cuts.learn(error.cut_after)
        if limit is not None:
            log.warning(
                "connection.poll_shortened", lane="control", cut_after_seconds=round(error.cut_after, 1), wait_seconds=round(limit, 1)
            )
        return True

    def _take_commands(self, commands: Iterable[Command]) -> None:
        for command in commands:
            self._to_acknowledge[command.id] = None
            if command.id in self._seen_commands:
                continue
            self._seen_commands[command.id] = None
            if len(self._seen_commands) > _REMEMBERED_COMMANDS:
                del self._seen_commands[next(iter(self._seen_commands))]
            self._obey(command)

    def _obey(self, command: Command) -> None:
        log.info("command.received", command=command.kind, command_id=command.id)
        match known(CommandKind, command.kind, CommandKind.UNSUPPORTED):
            case CommandKind.CANCEL:
                attempt_id = str(command.data.get("attemptId", ""))
                verdict = known(LeaseVerdict, str(command.data.get("verdict", "")), LeaseVerdict.CANCEL)
                if verdict is not LeaseVerdict.OK:
                    self._told[attempt_id] = verdict
                    self._hooks.on_verdict(attempt_id, verdict, str(command.data.get("reason", "")))
            case CommandKind.RESUME:
                pause = command.data.get("pause", 0)
                self._hooks.on_resume(str(command.data.get("attemptId", "")), pause if isinstance(pause, int) else 0)
            case CommandKind.DRAIN:
                self._hooks.on_drain()
            case CommandKind.REVOKE:
                self._hooks.on_revoke(str(command.data.get("reason", "")))
            case CommandKind.UNSUPPORTED:
                self._hooks.on_unknown_command(command.kind)

    def _forget_acknowledged(self, acknowledged: Iterable[str]) -> None:
        for command_id in acknowledged:
            self._to_acknowledge.pop(command_id, None)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is one: it gives the interpreter up less often on the way of a call, and so a task that holds the
    interpreter in long slices costs a heartbeat fewer of them."""
    try:
        import uvloop  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return uvloop.new_event_loop


def _single(error: BaseException) -> BaseException:
    """The fault that broke a group of parts."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
