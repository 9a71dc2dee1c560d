"""The connections to the manager that were opened with one TLS context.

A context that is replaced changes nothing for connections that are open: calls on them come to their end, new calls go to the next
context's, and when the last one has ended, or the time for it is over, these are closed.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import aiohttp

_KEEP_ALIVE_SECONDS = 30.0
_NAMES_SECONDS = 30
_MOST = 16


class Connections:
    """Belongs to one event loop. `trace` makes what watches each request."""

    def __init__(self, tls: ssl.SSLContext | None, *, connect_seconds: float, trace: Callable[[], aiohttp.TraceConfig]) -> None:
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
        finally:
            await self.close()

    async def close(self) -> None:
        for session in (self._kept, self._fresh):
            if session is not None:
                await session.close()
        self._kept = self._fresh = None

    def _open(self, *, keep_alive: bool) -> aiohttp.ClientSession:
        tls: ssl.SSLContext | bool = self.tls or True
        connector = (
            aiohttp.TCPConnector(ssl=tls, limit=_MOST, keepalive_timeout=_KEEP_ALIVE_SECONDS, ttl_dns_cache=_NAMES_SECONDS)
            if keep_alive
            else aiohttp.TCPConnector(ssl=tls, limit=_MOST, force_close=True, ttl_dns_cache=_NAMES_SECONDS)
        )
        return aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect_seconds),
            trust_env=False,
            auto_decompress=True,
            cookie_jar=aiohttp.DummyCookieJar(),
            trace_configs=[self._trace()],
            max_line_size=32 * 1024,
            max_field_size=32 * 1024,
        )
