"""Real proxies on the way to the manager: with credentials, with TLS of their own, and each refusal named with its hop."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trustme
import uvloop

from delegate.daemon.connection.errors import TransportError, UntrustedError
from delegate.daemon.connection.transport import Endpoint, Limits, Transport
from delegate.daemon.connection.trust import tls_context
from delegate.foundation.secrets import Secret
from delegate.protocol import routes
from delegate.protocol.enrolment import ByeAnswer, ByeRequest
from tests.daemon.networks.servers import QUOTED, USER, free_port, open_sockets, squid, tinyproxy, tls_manager
from tests.daemon.waiting import eventually

LIMITS = Limits(connect=5.0, stall=5.0)
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, uvloop.new_event_loop]
both_loops = pytest.mark.parametrize("loop", LOOPS, ids=["asyncio", "uvloop"])


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def authorities(authority: trustme.CA, tmp_path: Path) -> Path:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return tmp_path / "ca.pem"


def run(loop: Callable[[], asyncio.AbstractEventLoop], scenario: Callable[[], Awaitable[None]]) -> None:
    async def body() -> None:
        before = open_sockets()
        await scenario()
        # Sockets below a TLS in TLS that was ended are closed by and by.
        await eventually(lambda: open_sockets() <= before)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(body())


async def call(url: str, proxy: str, authorities: Path, *, times: int = 1, limits: Limits = LIMITS) -> None:
    """Calls of the manager through the proxy."""
    endpoint = Endpoint(join=lambda path: url + path, tls=tls_context(authorities), proxy=lambda _: proxy)
    transport = Transport(endpoint, limits=limits)
    try:
        for number in range(times):
            request = ByeRequest(request_id=f"r-{number}", epoch=1)
            await transport.call(routes.BYE, request, ByeAnswer, token=Secret("s3cret"))
    finally:
        await transport.close()


@both_loops
def test_tls_in_tls_with_credentials_works(loop: Callable[[], asyncio.AbstractEventLoop], authority: trustme.CA, authorities: Path) -> None:
    """Case 28: an https proxy that wants a password with odd characters, to an https manager, on both loops, kept alive."""
    with squid(authority) as proxy:

        async def scenario() -> None:
            async with tls_manager(authority) as manager:
                await call(manager.url, f"https://{USER}:{QUOTED}@localhost:{proxy.tls_port}", authorities, times=3)
                assert [each.route for each in manager.seen] == [routes.BYE] * 3

        run(loop, scenario)
        assert sum("CONNECT" in line for line in proxy.requests()) == 1


@both_loops
def test_an_http_proxy_with_credentials_works(
    loop: Callable[[], asyncio.AbstractEventLoop], authority: trustme.CA, authorities: Path
) -> None:
    """tinyproxy with a password opens the way to an https manager; what is in the tunnel it never sees."""
    with tinyproxy(login=True) as proxy:

        async def scenario() -> None:
            async with tls_manager(authority) as manager:
                await call(manager.url, f"http://{USER}:plainpass@{proxy}", authorities)
                assert manager.seen[0].token == "s3cret"

        run(loop, scenario)


@both_loops
def test_the_hop_that_fails_is_named(loop: Callable[[], asyncio.AbstractEventLoop], authority: trustme.CA, authorities: Path) -> None:
    """Case 28: credentials, a forbidden host, a manager that is away, a proxy that nobody trusts or knows: each is told apart."""
    stranger = trustme.CA()
    with squid(authority, denied=["forbidden.example"]) as proxy, squid(stranger) as foreign, tinyproxy(connect_ports=[1]) as narrow:
        login = f"{USER}:{QUOTED}"
        nobody = free_port()
        ways = [
            (f"http://localhost:{proxy.port}", None, "proxy connect", r"wants credentials.*407", "percent-encoded"),
            (f"https://{USER}:wrong@localhost:{proxy.tls_port}", None, "proxy connect", r"wants credentials.*407", "HTTPS_PROXY"),
            (
                f"http://{login}@localhost:{proxy.port}",
                "https://forbidden.example",
                "proxy connect",
                "refused the way .* status 403",
                "allowed there",
            ),
            (
                f"http://{login}@localhost:{proxy.port}",
                f"https://localhost:{nobody}",
                "proxy connect",
                r"can't reach .* itself \(503\)",
                "resolves",
            ),
            (f"http://{narrow}", None, "proxy connect", "status 403", "allowed there"),
            (
                f"https://{login}@localhost:{foreign.tls_port}",
                None,
                "proxy tls",
                "nobody trusted here signed .* of the proxy",
                "SSL_CERT_FILE",
            ),
            (f"https://{login}@localhost:{proxy.port}", None, "proxy tls", "does not speak TLS", "http://"),
            (f"http://localhost:{nobody}", None, "proxy tcp", "can't be reached", "NO_PROXY"),
            ("http://proxy.invalid:3128", None, "proxy name", "name of the proxy", "resolver"),
        ]

        async def scenario() -> None:
            async with tls_manager(authority) as manager:
                for address, url, hop, words, hint in ways:
                    with pytest.raises(TransportError, match=words) as caught:
                        await call(url or manager.url, address, authorities)
                    assert caught.value.facts["hop"] == hop
                    assert hint in caught.value.hint
                    assert "wörd" not in str(caught.value) + caught.value.hint
                    assert QUOTED not in str(caught.value) + caught.value.hint
                assert manager.seen == []

        run(loop, scenario)


@both_loops
def test_the_manager_behind_the_proxy_has_to_prove_itself(
    loop: Callable[[], asyncio.AbstractEventLoop], authority: trustme.CA, authorities: Path
) -> None:
    """A stranger's certificate in the tunnel is the manager's hop, not the proxy's."""
    with squid(authority) as proxy:

        async def scenario() -> None:
            async with tls_manager(trustme.CA()) as manager:
                with pytest.raises(UntrustedError, match="nobody trusted here signed the certificate at localhost") as caught:
                    await call(manager.url, f"https://{USER}:{QUOTED}@localhost:{proxy.tls_port}", authorities)
                assert caught.value.facts["hop"] == "tls"

        run(loop, scenario)


@both_loops
def test_a_proxy_that_dies_after_connect_is_named(loop: Callable[[], asyncio.AbstractEventLoop], authorities: Path) -> None:
    """Case 28: the way was granted, then closed; and an answer to CONNECT may have a body."""

    async def grant_and_die(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await writer.drain()
        writer.close()

    async def refuse_with_a_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 11\r\n\r\n<h1>No</h1>")
        await writer.drain()
        writer.close()

    async def scenario() -> None:
        for answering, words in (
            (grant_and_die, "closed the way|no connection to manager.example through the proxy"),
            (refuse_with_a_body, r"can't reach .*\(502\)"),
        ):
            server = await asyncio.start_server(answering, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(TransportError, match=words):
                await call("https://manager.example", f"http://127.0.0.1:{port}", authorities, limits=Limits(connect=1.0))
            server.close()
            await server.wait_closed()

    run(loop, scenario)
