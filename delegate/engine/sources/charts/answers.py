"""What an answer of a repository that is no success means. Pure."""

from delegate.engine.sources.errors import (
    FetchAuthenticationError,
    FetchError,
    FetchTransferError,
    UnexpectedAnswerError,
)
from delegate.engine.sources.fetching import Fetched
from delegate.foundation.secrets import hide_credentials

_REFUSED = (401, 403)
_NOT_NOW = (408, 425, 429, 500, 502, 503, 504)


def error_of(answer: Fetched, *, anonymous: bool) -> FetchError:
    """The error for any status but 200."""
    shown = hide_credentials(answer.url)
    if answer.status in _REFUSED:
        if anonymous:
            hint = "write a Secret of type helm for it into DELEGATE_REPOSITORIES_DIR"
            return FetchAuthenticationError(f"{shown} wants credentials, and none are set for it", hint=hint)
        hint = "check that they are right, not expired, and may read this repository"
        return FetchAuthenticationError(f"{shown} refuses the credentials: {answer.status} {answer.text}", hint=hint)
    if answer.status in _NOT_NOW:
        return FetchTransferError(
            f"{shown} answered {answer.status}: {answer.text}", retry_after=_seconds(answer.headers.get("retry-after", ""))
        )
    return UnexpectedAnswerError(f"{shown} answered {answer.status}: {answer.text}", hint="check the address")


def _seconds(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() else None
