"""How the HTTP library is told of a proxy: its address apart from its credentials.

Left to itself it would write them in Latin-1, where other clients write UTF-8 (RFC 7617), and fail on what that has no letter for.
"""

import base64
from typing import NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit, urlunsplit


class ProxyWay(NamedTuple):
    """`connect_headers` belong to the CONNECT for an https URL, `headers` to the request itself, which a proxy reads for an http URL."""

    address: str | None
    connect_headers: dict[str, str] | None
    headers: dict[str, str]


def way_through(proxy: str | None, url: str) -> ProxyWay:
    """The way to a URL through a proxy, whose own URL may hold percent-encoded credentials."""
    if proxy is None:
        return ProxyWay(None, None, {})
    parts = urlsplit(proxy)
    userinfo, at, address = parts.netloc.rpartition("@")
    if not at:
        return ProxyWay(proxy, None, {})
    user, _, password = userinfo.partition(":")
    login = base64.b64encode(unquote_to_bytes(user) + b":" + unquote_to_bytes(password)).decode()
    headers = {"Proxy-Authorization": f"Basic {login}"}
    bare = urlunsplit(parts._replace(netloc=address))
    return ProxyWay(bare, headers, {}) if url.lower().startswith("https:") else ProxyWay(bare, None, headers)
