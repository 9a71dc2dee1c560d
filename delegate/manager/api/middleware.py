"""Around every request: its id, its problem document if it fails, its count, and the headers that every answer carries."""

import re
import time
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from delegate.foundation.errors import DelegateError
from delegate.manager.api.calls import CALL_ID
from delegate.manager.api.problems import describe_fault, describe_status, problem_response
from delegate.manager.clocks import Clock, to_rfc3339
from delegate.manager.errors import NotFoundError
from delegate.manager.identifiers import new_id
from delegate.manager.metrics import ManagerMetrics
from delegate.protocol.routes import REQUEST_ID_HEADER

log = structlog.get_logger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")
_ALWAYS = {
    "Server": "delegate-manager",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
}


PageFault = Callable[[web.Request, DelegateError], web.Response]


def middleware(clock: Clock, metrics: ManagerMetrics, on_page_fault: PageFault) -> Middleware:
    """The one middleware of the manager's application. Whoever asked for a page gets faults as a page."""

    @web.middleware
    async def around(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get(REQUEST_ID_HEADER, "")
        request[CALL_ID] = given if _REQUEST_ID.fullmatch(given) else new_id()
        started = time.monotonic()
        try:
            response = await _answer(request, handler, to_rfc3339(clock()), on_page_fault)
        except web.HTTPRedirection as redirect:
            response = web.Response(status=redirect.status, headers={"Location": redirect.headers["Location"]})
        metrics.record_request(_route(request), request.method, response.status, time.monotonic() - started)
        response.headers[REQUEST_ID_HEADER] = request[CALL_ID]
        for name, value in _ALWAYS.items():
            response.headers.setdefault(name, value)
        return response

    return around


async def _answer(request: web.Request, handler: Handler, server_time: str, on_page_fault: PageFault) -> web.StreamResponse:
    request_id = request[CALL_ID]
    page = request.method == "GET" and not request.path.startswith("/api/") and "text/html" in request.headers.get("Accept", "")
    try:
        return await handler(request)
    except DelegateError as error:
        if page:
            return on_page_fault(request, error)
        problem = describe_fault(error, request_id, server_time)
        if problem.status >= 500:
            log.warning("api.refused", route=_route(request), status=problem.status, error=str(error))
        headers = {"Retry-After": str(max(1, round(error.retry_after or 1)))} if problem.status in (429, 503) else {}
        if problem.status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="delegate"'
        return problem_response(problem, headers)
    except web.HTTPRedirection:
        raise
    except web.HTTPException as error:
        if page and error.status == 404:
            return on_page_fault(request, NotFoundError(_words(404, request)))
        headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        return problem_response(describe_status(error.status, _words(error.status, request), request_id, server_time), headers)
    except Exception:
        log.exception("api.failed", route=_route(request), request_id=request_id)
        return problem_response(describe_status(500, "the manager failed; its log has this request id", request_id, server_time))


def _words(status: int, request: web.Request) -> str:
    if status == 404:
        return f"there is nothing at {request.path[:200]}"
    if status == 405:
        return f"{request.method} is not possible here"
    return ""


def _route(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "unknown"
