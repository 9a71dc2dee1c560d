"""A way through a proxy for ssh: `tunnel.py HOST PORT`, run by ssh as its ProxyCommand in an isolated interpreter.

Only the standard library is on its path. The proxy's address, with its login, stands in an environment variable, because argument
lists are for everybody to see: http and https proxies are asked by CONNECT (RFC 9110), socks5 ones by RFC 1928 with a login by RFC
1929; the proxy resolves the name. What goes wrong is one line on standard error, without the login.
"""

import base64
import os
import socket
import ssl
import sys
import threading
from urllib.parse import unquote, urlsplit

VARIABLE = "DELEGATE_SSH_PROXY"
SCHEMES = ("http", "https", "socks5", "socks5h")
_CONNECT_SECONDS = 20.0
_LONGEST_ANSWER = 16 * 1024
_CHUNK_BYTES = 64 * 1024
_PORTS = {"http": 80, "https": 443}
_SOCKS_PORT = 1080


class _RefusedError(Exception):
    pass


def main(host: str, port: int) -> int:
    """The exit code, once either side has closed."""
    try:
        connection = _connect(os.environ.get(VARIABLE, ""), host, port)
    except (OSError, _RefusedError, ValueError) as error:
        print(f"ssh: CONNECT tunnel failed: {error}", file=sys.stderr)
        return 1
    threading.Thread(target=_send, args=(connection,), daemon=True).start()
    while chunk := _receive(connection):
        _write(chunk)
    return 0


def _connect(proxy: str, host: str, port: int) -> socket.socket:
    parts = urlsplit(proxy)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise _RefusedError(f"a proxy for ssh is one of {', '.join(SCHEMES)}")
    connection = socket.create_connection((parts.hostname, parts.port or _PORTS.get(parts.scheme, _SOCKS_PORT)), _CONNECT_SECONDS)
    if parts.scheme == "https":
        connection = ssl.create_default_context().wrap_socket(connection, server_hostname=parts.hostname)
    user, password = unquote(parts.username or "").encode(), unquote(parts.password or "").encode()
    if parts.scheme in _PORTS:
        _ask_http(connection, host, port, user, password)
    else:
        _ask_socks(connection, host, port, user, password)
    connection.settimeout(None)
    return connection


def _ask_http(connection: socket.socket, host: str, port: int, user: bytes, password: bytes) -> None:
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    login = f"Proxy-Authorization: Basic {base64.b64encode(user + b':' + password).decode()}\r\n" if user or password else ""
    connection.sendall(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{login}\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += _exactly(connection, 1)  # byte by byte: what follows is ssh's
        if len(answer) > _LONGEST_ANSWER:
            raise _RefusedError("the proxy's answer has no end")
    status = answer.split(b" ", 2)[1:2]
    if status != [b"200"]:
        raise _RefusedError(f"the proxy answers {status[0].decode(errors='replace')[:3] if status else 'something else'}")


def _ask_socks(connection: socket.socket, host: str, port: int, user: bytes, password: bytes) -> None:
    connection.sendall(b"\x05\x02\x00\x02" if user else b"\x05\x01\x00")
    version, method = _exactly(connection, 2)
    if version != 5 or method not in (0, 2):
        raise _RefusedError("the proxy takes no login that we have")
    if method == 2:
        connection.sendall(b"\x01" + _counted(user) + _counted(password))
        if _exactly(connection, 2)[1] != 0:
            raise _RefusedError("the proxy refuses the login")
    connection.sendall(b"\x05\x01\x00\x03" + _counted(host.encode()) + port.to_bytes(2, "big"))
    _, code, _, kind = _exactly(connection, 4)
    if code != 0:
        raise _RefusedError(f"the proxy can't reach it (SOCKS {code})")
    length = {1: 4, 4: 16}.get(kind) or _exactly(connection, 1)[0]
    _exactly(connection, length + 2)


def _counted(text: bytes) -> bytes:
    return bytes([len(text)]) + text  # ValueError past 255


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            raise _RefusedError("the proxy closed the connection")
        data += chunk
    return data


def _send(connection: socket.socket) -> None:
    try:
        while chunk := os.read(0, _CHUNK_BYTES):
            connection.sendall(chunk)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other direction says how it ended


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(_CHUNK_BYTES)
    except OSError:
        return b""


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
