"""HTTP answers: JSON bodies, refusals as Status objects, and Warning headers."""

from collections.abc import Iterable
from typing import Any

import msgspec
from aiohttp import web

from delegate.simulator import statuses

JSON = "application/json"
UNCACHED = {"Content-Type": JSON, "Cache-Control": "no-cache, private"}


def of_body(body: Any, status: int = 200) -> web.Response:
    return of_bytes(msgspec.json.encode(body), status)


def of_bytes(raw: bytes, status: int = 200, warnings: Iterable[str] = ()) -> web.Response:
    response = web.Response(body=raw, status=status, headers=UNCACHED)
    warn(response, warnings)
    return response


def of_refusal(error: statuses.StatusError) -> web.Response:
    if error.plain:
        return web.Response(text=error.message, status=error.status, headers=error.headers)
    body = msgspec.json.encode(error.body())
    response = web.Response(body=body, status=error.status, headers={"Content-Type": JSON, **error.headers})
    warn(response, error.warnings)
    return response


def warn(response: web.StreamResponse, warnings: Iterable[str]) -> None:
    """Adds a Warning header for each text (RFC 7234, as Kubernetes uses it)."""
    for warning in warnings:
        escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{escaped}"')
