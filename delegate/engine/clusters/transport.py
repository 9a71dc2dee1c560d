"""One API server's connections: credentials kept fresh, eight requests in flight, every fault translated.

A `Transport` sends a `Call` once and brings back an `Answer`, whatever its status. It knows nothing of retries or of objects.
When TLS settings change, new calls use a new session, and the old one is closed once its last call has ended.
"""

import asyncio
import contextlib
import io
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import msgspec
import structlog

from delegate.engine.clusters import errors
from delegate.engine.clusters.answers import Question
from delegate.engine.clusters.credentials import Credentials, CredentialSource, build_ssl_context
from delegate.engine.clusters.metering import Effect
from delegate.engine.clusters.retrying import parse_retry_after
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.proxying import way_through
from delegate.model.resources import JsonObject

log = structlog.get_logger()

REQUESTS_IN_FLIGHT = 8
"""More only queue in an API server of two cores."""
LARGEST_LIST_BYTES = 64 * 1024 * 1024
LARGEST_OBJECT_BYTES = 16 * 1024 * 1024
_LARGEST_FAULT_BYTES = 1024 * 1024
_CREDENTIALS_FRESH_SECONDS = 60.0
_CONNECT_SECONDS = 10.0
_KEEPALIVE_SECONDS = 30.0
_DNS_SECONDS = 30

ProxyFor = Callable[[str], str | None]
"""The proxy that a URL is reached through, by the machine's settings; None for a direct way."""


class Call(msgspec.Struct, frozen=True):
    """One request. `body` is sent as it is; `most_bytes` bounds the answer; `idempotent`: sending it twice does no harm."""

    method: str
    path: str
    question: Question
    effect: Effect = Effect.READ
    params: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = ""
    accept: str = "application/json"
    etag: str = ""
    most_bytes: int = LARGEST_OBJECT_BYTES
    idempotent: bool = True


class Answer(msgspec.Struct, frozen=True):
    """`body` is the decoded JSON object, or the text of what was no JSON."""

    status: int
    body: JsonObject | str
    warnings: tuple[str, ...] = ()
    retry_after: float | None = None
    etag: str = ""


class _Link:
    """A session made for one set of TLS settings, and how many calls use it."""

    def __init__(self, credentials: Credentials, session: aiohttp.ClientSession) -> None:
        self.credentials = credentials
        self.session = session
        self.users = 0
        self.retired = False


