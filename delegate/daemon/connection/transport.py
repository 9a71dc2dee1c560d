"""One call to the manager: a POST that comes back as a decoded answer or as one of the errors of this package.

Every lane has a transport of its own, and so connections of its own. Limits are on silence, never on the whole: a transfer that
makes progress is not cut. A connection that was kept alive may be closed by the other side in the moment of its re-use; such a
call is made once more at once on a new connection (all calls are idempotent by key). So is one that was still under way on
connections of a certificate that was replaced a minute ago, when these are closed.
"""

import asyncio
import datetime as dt
import ssl
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TypeVar
from urllib.parse import urlsplit

import aiohttp

from delegate.daemon.connection.answers import RawAnswer, describe, read_answer
from delegate.daemon.connection.connections import Connections
from delegate.daemon.connection.errors import ConnectionFaultError, TransportError
from delegate.daemon.connection.patience import Patience
from delegate.daemon.connection.trust import explain_connect_fault, explain_rejection
from delegate.foundation.secrets import Secret
from delegate.protocol import codec, routes
from delegate.protocol.messages import Answer, Request

A = TypeVar("A", bound=Answer)
_UPLOAD_PIECE = 64 * 1024
_RACE_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where the manager is, and how to get there. `join` makes a URL of a path; `proxy` names the proxy for a URL.

    `contexts` gives the TLS context for new connections where that changes, instead of `tls`. `on_answer` is told the manager's time of
    each answer.
    """

    join: Callable[[str], str]
    tls: ssl.SSLContext | None = None
    proxy: Callable[[str], str | None] = field(default=lambda url: None)
    contexts: Callable[[], ssl.SSLContext | None] | None = None
    on_answer: Callable[[str], None] = field(default=lambda server_time: None)

    @property
    def context(self) -> ssl.SSLContext | None:
        return self.tls if self.contexts is None else self.contexts()


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Seconds. `stall`: the longest silence while something is due; a long poll may be silent for its wait and `slack` more.

    `drain`: how long calls on connections of a replaced TLS context may take to their end.
    """

    connect: float = 10.0
    stall: float = 30.0
    slack: float = 15.0
    drain: float = 60.0


class Transport:
    """The connections of one lane. Belongs to one event loop; made, used and closed there."""

    def __init__(self, endpoint: Endpoint, *, limits: Limits | None = None, patience: Patience | None = None) -> None:
        self.patience = patience or Patience()
        self._endpoint = endpoint
        self._limits = limits or Limits()
        self._connections: Connections | None = None
        self._draining: dict[asyncio.Task[None], Connections] = {}

    async def close(self) -> None:
        for connections in self._draining.values():
            connections.hurry()
        await asyncio.gather(*self._draining)
        if self._connections is not None:
            await self._connections.close()
            self._connections = None

    async def call(
        self,
        route: str,
        request: Request,
        wanted: type[A],
        *,
        token: Secret,
        delegate_id: str = "",
        wait_seconds: float = 0.0,
        within_seconds: float | None = None,
    ) -> A:
        """The manager's answer, after as much patience as the route asked for.

        `wait_seconds` is how long the answer may be held back (long poll); `within_seconds` bounds the whole call where an
        answer is worthless later. Raises TransportError or a RefusalError.
        """
        await asyncio.sleep(self.patience.remaining(route))
        body = codec.encode(request)
        call = _Call(route, self._endpoint.join(route), body, _headers(request.request_id, len(body), token, delegate_id))
        silence = wait_seconds + (self._limits.slack if wait_seconds else self._limits.stall)
        try:
            async with asyncio.timeout(within_seconds):
                raw = await self._answered(call, silence)
        except TimeoutError as error:
            raise TransportError(
                f"no answer to {route} within {within_seconds:g} s",
                hint="check the way to the manager, and whether it is overloaded; this is tried again",
            ) from error
        try:
            answer = read_answer(raw, wanted, request.request_id, dt.datetime.now(dt.UTC))
            self._endpoint.on_answer(answer.server_time)
            return answer
        except ConnectionFaultError as error:
            if error.retry_after is not None:
                self.patience.ask(route, error.retry_after)
            raise

    async def _answered(self, call: "_Call", silence: float) -> RawAnswer:
        connections = self._current()
        trip = _Trip()
        with connections.calling():
            try:
                return await self._post(connections.kept, call, silence, trip)
            except TransportError:
                if not (trip.was_keep_alive_race or connections.cut):
                    raise
        # The other connections kept alive may be as dead as this one.
        connections = self._current()
        with connections.calling():
            return await self._post(connections.fresh, call, silence, _Trip())

    def _current(self) -> Connections:
        """Connections with the TLS context that holds now; those of the one before come to their end."""
        tls = self._endpoint.context
        if self._connections is None or self._connections.tls is not tls:
            if self._connections is not None:
                task = asyncio.create_task(self._connections.drain(self._limits.drain))
                self._draining[task] = self._connections
                task.add_done_callback(self._draining.pop)
            self._connections = Connections(tls, connect_seconds=self._limits.connect, trace=_watch_trips)
        return self._connections

    async def _post(self, session: aiohttp.ClientSession, call: "_Call", silence: float, trip: "_Trip") -> RawAnswer:
        trip.began_at = time.monotonic()
        try:
            async with (
                trip.limited(self._limits.connect, silence) as limit,
                session.post(
                    call.url,
                    data=_upload(call.body, limit, silence),
                    headers=call.headers,
                    allow_redirects=False,
                    proxy=self._endpoint.proxy(call.url),
                    trace_request_ctx=trip,
                ) as response,
            ):
                trip.answer_began = True
                return await _read_answer(response, limit, self._limits.stall)
        except TimeoutError as error:
            hint = "check for a firewall that drops connections without a word; this is tried again"
            words = (
                f"{call.route} was silent for {silence:g} s"
                if trip.sent
                else f"no connection to {call.place} within {self._limits.connect:g} s"
            )
            raise TransportError(words, hint=hint) from error
        except aiohttp.ClientConnectionError as error:
            if (rejection := explain_rejection(error, call.url)) is not None:
                raise rejection from error
            if isinstance(error, aiohttp.ClientConnectorError):
                raise explain_connect_fault(error, call.url) from error
            trip.cut_after = None if trip.answer_began else time.monotonic() - trip.began_at
            hint = "check for a proxy or firewall that closes connections; this is tried again"
            raise TransportError(f"the connection of {call.route} was cut", hint=hint, cut_after=trip.cut_after) from error
        except aiohttp.ClientError as error:
            raise explain_connect_fault(error, call.url) from error


