"""Probes and metrics of the manager itself; no token needed."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from delegate.manager.api.calls import json_response
from delegate.manager.metrics import ManagerMetrics

Reasons = Callable[[], tuple[str, ...]]
AsyncReasons = Callable[[], Awaitable[tuple[str, ...]]]


def probe_routes(*, unhealthy: Reasons, unready: AsyncReasons, metrics: ManagerMetrics) -> list[web.RouteDef]:
    """`/healthz` fails only for what a restart mends, `/readyz` for whatever keeps the manager from its work."""

    async def healthz(request: web.Request) -> web.Response:
        return _state(unhealthy(), "healthy", "unhealthy")

    async def readyz(request: web.Request) -> web.Response:
        return _state(unhealthy() + await unready(), "ready", "not ready")

    async def expose(request: web.Request) -> web.Response:
        body, content_type = metrics.expose(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    return [web.get("/healthz", healthz), web.get("/livez", healthz), web.get("/readyz", readyz), web.get("/metrics", expose)]


def _state(reasons: tuple[str, ...], well: str, ill: str) -> web.Response:
    if reasons:
        return json_response({"status": ill, "reasons": reasons}, 503)
    return json_response({"status": well})
