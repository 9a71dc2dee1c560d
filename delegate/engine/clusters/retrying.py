"""When a call to an API server is tried again, and how long to wait before; pure but for the dice."""

import datetime as dt
import email.utils
import random

import msgspec

from delegate.engine.clusters import errors
from delegate.foundation.errors import DelegateError


class RetryPolicy(msgspec.Struct, frozen=True):
    """Exponential with full jitter, `Retry-After` as floor; whichever limit comes first ends it. Times in seconds."""

    max_attempts: int = 8
    base_seconds: float = 0.25
    cap_seconds: float = 30.0
    total_seconds: float = 900.0


ONE_TRY = RetryPolicy(max_attempts=1)
_REFUSED_UNSEEN = (errors.TooManyRequestsError,)
_FAULTS_OF_THE_WAY = (errors.UnreachableError, errors.UnavailableError, errors.ServerTimeoutError)


def is_worth_retrying(error: DelegateError, *, idempotent: bool) -> bool:
    """Whether the client itself tries again.

    A request that isn't idempotent is, only where the server says that it did nothing (429, or a `Retry-After`) or it was
    never sent. Other retryable errors (a webhook that is down) are for the caller, who knows what depends on it.
    """
    if not error.retryable:
        return False
    if isinstance(error, _REFUSED_UNSEEN):
        return True
    if not isinstance(error, _FAULTS_OF_THE_WAY):
        return False
    unsent = isinstance(error, errors.UnreachableError) and error.unsent
    return idempotent or unsent or error.retry_after is not None


def delay_before(attempt: int, policy: RetryPolicy, retry_after: float | None, dice: random.Random) -> float:
    """Seconds to wait after the failed try number `attempt` (from 1)."""
    ceiling = min(policy.cap_seconds, policy.base_seconds * 2.0 ** (attempt - 1))
    jittered = dice.uniform(0.0, ceiling)
    if retry_after is None:
        return jittered
    # The jitter comes on top: everybody was told the same moment.
    return retry_after + min(jittered, policy.base_seconds)


def parse_retry_after(text: str | None, now: dt.datetime) -> float | None:
    """Seconds from a `Retry-After` header (RFC 9110 §10.2.3: seconds or a date); None for none or nonsense."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        when = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=dt.UTC)
    return max(0.0, (when - now).total_seconds())
