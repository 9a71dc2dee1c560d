"""What an API operation is: declared once, and from that declaration served, documented and checked.

A handler gets a `Call` with everything decoded and everybody known, and returns a message. Decoding, authorization, limits
and encoding are the same for all and happen here.
"""

import asyncio
import enum
from collections.abc import AsyncIterator, Awaitable, Callable, Sized
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec
from aiohttp import web

from delegate.manager.api.authentication import Authenticator, Principal
from delegate.manager.api.peers import Peer, peer_of
from delegate.manager.authority import Authority
from delegate.manager.clocks import Clock, to_rfc3339
from delegate.manager.dispatch import Dispatch
from delegate.manager.errors import InvalidError, MalformedError, RefusedError, TooLargeError
from delegate.manager.settings import Limits, Rhythm
from delegate.manager.store.database import Database
from delegate.protocol import codec
from delegate.protocol.codec import MAX_BODY_BYTES
from delegate.protocol.messages import Message
from delegate.protocol.pki.certificates import Certificate
from delegate.protocol.problems import ProblemCode

Body_co = TypeVar("Body_co", covariant=True)
Query_co = TypeVar("Query_co", covariant=True)
CALL_ID = web.RequestKey("call_id", str)
JSON = "application/json"


class Access(enum.Enum):
    """Who may call an operation."""

    ANYBODY = "anybody"
    ADMIN = "admin"
    BOOTSTRAP = "bootstrap"  # a delegate's token, checked by the operation itself
    REFRESH = "refresh"  # the same for a refresh token
    SESSION = "session"
    RENEWAL = "renewal"  # a session token; the operation itself asks for a certificate, or for the proof of one
    ATTEMPT = "attempt"  # attempt tokens in the body; a session is not needed


@dataclass(frozen=True)
class Services:
    """What handlers work with."""

    database: Database
    dispatch: Dispatch
    authenticator: Authenticator
    rhythm: Rhythm
    limits: Limits
    clock: Clock
    authority: Authority
    attempt_key: bytes = field(repr=False)
    on_redrive: Callable[[], None] = field(default=lambda: None)
    come_back_seconds: Callable[[], float] = field(default=lambda: 0.0)


@dataclass(frozen=True)
class Call(Generic[Body_co, Query_co]):
    """One request, read. `principal` is None only where anybody may call."""

    services: Services
    request_id: str
    body: Body_co
    query: Query_co
    path: dict[str, str]
    principal: Principal
    secret: str = field(repr=False)
    headers: dict[str, str] = field(repr=False, default_factory=dict)
    client_address: str = ""
    scheme: str = "http"
    peer: Peer = field(default_factory=Peer)

    @property
    def certificate(self) -> Certificate | None:
        """The one that the caller's connection has shown."""
        return self.peer.certificate

    @property
    def encrypted(self) -> bool:
        """Whether TLS ends here, so that a certificate could be seen."""
        return self.peer.encrypted

    def server_time(self) -> str:
        return to_rfc3339(self.services.authority.now())


class Nothing(msgspec.Struct, frozen=True):
    """No body, or no query."""


