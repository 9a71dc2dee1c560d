"""The one place where sources are asked over HTTP: bounded, within the reading's time, retried only where that can help.

400, 401, 403, 404 and 422 end a reading at once; 408, 429, 5xx and faults of the network are tried again while there is time, never
before the source wants to be asked again. Pages, redirects elsewhere and what is no JSON are no answers, whatever their status.
"""

import asyncio
import datetime as dt
import ssl
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import msgspec

from delegate.engine.verification.answers import Answer, Series
from delegate.engine.verification.errors import (
    ProviderConfigurationError,
    ProviderQuestionError,
    ProviderUnavailableError,
    UnreadableAnswerError,
    VerificationError,
)
from delegate.engine.verification.providers.freshness import Freshness, freshness_of
from delegate.engine.verification.providers.links import Link
from delegate.engine.verification.providers.numbers import digest_of
from delegate.engine.verification.providers.refusals import Refusal
from delegate.foundation.proxying import way_through
from delegate.foundation.redaction import redact
from delegate.foundation.secrets import hide_credentials
from delegate.foundation.settings.urls import join_url

if TYPE_CHECKING:
    import aiohttp

_CHUNK_BYTES = 64 * 1024
_LOOP_BYTES = 256 * 1024
"""Larger documents are decoded in a thread."""
_MOST_REDIRECTS = 3
_HEADERS = {"User-Agent": "delegate", "Accept": "application/json", "Cache-Control": "no-cache"}
_REDIRECTS = (301, 302, 303, 307, 308)
_WORDS = 200
_HINT_PAGE = "that is what a login page, a portal or a proxy on the way answers: check the provider's url and credentials"


class Request(msgspec.Struct, frozen=True):
    """`path` is under the provider's url; empty: that url itself. `answers`: statuses that are answers, beside 2xx.

    `repeatable`: asking twice does no harm.
    """

    method: str
    path: str
    params: tuple[tuple[str, str], ...] = ()
    json: object = None
    form: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = {}
    answers: frozenset[int] = frozenset()
    repeatable: bool = True
    authorized: bool = True


class Reply(msgspec.Struct, frozen=True):
    """An answer that was read whole. `headers` have names in lower case."""

    source: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    freshness: Freshness = Freshness(None, False)

    @property
    def is_page(self) -> bool:
        return "html" in self.headers.get("content-type", "").lower() or self.body[:64].lstrip().startswith(b"<")

    async def document(self) -> object:
        """The JSON in it. Raises UnreadableAnswerError."""
        if self.is_page:
            raise UnreadableAnswerError(f"{self.source} answered {self.status} with a page (HTML or XML), not JSON", hint=_HINT_PAGE)
        try:
            if len(self.body) > _LOOP_BYTES:
                return await asyncio.to_thread(msgspec.json.decode, self.body)
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            kind = "nothing" if not self.body.strip() else "what is no JSON"
            raise UnreadableAnswerError(
                f"{self.source} answered {self.status} with {kind}", hint="check the provider's type and url; something may have cut it off"
            ) from error


