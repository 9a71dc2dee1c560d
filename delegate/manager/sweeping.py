"""The sweeper: ends what is over, and makes good what a wake-up missed."""

import asyncio
import contextlib
import time

import structlog

from delegate.foundation.errors import DelegateError
from delegate.manager.dispatch import Dispatch
from delegate.manager.effects import Effects
from delegate.manager.metrics import ManagerMetrics
from delegate.manager.settings import Rhythm
from delegate.manager.store import sweeping
from delegate.manager.store.database import Database
from delegate.manager.store.explaining import find_unroutable
from delegate.manager.store.letters import count_open
from delegate.manager.store.retention import forget_old
from delegate.manager.store.submissions import refuse_unroutable

log = structlog.get_logger(__name__)
_TIDYING_SECONDS = 600.0
_ROUTING_SECONDS = 15.0
_FORGETTING_SECONDS = 60.0


class Sweeper:
    """Runs the sweep. `shared`: other managers write to the same database, and can't wake polls here.

    No lease ends before the grace after the start is over, or after a stall of this process itself: the delegates' heartbeats
    may lie unread. `come_back_seconds` is what delegates are told (`Rhythm.come_back_seconds`): by those that are connected; just after a
    start, when not all are back, by those that may be.
    """

    def __init__(self, database: Database, dispatch: Dispatch, metrics: ManagerMetrics, rhythm: Rhythm, *, shared: bool) -> None:
        self._database = database
        self._dispatch = dispatch
        self._metrics = metrics
        self._rhythm = rhythm
        self._shared = shared
        self._grace_until = time.monotonic() + rhythm.grace_seconds
        self._tidied_at = time.monotonic()
        self._forgotten_at = time.monotonic()
        self.swept_at = time.monotonic()
        self._routes_looked_at = time.monotonic()
        self._unroutable: dict[str, float] = {}
        self._crowd_known_at = time.monotonic() + rhythm.connected_seconds
        self.come_back_seconds = 0.0

    async def run(self) -> None:
        """Sweeps until cancelled. A database that is away for a while is no reason to end."""
        with contextlib.suppress(DelegateError):
            await self._count()
        while True:
            await asyncio.sleep(self._rhythm.sweep_seconds)
            self._note_stall()
            try:
                await self.sweep()
            except DelegateError as error:
                log.warning("sweep.failed", error=str(error))

    def _note_stall(self) -> None:
        now = time.monotonic()
        if now - self.swept_at > self._rhythm.sweep_seconds + self._rhythm.lease_seconds / 3:
            log.warning("sweep.was_stalled", seconds=round(now - self.swept_at, 3))
            self._grace_until = max(self._grace_until, now + self._rhythm.lease_seconds)
        self.swept_at = now

    async def sweep(self) -> None:
        """Once."""
        leases = time.monotonic() >= self._grace_until
        expired = await self._database.write(lambda transaction: sweeping.end_what_is_over(transaction, leases=leases))
        if expired:
            self._metrics.record_expired(expired)
            log.info("sweep.leases_expired", count=expired)
        if self._dispatch.waiting:
            self._dispatch.apply(Effects(ready=await self._database.read(sweeping.find_ready)))
        if self._shared and self._dispatch.listening:
            self._dispatch.apply(Effects(commands_for=await self._database.read(sweeping.find_commanded)))
        await self._refuse_unroutable()
        await self._count()
        self._metrics.set_dead_letters(await self._database.read(count_open))
        await self._database.tidy()
        if time.monotonic() - self._tidied_at > _TIDYING_SECONDS:
            self._tidied_at = time.monotonic()
            await self._database.write(sweeping.forget_stale)
        if time.monotonic() - self._forgotten_at > _FORGETTING_SECONDS and not await self._database.write(forget_old):
            self._forgotten_at = time.monotonic()  # else a page more with the next sweep, so that nobody waits for long

    async def _count(self) -> None:
        counts = await self._database.read(sweeping.count)
        self._metrics.set_counts(queued=counts.queued, running=counts.running, connected=counts.connected, disconnected=counts.disconnected)
        all_are_back = time.monotonic() >= self._crowd_known_at
        self.come_back_seconds = self._rhythm.come_back_seconds(counts.connected + (0 if all_are_back else counts.disconnected))

    async def _refuse_unroutable(self) -> None:
        """Ends tasks that no connected delegate could take for as long as that is waited for, counted while this process looks on."""
        now, patience = time.monotonic(), self._rhythm.unroutable_seconds
        if now < self._routes_looked_at + min(_ROUTING_SECONDS, patience / 4):
            return
        self._routes_looked_at = now
        found = await self._database.read(find_unroutable)
        self._unroutable = {task: self._unroutable.get(task, now) for task in found}
        due = {task: found[task] for task, since in self._unroutable.items() if now - since >= patience}
        if due:
            refused = await self._database.write(lambda transaction: refuse_unroutable(transaction, due))
            log.warning("sweep.unroutable", count=refused)
