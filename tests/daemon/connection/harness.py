"""A control lane and a session against a scripted manager, with everything that they tell written down."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from delegate.daemon.connection.calling import Caller
from delegate.daemon.connection.control_lane import Condition, ControlHooks, ControlLane
from delegate.daemon.connection.faults import Faults
from delegate.daemon.connection.keeper import SessionKeeper
from delegate.daemon.connection.sessions import Credentials, Introduction, Session, SessionHooks
from delegate.daemon.connection.transport import Endpoint, Limits, Transport
from delegate.foundation.errors import DelegateError
from delegate.foundation.lifecycle import DeathLimit
from delegate.foundation.secrets import Secret
from delegate.protocol.control import HeldAttempt
from delegate.protocol.enrolment import AttemptDecision, AttemptReport, BuildInfo, ClusterName
from tests.fakes.scripted_manager import ScriptedManager, scripted_manager

QUICK = Limits(connect=5.0, stall=2.0, slack=2.0)


@dataclass
class Told:
    """What the lane told; appended to from its thread."""

    enrolled: list[tuple[str, str]] = field(default_factory=list)
    opened: list[tuple[Session, Sequence[AttemptReport], Sequence[AttemptDecision]]] = field(default_factory=list)
    ended: list[DelegateError] = field(default_factory=list)
    outdated: list[DelegateError] = field(default_factory=list)
    verdicts: list[tuple[str, str]] = field(default_factory=list)
    renewed: list[str] = field(default_factory=list)
    drains: int = 0
    resumed: list[tuple[str, int]] = field(default_factory=list)
    unknown_commands: list[str] = field(default_factory=list)
    faults: list[tuple[str, str]] = field(default_factory=list)
    deaths: list[str] = field(default_factory=list)


@dataclass
class Link:
    manager: ScriptedManager
    keeper: SessionKeeper
    lane: ControlLane
    transport: Transport
    caller: Caller
    faults: Faults
    told: Told
    held: list[HeldAttempt]
    reports: list[AttemptReport]
    lag: list[float]


@asynccontextmanager
async def linked(*, enrolled: bool = False, stall_limit: float = 300.0, **manager_fields: Any) -> AsyncIterator[Link]:
    async with scripted_manager(**manager_fields) as manager, linked_to(manager, enrolled=enrolled, stall_limit=stall_limit) as link:
        yield link


@asynccontextmanager
async def linked_to(manager: ScriptedManager, *, enrolled: bool = False, stall_limit: float = 300.0) -> AsyncIterator[Link]:
    told = Told()
    held: list[HeldAttempt] = []
    reports: list[AttemptReport] = []
    lag: list[float] = [0.0]

    def transport() -> Transport:
        return Transport(Endpoint(join=lambda path: manager.url + path), limits=QUICK)

    def note_drain() -> None:
        told.drains += 1

    faults = Faults("control", lambda lane, reason: told.faults.append((lane, reason)))
    keeper = SessionKeeper(
        Introduction(
            name="shop",
            instance="i-1",
            incarnation="p-1",
            boot_count=1,
            capacity=4,
            labels={"env": "dev"},
            kinds=("sync",),
            build=BuildInfo(),
        ),
        Credentials(delegate_id="d-1", refresh_token=Secret("refresh-0")) if enrolled else Credentials(),
        SessionHooks(
            bootstrap_token=lambda: Secret("bootstrap"),
            clusters=lambda: (ClusterName(name="in-cluster", uid="u"),),
            attempts=lambda: tuple(reports),
            on_enrolled=lambda delegate_id, refresh: told.enrolled.append((delegate_id, refresh.reveal())),
            on_opened=lambda *opened: told.opened.append(opened),
            on_token_expiry=lambda seconds: None,
            on_ended=told.ended.append,
            on_outdated=told.outdated.append,
        ),
        faults=faults,
    )
    hooks = ControlHooks(
        condition=lambda: Condition(attempts=tuple(held), capacity=4, free_slots=4, loop_lag_seconds=lag[0]),
        on_renewed=lambda attempts, asked_at, lease: told.renewed.extend(attempts),
        on_verdict=lambda attempt, verdict, reason: told.verdicts.append((attempt, verdict.value)),
        on_drain=note_drain,
        on_resume=lambda attempt, pause: told.resumed.append((attempt, pause)),
        on_revoke=lambda reason: None,
        on_unknown_command=told.unknown_commands.append,
        on_contact=lambda: None,
        on_death=lambda name, error: told.deaths.append(name),
        on_part_failed=lambda error: told.deaths.append(error.part),
    )
    lane = ControlLane(keeper, hooks, transport=transport, faults=faults, stall_limit=stall_limit, deaths=DeathLimit())
    work = transport()
    lane.start()
    try:
        yield Link(manager, keeper, lane, work, Caller(keeper, work), faults, told, held, reports, lag)
    finally:
        lane.close()
        await work.close()
        assert told.deaths == []
