"""The connections to the manager that were opened with one TLS context.

A context that is replaced changes nothing for connections that are open: calls on them come to their end, new calls go to the next
context's, and when the last one has ended, or the time for it is over, these are closed.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp

_KEEP_ALIVE_SECONDS = 30.0
_NAMES_SECONDS = 30
_MOST = 16
_CLOSING_TURNS = 5


class Connections:
    """Belongs to one event loop. `trace` makes what watches each request."""

    def __init__(
        self, tls: ssl.SSLContext | None, *, connect_seconds: float, trace: Callable[[], aiohttp.TraceConfig] | None = None
    ) -> None:
        self.tls = tls
        self.cut = False
        self._connect_seconds = connect_seconds
        self._trace = trace
        self._kept: aiohttp.ClientSession | None = None
        self._fresh: aiohttp.ClientSession | None = None
        self._calls = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def kept(self) -> aiohttp.ClientSession:
        """Those that stay open between calls."""
        if self._kept is None:
            self._kept = self._open(keep_alive=True)
        return self._kept

    @property
    def fresh(self) -> aiohttp.ClientSession:
        """A new one for each call."""
        if self._fresh is None:
            self._fresh = self._open(keep_alive=False)
        return self._fresh

    @contextmanager
    def calling(self) -> Iterator[None]:
        """For as long as a call is under way."""
        self._calls += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._idle.set()

    async def drain(self, within_seconds: float) -> None:
        """Closes when the last call has ended. What has not by then is cut, and says so by `cut`."""
        try:
            async with asyncio.timeout(within_seconds):
                await self._idle.wait()
        except TimeoutError:
            self.cut = True
        await self.close()

    def hurry(self) -> None:
        """Has `drain` wait no longer."""
        self._idle.set()

    async def close(self) -> None:
        sessions = [session for session in (self._kept, self._fresh) if session is not None]
        self._kept = self._fresh = None
        for session in sessions:
            connector = session.connector
            await session.close()
            if isinstance(connector, _Connector):
                connector.abort()
        if sessions:
            for _ in range(_CLOSING_TURNS):  # below a TLS connection that is closed there is a socket that is only about to be
                await asyncio.sleep(0)

    def _open(self, *, keep_alive: bool) -> aiohttp.ClientSession:
        tls: ssl.SSLContext | bool = self.tls or True
        connector = (
            _Connector(ssl=tls, limit=_MOST, keepalive_timeout=_KEEP_ALIVE_SECONDS, ttl_dns_cache=_NAMES_SECONDS)
            if keep_alive
            else _Connector(ssl=tls, limit=_MOST, force_close=True, ttl_dns_cache=_NAMES_SECONDS)
        )
        return aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect_seconds),
            trust_env=False,
            auto_decompress=True,
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[] if self._trace is None else [self._trace()],
            max_line_size=32 * 1024,
            max_field_size=32 * 1024,
        )


class _Connector(aiohttp.TCPConnector):
    """Knows its transports, also those that it gave up: a TLS connection of a call that was cancelled says farewell in its own time,
    and would be left open when the loop ends before the other side has answered that.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._opened: list[asyncio.Transport] = []

    async def connect(self, req: aiohttp.ClientRequest, traces: list[Any], timeout: aiohttp.ClientTimeout) -> Any:
        connection = await super().connect(req, traces, timeout)
        transport = connection.transport
        if transport is not None and transport not in self._opened:
            self._opened = [each for each in self._opened if not _is_gone(each)]
            self._opened.append(transport)
        return connection

    def abort(self) -> None:
        for transport in self._opened:
            if not _is_gone(transport):
                transport.abort()
        self._opened.clear()


def _is_gone(transport: asyncio.Transport) -> bool:
    """Whether its socket is closed."""
    try:
        socket = transport.get_extra_info("socket")
    except AttributeError:  # one of asyncio's that was aborted has nobody left to ask
        return True
    return socket is None or socket.fileno() < 0
