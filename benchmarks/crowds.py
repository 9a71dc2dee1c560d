"""Many delegates in one process that do nothing but be there: the daemon's own session, heartbeats, commands and polls over real sockets.

What is left out is what a delegate has beside its link: a thread, a disk, an engine. So thousands of them fit into one process, and meet
the manager as thousands of daemons do.
"""

import asyncio
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.idling import CLUSTER
from delegate.daemon.connection.calling import Caller
from delegate.daemon.connection.control_lane import Condition, ControlHooks, ControlLane
from delegate.daemon.connection.faults import Faults
from delegate.daemon.connection.keeper import SessionKeeper
from delegate.daemon.connection.sessions import Credentials, Introduction, SessionHooks
from delegate.daemon.connection.transport import Endpoint, Limits, Transport
from delegate.daemon.connection.work_lane import Poller
from delegate.daemon.pool.slots import Reservation, Slots
from delegate.foundation.lifecycle import DeathLimit
from delegate.foundation.lifecycle.stops import StopRequests
from delegate.foundation.secrets import Secret
from delegate.protocol.enrolment import BuildInfo

SIZE_VARIABLE, URL_VARIABLE, TOKEN_VARIABLE = "BENCH_CROWD_SIZE", "BENCH_CROWD_URL", "BENCH_CROWD_TOKEN"
_CAPACITY = 16
_AT_ONCE = 20
_TELL_SECONDS = 0.5


@dataclass
class Arrivals:
    """When each delegate first heard of its manager again, counted from `reset`."""

    contacts: dict[int, float] = field(default_factory=dict)
    opened: set[int] = field(default_factory=set)

    def note(self, number: int) -> None:
        self.contacts.setdefault(number, time.monotonic())

    def reset(self) -> None:
        self.contacts.clear()

    def by_second(self, since: float) -> Counter[int]:
        """How many came back in each second after that moment."""
        return Counter(int(at - since) for at in self.contacts.values())


class _SameLoopLane(ControlLane):
    """The control lane without its thread."""

    async def live(self) -> None:
        self._ready = threading.Event()
        await self._main()


class LightDelegate:
    """`run` until cancelled."""

    def __init__(self, number: int, url: str, token: str, arrivals: Arrivals, *, limits: Limits) -> None:
        self._url = url
        self._limits = limits
        faults = Faults("control", lambda lane, reason: None)
        self._keeper = SessionKeeper(
            Introduction(
                name=f"light-{number}",
                instance=uuid.uuid4().hex,
                incarnation=uuid.uuid4().hex,
                boot_count=1,
                capacity=_CAPACITY,
                labels={},
                kinds=("sync",),
                build=BuildInfo(),
            ),
            Credentials(),
            SessionHooks(
                bootstrap_token=lambda: Secret(token),
                clusters=lambda: (CLUSTER,),
                attempts=lambda: (),
                on_enrolled=lambda delegate_id, refresh: None,
                on_opened=lambda *opened: arrivals.opened.add(number),
                on_token_expiry=lambda seconds: None,
                on_ended=lambda error: None,
                on_outdated=lambda error: None,
            ),
            faults=faults,
        )
        hooks = ControlHooks(
            condition=lambda: Condition(attempts=(), capacity=_CAPACITY, free_slots=_CAPACITY, loop_lag_seconds=0.0),
            on_renewed=lambda attempts, asked_at, lease: None,
            on_verdict=lambda attempt, verdict, reason: None,
            on_drain=lambda: None,
            on_revoke=lambda reason: None,
            on_unknown_command=lambda kind: None,
            on_contact=lambda: arrivals.note(number),
            on_death=lambda name, error: None,
            on_part_failed=lambda error: None,
        )
        self._lane = _SameLoopLane(
            self._keeper, hooks, transport=self._transport, faults=faults, stall_limit=300.0, deaths=DeathLimit(deaths=1_000_000)
        )

    def _transport(self) -> Transport:
        return Transport(Endpoint(join=lambda path: self._url + path), limits=self._limits)

    async def run(self) -> None:
        work = self._transport()
        slots = Slots(_CAPACITY)
        try:
            async with asyncio.TaskGroup() as parts:
                parts.create_task(self._lane.live())
                await asyncio.sleep(0)  # the keeper has its loop now
                poller: Poller[Reservation] = Poller(
                    Caller(self._keeper, work),
                    self._keeper,
                    Faults("work", lambda lane, reason: None),
                    reserve=slots.reserve,
                    submit=lambda reservation, task: None,
                    refuse=_refuse,
                    running=lambda: (),
                    blocked=lambda: "",
                )
                parts.create_task(poller.run())
        finally:
            await work.close()


async def _refuse(task: object) -> None:
    del task


async def gather_crowd(group: asyncio.TaskGroup, size: int, url: str, token: str, arrivals: Arrivals) -> None:
    """Starts so many of them, some at a time, and waits until all have a session."""
    for number in range(size):
        group.create_task(LightDelegate(number, url, token, arrivals, limits=Limits()).run())
        if number % _AT_ONCE == _AT_ONCE - 1:
            while len(arrivals.opened) < number - 2 * _AT_ONCE:  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.01)
    while len(arrivals.opened) < size:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def run_crowd(stops: StopRequests, say: Callable[..., None]) -> None:
    """The crowd that the environment describes; a line on standard output twice a second says how many the manager has answered since the
    last time that nobody was answered."""
    arrivals = Arrivals()
    async with asyncio.TaskGroup() as group:
        crowd = group.create_task(_live(arrivals, say))
        await stops.wait()
        crowd.cancel()


async def _live(arrivals: Arrivals, say: Callable[..., None]) -> None:
    size = int(os.environ[SIZE_VARIABLE])
    async with asyncio.TaskGroup() as group:
        await gather_crowd(group, size, os.environ[URL_VARIABLE], os.environ[TOKEN_VARIABLE], arrivals)
        say("gathered", size=size)
        latest: dict[int, float] = {}
        while True:
            arrivals.reset()
            await asyncio.sleep(_TELL_SECONDS)
            latest.update(arrivals.contacts)
            say("heard", now=time.monotonic(), delegates=list(arrivals.contacts), times=[round(at, 3) for at in arrivals.contacts.values()])