class Transport:
    """Sends calls to one API server. Made cheaply; the first call reads the credentials. Close it in the end.

    `directory` is under the state directory (for client keys, briefly); `proxy_for` applies where the kubeconfig names no proxy.
    """

    def __init__(
        self,
        source: CredentialSource,
        *,
        directory: Path | None = None,
        clock: Clock = SYSTEM_CLOCK,
        proxy_for: ProxyFor | None = None,
    ) -> None:
        self._source = source
        self._directory = directory
        self._clock = clock
        self._proxy_for = proxy_for
        self._link: _Link | None = None
        self._loaded_at = 0.0
        self._generation = 0
        self._refreshing = asyncio.Lock()
        self._in_flight = asyncio.Semaphore(REQUESTS_IN_FLIGHT)
        self._closed = False

    @property
    def description(self) -> str:
        return self._source.description

    @property
    def host(self) -> str:
        """The address that messages name; empty until the credentials were read."""
        return self._link.credentials.server if self._link is not None else ""

    async def credentials(self) -> Credentials:
        """The current ones. Raises KubeconfigError or CredentialError."""
        async with self._linked() as (link, _):
            return link.credentials

    async def send(self, call: Call, timeout: float, *, urgent: bool = False) -> Answer:
        """One try, at once where it's urgent. `timeout` counts from when one of the eight places is free.

        Raises what the errors module lists but ApiError: an answer is an answer, whatever its status.
        """
        async with contextlib.nullcontext() if urgent else self._in_flight:
            try:
                async with asyncio.timeout(timeout):
                    answer = await self._send(call)
            except TimeoutError as error:
                raise self._late(call, timeout) from error
        return answer

    @contextlib.asynccontextmanager
    async def stream(self, call: Call, timeout: float) -> AsyncIterator[tuple[Answer, aiohttp.StreamReader | None]]:
        """Opens a watch: the answer with a reader, or, where the status isn't 200, the whole answer and None.

        Takes none of the eight places. `timeout` is for the answer's head. Faults inside the block are translated too.
        """
        async with self._linked() as (link, generation), self._translated(call, link):
            try:
                async with asyncio.timeout(timeout):
                    response = await self._open(link, call)
            except TimeoutError as error:
                raise self._late(call, timeout) from error
            try:
                if response.status == 200 and response.content_type == "application/json":
                    yield _head(response, {}, self._clock), response.content
                else:
                    answer = await self._read(response, call)
                    if answer.status == 401:
                        await self._renew(generation)
                    yield answer, None
            finally:
                response.close()

    async def close(self) -> None:
        """Closes all connections at once; calls that are still running fail."""
        self._closed = True
        link, self._link = self._link, None
        if link is not None:
            await link.session.close()

    async def _send(self, call: Call) -> Answer:
        answer = await self._send_once(call)
        if answer[0].status == 401 and await self._renew(answer[1]):
            answer = await self._send_once(call)
        return answer[0]

    async def _send_once(self, call: Call) -> tuple[Answer, int]:
        async with self._linked() as (link, generation), self._translated(call, link):
            response = await self._open(link, call)
            try:
                return await self._read(response, call), generation
            finally:
                response.release()

    async def _open(self, link: _Link, call: Call) -> aiohttp.ClientResponse:
        credentials = link.credentials
        url = credentials.server + call.path
        headers = {"Accept": call.accept, "User-Agent": "delegate"}
        if credentials.authorization is not None:
            headers["Authorization"] = credentials.authorization.reveal()
        if call.content_type:
            headers["Content-Type"] = call.content_type
        if call.etag:
            headers["If-None-Match"] = call.etag
        proxy = credentials.proxy.reveal() if credentials.proxy is not None else self._proxy_for(url) if self._proxy_for else None
        way = way_through(proxy, url)
        return await link.session.request(
            call.method,
            url,
            params=call.params,
            data=io.BytesIO(call.body) if call.body is not None else None,  # sent piece by piece, however large
            headers=headers | way.headers,
            proxy=way.address,
            proxy_headers=way.connect_headers,
            server_hostname=credentials.server_name or None,
            allow_redirects=False,
        )

    async def _read(self, response: aiohttp.ClientResponse, call: Call) -> Answer:
        most = call.most_bytes if response.status < 400 else _LARGEST_FAULT_BYTES
        content = bytearray()
        async for piece in response.content.iter_any():
            content += piece
            if len(content) > most:
                response.close()
                raise errors.AnswerTooLargeError(
                    f"{self.host} answered more than {most} bytes to {call.question.verb} {call.question.what}",
                    hint="narrow what is listed",
                    object=call.question.subject,
                )
        body = _decode(bytes(content))
        if isinstance(body, str) and response.status < 300 and response.content_type == "application/json":
            raise errors.UnreachableError(
                f"the answer of {self.host} to {call.question.verb} {call.question.what} is cut off",
                hint=_HINT_WAY,
                object=call.question.subject,
            )
        return _head(response, body, self._clock)

    @contextlib.asynccontextmanager
    async def _linked(self) -> AsyncIterator[tuple[_Link, int]]:
        self._refuse_closed()
        link = self._link
        if link is None or self._clock.monotonic() - self._loaded_at > _CREDENTIALS_FRESH_SECONDS:
            await self._refresh(self._generation, rejected=False)
            link = self._link
        assert link is not None
        link.users += 1
        try:
            yield link, self._generation
        finally:
            link.users -= 1
            if link.retired and link.users == 0:
                await link.session.close()

    async def _renew(self, generation: int) -> bool:
        """After a 401: new credentials, unless another call fetched some since. True where they differ from the refused ones."""
        if self._generation != generation:
            return True
        before = self._link.credentials.fingerprint if self._link is not None else ""
        await self._refresh(generation, rejected=True)
        changed = self._link is None or before != self._link.credentials.fingerprint
        log.info("cluster.credentials_refused", source=self.description, changed=changed)
        return changed

    async def _refresh(self, generation: int, *, rejected: bool) -> None:
        async with self._refreshing:
            # Critical section: whoever waited here finds the work done.
            if self._generation != generation:
                return
            old = self._link
            try:
                credentials = await self._source.load(rejected=rejected)
            except errors.ClusterError as error:
                if old is None or rejected:
                    raise
                # A file that is being replaced is no reason to stop using what still works.
                log.warning("cluster.credentials_unreadable", source=self.description, error=str(error))
                self._loaded_at = self._clock.monotonic()
                return
            if old is None or old.credentials.tls_fingerprint != credentials.tls_fingerprint:
                context = await asyncio.to_thread(build_ssl_context, credentials, self._directory)
                self._refuse_closed()
                self._link = _Link(credentials, _new_session(context))
                if old is not None:
                    old.retired = True
                    if old.users == 0:
                        await old.session.close()
            else:
                old.credentials = credentials
            self._loaded_at = self._clock.monotonic()
            self._generation += 1

    def _refuse_closed(self) -> None:
        if self._closed:
            raise errors.UnreachableError(f"the connection to {self.description} is closed", retryable=False)

    def _late(self, call: Call, timeout: float) -> errors.DeadlineError:
        return errors.DeadlineError(
            f"{self.host or self.description} gave no answer to {call.question.verb} {call.question.what} within {timeout:g} s",
            hint="the API server is overloaded, or something on the way swallows packets",
            object=call.question.subject,
        )

    @contextlib.asynccontextmanager
    async def _translated(self, call: Call, link: _Link) -> AsyncIterator[None]:
        try:
            yield
        except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
            if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError):
                raise  # the caller's own deadline
            fault = explain_fault(error, link.credentials)
            fault.object = call.question.subject
            raise fault from error


