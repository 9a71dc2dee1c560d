"""The manager's web application: every operation of the API, the probes and the pages."""

from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from delegate.manager.api import blobs, certificates, clusters, control, dead_letters, delegates, enrolment, limits, tasks, tokens, work
from delegate.manager.api.calls import Access, Call, Nothing, Operation, Services
from delegate.manager.api.middleware import PageFault, middleware
from delegate.manager.api.openapi import describe_api
from delegate.manager.metrics import ManagerMetrics
from delegate.model.resources import JsonObject

OPERATIONS: tuple[Operation, ...] = (
    *tasks.OPERATIONS,
    *limits.OPERATIONS,
    *tokens.OPERATIONS,
    *delegates.OPERATIONS,
    *certificates.OPERATIONS,
    *clusters.OPERATIONS,
    *enrolment.OPERATIONS,
    *work.OPERATIONS,
    *blobs.OPERATIONS,
    *dead_letters.OPERATIONS,
    *control.OPERATIONS,
)
"""The whole API: what is served, and what the OpenAPI document says."""


OPENAPI = "/api/v1/openapi.json"


def _openapi() -> Operation:
    document: JsonObject = {}

    async def show(call: Call[Nothing, Nothing]) -> JsonObject:
        return document

    operation = Operation(
        method="GET",
        path=OPENAPI,
        name="describeApi",
        summary="Describes this API",
        access=Access.ANYBODY,
        handler=show,
        answer=dict,
        tag="api",
    )
    document.update(describe_api((*OPERATIONS, operation)))
    return operation


def build_application(
    services: Services, metrics: ManagerMetrics, others: Iterable[web.AbstractRouteDef], on_page_fault: PageFault
) -> web.Application:
    """The application with all operations and the other routes (probes, pages)."""
    application = web.Application(middlewares=[middleware(services.authority.now, metrics, on_page_fault)])
    for operation in (*OPERATIONS, _openapi()):
        application.router.add_route(operation.method, operation.path, _handler(operation, services))
    application.router.add_routes(others)
    return application


def _handler(operation: Operation, services: Services) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        return await operation.serve(services, request)

    return handle
