"""One call to the manager: a POST that comes back as a decoded answer or as one of the errors of this package.

Every lane has a transport of its own, and so connections of its own. Limits are on silence, never on the whole: a transfer that
makes progress is not cut; a few bytes now and then are none. Connections are opened anew, and the manager's name is resolved anew,
when they are ten minutes old, and after each fault that may be the address's: whatever was kept alive is not asked again then.

A connection that was kept alive may be closed by the other side in the moment of its re-use; such a call is made once more at once
on a new connection (all calls are idempotent by key). So is one that was still under way on connections of a certificate that was
replaced a minute ago, when these are closed.
"""

import asyncio
import datetime as dt
import ssl
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TypeVar

import aiohttp

from delegate.daemon.connection.answers import IMPATIENT, RawAnswer, describe, read_answer
from delegate.daemon.connection.connections import Connections
from delegate.daemon.connection.errors import ConnectionFaultError, TransportError
from delegate.daemon.connection.hops import explain_connect_fault, explain_lost_tunnel, explain_rejection, place_of
from delegate.daemon.connection.patience import Patience
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.proxying import way_through
from delegate.foundation.secrets import Secret
from delegate.protocol import codec, routes
from delegate.protocol.messages import Answer, Request

A = TypeVar("A", bound=Answer)
_UPLOAD_PIECE = 64 * 1024
_RACE_SECONDS = 1.0
_SETTLING_SECONDS, _SETTLING_LOOK_SECONDS = 10.0, 0.05
_LEAST_BYTES_PER_SECOND = 2.0
"""An answer that trickles with less ends like one that is silent."""
_NAMES_SECONDS = 30.0
_OLD_DRAIN_SECONDS = 3600.0


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """Where the manager is, and how to get there. `join` makes a URL of a path; `proxy` names the proxy for a URL.

    `contexts` gives the TLS context for new connections where that changes, instead of `tls`. `on_answer` is told the manager's time of
    each answer, and what time it was by `clock` when it was asked for. `settled` is false for the moment in which a certificate that
    ended or was refused is being replaced.
    """

    join: Callable[[str], str]
    tls: ssl.SSLContext | None = None
    proxy: Callable[[str], str | None] = field(default=lambda url: None)
    contexts: Callable[[], ssl.SSLContext | None] | None = None
    on_answer: Callable[[str, dt.datetime], None] = field(default=lambda server_time, asked_at: None)
    clock: Clock = SYSTEM_CLOCK
    settled: Callable[[], bool] = field(default=lambda: True)

    @property
    def context(self) -> ssl.SSLContext | None:
        return self.tls if self.contexts is None else self.contexts()


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Seconds. `stall`: the longest silence while something is due; a long poll may be silent for its wait and `slack` more.

    `drain`: how long calls on connections of a replaced TLS context may take to their end. `age`: how old connections get.
    """

    connect: float = 10.0
    stall: float = 30.0
    slack: float = 15.0
    drain: float = 60.0
    age: float = 600.0


class Transport:
    """The connections of one lane. Belongs to one event loop; made, used and closed there."""

    def __init__(self, endpoint: Endpoint, *, limits: Limits | None = None, patience: Patience | None = None) -> None:
        self.patience = patience or Patience()
        self._endpoint = endpoint
        self._limits = limits or Limits()
        self._connections: Connections | None = None
        self._draining: dict[asyncio.Task[None], Connections] = {}
        self._opened_at = 0.0
        self._doubted = False

    @property
    def context(self) -> ssl.SSLContext | None:
        """What a connection that is opened now is opened with."""
        return self._endpoint.context

    async def until_settled(self) -> None:
        """Waits while a certificate is being replaced that no call would succeed with; not for long."""
        until = time.monotonic() + _SETTLING_SECONDS
        while True:
            if self._endpoint.settled() or time.monotonic() >= until:
                return
            await asyncio.sleep(_SETTLING_LOOK_SECONDS)

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
        asked_at, asked_time = time.monotonic(), self._endpoint.clock.now()
        try:
            async with asyncio.timeout(within_seconds):
                raw = await self._answered(call, silence)
        except TimeoutError as error:
            self._doubt()
            raise TransportError(
                f"no answer to {route} within {within_seconds:g} s",
                hint="check the way to the manager, and whether it is overloaded; this is tried again",
                code="connection.silent",
            ) from error
        try:
            answer = read_answer(raw, wanted, request.request_id, dt.datetime.now(dt.UTC))
            self._endpoint.on_answer(answer.server_time, asked_time)
            return answer
        except ConnectionFaultError as error:
            self._judge(error, raw, time.monotonic() - asked_at)
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
                self._doubt()
                if not (trip.was_keep_alive_race or connections.cut):
                    raise
        # The other connections kept alive may be as dead as this one.
        connections = self._current()
        with connections.calling():
            try:
                return await self._post(connections.fresh, call, silence, _Trip())
            except TransportError:
                self._doubt()
                raise

    def _judge(self, error: ConnectionFaultError, raw: RawAnswer, age: float) -> None:
        """What an answer that is none says of the way that it came."""
        if isinstance(error, TransportError):
            self._doubt()
            if raw.status in IMPATIENT:
                error.cut_after = age
        elif raw.status >= 500 and time.monotonic() - self._opened_at > _NAMES_SECONDS:
            self._doubt()  # the name may be another manager's by now; one that is overloaded is not asked for more than that

    def _doubt(self) -> None:
        """The next call goes over a new connection, to what the name stands for then."""
        self._doubted = True

    def _current(self) -> Connections:
        """Connections with the TLS context that holds now; those of the one before, and old ones, come to their end."""
        tls, now = self._endpoint.context, time.monotonic()
        kept = self._connections
        if kept is not None:
            if kept.tls is not tls:
                self._drain(kept, self._limits.drain)
            elif self._doubted or now - self._opened_at > self._limits.age:
                self._drain(kept, _OLD_DRAIN_SECONDS)
            else:
                return kept
        self._connections = Connections(tls, connect_seconds=self._limits.connect, trace=_watch_trips)
        self._opened_at, self._doubted = now, False
        return self._connections

    def _drain(self, connections: Connections, within_seconds: float) -> None:
        task = asyncio.create_task(connections.drain(within_seconds))
        self._draining[task] = connections
        task.add_done_callback(self._draining.pop)

    async def _post(self, session: aiohttp.ClientSession, call: "_Call", silence: float, trip: "_Trip") -> RawAnswer:
        trip.began_at = time.monotonic()
        proxy = self._endpoint.proxy(call.url)
        way = way_through(proxy, call.url)
        try:
            async with (
                trip.limited(self._limits.connect, silence) as limit,
                session.post(
                    call.url,
                    data=_upload(call.body, limit, silence),
                    headers=call.headers | way.headers,
                    allow_redirects=False,
                    proxy=way.address,
                    proxy_headers=way.connect_headers,
                    trace_request_ctx=trip,
                ) as response,
            ):
                trip.answer_began = True
                return await _read_answer(response, limit, self._limits.stall)
        except TimeoutError as error:
            raise self._explain_silence(call, trip, silence, proxy) from error
        except aiohttp.ClientConnectionError as error:
            if (rejection := explain_rejection(error, call.url)) is not None:
                raise rejection from error
            if isinstance(error, aiohttp.ClientConnectorError):
                raise explain_connect_fault(error, call.url, proxy) from error
            if proxy is not None and not trip.sent and not trip.reused:
                raise explain_lost_tunnel(error, call.url, proxy) from error
            trip.cut_after = None if trip.answer_began else time.monotonic() - trip.began_at
            hint = "check for a proxy or firewall that closes connections; this is tried again"
            words = f"the connection of {call.route} was cut"
            raise TransportError(words, hint=hint, cut_after=trip.cut_after, code="connection.cut") from error
        except aiohttp.ClientError as error:
            raise explain_connect_fault(error, call.url, proxy) from error

    def _explain_silence(self, call: "_Call", trip: "_Trip", silence: float, proxy: str | None) -> TransportError:
        through = f" through the proxy {place_of(proxy)}" if proxy else ""
        if trip.answer_began:
            words = f"the answer to {call.route} all but stopped: less than {_LEAST_BYTES_PER_SECOND:g} bytes a second"
        elif trip.sent:
            words = f"{call.route} was silent for {silence:g} s"
        else:
            words = f"no connection to {place_of(call.url)}{through} within {self._limits.connect:g} s"
        hint = "check for a firewall that drops connections without a word; this is tried again"
        return TransportError(words, hint=hint, code="connection.silent")


@dataclass(frozen=True)
class _Call:
    route: str
    url: str
    body: bytes
    headers: dict[str, str]


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
    counted = 0
    _put_off(limit, stall)
    try:
        async for piece in response.content.iter_any():
            body += piece
            if len(body) > codec.MAX_BODY_BYTES:
                raise TransportError(f"an answer of more than {codec.MAX_BODY_BYTES} bytes was not read to its end")
            if len(body) - counted >= _LEAST_BYTES_PER_SECOND * stall:
                counted = len(body)
                _put_off(limit, stall)
    except aiohttp.ClientError as error:
        raise TransportError(
            "the answer broke off before its end",
            hint="look for a proxy on the way that cuts or garbles answers",
            facts=describe(RawAnswer(response.status, headers, bytes(body))),
            code="connection.cut",
        ) from error
    return RawAnswer(response.status, headers, bytes(body))


def _put_off(limit: asyncio.Timeout, seconds: float) -> None:
    if not limit.expired():
        limit.reschedule(asyncio.get_running_loop().time() + seconds)
