"""How botocore's clients reach AWS: through our proxies, with our authorities, never redirected. Imports aiobotocore: lazily only.

aiobotocore 2.25 verifies no certificate behind a proxy (its connector gets no TLS context then), reads proxies by a rule of its own
that knows no networks in NO_PROXY, and follows redirects, which would carry a letter to wherever a captive portal says. So
the connector, the proxy's choice and the redirects are replaced here, for every client of the session: also for the one that
exchanges a web identity for credentials.
"""

import functools
import ssl
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import aiohttp
from aiobotocore.config import AioConfig
from aiobotocore.httpsession import AIOHTTPSession

from delegate.foundation.proxying import way_through

_KEEP_ALIVE_SECONDS = 15
_DNS_SECONDS = 30


class _Proxies:
    """What botocore's ProxyConfiguration offers, by our rule."""

    def __init__(self, proxy_for: Callable[[str], str | None]) -> None:
        self._proxy_for = proxy_for
        self.settings: dict[str, str] = {}

    def proxy_url_for(self, url: str) -> str | None:
        proxy = self._proxy_for(url)
        way = way_through(proxy, url)
        return way.address if way.connect_headers is not None else proxy

    def proxy_headers_for(self, url: str) -> dict[str, str]:
        return dict(way_through(self._proxy_for(url), url).connect_headers or {})


class _Config(AioConfig):  # type: ignore[misc]  # aiobotocore has no types
    """Keeps our session class where botocore merges it with the configuration of a client of its own (STS)."""

    def merge(self, other_config: Any) -> "_Config":
        merged: _Config = super().merge(other_config)
        merged.http_session_cls = self.http_session_cls
        return merged


def client_config(
    *, tls: ssl.SSLContext, proxy_for: Callable[[str], str | None], connect_seconds: float, read_seconds: float, connections: int
) -> AioConfig:
    """The configuration of every client of a session: bounded, tried once, and on our transport."""

    class Session(AIOHTTPSession):  # type: ignore[misc]
        def __init__(self, **arguments: Any) -> None:
            super().__init__(**arguments)
            self._proxy_config = _Proxies(proxy_for)

        def _create_connector(self, proxy_url: str | None) -> aiohttp.TCPConnector:
            return aiohttp.TCPConnector(
                limit=connections, ssl=tls, keepalive_timeout=_KEEP_ALIVE_SECONDS, ttl_dns_cache=_DNS_SECONDS, use_dns_cache=True
            )

        async def _get_session(self, proxy_url: str | None) -> SimpleNamespace:
            session = await super()._get_session(proxy_url)
            return SimpleNamespace(request=functools.partial(session.request, allow_redirects=False))

    return _Config(
        http_session_cls=Session,
        connect_timeout=connect_seconds,
        read_timeout=read_seconds,
        max_pool_connections=connections,
        retries={"total_max_attempts": 1, "mode": "standard"},
        request_checksum_calculation="when_required",  # ours is given; many servers can't read the trailers of botocore's
        response_checksum_validation="when_required",
    )
