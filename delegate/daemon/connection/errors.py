"""Errors of the way to the manager:

ConnectionFaultError
  TransportError             no answer of the manager came back: refused, cut, timed out, or somebody else answered
    UntrustedError           TLS: the certificate is not for this name, or nobody we trust signed it
    CertificateRejectedError TLS: the other side does not take ours
  RefusalError               the manager answered with a problem document
    UnauthorizedError        401: the token is unknown, expired or malformed
      TokenExpiredError      401: refresh it, then ask again once
    ScopeMissingError        403: the token is good, its scope is not
    CertificateRefusedError  403: the certificate that the call came with, or that it came without one
    RevokedError             403: this delegate is not to work any more
    SupersededError          409: a newer process has this identity
    SessionUnknownError      409: a session has to be opened again
    OutdatedError            426: no protocol version in common
    OverloadedError          429, 503: later
    TooLargeError            413
    InvalidError             400, 404, 422: the same request will never be taken
    ManagerFaultError        500 and whatever else
OutboxError                  a result can't be kept on disk now
"""

from delegate.foundation.errors import Category, DelegateError


class ConnectionFaultError(DelegateError):
    """Something on the way to the manager, or at the manager, went wrong."""

    default_code = "connection.fault"
    category = Category.DEPENDENCY


class TransportError(ConnectionFaultError):
    """No answer of the manager came back. Whether the request was carried out is unknown.

    `cut_after` is set where an open connection was closed on us before the first byte of an answer, or a proxy lost its patience in
    the manager's place: the age of the request then, in seconds. `facts` are what a log line needs to tell who answered instead,
    or which hop failed. The code says how: `connection.` and unresolved, unreachable, proxy, tls, untrusted, silent, cut,
    not_the_manager; `transport` where it is none of these.
    """

    default_code = "connection.transport"
    default_retryable = True

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        retry_after: float | None = None,
        cut_after: float | None = None,
        facts: dict[str, str | int] | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, retry_after=retry_after, code=code)
        self.cut_after = cut_after
        self.facts = facts or {}


class UntrustedError(TransportError):
    """The other side could not prove that it is the manager."""

    default_code = "connection.untrusted"


class CertificateRejectedError(TransportError):
    """The other side ended the handshake over the certificate that was shown, or over none being shown."""

    default_code = "connection.certificate_rejected"


class RefusalError(ConnectionFaultError):
    """The manager's answer is no; `status` is its HTTP status, the code the problem document's."""

    default_code = "connection.refused"
    status = 0


class UnauthorizedError(RefusalError):
    default_code = "connection.unauthorized"
    category = Category.PERMISSION


class TokenExpiredError(UnauthorizedError):
    default_code = "connection.token_expired"
    default_retryable = True


class ScopeMissingError(RefusalError):
    default_code = "connection.scope_missing"
    category = Category.PERMISSION


class CertificateRefusedError(RefusalError):
    default_code = "connection.certificate_refused"
    category = Category.PERMISSION


class RevokedError(RefusalError):
    default_code = "connection.revoked"
    category = Category.PERMISSION


class SupersededError(RefusalError):
    default_code = "connection.superseded"
    category = Category.CONFLICT


class SessionUnknownError(RefusalError):
    default_code = "connection.session_unknown"
    default_retryable = True


class OutdatedError(RefusalError):
    default_code = "connection.outdated"
    category = Category.INPUT


class OverloadedError(RefusalError):
    default_code = "connection.overloaded"
    category = Category.TRANSIENT
    default_retryable = True


class TooLargeError(RefusalError):
    default_code = "connection.too_large"
    category = Category.INPUT


class InvalidError(RefusalError):
    default_code = "connection.invalid"
    category = Category.INPUT


class ManagerFaultError(RefusalError):
    default_code = "connection.manager_fault"
    default_retryable = True


class OutboxError(DelegateError):
    """A result could not be written now. It is still in memory, and tried again."""

    default_code = "outbox.unwritable"
    category = Category.TRANSIENT
    default_retryable = True
