"""Real proxies and resolvers for tests: tinyproxy, squid, haproxy, dnsmasq, each on free ports with a directory of its own.

A program that isn't installed skips the test by its name; on CI it fails it.
"""

import contextlib
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from tests.fakes.scripted_manager import ScriptedManager

USER, PASSWORD = "user", "p@ss/wörd"
QUOTED = "p%40ss%2Fw%C3%B6rd"
_START_SECONDS = 20.0


def program(name: str, package: str = "") -> str:
    """The program's path. Without it the test is skipped, on CI failed."""
    path = shutil.which(name, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
    if path is None:
        words = f"{name} is not installed; install {package or name} (`make services` does where it may)"
        if os.environ.get("CI") == "true":
            pytest.fail(words)
        pytest.skip(words)
    return path


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def open_sockets() -> int:
    """How many this process has."""
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found += str(entry.readlink()).startswith("socket:")
    return found


@contextmanager
def directory() -> Iterator[Path]:
    """One that a server may read after it has given up its rights."""
    with tempfile.TemporaryDirectory(prefix="networks-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@contextmanager
def running(arguments: Sequence[str], ports: Sequence[int], host: str = "127.0.0.1") -> Iterator[subprocess.Popen[bytes]]:
    """A server that listens, for as long as the block lasts."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(arguments, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + _START_SECONDS
            while not all(_answers(host, port) for port in ports):
                if process.poll() is not None or time.monotonic() > deadline:
                    output.seek(0)
                    raise AssertionError(f"{arguments[0]} does not listen: {output.read().decode(errors='replace')[-2000:]}")
                time.sleep(0.02)
            yield process
        finally:
            process.kill()
            process.wait()


def _answers(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1.0):
        return True
    return False


@contextmanager
def tinyproxy(*, login: bool = False, connect_ports: Sequence[int] = ()) -> Iterator[str]:
    """Its address, without credentials. With `connect_ports` it opens ways to these alone."""
    path = program("tinyproxy")
    port = free_port()
    with directory() as place:
        lines = [f"Port {port}", "Listen 127.0.0.1", "Timeout 600", "MaxClients 50", "Allow 127.0.0.1"]
        lines += [f"BasicAuth {USER} plainpass"] if login else []
        lines += [f"ConnectPort {each}" for each in connect_ports]
        (place / "tinyproxy.conf").write_text("\n".join(lines) + "\n")
        with running([path, "-d", "-c", str(place / "tinyproxy.conf")], [port]):
            yield f"127.0.0.1:{port}"


@dataclass(frozen=True)
class Squid:
    """Ports of one squid: plain, and with TLS by the authority's certificate for localhost; `log` has a line for each request."""

    port: int
    tls_port: int
    log: Path

    def requests(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@contextmanager
def squid(authority: trustme.CA | None = None, *, denied: Sequence[str] = (), host: str = "127.0.0.1") -> Iterator[Squid]:
    """It wants USER and PASSWORD. `denied`: hosts that it forbids."""
    path, helper = program("squid", "squid-openssl"), Path("/usr/lib/squid/basic_ncsa_auth")
    port, tls_port = free_port(host), free_port(host)
    listen = f"[{host}]" if ":" in host else host
    with directory() as place:
        hashed = subprocess.run(["openssl", "passwd", "-apr1", PASSWORD], check=True, capture_output=True, text=True).stdout
        (place / "passwords").write_text(f"{USER}:{hashed}")
        lines = [
            f"http_port {listen}:{port}",
            f"auth_param basic program {helper} {place}/passwords",
            "auth_param basic utf8 off",
            "auth_param basic children 1",
            "acl known proxy_auth REQUIRED",
            *(f"acl forbidden dstdomain {each}" for each in denied),
            *(["http_access deny forbidden"] if denied else []),
            "http_access allow known",
            "http_access deny all",
            "cache deny all",
            "pid_filename none",
            f"access_log stdio:{place}/access.log",
            f"cache_log {place}/cache.log",
            "cache_store_log none",
            "shutdown_lifetime 0 seconds",
            "via on",
            f"coredump_dir {place}",
        ]
        if os.geteuid() == 0:
            place.chmod(0o777)  # squid gives up its rights, and writes its logs afterwards
        ports = [port]
        if authority is not None:
            issued = authority.issue_cert("localhost", "127.0.0.1", "::1", *([host] if host not in ("127.0.0.1", "::1") else []))
            (place / "pair.pem").write_bytes(issued.private_key_pem.bytes() + b"".join(each.bytes() for each in issued.cert_chain_pems))
            (place / "pair.pem").chmod(0o644)
            lines.append(f"https_port {listen}:{tls_port} tls-cert={place}/pair.pem")
            ports.append(tls_port)
        (place / "squid.conf").write_text("\n".join(lines) + "\n")
        with running([path, "-N", "-f", str(place / "squid.conf")], ports, host):
            yield Squid(port, tls_port, place / "access.log")


@contextmanager
def haproxy(upstream_port: int, *, mode: str = "tcp", idle_milliseconds: int = 1500) -> Iterator[int]:
    """Its port. A way on which nobody says anything is cut after that time."""
    path = program("haproxy")
    port = free_port()
    with directory() as place:
        (place / "haproxy.cfg").write_text(
            f"""defaults
  mode {mode}
  timeout connect 5s
  timeout client {idle_milliseconds}ms
  timeout server {idle_milliseconds}ms
listen way
  bind 127.0.0.1:{port}
  server manager 127.0.0.1:{upstream_port}
"""
        )
        with running([path, "-db", "-f", str(place / "haproxy.cfg")], [port]):
            yield port


@asynccontextmanager
async def tls_manager(authority: trustme.CA, *names: str, host: str = "127.0.0.1") -> AsyncIterator[ScriptedManager]:
    """A scripted manager that speaks TLS by a certificate of the authority; for localhost unless other names are given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("localhost", "127.0.0.1"))).configure_cert(context)
    manager = ScriptedManager()
    application = web.Application(client_max_size=2**26)
    application.router.add_post("/{path:.*}", manager.serve)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, host, 0, ssl_context=context).start()
    manager.url = f"https://{'localhost' if host == '127.0.0.1' else f'[{host}]'}:{runner.addresses[0][1]}"
    try:
        yield manager
    finally:
        await runner.cleanup()
