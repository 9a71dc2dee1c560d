"""Which proxy a URL goes through: one rule for this process and for every child that it starts.

NO_PROXY entries are names (`example.com`, which has its subdomains too, as has `.example.com`), addresses
(`10.0.0.1`, `[fd00::1]`), networks (`10.0.0.0/8`), each with a port if wanted (`example.com:8443`), or `*` for everything.
Loopback and the names inside a cluster are always reached directly.
"""

import ipaddress
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from delegate.foundation.secrets import SecretUrl
from delegate.foundation.settings.sections import Network
from delegate.foundation.settings.urls import is_loopback

ALWAYS_DIRECT = ("localhost", "127.0.0.1", "::1", ".svc", ".cluster.local", "kubernetes.default.svc")

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NetworkAddress = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class _Exception:
    """One entry of NO_PROXY, read."""

    port: int | None
    network: _NetworkAddress | None = None
    suffix: str = ""
    everything: bool = False

    def covers(self, host: str, address: _Address | None, port: int | None) -> bool:
        if self.port is not None and self.port != port:
            return False
        if self.everything:
            return True
        if self.network is not None:
            return address is not None and address.version == self.network.version and address in self.network
        return host == self.suffix or host.endswith("." + self.suffix)


@dataclass(frozen=True)
class ProxyRules:
    """The rules of this process. `proxy_for` decides; `environment` hands the same rules to a child process."""

    http: SecretUrl | None = None
    https: SecretUrl | None = None
    no_proxy: tuple[str, ...] = ()
    _exceptions: tuple[_Exception, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_exceptions", tuple(_read(entry) for entry in (*self.no_proxy, *ALWAYS_DIRECT)))

    @classmethod
    def from_settings(cls, network: Network) -> Self:
        return cls(network.http_proxy, network.https_proxy, network.no_proxy)

    def proxy_for(self, url: str) -> SecretUrl | None:
        """The proxy that a URL is reached through; None: directly."""
        parts = urlsplit(url)
        proxy = self.https if parts.scheme in ("https", "wss") else self.http if parts.scheme in ("http", "ws") else None
        if proxy is None or not proxy:
            return None
        host = (parts.hostname or "").lower().rstrip(".")
        port = parts.port or {"http": 80, "ws": 80, "https": 443, "wss": 443}.get(parts.scheme)
        address = _address(host)
        if is_loopback(host) or any(each.covers(host, address, port) for each in self._exceptions):
            return None
        return proxy

    def address_for(self, url: str) -> str | None:
        """The same, revealed: for the library that makes the connection."""
        proxy = self.proxy_for(url)
        return proxy.reveal() if proxy is not None else None

    def environment(self) -> dict[str, str]:
        """The variables for a child process, in both spellings; without a proxy none."""
        found: dict[str, str] = {}
        for name, proxy in (("http_proxy", self.http), ("https_proxy", self.https)):
            if proxy:
                found[name] = found[name.upper()] = proxy.reveal()
        if found:
            direct = ",".join(dict.fromkeys((*self.no_proxy, *ALWAYS_DIRECT)))
            found["no_proxy"] = found["NO_PROXY"] = direct
        return found


def _address(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _read(entry: str) -> _Exception:
    name, port = _split(entry.strip().lower())
    if name == "*":
        return _Exception(port, everything=True)
    try:
        return _Exception(port, network=ipaddress.ip_network(name, strict=False))
    except ValueError:
        # A name that is none matches nothing.
        return _Exception(port, suffix=name.removeprefix("*").strip(".") or "\0")


def _split(entry: str) -> tuple[str, int | None]:
    """The name, address or network of an entry, and its port."""
    if entry.startswith("["):
        inside, _, rest = entry[1:].partition("]")
        return (inside + rest, None) if rest.startswith("/") else (inside, _port(rest.removeprefix(":")))
    name, colon, port = entry.partition(":")
    if colon and port.isdigit():
        return name, _port(port)
    return entry, None


def _port(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
