"""Bounded HTTP for what is no Git: chart repositories, OCI registries, tokens of GitHub Apps.

Every answer has a limit and a deadline, redirects are followed by hand, credentials go to the host alone that they are for,
and plain http is taken only from loopback or where the repository's entry says so.
"""

import asyncio
import base64
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

import msgspec

from delegate.engine.sources.errors import (
    FetchCertificateError,
    FetchTransferError,
    FetchUnreachableError,
    FetchUrlError,
    UnexpectedAnswerError,
)
from delegate.engine.sources.keyfiles import private_file
from delegate.foundation.proxying import way_through
from delegate.foundation.redaction import redact
from delegate.foundation.secrets import Secret, SecretUrl, hide_credentials
from delegate.foundation.settings.proxies import ProxyRules
from delegate.foundation.settings.urls import is_loopback

if TYPE_CHECKING:
    import aiohttp

_CONNECT_SECONDS = 20.0
_SILENCE_SECONDS = 60.0
_MOST_REDIRECTS = 5
_REDIRECTS = (301, 302, 303, 307, 308)
_CHUNK_BYTES = 64 * 1024
_WORDS = 200


class WebAccess(msgspec.Struct, frozen=True):
    """How to present ourselves to one host. The certificates are PEM texts; `authority` takes the place of the system's."""

    username: str = ""
    password: Secret | None = None
    token: Secret | None = None
    authority: str = ""
    certificate: Secret | None = None
    key: Secret | None = None
    proxies: ProxyRules = ProxyRules()
    insecure: bool = False
    plain_http: bool = False

    @property
    def authorization(self) -> str:
        """The header's value; empty without credentials."""
        if self.token is not None:
            return f"Bearer {self.token.reveal()}"
        if self.password is not None:
            return "Basic " + base64.b64encode(f"{self.username}:{self.password.reveal()}".encode()).decode()
        return ""