def _new_session(context: ssl.SSLContext | None) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        ssl=context if context is not None else True,
        limit=0,  # the eight places bound calls; watches are bounded by what is owned
        ttl_dns_cache=_DNS_SECONDS,
        keepalive_timeout=_KEEPALIVE_SECONDS,
    )
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )


def _head(response: aiohttp.ClientResponse, body: JsonObject | str, clock: Clock) -> Answer:
    return Answer(
        status=response.status,
        body=body,
        warnings=tuple(_warning_text(header) for header in response.headers.getall("Warning", ())),
        retry_after=parse_retry_after(response.headers.get("Retry-After"), clock.now()),
        etag=response.headers.get("ETag", ""),
    )


def _decode(content: bytes) -> JsonObject | str:
    try:
        body = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return content.decode(errors="replace")
    return body if isinstance(body, dict) else content.decode(errors="replace")


def _warning_text(header: str) -> str:
    """The text of `299 - "text"` (RFC 7234 §5.5)."""
    _, quote, rest = header.partition('"')
    return rest.rpartition('"')[0].replace('\\"', '"').replace("\\\\", "\\") if quote else header


def explain_fault(error: Exception, credentials: Credentials) -> errors.UnreachableError | errors.NotJsonError:
    """What a fault on the way means. Names the host, never the proxy's password."""
    server = credentials.server
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _untrusted(error.certificate_error, credentials)
    if isinstance(error, aiohttp.ClientConnectorSSLError | ssl.SSLError):
        return errors.TlsError(
            f"no TLS connection to {server}: {_reason(error)}",
            hint="check that the address speaks TLS and whether it asks for a client certificate",
        )
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        host = urlsplit(server).hostname
        return _unsent(f"{server} can't be reached: the name {host!r} isn't known", "check the server address and DNS")
    if isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
        shown = credentials.proxy.shown if credentials.proxy is not None else "of the environment"
        words = f"it answered {error.status}" if isinstance(error, aiohttp.ClientHttpProxyError) else _reason(error)
        return _unsent(f"{server} can't be reached through the proxy {shown}: {words}", "check proxy-url, HTTPS_PROXY and NO_PROXY")
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        late = errors.DeadlineError(f"{server} can't be reached: no connection within {_CONNECT_SECONDS:g} s", hint=_HINT_WAY)
        late.unsent = True
        return late
    if isinstance(error, aiohttp.ClientConnectorError):
        return _unsent(f"{server} can't be reached: {_reason(error)}", _HINT_WAY)
    if isinstance(error, aiohttp.ClientResponseError):
        return errors.NotJsonError(f"{server} doesn't speak HTTP as an API server does: {error.message}", hint="check the server address")
    return errors.UnreachableError(f"the connection to {server} broke: {_reason(error)}", hint=_HINT_WAY)


_HINT_WAY = "check that the API server runs and that nothing on the way (firewall, proxy, VPN) blocks it"


def _unsent(message: str, hint: str) -> errors.UnreachableError:
    error = errors.UnreachableError(message, hint=hint)
    error.unsent = True
    return error


def _untrusted(error: Exception, credentials: Credentials) -> errors.TlsError:
    words = str(getattr(error, "verify_message", "") or error)
    if "mismatch" in words or "doesn't match" in words:
        hint = "use a server address that its certificate names, or set tls-server-name to one that it does"
    elif "expired" in words or "not yet valid" in words:
        hint = "renew the API server's certificate, or correct this machine's clock"
    else:
        hint = "set certificate-authority of this cluster to the CA that signed the API server's certificate"
    return errors.TlsError(f"{credentials.server} isn't trusted: {words.rstrip('.')}", hint=hint)


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        error = error.os_error
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
