"""An API server that answers as told, or a real one with faults before and behind it, on a socket of its own.

Faults are queued for requests that match a method and a beginning of the path (query included), or with `exact` the
whole path without its query; each is used once, in order. What matches no fault is answered by the upstream, or with 404
where there is none. Every request is recorded.
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web
from yarl import URL

from delegate.model.resources import JsonObject


@dataclass(frozen=True)
class Upstream:
    """A server to pass requests on to, with the credentials that it wants."""

    url: str
    authorization: str = ""
    context: ssl.SSLContext | None = None


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> JsonObject:
        document: JsonObject = json.loads(self.body)
        return document


Fault = Callable[["FlakyApi", web.Request, bytes], Awaitable[web.StreamResponse]]


@dataclass
class _Queued:
    method: str
    path: str
    fault: Fault
    left: int
    exact: bool

    def fits(self, request: web.Request) -> bool:
        fits = request.path == self.path if self.exact else request.path_qs.startswith(self.path)
        return self.left > 0 and self.method in ("", request.method) and fits


@dataclass
class FlakyApi:
    """Use `flaky_api()`. `seen` holds the requests in order of arrival."""

    url: str
    upstream: Upstream | None
    session: aiohttp.ClientSession
    seen: list[Seen] = field(default_factory=list)
    _queued: list[_Queued] = field(default_factory=list)

    def add(self, fault: Fault, *, method: str = "", path: str = "/", times: int = 1, exact: bool = False) -> None:
        """Uses a fault for the next `times` requests that match."""
        self._queued.append(_Queued(method, path, fault, times, exact))

    def forget(self) -> None:
        """Drops all faults that are queued."""
        self._queued.clear()

    def count(self, method: str = "", path: str = "/") -> int:
        return sum(1 for request in self.seen if method in ("", request.method) and request.path.startswith(path))

    def kubeconfig(self, path: Path, *, token: str = "flaky-token") -> Path:
        """Writes a kubeconfig that leads here."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "flaky",
            "contexts": [{"name": "flaky", "context": {"cluster": "flaky", "user": "flaky"}}],
            "clusters": [{"name": "flaky", "cluster": {"server": self.url}}],
            "users": [{"name": "flaky", "user": {"token": token}}],
        }
        path.write_text(json.dumps(document))
        return path

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append(Seen(request.method, request.path, dict(request.query), dict(request.headers), body))
        for queued in self._queued:
            if queued.fits(request):
                queued.left -= 1
                return await queued.fault(self, request, body)
        return await self.forward(request, body)

    async def ask_upstream(self, request: web.Request, body: bytes) -> aiohttp.ClientResponse:
        assert self.upstream is not None, f"no upstream for {request.method} {request.path_qs}"
        headers = {key: request.headers[key] for key in ("Accept", "Content-Type", "If-None-Match") if key in request.headers}
        if self.upstream.authorization:
            headers["Authorization"] = self.upstream.authorization
        ssl_context = self.upstream.context if self.upstream.context is not None else True
        url = URL(self.upstream.url + request.raw_path, encoded=True)
        return await self.session.request(request.method, url, data=body or None, headers=headers, ssl=ssl_context)

    async def forward(self, request: web.Request, body: bytes, *, cut_after: int | None = None) -> web.StreamResponse:
        """What the upstream answers, piece by piece; with `cut_after`, the connection ends after so many lines."""
        if self.upstream is None:
            return web.json_response(status_body(404, "NotFound", "nothing is there"), status=404)
        async with await self.ask_upstream(request, body) as answer:
            response = web.StreamResponse(status=answer.status)
            for key in ("Content-Type", "Retry-After", "Warning", "ETag"):
                for value in answer.headers.getall(key, ()):
                    response.headers.add(key, value)
            await response.prepare(request)
            lines = 0
            async for piece in answer.content if cut_after is not None else answer.content.iter_any():
                if cut_after is not None and lines >= cut_after:
                    return _cut(request, response)
                await response.write(piece)
                lines += 1
            await response.write_eof()
            return response


@asynccontextmanager
async def flaky_api(upstream: Upstream | None = None) -> AsyncIterator[FlakyApi]:
    async with aiohttp.ClientSession() as session:
        api = FlakyApi("", upstream, session)
        application = web.Application(client_max_size=16 * 2**20)
        application.router.add_route("*", "/{path:.*}", api.handle)
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            yield api
        finally:
            await runner.cleanup()


def status_body(code: int, reason: str, message: str, **details: object) -> JsonObject:
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "details": details, "code": code,
    }  # fmt: skip


def reply(status: int, body: object = None, *, content_type: str = "application/json", **headers: str) -> Fault:
    """Answers with a status and a body: JSON unless it is text or bytes. `Retry_After="1"` sets a header."""

    async def fault(_: FlakyApi, __: web.Request, ___: bytes) -> web.StreamResponse:
        content = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=status, body=content, headers={"Content-Type": content_type, **named})

    return fault


def html(status: int = 200) -> Fault:
    return reply(status, "<html><body><h1>Sign in to the guest network</h1></body></html>", content_type="text/html")


async def reset(_: FlakyApi, request: web.Request, __: bytes) -> web.StreamResponse:
    """Cuts the connection before anything is passed on."""
    return _cut(request)


async def answer_lost(api: FlakyApi, request: web.Request, body: bytes) -> web.StreamResponse:
    """Passes the request on, lets it take effect, and cuts the connection instead of answering."""
    async with await api.ask_upstream(request, body) as answer:
        await answer.read()
    return _cut(request)


def cut_after(lines: int) -> Fault:
    """Passes on so many lines of an answer (of a watch: events), then cuts the connection."""

    async def fault(api: FlakyApi, request: web.Request, body: bytes) -> web.StreamResponse:
        return await api.forward(request, body, cut_after=lines)

    return fault


async def hang(_: FlakyApi, __: web.Request, ___: bytes) -> web.StreamResponse:
    """Never answers."""
    await asyncio.sleep(3600)
    raise AssertionError("unreachable")


async def silent(_: FlakyApi, request: web.Request, __: bytes) -> web.StreamResponse:
    """Begins to answer, as a watch does, and never says anything."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await asyncio.sleep(3600)
    return response


def truncated(body: bytes = b'{"kind": "ConfigMap", "apiVersion": "v1", "meta') -> Fault:
    """Says that more is to come, and cuts the connection."""

    async def fault(_: FlakyApi, request: web.Request, __: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.content_length = len(body) * 10
        await response.prepare(request)
        await response.write(body)
        return _cut(request, response)

    return fault


def _cut(request: web.Request, response: web.StreamResponse | None = None) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return response if response is not None else web.Response()
