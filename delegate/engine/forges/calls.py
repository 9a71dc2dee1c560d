"""One request to a forge's interface: bounded in time and size, and its failures translated.

Credentials go into a header, to the address that the place has and nowhere else: redirects are not followed.
"""

import asyncio
import base64
import datetime as dt
import email.utils
import json
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec

from delegate.engine.forges.errors import (
    ForgeAccessError,
    ForgeAnswerError,
    ForgeError,
    ForgeForbiddenError,
    ForgeLimitError,
    ForgeNotFoundError,
    ForgeRefusedError,
    ForgeUnavailableError,
)
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.proxying import way_through
from delegate.foundation.redaction import redact
from delegate.foundation.secrets import Secret
from delegate.foundation.settings.proxies import ProxyRules

if TYPE_CHECKING:
    pass

_ANSWER_BYTES = 4 * 1024 * 1024
_CALL_SECONDS = 30.0
_LONGEST_RESET_SECONDS = 3600.0
_WORDS = 300
_TOKEN_USERS = ("", "git", "x-access-token", "x-token-auth", "oauth2", "token")


class ForgeAccess(msgspec.Struct, frozen=True):
    """Who we are to a forge, and whom to take for it. `authority` (PEM) takes the place of the system's."""

    username: str = ""
    token: Secret | None = None
    authority: str = ""
    insecure: bool = False
    proxies: ProxyRules = ProxyRules()

    def header(self, scheme: str = "Bearer") -> str:
        """The value of `Authorization` for a token. Raises ForgeAccessError where there is none."""
        if self.token is None:
            hint = "give the repository a token by DELEGATE_REPOSITORIES_DIR; one for https://host/owner/name also where it is read by ssh"
            raise ForgeAccessError("there are no credentials for the forge's interface", hint=hint)
        return f"{scheme} {self.token.reveal()}"

    def basic_or_bearer(self) -> str:
        """With a user's name as a password is sent, without one as a token."""
        if self.username in _TOKEN_USERS or self.token is None:
            return self.header()
        return "Basic " + base64.b64encode(f"{self.username}:{self.token.reveal()}".encode()).decode()


class _Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Caller:
    """Asks one forge. `headers` go with every request."""

    def __init__(self, api: str, access: ForgeAccess, headers: Mapping[str, str], clock: Clock = SYSTEM_CLOCK) -> None:
        self._api = api
        self._access = access
        self._headers = {"Accept": "application/json", "User-Agent": "delegate", **headers}
        self._clock = clock
        self._context: ssl.SSLContext | None = None

    async def get(self, path: str, **query: str) -> Any:
        return await self.call("GET", f"{path}?{urlencode(query)}" if query else path)

    async def call(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        """The decoded answer; None for an empty one. Raises ForgeError."""
        what = f"{method} {urlsplit(self._api).netloc}{urlsplit(path).path}"
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                answer = await self._send(method, self._api + path, body, what)
        except TimeoutError as error:
            raise ForgeUnavailableError(f"{what}: no answer within {_CALL_SECONDS:g} s") from error
        if not 200 <= answer.status < 300:
            raise self._fault(answer, what)
        if not answer.body.strip():
            return None
        try:
            return json.loads(answer.body)
        except ValueError as error:
            raise ForgeAnswerError(f"{what}: the answer is no JSON", hint="check the forge's address and kind") from error

    async def _send(self, method: str, url: str, body: Mapping[str, object] | None, what: str) -> _Answer:
        import aiohttp  # noqa: PLC0415 - what starts often asks seldom

        if self._context is None and url.startswith("https:"):
            self._context = await asyncio.to_thread(_context, self._access)
        way = way_through(self._access.proxies.address_for(url), url)
        headers = {**self._headers, **way.headers}
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        try:
            async with (
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(ssl=self._context or True), timeout=aiohttp.ClientTimeout(total=None)
                ) as session,
                session.request(
                    method,
                    _encoded(url),
                    data=data,
                    headers=headers,
                    allow_redirects=False,
                    proxy=way.address,
                    proxy_headers=way.connect_headers,
                ) as response,
            ):
                content = bytearray()
                async for piece in response.content.iter_chunked(64 * 1024):
                    content += piece
                    if len(content) > _ANSWER_BYTES:
                        raise ForgeAnswerError(f"{what}: more than {_ANSWER_BYTES} bytes")
                return _Answer(response.status, {name.lower(): value for name, value in response.headers.items()}, bytes(content))
        except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
            hint = "give the authority's certificate by argocd-tls-certs-cm or SSL_CERT_FILE"
            raise ForgeAnswerError(f"{what}: its TLS certificate is not trusted", hint=hint) from error
        except aiohttp.ClientError as error:
            words = redact(str(error) or type(error).__name__)[:_WORDS]
            raise ForgeUnavailableError(f"{what}: {words}", hint="check name, port, network and proxy") from error

    def _fault(self, answer: _Answer, what: str) -> ForgeError:
        said = _said(answer.body)
        words = f"{what}: {answer.status}{f': {said}' if said else ''}"
        wait = self._wait_of(answer)
        error: ForgeError
        if answer.status == 429 or (answer.status == 403 and wait is not None):
            error = ForgeLimitError(words, hint="it passes by itself", retry_after=wait)
        elif answer.status == 401:
            error = ForgeAccessError(words, hint="check that the token is right and not expired")
        elif answer.status == 403:
            error = ForgeForbiddenError(words, hint="give the token the right to make merge requests (api, pull requests: write)")
        elif answer.status in (404, 410):
            error = ForgeNotFoundError(words, hint="check the repository's address, the forge's kind, and what the token may see")
        elif answer.status in (400, 405, 409, 422):
            error = ForgeRefusedError(words)
        elif answer.status in (408, 423, 425) or answer.status >= 500:
            error = ForgeUnavailableError(words, retry_after=wait)
        else:
            error = ForgeAnswerError(words, hint="check the forge's address and kind")
        error.status = answer.status
        return error

    def _wait_of(self, answer: _Answer) -> float | None:
        """The seconds that the server wants us to wait: `Retry-After`, or the time at which its limit is reset (in seconds since 1970)."""
        after = answer.headers.get("retry-after", "")
        if after.isascii() and after.isdecimal():
            return min(float(after), _LONGEST_RESET_SECONDS)
        now = self._clock.now()
        if after:
            try:
                return _bounded(email.utils.parsedate_to_datetime(after) - now)
            except (ValueError, TypeError):
                pass
        used_up = answer.headers.get("x-ratelimit-remaining") == "0" or answer.headers.get("ratelimit-remaining") == "0"
        reset = answer.headers.get("x-ratelimit-reset") or answer.headers.get("ratelimit-reset") or ""
        if (answer.status == 429 or used_up) and reset.isascii() and reset.isdecimal() and len(reset) <= 12:
            return _bounded(dt.datetime.fromtimestamp(int(reset), dt.UTC) - now)
        return None


