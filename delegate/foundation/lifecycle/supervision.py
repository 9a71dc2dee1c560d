"""Keeps the parts of the process alive, and says so when one can't be kept."""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.lifecycle.errors import PartFailedError
from delegate.foundation.lifecycle.retrying import Dice, backoff
from delegate.foundation.lifecycle.stops import StopRequests

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class DeathLimit:
    """How often a part may die: `deaths` within `window_seconds` are too many. A good minute resets the waits between starts."""

    deaths: int = 5
    window_seconds: float = 300.0
    good_seconds: float = 60.0
    base_seconds: float = 0.5
    max_seconds: float = 30.0


class EndedUnaskedError(Exception):
    """A part that should run until the process stops came to its end before."""


async def supervise(
    name: str,
    start: Callable[[], Awaitable[None]],
    *,
    until: StopRequests | None = None,
    limit: DeathLimit = DeathLimit(),
    passing: tuple[type[Exception], ...] = (),
    on_death: Callable[[str, Exception], None] | None = None,
    clock: Clock = SYSTEM_CLOCK,
    dice: Dice = random.random,
) -> None:
    """Runs `start()` and starts it again, after a wait with full jitter, whenever it dies.

    A normal return is the end, but with `until` given it is a death as long as no stop was requested; after a stop request
    nothing is started again. `on_death` is told each death (for a metric). Errors of the types `passing` are nobody's
    death: they pass at once. Raises PartFailedError, caused by the last error, when the limit is reached.
    """
    deaths: deque[float] = deque(maxlen=limit.deaths)
    waits = backoff(limit.base_seconds, limit.max_seconds, dice)
    while True:
        started_at = clock.monotonic()
        error = await _live(name, start, until, passing)
        if error is None:
            return
        died_at = clock.monotonic()
        deaths.append(died_at)
        if on_death is not None:
            on_death(name, error)
        if len(deaths) == limit.deaths and died_at - deaths[0] <= limit.window_seconds:
            raise PartFailedError(
                name,
                f"{name} died {limit.deaths} times in {limit.window_seconds:g} s, last of {_words(error)}",
                hint="the log line before each restart tells why (supervision.part_died)",
            ) from error
        if died_at - started_at >= limit.good_seconds:
            waits = backoff(limit.base_seconds, limit.max_seconds, dice)
        wait = next(waits)
        log.error("supervision.part_died", part=name, exc_info=error, deaths=len(deaths), restart_in_seconds=round(wait, 3))
        if until is None:
            await clock.sleep(wait)
        elif await until.sleep(wait, clock):
            return


async def _live(
    name: str, start: Callable[[], Awaitable[None]], until: StopRequests | None, passing: tuple[type[Exception], ...]
) -> Exception | None:
    """One life of a part: None if it came to its proper end, else what it died of."""
    try:
        await start()
    except passing:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        died = EndedUnaskedError(f"{name} was cancelled by something inside it")
        died.__cause__ = error
        return died
    except Exception as error:  # noqa: BLE001 - the supervisor's boundary: every fault becomes a restart or PartFailedError
        return error
    if until is not None and not until.requested:
        return EndedUnaskedError(f"{name} ended without being asked to")
    return None


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
