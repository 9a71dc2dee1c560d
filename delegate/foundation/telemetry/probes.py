"""Probes and metrics over HTTP.

`/healthz` and `/livez` fail only for what a restart mends; `/readyz` for whatever keeps the delegate from taking work, with
reasons. They are served from a thread with an event loop of its own, so that they answer, and answer truly, while the main
loop is stuck.
"""

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from types import TracebackType

import msgspec
import structlog
from aiohttp import web

from delegate.foundation.errors import Category, DelegateError
from delegate.foundation.settings.sections import Probes

log = structlog.get_logger(__name__)
_START_SECONDS = 10.0
_SHUTDOWN_SECONDS = 1.0
Handler = Callable[[web.Request], Awaitable[web.Response]]
Expose = Callable[[str], tuple[bytes, str]]
"""The metrics, for an `Accept` header: body and content type."""


class ProbesUnavailableError(DelegateError):
    """The address of the probes can't be listened on."""

    default_code = "input.probes_address"
    category = Category.INPUT


class HealthReport(msgspec.Struct, frozen=True):
    """How the delegate is. Each tuple holds the reasons against, in words; empty means well.

    `unhealthy`: what a restart mends (the loop is stuck, an essential part is dead). `unready`: what keeps it from taking
    work now (not registered, link stale, certificate invalid, spool full). `registered`: the manager knows it.
    """

    unhealthy: tuple[str, ...] = ()
    unready: tuple[str, ...] = ()
    registered: bool = False


Provider = Callable[[], HealthReport]
"""Asked at each probe, from the probes' thread: reads plain values, takes no lock of the main loop."""


def build_application(report: Provider, expose: Expose, expose_aliases: Expose | None = None) -> web.Application:
    """The endpoints and their aliases; each alias is logged when it is first asked for."""
    told: set[str] = set()

    def aliased(alias: str, name: str, handler: Handler) -> Handler:
        async def serve(request: web.Request) -> web.Response:
            if alias not in told:
                told.add(alias)
                log.info("probes.alias_used", alias=alias, name=name)
            return await handler(request)

        return serve

    async def health(request: web.Request) -> web.Response:
        reasons = report().unhealthy
        return _answer("unhealthy" if reasons else "healthy", reasons)

    async def readiness(request: web.Request) -> web.Response:
        told = report()
        reasons = told.unhealthy + told.unready
        return _answer("not ready" if reasons else "ready", reasons)

    async def registration(request: web.Request) -> web.Response:
        registered = report().registered
        return _answer("registered" if registered else "not registered", () if registered else ("not registered with the manager",))

    async def metrics(request: web.Request) -> web.Response:
        body, content_type = expose(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def harness_metrics(request: web.Request) -> web.Response:
        body, content_type = (expose_aliases or expose)(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    routes: dict[str, Handler] = {
        "/healthz": health,
        "/livez": health,
        "/readyz": readiness,
        "/metrics": metrics,
        "/api/v1/healthz": aliased("/api/v1/healthz", "/healthz", health),
        "/api/v1/register": registration,
        "/api/health": aliased("/api/health", "/healthz", health),
        "/api/metrics": aliased("/api/metrics", "/metrics", harness_metrics),
    }
    application = web.Application(client_max_size=0, middlewares=[_without_cache])
    for path, handler in routes.items():
        application.router.add_get(path, handler)
    return application


def _answer(status: str, reasons: tuple[str, ...]) -> web.Response:
    document: dict[str, object] = {"status": status}
    if reasons:
        document["reasons"] = reasons
    return web.Response(
        body=msgspec.json.encode(document), content_type="application/json", charset="utf-8", status=503 if reasons else 200
    )


@web.middleware
async def _without_cache(request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
    response = await handler(request)
    response.headers["Cache-Control"] = "no-store"
    return response


def listen_on(settings: Probes) -> socket.socket:
    """A listening socket: by default on every interface, both IPv6 and IPv4. Raises ProbesUnavailableError."""
    host, family, dual = settings.host, socket.AF_INET, False
    if not host:
        dual = socket.has_dualstack_ipv6()
        host, family = ("::", socket.AF_INET6) if dual else ("0.0.0.0", socket.AF_INET)  # noqa: S104 - the kubelet comes from outside
    elif ":" in host:
        family = socket.AF_INET6
    try:
        return socket.create_server((host, settings.port), family=family, backlog=128, dualstack_ipv6=dual)
    except OSError as error:
        # create_server adds the address to the words of errors that have a number, so they are looked up again.
        words = os.strerror(error.errno) if error.errno and not isinstance(error, socket.gaierror) else error.strerror or str(error)
        address = f"{settings.host}:{settings.port}" if settings.host else f"port {settings.port}"
        raise ProbesUnavailableError(
            f"probes and metrics can't listen on {address}: {words}",
            hint="set DELEGATE_HTTP_PORT (or --http-port) to a free port, or DELEGATE_HTTP_HOST to an address of this machine",
        ) from error


@contextlib.asynccontextmanager
async def serving(listening: socket.socket, report: Provider, expose: Expose, expose_aliases: Expose | None = None) -> AsyncIterator[None]:
    """Serves on the running loop. Closes the socket at the end."""
    runner = web.AppRunner(
        build_application(report, expose, expose_aliases),
        access_log=None,
        handle_signals=False,
        shutdown_timeout=_SHUTDOWN_SECONDS,
        keepalive_timeout=75.0,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        yield
    finally:
        await runner.cleanup()
        listening.close()


class ProbeServer:
    """Serves probes from a thread of its own while it is entered. `port` is the one it listens on.

    Raises ProbesUnavailableError at entering when the address can't be had.
    """

    def __init__(self, settings: Probes, report: Provider, expose: Expose, expose_aliases: Expose | None = None) -> None:
        """`expose_aliases` answers on /api/metrics, where others' dashboards look; by default it is the same."""
        self._settings = settings
        self._report = report
        self._expose = expose
        self._expose_aliases = expose_aliases
        self._listening: socket.socket | None = None
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._run, name="probes", daemon=True)

    @property
    def port(self) -> int:
        assert self._listening is not None, "not entered"
        return int(self._listening.getsockname()[1])

    def __enter__(self) -> "ProbeServer":
        self._listening = listen_on(self._settings)
        self._thread.start()
        self._started.result(_START_SECONDS)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        loop, ended = self._started.result()
        loop.call_soon_threadsafe(ended.set)
        self._thread.join(_START_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            if not self._started.done():
                self._started.set_exception(error)

    async def _serve(self) -> None:
        assert self._listening is not None
        ended = asyncio.Event()
        async with serving(self._listening, self._report, self._expose, self._expose_aliases):
            self._started.set_result((asyncio.get_running_loop(), ended))
            await ended.wait()
