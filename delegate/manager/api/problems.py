"""Faults as RFC 9457 problem documents. Nothing of the inside gets out: no traceback, no statement, no path."""

import http

import msgspec
from aiohttp import web

from delegate.foundation.errors import Category, DelegateError, flatten
from delegate.manager.errors import RefusedError
from delegate.protocol.problems import Problem, ProblemCode
from delegate.protocol.routes import PROBLEM_TYPE

_BY_STATUS = {
    400: ProblemCode.INVALID,
    401: ProblemCode.UNAUTHORIZED,
    403: ProblemCode.SCOPE_MISSING,
    404: ProblemCode.NOT_FOUND,
    405: ProblemCode.INVALID,
    408: ProblemCode.OVERLOADED,
    409: ProblemCode.CONFLICT,
    413: ProblemCode.TOO_LARGE,
    415: ProblemCode.INVALID,
    422: ProblemCode.INVALID,
    426: ProblemCode.OUTDATED,
    429: ProblemCode.OVERLOADED,
    503: ProblemCode.OVERLOADED,
}


def describe_fault(error: DelegateError, request_id: str, server_time: str) -> Problem:
    """The problem document of a fault. Input faults of the model are the caller's (422), others the manager's."""
    status, code = _status_of(error)
    return Problem(
        title=http.HTTPStatus(status).phrase,
        status=status,
        code=code.value,
        detail=str(error),
        hint=error.hint,
        retryable=error.retryable,
        request_id=request_id,
        server_time=server_time,
        type=f"urn:delegate:{error.code}",
        errors=tuple(str(each) for each in flatten(error)),
    )


def _status_of(error: DelegateError) -> tuple[int, ProblemCode]:
    if isinstance(error, RefusedError):
        return error.status, error.problem
    if error.category is Category.INPUT:
        return 422, ProblemCode.INVALID
    if error.retryable:
        return 503, ProblemCode.OVERLOADED
    return 500, ProblemCode.INTERNAL


def describe_status(status: int, detail: str, request_id: str, server_time: str) -> Problem:
    """The problem document of what the HTTP layer itself refused."""
    return Problem(
        title=http.HTTPStatus(status).phrase,
        status=status,
        code=_BY_STATUS.get(status, ProblemCode.INTERNAL if status >= 500 else ProblemCode.INVALID).value,
        detail=detail,
        retryable=status in (408, 429, 503),
        request_id=request_id,
        server_time=server_time,
    )


def problem_response(problem: Problem, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(body=msgspec.json.encode(problem), status=problem.status, content_type=PROBLEM_TYPE, headers=headers)