class Calls:
    """The requests of one reading. `deadline` is of the loop's time; cookies that a source sets are given back within the reading."""

    def __init__(self, link: Link, deadline: float, under: str = "") -> None:
        self._link = link
        self._under = under
        self._deadline = deadline
        self._cookies: dict[str, str] = {}
        self._bodies: list[bytes] = []
        self._freshness: list[Freshness] = []
        self.fault: VerificationError | None = None

    @property
    def source(self) -> str:
        return self._link.source

    @property
    def left_seconds(self) -> float:
        return max(0.0, self._deadline - _now())

    @property
    def kept(self) -> dict[str, tuple[float, str]]:
        """What a dialect keeps between readings (a token it was given), with the loop's time at which it ends."""
        return self._link.kept

    async def values(self) -> Mapping[str, str]:
        """Secrets and settings of the provider."""
        return await self._link.values()

    async def ask(self, request: Request) -> object:
        """The JSON document of an answer."""
        return await (await self.send(request)).document()

    def below(self, path: str) -> "Calls":
        """The same reading, with every path below another one."""
        calls = Calls(self._link, self._deadline, self._under + path)
        calls._bodies, calls._freshness, calls._cookies = self._bodies, self._freshness, self._cookies
        return calls

    async def discard(self, request: Request) -> None:
        """Sends what tidies up, once, with no part in the answer."""
        await self._once(request, 1)

    async def send(self, request: Request) -> Reply:
        """Raises VerificationError for every answer that is none."""
        attempt = 1
        while True:
            await self._wait_until_welcome()
            try:
                reply = await self._once(request, attempt)
            except ProviderUnavailableError as error:
                self.fault = error
                self._note_rest(error)
                wait = self._link.around.retrying.wait_after(attempt, error.retry_after)
                if not self._is_worth_retrying(request, error, attempt, wait):
                    raise
                attempt += 1
            else:
                self._bodies.append(reply.body)
                self._freshness.append(reply.freshness)
                return reply
            await asyncio.sleep(wait)

    def answer(
        self,
        series: Iterable[Series],
        *,
        unit: str = "",
        warnings: tuple[str, ...] = (),
        partial: bool = False,
        at_least: bool = False,
        infos: tuple[str, ...] = (),
        wrong: str = "",
    ) -> Answer:
        """What was read, with what this reading's answers say of themselves. Series without a point are none."""
        ages = [each.age_seconds for each in self._freshness if each.age_seconds is not None]
        return Answer(
            tuple(each for each in series if each.points),
            unit,
            tuple(redact(each)[:_WORDS] for each in dict.fromkeys(warnings)),
            partial,
            max(ages, default=None),
            digest_of(self._bodies),
            any(each.stale for each in self._freshness),
            at_least,
            tuple(redact(each)[:_WORDS] for each in dict.fromkeys(infos)),
            wrong,
        )

    def _is_worth_retrying(self, request: Request, error: ProviderUnavailableError, attempt: int, wait: float) -> bool:
        if not error.retryable or not self._link.was_well or attempt >= self._link.around.retrying.max_attempts:
            return False
        if not request.repeatable and error.retry_after is None:
            return False
        return wait < self.left_seconds

    def _note_rest(self, error: ProviderUnavailableError) -> None:
        if error.retry_after is not None:
            self._link.rests_until = max(self._link.rests_until, _now() + error.retry_after)

    async def _wait_until_welcome(self) -> None:
        rest = self._link.rests_until - _now()
        if rest <= 0:
            return
        if rest >= self.left_seconds:
            words = f"{self.source} wants to be left alone for another {rest:.0f} s"
            raise ProviderUnavailableError(words, hint="ask less often (every), or raise its limit", retry_after=rest)
        await asyncio.sleep(rest)

    async def _once(self, request: Request, attempt: int) -> Reply:
        path = self._under + request.path
        url = join_url(self._link.entry.url, path) if path else self._link.entry.url
        method, first = request.method, url
        login = await self._link.headers() if request.authorized else {}
        for _ in range(_MOST_REDIRECTS + 1):
            reply = await self._exchange(method, url, request, login)
            if reply.status == 401 and request.authorized and attempt == 1:
                # A Secret may just have been replaced; the same credentials are not tried twice.
                login, refused = await self._link.headers(rejected=True), login
                if login != refused:
                    reply = await self._exchange(method, url, request, login)
            if 200 <= reply.status < 300 or reply.status in request.answers:
                return reply
            location = reply.headers.get("location", "")
            if reply.status not in _REDIRECTS or not location:
                break
            url = self._followed(first, urljoin(url, location), request, reply)
            method = "GET" if reply.status == 303 else method
        else:
            raise UnreadableAnswerError(f"{self.source} redirects more than {_MOST_REDIRECTS} times")
        refusal = Refusal(self.source, reply.status, reply.headers, reply.body, self._link.right)
        raise refusal.error(self._link.around.clock.now())

    def _followed(self, first: str, url: str, request: Request, reply: Reply) -> str:
        """Redirects lead nowhere but to the same origin, and a question that is posted stays one."""
        here, there = urlsplit(first), urlsplit(url)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            where = f"{there.scheme}://{there.hostname or '?'}"
            raise UnreadableAnswerError(
                f"{self.source} answered {reply.status} and redirects to {redact(where)}, which is not followed",
                hint=f"set the provider's url to the right address; {_HINT_PAGE}",
            )
        if request.method != "GET" and reply.status in (301, 302):
            raise UnreadableAnswerError(
                f"{self.source} redirects to {redact(there.path)[:_WORDS]}", hint="set the provider's url to where it redirects"
            )
        return url

    async def _exchange(self, method: str, url: str, request: Request, login: Mapping[str, str]) -> Reply:
        import aiohttp  # noqa: PLC0415 - a delegate without checks needs none of it

        session = await self._link.session()
        headers = {**_HEADERS, **login, **request.headers}
        if self._cookies:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        try:
            way = way_through(self._link.around.proxy_for(url), url)
            async with session.request(
                method,
                url,
                params=request.params or None,
                json=request.json if method != "GET" else None,
                data=(list(request.form) or None) if method != "GET" else None,
                headers=headers | way.headers,
                proxy=way.address,
                proxy_headers=way.connect_headers,
                allow_redirects=False,
            ) as response:
                return await self._read(response)
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ClientError):
                raise  # the reading's own deadline
            raise self._explain(error) from error

    async def _read(self, response: "aiohttp.ClientResponse") -> Reply:
        most = self._link.around.most_bytes
        content = bytearray()
        async for piece in response.content.iter_chunked(_CHUNK_BYTES):
            content += piece
            if len(content) > most:
                hint = "narrow the query: fewer series, a wider step"
                raise UnreadableAnswerError(f"{self.source} answers with more than {most} bytes", hint=hint)
        for name, morsel in response.cookies.items():
            self._cookies[name] = morsel.value
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Reply(self.source, response.status, headers, bytes(content), freshness_of(headers, self._time()))

    def _time(self) -> dt.datetime:
        return self._link.around.clock.now()

    def _explain(self, error: Exception) -> VerificationError:
        import aiohttp  # noqa: PLC0415

        source = self.source
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            hint = "give the authority's certificate (ca_file, or SSL_CERT_FILE), or check the address and the clock"
            return ProviderConfigurationError(f"{source}: its TLS certificate is not trusted: {_reason(error)}", hint=hint)
        if isinstance(error, aiohttp.ClientConnectorSSLError | ssl.SSLError):
            hint = "check that the address speaks TLS, and whether it asks for a client certificate"
            return ProviderConfigurationError(f"{source}: no TLS connection: {_reason(error)}", hint=hint)
        if isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
            hint = "check HTTPS_PROXY and NO_PROXY"
            return ProviderUnavailableError(f"{source} can't be reached through the proxy: {_reason(error)}", hint=hint)
        if isinstance(error, aiohttp.InvalidURL | ValueError):
            return ProviderConfigurationError(f"{source}: {hide_credentials(self._link.entry.url)} is no address to ask")
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            hint = "check name, port, network and proxy"
            return ProviderUnavailableError(f"{source} can't be reached: {_reason(error)}", hint=hint)
        return ProviderUnavailableError(
            f"{source}: the connection broke: {_reason(error)}", hint="look at the source, and at what is between"
        )


def _reason(error: BaseException) -> str:
    if getattr(error, "certificate_error", None) is not None:
        error = error.certificate_error  # type: ignore[attr-defined]  # aiohttp's own
    words = getattr(error, "verify_message", "") or getattr(error, "strerror", "") or str(error) or type(error).__name__
    return redact(str(words))[:_WORDS]


def _now() -> float:
    return asyncio.get_running_loop().time()


async def pause(calls: Calls, seconds: float) -> None:
    """Waits between polls, no longer than there is time. Raises ProviderUnavailableError when there is none left."""
    if calls.left_seconds <= seconds:
        raise ProviderUnavailableError(f"{calls.source} has not finished the query in time", hint="narrow the query, or raise the timeout")
    await asyncio.sleep(seconds)


def refuse(words: str, *, hint: str = "", transient: bool = False) -> VerificationError:
    """What a source says of a question inside an answer that claims to be good."""
    words = redact(words)[: 2 * _WORDS]
    return ProviderUnavailableError(words, hint=hint) if transient else ProviderQuestionError(words, hint=hint)
