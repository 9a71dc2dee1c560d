"""Refusals on the wire: RFC 9457 problem documents, and their codes."""

import enum

from delegate.protocol.messages import Message


class ProblemCode(enum.StrEnum):
    """What a delegate has to tell apart. Anything else is decided by the status alone."""

    UNAUTHORIZED = "unauthorized"  # 401: unknown, expired or malformed token
    TOKEN_EXPIRED = "token_expired"  # noqa: S105 - 401: refresh once, then replay once
    SCOPE_MISSING = "scope_missing"  # 403: the token is good, its scope is not; detail says which is missing
    DELEGATE_REVOKED = "delegate_revoked"  # 403: stop for good
    CERTIFICATE_REFUSED = "certificate_refused"  # 403: the certificate that was shown, or that none was: get another one
    SESSION_SUPERSEDED = "session_superseded"  # 409: a newer process has this identity
    SESSION_UNKNOWN = "session_unknown"  # 409: open a session again
    OUTDATED = "outdated"  # 426: no protocol version in common
    TOO_LARGE = "too_large"  # 413
    INVALID = "invalid"  # 400, 422
    NOT_FOUND = "not_found"  # 404
    CONFLICT = "conflict"  # 409
    OVERLOADED = "overloaded"  # 429, 503: Retry-After says when
    INTERNAL = "internal"  # 500


class Problem(Message, frozen=True, kw_only=True):
    """`retryable`: the same request may succeed later. `hint`: what to do about it."""

    title: str
    status: int
    code: str
    detail: str = ""
    hint: str = ""
    retryable: bool = False
    request_id: str = ""
    server_time: str = ""
    type: str = "about:blank"
    errors: tuple[str, ...] = ()