class Fetched(NamedTuple):
    """An answer that was read whole. `headers` have names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str

    @property
    def text(self) -> str:
        """The beginning of the body, for messages."""
        return redact(" ".join(self.body[: 4 * _WORDS].decode(errors="replace").split())[:_WORDS])


async def fetch(
    url: str,
    access: WebAccess,
    *,
    limit: int,
    headers: Mapping[str, str] | None = None,
    method: str = "GET",
    body: bytes | None = None,
    authorization: str | None = None,
) -> Fetched:
    """One request and its answer, whatever the status. `authorization` takes the place of the access's own.

    Raises FetchUrlError, FetchUnreachableError, FetchCertificateError, FetchTransferError (broken off), UnexpectedAnswerError
    (too large, too many redirects). The deadline is the caller's.
    """
    import aiohttp  # noqa: PLC0415 - what starts often fetches seldom

    first = urlsplit(url)
    sent = dict(headers or {}) | {"User-Agent": "delegate"}
    credentials = access.authorization if authorization is None else authorization
    context = await asyncio.to_thread(_context, access)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENCE_SECONDS)
    connector = aiohttp.TCPConnector(ssl=context, limit=4)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        for _ in range(_MOST_REDIRECTS):
            parts = _checked(url, access)
            same = (parts.scheme, parts.netloc) == (first.scheme, first.netloc)
            own = {"Authorization": credentials} if credentials and same else {}
            request = _Request(method, url, sent | own, body, access.proxies.address_for(url))
            answer = await _send(session, request, limit)
            location = answer.headers.get("location", "")
            if answer.status not in _REDIRECTS or not location:
                return answer
            following = urljoin(url, location)
            if parts.scheme == "https" and urlsplit(following).scheme != "https":
                raise FetchUrlError(f"{_shown(url)} redirects to {_shown(following)}, which is not https")
            url = following
    raise UnexpectedAnswerError(f"{_shown(url)} redirects more than {_MOST_REDIRECTS} times")


class _Request(NamedTuple):
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None
    proxy: str | None


async def _send(session: "aiohttp.ClientSession", request: _Request, limit: int) -> Fetched:
    import aiohttp  # noqa: PLC0415

    method, url, headers, body, proxy = request
    host, shown = _host(url), _shown(url)
    way = way_through(proxy, url)
    headers = {**headers, **way.headers}
    try:
        async with session.request(
            method, url, headers=headers, data=body, proxy=way.address, proxy_headers=way.connect_headers, allow_redirects=False
        ) as response:
            content = bytearray()
            async for piece in response.content.iter_chunked(_CHUNK_BYTES):
                content += piece
                if len(content) > limit:
                    raise UnexpectedAnswerError(f"{shown} gives more than {limit} bytes")
            return Fetched(response.status, {name.lower(): value for name, value in response.headers.items()}, bytes(content), url)
    except (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError) as error:
        hint = "give the authority's certificate (argocd-tls-certs-cm, or SSL_CERT_FILE), or check the address and the clock"
        raise FetchCertificateError(f"{host}: its TLS certificate is not trusted: {_words(error)}", hint=hint) from error
    except (aiohttp.ClientProxyConnectionError, aiohttp.ClientHttpProxyError) as error:
        words = f"{host} can't be reached through the proxy: {_words(error)}"
        raise FetchUnreachableError(words, hint="check HTTPS_PROXY and NO_PROXY") from error
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        words = f"{host} can't be reached: {_words(error)}"
        raise FetchUnreachableError(words, hint="check name, port, network and proxy") from error
    except aiohttp.InvalidURL as error:
        raise FetchUrlError(f"{shown} is no address") from error
    except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
        if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ServerTimeoutError):
            raise  # the caller's own deadline
        raise FetchTransferError(f"{shown}: the transfer broke off: {_words(error)}") from error


def _checked(url: str, access: WebAccess) -> SplitResult:
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError as error:
        raise FetchUrlError(f"{_shown(url)} is no address: {error}") from error
    if parts.scheme not in ("http", "https") or not has_host:
        raise FetchUrlError(f"{_shown(url)} is no address to fetch from", hint="write https://host/path")
    if parts.scheme == "http" and not access.plain_http and not is_loopback(url):
        raise FetchUrlError(f"{_shown(url)}: http is neither secret nor sure", hint="use https, or say so in the repository's Secret")
    return parts


def _context(access: WebAccess) -> ssl.SSLContext:
    """Blocks: certificates are read from files, and ours have to be in one for a moment."""
    try:
        context = ssl.create_default_context(cadata=access.authority or None)
    except ssl.SSLError as error:
        raise FetchCertificateError("the authority's certificate is no PEM certificate", hint="correct argocd-tls-certs-cm") from error
    if access.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if access.certificate is not None and access.key is not None:
        with private_file(f"{access.certificate.reveal().rstrip()}\n{access.key.reveal()}") as path:
            try:
                context.load_cert_chain(path)
            except ssl.SSLError as error:
                hint = "check that they are PEM and belong together"
                raise FetchCertificateError("the client certificate and its key can't be used", hint=hint) from error
    return context


def _host(url: str) -> str:
    return urlsplit(url).hostname or _shown(url)


def _shown(url: str) -> str:
    return hide_credentials(url)


def _words(error: BaseException) -> str:
    return redact(str(error) or type(error).__name__)[:_WORDS]


async def system_authority(outside: Mapping[str, str]) -> str:
    """The authorities that an environment names (SSL_CERT_FILE); empty: those of the system. Raises FetchUrlError."""
    file = outside.get("SSL_CERT_FILE", "")
    try:
        return await asyncio.to_thread(Path(file).read_text) if file else ""
    except OSError as error:
        raise FetchUrlError(f"{file} can't be read: {error.strerror}", hint="correct SSL_CERT_FILE") from error


def proxies_of(entry_proxy: SecretUrl | None, entry_no_proxy: str, rules: ProxyRules) -> ProxyRules:
    """The rules for a repository: its own proxy, else those of this process."""
    if entry_proxy is None:
        return rules
    exceptions = tuple(each.strip() for each in entry_no_proxy.split(",") if each.strip())
    return ProxyRules(entry_proxy, entry_proxy, exceptions)


def rules_from(outside: Mapping[str, str]) -> ProxyRules:
    """The proxies that an environment names."""

    def variable(name: str) -> str:
        return outside.get(name) or outside.get(name.upper()) or ""

    http, https = variable("http_proxy"), variable("https_proxy")
    exceptions = tuple(entry for entry in variable("no_proxy").split(",") if entry.strip())
    return ProxyRules(SecretUrl(http) if http else None, SecretUrl(https) if https else None, exceptions)
