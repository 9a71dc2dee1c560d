"""Which answers are the manager's. Success is a 2xx with JSON that repeats the request's id, and nothing else.

A login page, a redirect to one, an empty body, a proxy's error page: whatever its status, somebody between us and the manager
answered, and the request has to be made again.
"""

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from delegate.daemon.connection.errors import (
    CertificateRefusedError,
    InvalidError,
    ManagerFaultError,
    OutdatedError,
    OverloadedError,
    RefusalError,
    RevokedError,
    ScopeMissingError,
    SessionUnknownError,
    SupersededError,
    TokenExpiredError,
    TooLargeError,
    TransportError,
    UnauthorizedError,
)
from delegate.daemon.connection.patience import read_retry_after
from delegate.foundation.secrets import hide_credentials
from delegate.protocol import codec
from delegate.protocol.messages import Answer, known
from delegate.protocol.problems import Problem, ProblemCode
from delegate.protocol.routes import PROBLEM_TYPE

A = TypeVar("A", bound=Answer)
IMPATIENT = frozenset({408, 502, 504, 524})
"""What proxies answer when whoever is behind them was quiet for too long, or was cut off for that."""
_PREVIEW_CHARACTERS = 200
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]+")
_BY_CODE: Mapping[ProblemCode, type[RefusalError]] = {
    ProblemCode.UNAUTHORIZED: UnauthorizedError,
    ProblemCode.TOKEN_EXPIRED: TokenExpiredError,
    ProblemCode.SCOPE_MISSING: ScopeMissingError,
    ProblemCode.DELEGATE_REVOKED: RevokedError,
    ProblemCode.CERTIFICATE_REFUSED: CertificateRefusedError,
    ProblemCode.SESSION_SUPERSEDED: SupersededError,
    ProblemCode.SESSION_UNKNOWN: SessionUnknownError,
    ProblemCode.OUTDATED: OutdatedError,
    ProblemCode.TOO_LARGE: TooLargeError,
    ProblemCode.INVALID: InvalidError,
    ProblemCode.NOT_FOUND: InvalidError,
    ProblemCode.OVERLOADED: OverloadedError,
    ProblemCode.INTERNAL: ManagerFaultError,
}
_BY_STATUS: Mapping[int, type[RefusalError]] = {
    400: InvalidError,
    401: UnauthorizedError,
    404: InvalidError,
    413: TooLargeError,
    422: InvalidError,
    426: OutdatedError,
    429: OverloadedError,
    503: OverloadedError,
}


@dataclass(frozen=True)
class RawAnswer:
    """An HTTP answer as it came; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


def read_answer(raw: RawAnswer, wanted: type[A], request_id: str, now: dt.datetime) -> A:
    """The manager's answer. Raises TransportError where it is not the manager's, a RefusalError where it is a no."""
    if 200 <= raw.status < 300:
        return _read_success(raw, wanted, request_id)
    if raw.content_type == PROBLEM_TYPE:
        raise _read_problem(raw, request_id, now)
    raise _strange(raw, now)


def _read_success(raw: RawAnswer, wanted: type[A], request_id: str) -> A:
    if raw.content_type != "application/json":
        raise _strange(raw)
    try:
        answer = codec.decode(raw.body, wanted)
    except codec.UndecodableError as error:
        raise _strange(raw) from error
    if answer.request_id != request_id:
        raise TransportError(
            "an answer to another request came back", hint=_BETWEEN_HINT, facts=describe(raw), code="connection.not_the_manager"
        )
    return answer


def _read_problem(raw: RawAnswer, request_id: str, now: dt.datetime) -> Exception:
    try:
        problem = codec.decode(raw.body, Problem)
    except codec.UndecodableError:
        return _strange(raw, now)
    if problem.request_id not in ("", request_id):
        return TransportError(
            "a refusal of another request came back", hint=_BETWEEN_HINT, facts=describe(raw), code="connection.not_the_manager"
        )
    fault = _BY_CODE.get(known(ProblemCode, problem.code, ProblemCode.CONFLICT)) or _BY_STATUS.get(raw.status, ManagerFaultError)
    words = f"{problem.title}: {problem.detail}" if problem.detail else problem.title
    refusal = fault(f"the manager refused ({raw.status}): {words}", hint=problem.hint, retry_after=_patience(raw, now))
    refusal.status = raw.status
    return refusal


_BETWEEN_HINT = (
    "something between here and the manager answered, or DELEGATE_MANAGER_URL is not the manager's address: "
    "look for a proxy, a login page or a firewall on the way"
)


def _strange(raw: RawAnswer, now: dt.datetime | None = None) -> TransportError:
    if 300 <= raw.status < 400:
        where = hide_credentials(raw.headers.get("location", "")) or "nowhere"
        what = f"a redirect ({raw.status}) to {printable(where)}, which is not followed with credentials"
    elif not raw.body:
        what = f"an empty answer with status {raw.status}"
    else:
        what = f"an answer with status {raw.status} and content type {printable(raw.content_type) or 'none'}, which is not the manager's"
    hint = _BETWEEN_HINT
    if raw.status == 407:
        hint = (
            "the proxy wants credentials: write them into HTTP_PROXY as http://user:password@host:port, special characters percent-encoded"
        )
    return TransportError(f"got {what}", hint=hint, retry_after=_patience(raw, now), facts=describe(raw), code="connection.not_the_manager")


def _patience(raw: RawAnswer, now: dt.datetime | None) -> float | None:
    if raw.status not in (429, 503) or now is None:
        return None
    return read_retry_after(raw.headers.get("retry-after", ""), raw.headers.get("date", ""), now)


def describe(raw: RawAnswer) -> dict[str, str | int]:
    """What tells a person who answered: status, content type, the first printable characters, and the hops' names."""
    facts: dict[str, str | int] = {
        "status": raw.status,
        "content_type": printable(raw.content_type),
        "preview": printable(raw.body[: 4 * _PREVIEW_CHARACTERS].decode("utf-8", "replace")),
    }
    for header in ("via", "server"):
        if header in raw.headers:
            facts[header] = printable(raw.headers[header])
    return facts


def printable(text: str) -> str:
    """At most 200 characters that can do no harm in a log."""
    return _UNPRINTABLE.sub(" ", text).strip()[:_PREVIEW_CHARACTERS]
