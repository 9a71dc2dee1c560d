"""Which failed calls to an API server the client tries again by itself, and what it is trying. How long it waits, `Retrying` says."""

import datetime as dt
import email.utils
from contextvars import ContextVar

from delegate.engine.clusters import errors
from delegate.foundation.errors import DelegateError
from delegate.foundation.lifecycle.retrying import Retrying

ONE_TRY = Retrying(max_attempts=1)
_REFUSED_UNSEEN = (errors.TooManyRequestsError,)
_FAULTS_OF_THE_WAY = (errors.UnreachableError, errors.UnavailableError, errors.ServerTimeoutError)


class LastRetry:
    """Why a call of some work is being tried again right now, in words; empty while nothing is."""

    def __init__(self) -> None:
        self.fault = ""


LAST_RETRY: ContextVar[LastRetry | None] = ContextVar("last_retry", default=None)
"""Set by whoever runs work to a deadline, so that the end of its time can be explained: a retry that is cut off raises nothing."""


def note_retry(fault: str) -> None:
    last = LAST_RETRY.get()
    if last is not None:
        last.fault = fault


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
