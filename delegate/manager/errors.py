"""Faults of the manager:

DelegateError
  RefusedError            a request that can't be met, with the status and code it is answered with
    AuthenticationError     401: no token, or none that is known and alive
    TokenExpiredError       401: known, but its life is over
    ForbiddenError          403: the token is good, its scope is not
    RevokedError            403: the delegate or its token was revoked: for good
    CertificateRefusedError  403: the certificate that the call came with, or that it came without one
    SessionSupersededError  409: a newer process has this identity
    SessionUnknownError     409: no session was opened
    NotFoundError           404
    ConflictError           409: it exists, or its state doesn't allow that
    InvalidError            422: readable, but can't be meant
    MalformedError          400: can't be read
    TooLargeError           413
    OutdatedError           426: no protocol version in common
    OverloadedError         503: later
  ManagerStartError       the manager can't start: a port, a directory, another one at work
"""

from typing import ClassVar

from delegate.foundation.errors import Category, DelegateError
from delegate.protocol.problems import ProblemCode


class RefusedError(DelegateError):
    """A request that is answered with a problem document. `problem` is for programs, the message for people."""

    category = Category.INPUT
    status: ClassVar[int] = 400
    problem: ClassVar[ProblemCode] = ProblemCode.INVALID


class AuthenticationError(RefusedError):
    default_code = "manager.unauthorized"
    category = Category.PERMISSION
    status = 401
    problem = ProblemCode.UNAUTHORIZED


class TokenExpiredError(AuthenticationError):
    default_code = "manager.token_expired"
    problem = ProblemCode.TOKEN_EXPIRED


class ForbiddenError(RefusedError):
    default_code = "manager.scope_missing"
    category = Category.PERMISSION
    status = 403
    problem = ProblemCode.SCOPE_MISSING


class RevokedError(RefusedError):
    default_code = "manager.delegate_revoked"
    category = Category.PERMISSION
    status = 403
    problem = ProblemCode.DELEGATE_REVOKED


class CertificateRefusedError(RefusedError):
    default_code = "manager.certificate_refused"
    category = Category.PERMISSION
    status = 403
    problem = ProblemCode.CERTIFICATE_REFUSED


class SessionSupersededError(RefusedError):
    default_code = "manager.session_superseded"
    category = Category.CONFLICT
    status = 409
    problem = ProblemCode.SESSION_SUPERSEDED


class SessionUnknownError(RefusedError):
    default_code = "manager.session_unknown"
    category = Category.CONFLICT
    status = 409
    problem = ProblemCode.SESSION_UNKNOWN


class NotFoundError(RefusedError):
    default_code = "manager.not_found"
    status = 404
    problem = ProblemCode.NOT_FOUND


class ConflictError(RefusedError):
    default_code = "manager.conflict"
    category = Category.CONFLICT
    status = 409
    problem = ProblemCode.CONFLICT


class InvalidError(RefusedError):
    default_code = "manager.invalid"
    status = 422


class MalformedError(RefusedError):
    default_code = "manager.malformed"


class TooLargeError(RefusedError):
    default_code = "manager.too_large"
    status = 413
    problem = ProblemCode.TOO_LARGE


class OutdatedError(RefusedError):
    default_code = "manager.outdated"
    status = 426
    problem = ProblemCode.OUTDATED


class OverloadedError(RefusedError):
    default_code = "manager.overloaded"
    category = Category.TRANSIENT
    default_retryable = True
    status = 503
    problem = ProblemCode.OVERLOADED


class ManagerStartError(DelegateError):
    """The manager can't start; the message names the thing, the hint the remedy."""

    default_code = "manager.start"
    category = Category.INPUT
