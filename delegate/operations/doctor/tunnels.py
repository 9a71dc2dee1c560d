"""A connection on which TLS is looked at: straight to a place, or through a proxy's CONNECT, whose own way may be TLS as well. Blocking."""

import base64
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote, urlsplit

CONNECT_SECONDS = 5.0
_PORTS = {"http": 80, "https": 443}
_LONGEST_ANSWER = 16 * 2**10
_RECORD = 16 * 2**10


class TunnelRefusedError(ConnectionError):
    """The proxy doesn't let us through; says with which status."""


class Connection(Protocol):
    def sendall(self, data: bytes, /) -> None: ...

    def recv(self, count: int, /) -> bytes: ...


@dataclass(frozen=True)
class Place:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def of(cls, url: str) -> "Place":
        parts = urlsplit(url)
        return cls(parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 443))


@dataclass(frozen=True)
class Way:
    """To `target`, by an address of the first hop: the proxy's where there is one. `context` says whom we believe."""

    target: Place
    address: str
    proxy: str | None
    context: Callable[[], ssl.SSLContext]

    def without_proxy(self) -> "Way":
        """To the proxy itself."""
        return Way(Place.of(self.proxy or ""), self.address, None, self.context)

    @contextlib.contextmanager
    def open(self) -> Iterator[Connection]:
        """Raises OSError; TunnelRefusedError for a proxy that says no."""
        first = Place.of(self.proxy) if self.proxy else self.target
        with socket.create_connection((self.address, first.port), timeout=CONNECT_SECONDS) as plain:
            if self.proxy is None:
                yield plain
            elif urlsplit(self.proxy).scheme == "https":
                with self.context().wrap_socket(plain, server_hostname=first.host) as encrypted:
                    _ask_through(encrypted, self.target, self.proxy)
                    yield encrypted
            else:
                _ask_through(plain, self.target, self.proxy)
                yield plain


def greet(connection: Connection, context: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """A TLS handshake on any connection, one that is TLS itself included. Raises OSError, ssl.SSLError among them."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    inside = context.wrap_bio(incoming, outgoing, server_hostname=host)
    while True:
        done = False
        with contextlib.suppress(ssl.SSLWantReadError):
            inside.do_handshake()
            done = True
        if said := outgoing.read():
            connection.sendall(said)
        if done:
            return inside
        if not (heard := connection.recv(_RECORD)):
            raise ConnectionResetError("the connection was closed in the middle of the handshake")
        incoming.write(heard)


def _ask_through(connection: Connection, target: Place, proxy: str) -> None:
    parts = urlsplit(proxy)
    login = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        login = f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}\r\n"
    connection.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n".encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = connection.recv(1) if len(answer) < _LONGEST_ANSWER else b""  # a byte more would be of the tunnel
        if not piece:
            raise TunnelRefusedError("the proxy did not answer CONNECT as one does")
        answer += piece
    status = answer.split(b"\r\n", 1)[0].decode("ascii", "replace").partition(" ")[2]
    if not status.startswith("2"):
        raise TunnelRefusedError(f"the proxy refuses the way there: {status}")
