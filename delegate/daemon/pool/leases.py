"""Keeping leases: noticing that a renewal is overdue before the manager may give the attempt away."""

import asyncio
from collections.abc import Callable

import structlog

from delegate.daemon.pool.attempts import Attempt, Roster

log = structlog.get_logger(__name__)
_LONGEST_SECONDS = 60.0


class LeaseKeeper:
    """Tells of each attempt whose lease has a third left without a confirmed renewal, once until the next renewal."""

    def __init__(self, roster: Roster, on_doubt: Callable[[Attempt], None]) -> None:
        self._roster = roster
        self._on_doubt = on_doubt
        self._changed = asyncio.Event()

    def look_again(self) -> None:
        """There is a new attempt: its lease may be the next to run short."""
        self._changed.set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            next_at = self._check(loop.time())
            try:
                async with asyncio.timeout_at(next_at):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _check(self, now: float) -> float | None:
        """Tells of all that are overdue; when to look again."""
        next_at: float | None = None
        for attempt in self._roster.all():
            if attempt.doubted:
                # A renewal clears the doubt from another thread, without waking this one.
                next_at = min(next_at or now + _LONGEST_SECONDS, now + max(0.05, attempt.lease_seconds / 3))
            elif attempt.doubtful_at <= now:
                attempt.doubted = True
                log.warning("lease.unconfirmed", attempt=attempt.id, unconfirmed_seconds=round(now - attempt.confirmed_at, 1))
                self._on_doubt(attempt)
            else:
                next_at = attempt.doubtful_at if next_at is None else min(next_at, attempt.doubtful_at)
        return next_at