def _bounded(left: dt.timedelta) -> float:
    return min(max(0.0, left.total_seconds()), _LONGEST_RESET_SECONDS)


def _encoded(url: str) -> "Any":
    """The URL as it was written: a `%2F` in it is no slash."""
    from yarl import URL  # noqa: PLC0415

    return URL(url, encoded=True)


def _context(access: ForgeAccess) -> ssl.SSLContext:
    """Blocks: certificates are read from files."""
    try:
        context = ssl.create_default_context(cadata=access.authority or None)
    except ssl.SSLError as error:
        raise ForgeAnswerError("the authority's certificate is no PEM certificate", hint="correct argocd-tls-certs-cm") from error
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _said(body: bytes) -> str:
    """What an answer says of its fault: forges write `message`, `error`, `errors[].message` or `error.message`."""
    try:
        decoded = json.loads(body[: 64 * 1024])
    except ValueError:
        return ""
    found: list[str] = []
    _collect(decoded, found)
    return redact("; ".join(dict.fromkeys(found)))[:_WORDS]


def _collect(value: object, found: list[str]) -> None:
    if isinstance(value, str):
        found.append(" ".join(value.split()))
    elif isinstance(value, list):
        for each in value[:10]:
            _collect(each, found)
    elif isinstance(value, dict):
        for name in ("message", "error", "error_description", "errors", "detail"):
            if name in value:
                _collect(value[name], found)


def number_of(value: object, name: str, where: str) -> int:
    """A whole number from an answer. Raises ForgeAnswerError."""
    found = value.get(name) if isinstance(value, dict) else None
    if not isinstance(found, int) or isinstance(found, bool):
        raise ForgeAnswerError(f"{where}: the answer has no number in {name}", hint="check the forge's kind")
    return found


def text_of(value: object, *names: str | int) -> str:
    """A text from deep inside of an answer; empty where it isn't there."""
    for name in names:
        if isinstance(name, int):
            value = value[name] if isinstance(value, list) and name < len(value) else None
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def list_of(value: object, where: str) -> list[Any]:
    """A list from an answer. Raises ForgeAnswerError."""
    if not isinstance(value, list):
        raise ForgeAnswerError(f"{where}: the answer is no list", hint="check the forge's kind")
    return value