@dataclass(frozen=True)
class _Call:
    route: str
    url: str
    body: bytes
    headers: dict[str, str]

    @property
    def place(self) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]


@dataclass
class _Trip:
    """What became of one try on one connection."""

    began_at: float = 0.0
    reused: bool = False
    answer_began: bool = False
    cut_after: float | None = None
    sent: bool = False
    limit: asyncio.Timeout | None = None
    silence: float = 0.0

    def limited(self, connect: float, silence: float) -> asyncio.Timeout:
        """A limit on the way to a connection; once the request is on it, on the silence."""
        self.silence = silence
        self.limit = asyncio.timeout(connect)
        return self.limit

    def note_sending(self) -> None:
        self.sent = True
        if self.limit is not None:
            _put_off(self.limit, self.silence)

    @property
    def was_keep_alive_race(self) -> bool:
        return self.reused and self.cut_after is not None and self.cut_after < _RACE_SECONDS


def _headers(request_id: str, size: int, token: Secret, delegate_id: str) -> dict[str, str]:
    headers = {
        "Authorization": f"Bearer {token.reveal()}",
        "Content-Type": "application/json",
        "Content-Length": str(size),
        "Accept": f"application/json, {routes.PROBLEM_TYPE}",
        routes.REQUEST_ID_HEADER: request_id,
    }
    if delegate_id:
        headers[routes.DELEGATE_ID_HEADER] = delegate_id
    return headers


def _watch_trips() -> aiohttp.TraceConfig:
    trace = aiohttp.TraceConfig()

    async def mark_reuse(session: aiohttp.ClientSession, context: SimpleNamespace, _: aiohttp.TraceConnectionReuseconnParams) -> None:
        trip = context.trace_request_ctx
        if isinstance(trip, _Trip):
            trip.reused = True

    async def mark_sending(session: aiohttp.ClientSession, context: SimpleNamespace, _: aiohttp.TraceRequestHeadersSentParams) -> None:
        trip = context.trace_request_ctx
        if isinstance(trip, _Trip):
            trip.note_sending()

    trace.on_connection_reuseconn.append(mark_reuse)
    trace.on_request_headers_sent.append(mark_sending)
    return trace


def _upload(body: bytes, limit: asyncio.Timeout, silence: float) -> "bytes | AsyncIterator[bytes]":
    return body if len(body) <= _UPLOAD_PIECE else _in_pieces(body, limit, silence)


async def _in_pieces(body: bytes, limit: asyncio.Timeout, silence: float) -> AsyncIterator[bytes]:
    """Each piece that the other side took puts the limit off."""
    for start in range(0, len(body), _UPLOAD_PIECE):
        yield body[start : start + _UPLOAD_PIECE]
        _put_off(limit, silence)


async def _read_answer(response: aiohttp.ClientResponse, limit: asyncio.Timeout, stall: float) -> RawAnswer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    body = bytearray()
    _put_off(limit, stall)
    try:
        async for piece in response.content.iter_any():
            body += piece
            if len(body) > codec.MAX_BODY_BYTES:
                raise TransportError(f"an answer of more than {codec.MAX_BODY_BYTES} bytes was not read to its end")
            _put_off(limit, stall)
    except aiohttp.ClientError as error:
        raise TransportError(
            "the answer broke off before its end",
            hint="look for a proxy on the way that cuts or garbles answers",
            facts=describe(RawAnswer(response.status, headers, bytes(body))),
        ) from error
    return RawAnswer(response.status, headers, bytes(body))


def _put_off(limit: asyncio.Timeout, seconds: float) -> None:
    if not limit.expired():
        limit.reschedule(asyncio.get_running_loop().time() + seconds)
