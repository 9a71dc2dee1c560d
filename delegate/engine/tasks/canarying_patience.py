"""What of a canary may be done again, and after how long: faults of a server that may be over a moment later."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from delegate.engine.clusters.errors import ClusterError, InternalServerError
from delegate.foundation.clocks import Clock
from delegate.foundation.errors import DelegateError

T = TypeVar("T")
MOST_REPEATS = 10
_FIRST_SECONDS, _LONGEST_SECONDS = 0.05, 2.0


async def repeated(clock: Clock, operation: Callable[[], Awaitable[T]]) -> T:
    """Does what may be done again, until it goes well, or can't. Raises DelegateError."""
    repeats = 0
    while True:
        try:
            return await operation()
        except DelegateError as error:
            repeats += 1
            if repeats > MOST_REPEATS or not may_pass(error):
                raise
        await clock.sleep(pause_before(repeats))


def pause_before(repeat: int) -> float:
    return min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0**repeat)


def may_pass(error: DelegateError) -> bool:
    """Whether the same may go well a moment later."""
    return isinstance(error, ClusterError) and (error.retryable or isinstance(error, InternalServerError))