@dataclass(frozen=True)
class Streamed:
    """An answer of JSON that is too large to be held as a whole: its length, and its pieces."""

    size: int
    pieces: AsyncIterator[bytes]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one path. `body` and `query` are the types that are read, `answer` the type that is written."""

    method: str
    path: str
    name: str
    summary: str
    access: Access
    handler: Callable[[Call[Any, Any]], Awaitable[Any]]
    answer: type
    body: type = Nothing
    query: type = Nothing
    status: int = 200
    body_limit: int = MAX_BODY_BYTES
    raw_body: tuple[str, ...] = ()
    """Media types that are given to the handler as bytes, undecoded."""
    refusals: tuple[int, ...] = ()
    idempotent: bool = False
    """Whether the header Idempotency-Key makes a repeated call the same one."""
    tag: str = ""

    async def serve(self, services: Services, request: web.Request) -> web.Response:
        secret, peer = bearer(request), peer_of(request)
        principal = await self._authorize(services, secret, peer)
        body = await self._read_body(services, request)
        call = Call(
            services=services,
            request_id=request[CALL_ID],
            body=body,
            query=self._read_query(request),
            path=dict(request.match_info),
            principal=principal,
            secret=secret,
            headers={name.lower(): value for name, value in request.headers.items() if name.lower() in _HEADERS},
            client_address=request.remote or "",
            scheme=request.scheme,
            peer=peer,
        )
        answer = await self.handler(call)
        if isinstance(answer, Streamed):
            return web.Response(body=answer.pieces, content_type=JSON, headers={"Content-Length": str(answer.size)})
        return json_response(answer, self.status)

    async def _authorize(self, services: Services, secret: str, peer: Peer) -> Principal:
        match self.access:
            case Access.SESSION:
                return await services.authenticator.delegate(secret, peer)
            case Access.RENEWAL:
                return await services.authenticator.delegate(secret, Peer())
            case Access.ADMIN:
                return await services.authenticator.operator(secret)
            case Access.REFRESH | Access.ATTEMPT:
                await services.authenticator.check_unrevoked(peer)
                return Principal()
            case _:
                return Principal()

    async def _read_body(self, services: Services, request: web.Request) -> Any:
        if self.raw_body:
            accepted = self.raw_body
        elif self.body is Nothing:
            return Nothing()
        else:
            accepted = (JSON,)
        if request.content_type not in accepted:
            raise UnsupportedMediaTypeError(
                f"the body is {request.content_type}, which is not read here", hint=f"send {' or '.join(accepted)}"
            )
        raw = await read_limited(request, self.body_limit, services.limits.header_seconds)
        if self.raw_body:
            return raw
        try:
            return self._decode(raw)
        except msgspec.ValidationError as error:
            raise InvalidError(f"the body is no {self.body.__name__}: {error}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise MalformedError(f"the body is no JSON: {error}") from error

    def _decode(self, raw: bytes) -> Any:
        """Messages of delegates are read with the tolerance of the protocol, whatever version they are of."""
        if not issubclass(self.body, Message):
            return msgspec.json.decode(raw, type=self.body)
        try:
            return codec.decode(raw, self.body)
        except codec.UndecodableError as error:
            raise (error.__cause__ or error) from error

    def _read_query(self, request: web.Request) -> Any:
        if self.query is Nothing:
            return Nothing()
        try:
            return msgspec.convert(dict(request.query), self.query, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidError(f"the query can't be read: {error}") from error


_HEADERS = frozenset({"content-type", "idempotency-key", "via", "x-forwarded-for", "user-agent"})


class UnsupportedMediaTypeError(RefusedError):
    default_code = "manager.media_type"
    status = 415


class RequestTimeoutError(RefusedError):
    default_code = "manager.request_timeout"
    default_retryable = True
    status = 408
    problem = ProblemCode.OVERLOADED


def check_count(what: str, items: Sized, most: int) -> None:
    """Raises InvalidError for a list that is longer than one call may carry."""
    if len(items) > most:
        raise InvalidError(f"{what}: {len(items)} are more than the {most} that one call may carry")


def bearer(request: web.Request) -> str:
    """The token of a request, or an empty text."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def read_limited(request: web.Request, limit: int, seconds: float) -> bytes:
    """The body, with bounds on its size and on the time between its pieces."""
    if (request.content_length or 0) > limit:
        raise TooLargeError(f"a body of {request.content_length} bytes is over the limit of {limit}")
    body = bytearray()
    try:
        async with asyncio.timeout(seconds) as patience:
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > limit:
                    raise TooLargeError(f"the body is over the limit of {limit} bytes")
                patience.reschedule(asyncio.get_running_loop().time() + seconds)
    except TimeoutError as error:
        raise RequestTimeoutError(f"the body did not arrive: nothing came for {seconds:g} s") from error
    return bytes(body)


def json_response(message: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(message), status=status, content_type=JSON)
