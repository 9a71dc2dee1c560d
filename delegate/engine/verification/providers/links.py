"""The way to one source: its address, credentials, TLS and proxy, one session, and when it wants to be left alone.

What is known to be true of a source is kept here, between readings: whether it answered the last one (only then is a fault tried
again inside a reading: a source that is down is asked once, and its caller's own patience decides), and until when it rests.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from delegate.engine.verification.errors import ProviderConfigurationError
from delegate.engine.verification.providers.credentials import Login, Vault
from delegate.engine.verification.providers.entries import Entry
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.foundation.rule_files import fingerprint_of

if TYPE_CHECKING:
    import aiohttp

_CONNECTIONS = 8
_CONNECT_SECONDS = 10.0
LARGEST_ANSWER_BYTES = 8 * 2**20

ProxyFor = Callable[[str], str | None]
"""The proxy that a URL is reached through; None for a direct way."""


class Surroundings(msgspec.Struct, frozen=True):
    """What all sources of a process share. `authorities`: a bundle beside the system's own; `retrying`: tries within one reading."""

    proxy_for: ProxyFor
    authorities: str = ""
    retrying: Retrying = Retrying(max_attempts=3)
    clock: Clock = SYSTEM_CLOCK
    most_bytes: int = LARGEST_ANSWER_BYTES


class Link:
    """One entry's way. `right`: what credentials must be allowed to, for messages."""

    def __init__(self, entry: Entry, vault: Vault, logins: tuple[Login, ...], around: Surroundings, *, right: str = "") -> None:
        self.entry = entry
        self.around = around
        self.right = right
        self.was_well = True
        self.rests_until = 0.0
        self.kept: dict[str, tuple[float, str]] = {}
        self._vault = vault
        self._logins = logins
        self._session: aiohttp.ClientSession | None = None
        self._files: tuple[object, ...] = ()
        self._opening = asyncio.Lock()
        self._closed = False

    def __repr__(self) -> str:
        return f"Link({self.source})"

    @property
    def source(self) -> str:
        """How messages call it: its name and host, or its host alone."""
        host = urlsplit(self.entry.url).netloc
        return f"provider {self.entry.name!r} ({host})" if self.entry.name else host

    async def values(self, *, rejected: bool = False) -> Mapping[str, str]:
        """Secrets and settings, by their keys."""
        return {**self.entry.settings, **await self._vault.values(rejected=rejected)}

    async def headers(self, *, rejected: bool = False) -> dict[str, str]:
        """What every request carries: the entry's headers and the login. Raises ProviderConfigurationError."""
        values = await self.values(rejected=rejected)
        headers = dict(self.entry.headers)
        for login in self._logins:
            if login.needs and all(values.get(need) for need in login.needs):
                headers |= login.headers(values)
                break
        secret = {name: values[name] for name in self.entry.secret_headers}
        for name, value in secret.items():
            if "\n" in value or "\r" in value:
                raise ProviderConfigurationError(f"{self.source}: the secret header {name} is more than one line")
        return headers | secret

    async def session(self) -> "aiohttp.ClientSession":
        """Made when first needed, and anew when a certificate file was replaced. Raises ProviderConfigurationError."""
        import aiohttp  # noqa: PLC0415 - a delegate without checks needs none of it

        async with self._opening:
            if self._closed:
                raise ProviderConfigurationError(f"{self.source} was taken out of the configuration")
            files = await asyncio.to_thread(self._fingerprints)
            if self._session is None or files != self._files:
                context = await asyncio.to_thread(self._context)
                old = self._session
                connector = aiohttp.TCPConnector(ssl=context, limit=_CONNECTIONS)
                timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
                jar = aiohttp.DummyCookieJar()
                self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, cookie_jar=jar, trust_env=False)
                self._files = files
                if old is not None:
                    await old.close()
            return self._session

    async def close(self) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.close()

    def _fingerprints(self) -> tuple[object, ...]:
        files = (self.entry.ca_file, *(self.entry.client_certificate or ()))
        return tuple(fingerprint_of(path) for path in files if path is not None)

    def _context(self) -> ssl.SSLContext:
        """Blocks."""
        entry, bundle = self.entry, self.around.authorities
        try:
            if not (entry.ca_file or entry.client_certificate or entry.insecure):
                return _common_context(bundle, fingerprint_of(Path(bundle)) if bundle else None)
            context = _trusting(bundle, str(entry.ca_file or ""))
            if entry.insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self.entry.client_certificate is not None:
                context.load_cert_chain(*self.entry.client_certificate)
        except (OSError, ssl.SSLError) as error:
            words = getattr(error, "strerror", "") or type(error).__name__
            raise ProviderConfigurationError(
                f"{self.source}: its certificate files can't be used: {words}",
                hint="check ca_file and client_certificate_file: PEM, readable",
            ) from error
        return context


@lru_cache(maxsize=2)
def _common_context(bundle: str, fingerprint: object) -> ssl.SSLContext:
    """One for all sources without certificates of their own: with the system's authorities it is most of a MiB and 15 ms of work, and
    each check of a task's own url is a source. `fingerprint` changes with the bundle."""
    del fingerprint
    return _trusting(bundle)


def _trusting(*bundles: str) -> ssl.SSLContext:
    """The system's authorities and those of the bundles. Raises OSError, ssl.SSLError."""
    context = ssl.create_default_context()
    for bundle in bundles:
        if bundle:
            _believe(context, Path(bundle))
    return context


def _believe(context: ssl.SSLContext, bundle: Path) -> None:
    if bundle.is_dir():
        context.load_verify_locations(capath=str(bundle))
    else:
        context.load_verify_locations(cafile=str(bundle))
