"""Trying again: capped exponential waits with full jitter, the other side's `Retry-After` as the floor.

`retrying` is for one step with an end; `backoff` for loops that go on for ever (a connection, a part that dies).
"""

import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Self, TypeVar

from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.errors import DelegateError
from delegate.foundation.settings.sections import Retry

T = TypeVar("T")
Dice = Callable[[], float]
"""A number in [0, 1), as `random.random`."""
_SPREAD = 0.2
"""Everybody who was told the same `Retry-After` comes back a little later than that, never before: up to 20 %."""
_LARGEST_EXPONENT = 62


@dataclass(frozen=True)
class Retrying:
    """The limits of trying again; whichever comes first ends it. Times in seconds."""

    max_attempts: int = 8
    base_seconds: float = 0.25
    max_seconds: float = 30.0
    max_duration_seconds: float = 900.0

    @classmethod
    def from_settings(cls, settings: Retry) -> Self:
        return cls(settings.max_attempts, settings.base_ms / 1000, settings.max_ms / 1000, settings.max_duration)

    def overridden(
        self,
        *,
        max_attempts: int | None = None,
        base_ms: int | None = None,
        max_ms: int | None = None,
        max_duration_seconds: float | None = None,
    ) -> Self:
        """The same with what a task's own `retry` says; None keeps what is."""
        return replace(
            self,
            max_attempts=self.max_attempts if max_attempts is None else max_attempts,
            base_seconds=self.base_seconds if base_ms is None else base_ms / 1000,
            max_seconds=self.max_seconds if max_ms is None else max_ms / 1000,
            max_duration_seconds=self.max_duration_seconds if max_duration_seconds is None else max_duration_seconds,
        )

    def wait_after(self, attempt: int, retry_after: float | None = None, dice: Dice = random.random) -> float:
        """Seconds to wait after the failed attempt of this number (from 1). Only the jittered part is capped."""
        ceiling = min(self.max_seconds, self.base_seconds * 2.0 ** min(attempt - 1, _LARGEST_EXPONENT))
        waited = dice() * ceiling
        if retry_after is None:
            return waited
        return max(waited, retry_after * (1.0 + _SPREAD * dice()))


@dataclass(frozen=True)
class RetryDetails:
    """What `on_retry` is told: the attempt that failed (from 1), why, and the seconds until the next."""

    attempt: int
    error: DelegateError
    wait_seconds: float


async def retrying(
    call: Callable[[], Awaitable[T]],
    policy: Retrying,
    *,
    deadline: float | None = None,
    on_retry: Callable[[RetryDetails], None] | None = None,
    clock: Clock = SYSTEM_CLOCK,
    dice: Dice = random.random,
) -> T:
    """What `call` returns, tried again while it raises retryable DelegateErrors and the policy allows.

    Anything else passes at once, as does the last error when a limit is reached, or when the next wait would end after
    `deadline` (of the clock's monotonic time) or after the longest duration. `call` bears its own timeout.
    """
    ends_at = clock.monotonic() + policy.max_duration_seconds
    if deadline is not None:
        ends_at = min(ends_at, deadline)
    attempt = 1
    while True:
        try:
            return await call()
        except DelegateError as error:
            if not error.retryable or attempt >= policy.max_attempts:
                raise
            wait = policy.wait_after(attempt, error.retry_after, dice)
            if clock.monotonic() + wait >= ends_at:
                raise
            details = RetryDetails(attempt, error, wait)
        if on_retry is not None:
            on_retry(details)
        await clock.sleep(details.wait_seconds)
        attempt += 1


def backoff(base_seconds: float = 0.25, max_seconds: float = 30.0, dice: Dice = random.random) -> Iterator[float]:
    """Endless waits, each between nothing and a ceiling that doubles up to the cap: full jitter, also at the cap."""
    ceiling = base_seconds
    while True:
        yield dice() * min(ceiling, max_seconds)
        ceiling = min(ceiling * 2.0, max_seconds)
