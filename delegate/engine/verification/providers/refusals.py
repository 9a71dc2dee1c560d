"""What a status that is no answer means; pure. 408, 429 and 5xx may pass; every other is for good."""

import datetime as dt
from collections.abc import Mapping

import msgspec

from delegate.engine.verification.errors import (
    ProviderQuestionError,
    ProviderRefusedError,
    ProviderUnavailableError,
    UnreadableAnswerError,
    VerificationError,
)
from delegate.engine.verification.providers.freshness import seconds_until
from delegate.engine.verification.providers.numbers import texts_of
from delegate.foundation.redaction import redact

_WORDS = 200
_RESETS = ("x-ratelimit-reset", "ratelimit-reset")
"""Some sources send them with every answer: they count with a 429 alone."""
_LONGEST_REST_SECONDS = 3600.0
_MESSAGES = ("error", "errors", "message", "messages", "errorMessage", "error_description", "detail", "reason", "failures")


class Refusal(msgspec.Struct, frozen=True):
    """An answer with a status that is none. `source` is how messages call the source, `right` what a reader needs there."""

    source: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    right: str = ""

    def error(self, now: dt.datetime) -> VerificationError:
        words = self._words()
        said = f"{self.source} answered {self.status}" + (f": {words}" if words else "")
        if self.status in (408, 429) or self.status >= 500:
            return ProviderUnavailableError(said, hint=self._patience(), retry_after=self.rest_seconds(now))
        if self.status == 401:
            return ProviderRefusedError(said, hint="check the credentials of this provider in the file of DELEGATE_PROVIDERS")
        if self.status == 403:
            right = f" ({self.right})" if self.right else ""
            return ProviderRefusedError(said, hint=f"give these credentials the right to read{right}, and check their address")
        if self.status == 404:
            return ProviderQuestionError(
                said, hint="check the provider's url and what the query names (tenant, index, application, account)"
            )
        if self.status in (400, 422):
            return ProviderQuestionError(said, hint="correct the query or its parameters")
        if 300 <= self.status < 400:
            return UnreadableAnswerError(said, hint="set the provider's url to where it redirects")
        return ProviderQuestionError(said, hint="check the provider's url and type")

    def rest_seconds(self, now: dt.datetime) -> float | None:
        """How long the source wants to be left alone; the longest of what it says, an hour at most."""
        names = ("retry-after", *(_RESETS if self.status == 429 else ()))
        found = [seconds for name in names if (seconds := seconds_until(self.headers.get(name), now)) is not None]
        return min(max(found), _LONGEST_REST_SECONDS) if found else None

    def _patience(self) -> str:
        if self.status == 429:
            return "ask less often (every), or raise the limit of these credentials"
        return "look at the source itself; this says nothing about the release"

    def _words(self) -> str:
        return words_of(self.body)


def words_of(body: bytes) -> str:
    """What a body says of a fault, without secrets: the message of a JSON document, else its beginning."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = body[: 4 * _WORDS].decode(errors="replace")
        return "" if text.lstrip().startswith("<") else _short(text)
    if isinstance(document, dict):
        for key in _MESSAGES:
            if found := texts_of(document.get(key)):
                return _short("; ".join(found))
    return _short(str(document))


def _short(text: str) -> str:
    return redact(" ".join(text.split()))[:_WORDS]
