"""A real S3 server on a socket of its own, and faults before it.

`s3_server()` runs moto's server for a whole test session. `faulty_s3()` stands before it and passes requests on, unless a
fault was queued for them; each fault is used so many times, in order. Every request is recorded.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import aiohttp
from aiohttp import web
from yarl import URL

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "content-length", "expect"})


@contextmanager
def s3_server() -> Iterator[str]:
    """The address of an S3 server that starts empty and keeps everything in memory."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@dataclass(frozen=True)
class Seen:
    """A request as it arrived; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Fault = Callable[["FaultyS3", web.Request, bytes], Awaitable[web.StreamResponse]]


@dataclass
class _Queued:
    fault: Fault
    method: str
    contains: str
    left: int


@dataclass
class FaultyS3:
    """Use `faulty_s3()`. `seen` holds the requests in order of arrival; `worst_at_once` how many were ever open together."""

    upstream: str
    session: aiohttp.ClientSession
    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    open: int = 0
    worst_at_once: int = 0
    _queued: list[_Queued] = field(default_factory=list)

    def add(self, fault: Fault, *, method: str = "PUT", contains: str = "", times: int = 1) -> None:
        """Uses a fault for the next `times` requests of the method whose path contains the text."""
        self._queued.append(_Queued(fault, method, contains, times))

    def forget(self) -> None:
        """Drops all faults that are queued."""
        self._queued.clear()

    def puts(self) -> list[Seen]:
        return [each for each in self.seen if each.method == "PUT"]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append(Seen(request.method, request.raw_path, {name.lower(): value for name, value in request.headers.items()}, body))
        self.open += 1
        self.worst_at_once = max(self.worst_at_once, self.open)
        try:
            for queued in self._queued:
                if queued.left > 0 and queued.method == request.method and queued.contains in request.path:
                    queued.left -= 1
                    return await queued.fault(self, request, body)
            return await self.forward(request, body)
        finally:
            self.open -= 1

    async def forward(self, request: web.Request, body: bytes, *, without: frozenset[str] = frozenset()) -> web.Response:
        """What the server behind answers; `without` are headers that it doesn't get to see."""
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP | without}
        url = URL(self.upstream + request.raw_path, encoded=True)
        async with self.session.request(request.method, url, data=body, headers=headers, allow_redirects=False) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
            return web.Response(status=answer.status, headers=kept, body=await answer.read())


@asynccontextmanager
async def faulty_s3(upstream: str, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[FaultyS3]:
    """With `tls`, it is reached by https and the name localhost."""
    async with aiohttp.ClientSession(skip_auto_headers=("User-Agent", "Content-Type", "Accept", "Accept-Encoding")) as session:
        proxy = FaultyS3(upstream, session)
        application = web.Application(client_max_size=64 * 2**20)
        application.router.add_route("*", "/{path:.*}", proxy.handle)
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
            port = runner.addresses[0][1]
            proxy.url = f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"
            yield proxy
        finally:
            await runner.cleanup()


def answered(status: int, code: str, message: str = "", *, headers: dict[str, str] | None = None, **elements: str) -> Fault:
    """An error document of S3."""
    further = "".join(f"<{name}>{value}</{name}>" for name, value in elements.items())
    text = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{message}</Message>{further}</Error>"

    async def fault(proxy: FaultyS3, request: web.Request, body: bytes) -> web.StreamResponse:
        return web.Response(status=status, text=text, content_type="application/xml", headers=headers)

    return fault


def html(status: int = 200) -> Fault:
    """What a captive portal says."""

    async def fault(proxy: FaultyS3, request: web.Request, body: bytes) -> web.StreamResponse:
        return web.Response(status=status, text="<html><body>Please log in</body></html>", content_type="text/html")

    return fault


def redirect(location: str, status: int = 307) -> Fault:
    async def fault(proxy: FaultyS3, request: web.Request, body: bytes) -> web.StreamResponse:
        return web.Response(status=status, headers={"Location": location})

    return fault


def slow(then: Fault, seconds: float = 0.05) -> Fault:
    """The fault, after a while: long enough that others which come meanwhile are seen beside it."""

    async def fault(proxy: FaultyS3, request: web.Request, body: bytes) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await then(proxy, request, body)

    return fault


async def frozen(proxy: FaultyS3, request: web.Request, body: bytes) -> web.StreamResponse:
    """No answer for as long as the client waits."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def cut(proxy: FaultyS3, request: web.Request, body: bytes) -> web.StreamResponse:
    """The connection ends before an answer; nothing was stored."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def stored_then_cut(proxy: FaultyS3, request: web.Request, body: bytes) -> web.StreamResponse:
    """The server did it, and nobody hears of it."""
    await proxy.forward(request, body)
    return await cut(proxy, request, body)


async def without_conditions(proxy: FaultyS3, request: web.Request, body: bytes) -> web.StreamResponse:
    """A server that ignores If-None-Match."""
    return await proxy.forward(request, body, without=frozenset({"if-none-match"}))
