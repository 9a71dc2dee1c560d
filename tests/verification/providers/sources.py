"""A source of the tests on a real socket: it answers by a table of routes, writes down what it was asked, and can be made to fail."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from aiohttp import web

from delegate.engine.verification.answers import Answer, Query, Window
from delegate.engine.verification.providers.links import Surroundings
from delegate.engine.verification.providers.registry import Providers
from delegate.foundation.lifecycle.retrying import Retrying

START = 1_772_445_600.0
END = START + 60.0
WHOLE = Window(START, END, 0.0)
BUCKETS = Window(START, END, 20.0)
Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]
"""What goes wrong with a request; None: nothing, it is answered."""


@dataclass(frozen=True)
class Asked:
    """A request as the source saw it."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> object:
        return msgspec.json.decode(self.body)


@dataclass
class Source:
    """`routes` by `METHOD /path`, each a JSON document; the longest that a path begins with answers."""

    url: str = ""
    routes: dict[str, object] = field(default_factory=dict)
    statuses: dict[str, int] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    fault: Fault | None = None
    asked: list[Asked] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked.append(Asked(request.method, request.path, dict(request.query), dict(request.headers), body))
        if self.fault is not None and (failed := await self.fault(request)) is not None:
            return failed
        wanted = f"{request.method} {request.path}"
        route = max((each for each in self.routes if wanted.startswith(each)), key=len, default=None)
        if route is None:
            return web.json_response({"error": f"there is no {wanted}"}, status=404)
        document = self.routes[route]
        content = document if isinstance(document, bytes) else msgspec.json.encode(document)
        return web.Response(
            body=content, status=self.statuses.get(route, 200), headers={"Content-Type": "application/json", **self.headers}
        )


@contextlib.asynccontextmanager
async def serving(routes: Mapping[str, object] | None = None) -> AsyncIterator[Source]:
    """A source on a free port."""
    source = Source(routes=dict(routes or {}))
    application = web.Application(client_max_size=16 * 2**20)
    application.router.add_route("*", "/{path:.*}", source.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    listening = socket.create_server(("127.0.0.1", 0))
    site = web.SockSite(runner, listening)
    await site.start()
    source.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        yield source
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def knowing(
    directory: Path, *entries: Mapping[str, object], environment: Mapping[str, str] | None = None, most_bytes: int = 64 * 1024
) -> AsyncIterator[Providers]:
    """Providers from a file with these entries; tries inside one reading follow each other at once."""
    path = directory / "providers.yaml"
    path.write_bytes(msgspec.yaml.encode({"providers": list(entries)}))
    path.chmod(0o600)
    around = Surroundings(proxy_for=lambda url: None, retrying=Retrying(max_attempts=3, base_seconds=0.001), most_bytes=most_bytes)
    providers = Providers(path, around, environment=environment or {})
    try:
        yield providers
    finally:
        await providers.close()


async def read(
    providers: Providers,
    text: str,
    *,
    window: Window = WHOLE,
    parameters: Mapping[str, str] | None = None,
    timeout: float = 20.0,
    name: str = "source",
) -> Answer:
    """One reading of the source that the file calls so."""
    return await providers.get(name).read(Query(text, window, dict(parameters or {})), timeout=timeout)


def values_of(answer: Answer) -> list[float | None]:
    """Every value of every series, in order."""
    return [value for series in answer.series for _, value in series.points]


def status(code: int, document: object = None, *, headers: Mapping[str, str] | None = None, times: int = 1_000_000) -> Fault:
    """Answers so many requests with a status."""
    left = [times]

    async def fail(request: web.Request) -> web.StreamResponse | None:
        if left[0] <= 0:
            return None
        left[0] -= 1
        return web.json_response({"error": "of the test"} if document is None else document, status=code, headers=headers)

    return fail


def raw(content: bytes, content_type: str = "application/json", *, code: int = 200, headers: Mapping[str, str] | None = None) -> Fault:
    """Answers every request with these bytes."""

    async def answer(request: web.Request) -> web.StreamResponse | None:
        return web.Response(body=content, status=code, headers={"Content-Type": content_type, **(headers or {})})

    return answer


def trickling(head: bytes = b"{") -> Fault:
    """Answers a byte at a time, and never ends."""

    async def answer(request: web.Request) -> web.StreamResponse | None:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(head)
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while True:
                await response.write(b" ")
                await asyncio.sleep(0.02)
        return response

    return answer


def silent() -> Fault:
    """Takes the request and says nothing."""

    async def answer(request: web.Request) -> web.StreamResponse | None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return None

    return answer


def dropping() -> Fault:
    """Closes the connection without a word."""

    async def answer(request: web.Request) -> web.StreamResponse | None:
        assert request.transport is not None
        request.transport.abort()
        return None

    return answer
