"""The attempts that are held here, as the pool works on them and as the control lane tells of them."""

import asyncio
import datetime as dt
import enum
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from delegate.daemon.pool.exclusivity import ApplicationKey
from delegate.daemon.pool.masking import mask_step
from delegate.engine.tasks.resuming import ResumeSignal
from delegate.engine.tasks.stopping import StopSignal
from delegate.foundation.clocks import SYSTEM_CLOCK
from delegate.model.rollouts.pauses import Pause
from delegate.model.tasks import Task
from delegate.protocol.control import HeldAttempt, PauseReport
from delegate.protocol.work import LeasedTask


class Phase(enum.StrEnum):
    """Where an attempt is on its way through the pool."""

    WAITING = "waiting"  # acquired, not started: the application is still held by another task here
    RUNNING = "running"
    PARKED = "parked"
    FINISHED = "finished"  # its result is on its way to the outbox


@dataclass(eq=False)
class Attempt:
    """One attempt in the pool. `deadline` is loop time, `lease_ends_at` and `confirmed_at` are too: the last renewal's.

    `stop_asked` and the lease are also written by the control lane's thread; everything else belongs to the main loop.
    """

    leased: LeasedTask
    task: Task
    deadline: float
    confirmed_at: float
    lease_seconds: float
    phase: Phase = Phase.WAITING
    stop: StopSignal = field(default_factory=StopSignal)
    resume: ResumeSignal = field(default_factory=ResumeSignal)
    worker: "asyncio.Task[None] | None" = None
    timers: list[asyncio.TimerHandle] = field(default_factory=list)
    started_at: float = 0.0
    has_slot: bool = False
    began: bool = False  # the worker made its first step
    stop_asked: bool = False
    killed: bool = False
    doubted: bool = False
    pause: Pause | None = None

    @property
    def id(self) -> str:
        return self.leased.attempt_id

    @property
    def key(self) -> ApplicationKey:
        destination = self.task.destination
        return ApplicationKey(self.leased.cluster_uid or destination.name or destination.server, self.task.application)

    @property
    def state(self) -> str:
        """What a heartbeat says."""
        if self.stop_asked and self.phase is not Phase.FINISHED:
            return "cancelling"
        return Phase.RUNNING if self.phase is Phase.WAITING else self.phase

    @property
    def held(self) -> HeldAttempt:
        """The same with all that a heartbeat says of it."""
        pause = _report(self.pause) if self.pause is not None else None
        return HeldAttempt(attempt_id=self.id, fence=self.leased.fence, state=self.state, pause=pause)

    @property
    def doubtful_at(self) -> float:
        """When a third of the lease is left without a renewal: from then on the manager may be about to give it away."""
        return self.confirmed_at + self.lease_seconds * 2 / 3

    def stand_at(self, pause: Pause | None) -> bool:
        """Where it pauses, None when it goes on. Whether that is news."""
        if pause is not None:
            pause = msgspec.structs.replace(pause, reason=mask_step({"reason": pause.reason})["reason"])
        before, self.pause = self.pause, pause
        return pause != before

    def cancel_timers(self) -> None:
        for timer in self.timers:
            timer.cancel()
        self.timers.clear()


def _report(pause: Pause) -> PauseReport:
    """In durations: no two clocks need to agree."""
    now = SYSTEM_CLOCK.now()
    return PauseReport(
        number=pause.number,
        step=pause.step,
        ago_seconds=max(0.0, (now - dt.datetime.fromisoformat(pause.since)).total_seconds()),
        left_seconds=max(0.0, (dt.datetime.fromisoformat(pause.until) - now).total_seconds()) if pause.until else None,
        held=pause.held,
        reason=pause.reason,
    )


class Roster:
    """All attempts that the pool holds, by id. Readable from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._attempts: dict[str, Attempt] = {}

    def __len__(self) -> int:
        return len(self._attempts)

    def add(self, attempt: Attempt) -> None:
        with self._lock:
            self._attempts[attempt.id] = attempt

    def remove(self, attempt: Attempt) -> None:
        with self._lock:
            self._attempts.pop(attempt.id, None)

    def get(self, attempt_id: str) -> Attempt | None:
        return self._attempts.get(attempt_id)

    def all(self) -> list[Attempt]:
        with self._lock:
            return list(self._attempts.values())

    def held(self) -> tuple[HeldAttempt, ...]:
        """What a heartbeat says of them."""
        return tuple(each.held for each in self.all())

    def renewed(self, attempt_ids: Iterable[str], asked_at: float, lease_seconds: float) -> None:
        """The manager confirmed these leases in answer to what was sent at `asked_at`."""
        for attempt_id in attempt_ids:
            attempt = self._attempts.get(attempt_id)
            if attempt is not None and attempt.confirmed_at < asked_at:
                attempt.confirmed_at, attempt.lease_seconds, attempt.doubted = asked_at, lease_seconds, False

    def stop_asked(self, attempt_id: str) -> bool:
        """Marks that a stop was asked for, even while the main loop is too busy to act on it. Whether the attempt is held."""
        attempt = self._attempts.get(attempt_id)
        if attempt is not None:
            attempt.stop_asked = True
        return attempt is not None
