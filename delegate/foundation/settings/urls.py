"""Addresses in settings: reading them strictly, joining paths to them, telling loopback."""

import ipaddress
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from delegate.foundation.secrets import hide_before_at


class ListenAddress(NamedTuple):
    """Where a server listens. An empty host means every interface, port 0 any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_listen_address(text: str) -> ListenAddress:
    """`127.0.0.1:8080`, `[::]:8080`, `:8080`. Raises ValueError."""
    host, colon, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not port.isdigit() or int(port) > 65535 or (":" in host and not bracketed):
        raise ValueError(f"{text!r} is no address to listen on; write host:port, such as 127.0.0.1:8080 or [::]:8080")
    return ListenAddress(host[1:-1] if bracketed else host, int(port))


def parse_http_url(text: str) -> str:
    """An http or https URL without credentials, query or fragment, and without a slash at its end. Raises ValueError."""
    text = text.strip()
    shown = hide_before_at(text)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{shown!r} is no URL; check its host and port") from error
    if parts.scheme.lower() not in ("http", "https"):
        address = shown.partition("://")[2] or shown
        raise ValueError(f"{shown!r} is no http or https URL; write https://{address}")
    if not parts.hostname:
        raise ValueError(f"{shown!r} names no host")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{shown!r} carries credentials; leave them out, tokens have a setting of their own")
    if parts.query or parts.fragment:
        raise ValueError(f"{shown!r} carries a query or fragment; write the address alone")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    netloc = host if port is None else f"{host}:{port}"
    return urlunsplit((parts.scheme.lower(), netloc, parts.path.rstrip("/"), "", ""))


def join_url(base: str, path: str) -> str:
    """`path` under `base`, keeping a path that `base` has: neither doubled nor missing slashes."""
    return f"{base.rstrip('/')}/{path.lstrip('/')}"


def is_loopback(url: str) -> bool:
    """Whether a URL or host name can only mean this machine."""
    host = (urlsplit(url).hostname if "://" in url else url.strip("[]")) or ""
    host = host.lower().rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
