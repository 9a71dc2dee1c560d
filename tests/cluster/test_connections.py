"""Who we talk to and as whom: TLS, client certificates, proxies, and credentials that change while we work."""

import asyncio
import datetime as dt
import itertools
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web
from yarl import URL

from delegate.engine.clusters import errors
from delegate.engine.clusters.client import new_client
from delegate.engine.clusters.credentials import ClientCertificate, Credentials, bearer, build_ssl_context
from delegate.engine.clusters.in_cluster import InClusterSource, is_in_cluster
from delegate.engine.clusters.retrying import ONE_TRY
from delegate.engine.clusters.transport import Transport
from delegate.foundation.lifecycle.retrying import Retrying
from delegate.foundation.secrets import SecretUrl
from delegate.model.resource_types import CONFIG_MAPS
from tests.cluster.servers import FAST, StaticSource, client_from, client_of, config_map
from tests.fakes.flaky_api import FlakyApi, html, reply, status_body
from tests.foundation.clocks import ManualClock

OBJECT = config_map("demo")


@asynccontextmanager
async def tls_server(context: ssl.SSLContext) -> AsyncIterator[int]:
    """Answers every request with an object that says who asked."""

    async def handle(request: web.Request) -> web.Response:
        transport = request.transport
        peer = transport.get_extra_info("peercert") if transport is not None else None
        name = dict(item for part in (peer or {}).get("subject", ()) for item in part).get("organizationalUnitName", "")
        return web.json_response({**OBJECT, "data": {"peer": name}})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def server_context(authority: trustme.CA, *names: str, not_after: dt.datetime | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names, not_after=not_after).configure_cert(context)
    return context


def pem(authority: trustme.CA) -> bytes:
    return authority.cert_pem.bytes()


async def ask(credentials: Credentials) -> dict[str, Any]:
    async with client_from(StaticSource(credentials), policy=ONE_TRY) as client:
        return await client.get(CONFIG_MAPS, "demo", "a")


async def test_a_server_that_its_authority_vouches_for() -> None:
    """The kubeconfig's CA is what counts."""
    authority = trustme.CA()
    async with tls_server(server_context(authority, "127.0.0.1")) as port:
        answer = await ask(Credentials(server=f"https://127.0.0.1:{port}", ca=pem(authority)))

    assert answer["kind"] == "ConfigMap"


@pytest.mark.parametrize("verify", [True, False])
async def test_an_unknown_authority(verify: bool) -> None:
    """Another CA's certificate is refused, and the error says to set the right one; insecure-skip-tls-verify accepts it."""
    async with tls_server(server_context(trustme.CA(), "127.0.0.1")) as port:
        credentials = Credentials(server=f"https://127.0.0.1:{port}", ca=pem(trustme.CA()), verify=verify)
        if not verify:
            assert (await ask(credentials))["kind"] == "ConfigMap"
            return
        with pytest.raises(errors.TlsError, match="isn't trusted") as caught:
            await ask(credentials)

    assert "certificate-authority" in caught.value.hint
    assert not caught.value.retryable


async def test_a_name_that_does_not_match() -> None:
    """The error names what didn't match; tls-server-name mends it."""
    authority = trustme.CA()
    async with tls_server(server_context(authority, "api.example")) as port:
        credentials = Credentials(server=f"https://127.0.0.1:{port}", ca=pem(authority))
        with pytest.raises(errors.TlsError, match=r"IP address mismatch.*127\.0\.0\.1") as caught:
            await ask(credentials)
        named = Credentials(server=f"https://127.0.0.1:{port}", ca=pem(authority), server_name="api.example")
        answer = await ask(named)

    assert "tls-server-name" in caught.value.hint
    assert answer["kind"] == "ConfigMap"


async def test_an_expired_certificate() -> None:
    """An expired certificate is called that, and clocks are mentioned."""
    authority = trustme.CA()
    expired = server_context(authority, "127.0.0.1", not_after=dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    async with tls_server(expired) as port:
        with pytest.raises(errors.TlsError, match="certificate has expired") as caught:
            await ask(Credentials(server=f"https://127.0.0.1:{port}", ca=pem(authority)))

    assert "clock" in caught.value.hint


async def test_a_client_certificate_is_shown(tmp_path: Path) -> None:
    """Client certificates authenticate us; without one the server's demand is a TLS fault or a cut."""
    authority = trustme.CA()
    context = server_context(authority, "127.0.0.1")
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    ours = authority.issue_cert("delegate@example.org", organization_unit_name="delegates")
    chain = b"".join(part.bytes() for part in ours.cert_chain_pems)
    async with tls_server(context) as port:
        address = f"https://127.0.0.1:{port}"
        certificate = ClientCertificate(chain, ours.private_key_pem.bytes())
        answer = await ask(Credentials(server=address, ca=pem(authority), certificate=certificate))
        with pytest.raises(errors.UnreachableError):
            await ask(Credentials(server=address, ca=pem(authority)))

    assert answer["data"]["peer"] == "delegates"


async def test_plain_http_spoken_by_a_tls_address(flaky: FlakyApi) -> None:
    """A port that doesn't speak TLS is named as such."""
    with pytest.raises(errors.TlsError, match="no TLS connection") as caught:
        await ask(Credentials(server=flaky.url.replace("http://", "https://")))

    assert "speaks TLS" in caught.value.hint


async def test_plain_http_to_a_tls_port(client: Any, flaky: FlakyApi) -> None:
    """What an API server says to plain HTTP becomes the advice to write https."""
    flaky.add(reply(400, "Client sent an HTTP request to an HTTPS server.\n", content_type="text/plain"))

    with pytest.raises(errors.NotJsonError) as caught:
        await client.get(CONFIG_MAPS, "demo", "a")

    assert "https://" in caught.value.hint


@pytest.mark.parametrize(
    ("ca", "certificate", "message"),
    [
        (b"nonsense", None, "no PEM certificate"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", None, "no PEM certificate"),
        (None, ClientCertificate(b"nonsense", b"the-key-of-nobody"), "can't be used"),
    ],
)
def test_credentials_that_tls_cannot_use(ca: bytes | None, certificate: ClientCertificate | None, message: str, tmp_path: Path) -> None:
    """Malformed certificates are named; no key stays behind on disk."""
    with pytest.raises(errors.CredentialError, match=message) as caught:
        build_ssl_context(Credentials(server="https://x", ca=ca, certificate=certificate), tmp_path)

    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


async def test_an_unknown_host() -> None:
    """A name that DNS doesn't know is named."""
    with pytest.raises(errors.UnreachableError, match=r"no-such-host\.invalid") as caught:
        await ask(Credentials(server="http://no-such-host.invalid:6443"))

    assert caught.value.unsent


@asynccontextmanager
async def proxy(status: int = 200) -> AsyncIterator[tuple[str, list[str]]]:
    """A forward proxy for plain http that notes whom it was asked for."""
    asked: list[str] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head.decode())
        body = b'{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}}'
        answer = f"HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(answer.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://user:proxy-password@127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


async def test_the_kubeconfigs_proxy_is_used() -> None:
    """proxy-url is the way, with its credentials."""
    async with proxy() as (url, asked):
        await ask(Credentials(server="http://api.example:8080", proxy=SecretUrl(url)))

    assert asked[0].startswith("GET http://api.example:8080/api/v1/namespaces/demo/configmaps/a HTTP/1.1")
    assert "proxy-authorization: basic" in asked[0].lower()


async def test_the_machines_proxy_is_used_where_the_kubeconfig_names_none() -> None:
    """`proxy_for` decides then."""
    async with proxy() as (url, asked):
        transport = Transport(StaticSource(Credentials(server="http://api.example:8080")), proxy_for=lambda address: url)
        client = new_client(transport, policy=ONE_TRY)
        await client.get(CONFIG_MAPS, "demo", "a")
        await client.close()

    assert len(asked) == 1


async def test_a_proxy_that_is_away_is_named_without_its_password() -> None:
    """The error says that it was the proxy, and hides who we are to it."""
    closed = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = closed.sockets[0].getsockname()[1]
    closed.close()
    await closed.wait_closed()
    with pytest.raises(errors.UnreachableError, match="through the proxy") as caught:
        await ask(Credentials(server="http://api.example", proxy=SecretUrl(f"http://user:proxy-password@127.0.0.1:{port}")))

    assert "proxy-password" not in f"{caught.value} {caught.value.hint}"
    assert str(port) in caught.value.message


async def test_a_proxy_that_refuses_a_tunnel() -> None:
    """A 407 for a TLS address names the proxy's answer."""
    async with proxy(status=407) as (url, _):
        with pytest.raises(errors.UnreachableError, match="it answered 407"):
            await ask(Credentials(server="https://api.example", proxy=SecretUrl(url)))


# Credentials that change


async def test_a_refused_token_is_read_again_once(flaky: FlakyApi) -> None:
    """401 reads the credentials anew and asks again with them: the caller notices nothing."""
    flaky.add(reply(401, status_body(401, "Unauthorized", "Unauthorized")))
    flaky.add(reply(200, OBJECT))
    source = StaticSource(Credentials(server=flaky.url, authorization=bearer("old-token")))
    source.on_rejected = lambda: Credentials(server=flaky.url, authorization=bearer("new-token"))
    async with client_from(source) as client:
        await client.apply(CONFIG_MAPS, OBJECT)

    assert [request.headers["Authorization"] for request in flaky.seen] == ["Bearer old-token", "Bearer new-token"]
    assert source.loads == [False, True]


async def test_credentials_that_stay_refused(flaky: FlakyApi) -> None:
    """The same credentials are not sent twice; new ones once. Then it's an error of permission."""
    flaky.add(reply(401, status_body(401, "Unauthorized", "Unauthorized")), times=9)
    source = StaticSource(Credentials(server=flaky.url, authorization=bearer("old-token")))
    async with client_from(source) as client:
        with pytest.raises(errors.UnauthorizedError) as caught:
            await client.get(CONFIG_MAPS, "demo", "a")
        assert flaky.count() == 1
        source.on_rejected = lambda: Credentials(server=flaky.url, authorization=bearer("new-token"))
        with pytest.raises(errors.UnauthorizedError):
            await client.get(CONFIG_MAPS, "demo", "a")

    assert flaky.count() == 3
    assert caught.value.hint
    assert not caught.value.retryable


async def test_many_refused_calls_read_the_credentials_once(flaky: FlakyApi) -> None:
    """A burst of 401s runs a plugin once, not forty times."""

    async def refuse_old(api: FlakyApi, request: web.Request, body: bytes) -> web.StreamResponse:
        good = request.headers["Authorization"] == "Bearer new-token"
        fault = reply(200, OBJECT) if good else reply(401, status_body(401, "Unauthorized", "Unauthorized"))
        return await fault(api, request, body)

    flaky.add(refuse_old, times=1000)
    source = StaticSource(Credentials(server=flaky.url, authorization=bearer("old-token")))
    source.on_rejected = lambda: Credentials(server=flaky.url, authorization=bearer("new-token"))
    async with client_from(source) as client:
        await asyncio.gather(*(client.get(CONFIG_MAPS, "demo", "a") for _ in range(40)))

    assert source.loads.count(True) == 1


async def test_credentials_are_read_again_every_minute(flaky: FlakyApi, clock: ManualClock) -> None:
    """A token that was replaced in its file is used without having been refused first."""
    flaky.add(reply(200, OBJECT), times=9)
    source = StaticSource(Credentials(server=flaky.url, authorization=bearer("token-one")))
    async with client_from(source, clock=clock) as client:
        await client.get(CONFIG_MAPS, "demo", "a")
        source.credentials = Credentials(server=flaky.url, authorization=bearer("token-two"))
        await client.get(CONFIG_MAPS, "demo", "a")
        await clock.sleep(61)
        await client.get(CONFIG_MAPS, "demo", "a")

    assert [request.headers["Authorization"][-3:] for request in flaky.seen] == ["one", "one", "two"]


async def test_a_file_that_is_being_replaced_stops_nothing(flaky: FlakyApi, clock: ManualClock) -> None:
    """Credentials that can't be read for a moment leave the old ones in use."""
    flaky.add(reply(200, OBJECT), times=9)
    source = StaticSource(Credentials(server=flaky.url, authorization=bearer("token-one")))
    async with client_from(source, clock=clock) as client:
        await client.get(CONFIG_MAPS, "demo", "a")
        source.load = _unreadable  # type: ignore[method-assign]
        await clock.sleep(61)
        await client.get(CONFIG_MAPS, "demo", "a")

    assert flaky.count() == 2


async def _unreadable(*, rejected: bool = False) -> Credentials:
    raise errors.CredentialError(f"the token can't be read (rejected: {rejected})")


async def test_a_new_authority_makes_new_connections(clock: ManualClock) -> None:
    """When the CA changes, calls that run end on the old connection, new ones verify against the new CA."""
    old, new = trustme.CA(), trustme.CA()
    async with tls_server(server_context(old, "127.0.0.1")) as one, tls_server(server_context(new, "127.0.0.1")) as two:
        source = StaticSource(Credentials(server=f"https://127.0.0.1:{one}", ca=pem(old)))
        async with client_from(source, clock=clock, policy=ONE_TRY) as client:
            await client.get(CONFIG_MAPS, "demo", "a")
            source.credentials = Credentials(server=f"https://127.0.0.1:{two}", ca=pem(new))
            await clock.sleep(61)
            await client.get(CONFIG_MAPS, "demo", "a")

            assert client.host.endswith(f":{two}")


# In the cluster


def service_account(directory: Path, url: str, *, token: str = "token-of-pod") -> tuple[InClusterSource, dict[str, str]]:
    (directory / "token").write_text(token)
    (directory / "ca.crt").write_bytes(b"")
    (directory / "namespace").write_text("delegates\n")
    address = URL(url)
    environment = {"KUBERNETES_SERVICE_HOST": str(address.host), "KUBERNETES_SERVICE_PORT": str(address.port)}
    return InClusterSource(environment, directory), environment


async def test_in_cluster_credentials_are_files_and_variables(tmp_path: Path) -> None:
    """Address from the environment (IPv6 too), token and CA from files, no library."""
    source, environment = service_account(tmp_path, "https://10.0.0.1:443")
    ipv6 = InClusterSource({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, tmp_path)

    credentials = await source.load()

    assert credentials.server == "https://10.0.0.1:443"
    assert credentials.authorization is not None
    assert credentials.authorization.reveal() == "Bearer token-of-pod"
    assert (await ipv6.load()).server == "https://[fd00::1]:6443"
    assert source.namespace() == "delegates"
    assert is_in_cluster(environment, tmp_path)
    assert not is_in_cluster({}, tmp_path)
    assert not is_in_cluster(environment, tmp_path / "elsewhere")


async def test_in_cluster_without_its_files(tmp_path: Path) -> None:
    """A pod without a service account token says what it lacks."""
    source = InClusterSource({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, tmp_path)
    with pytest.raises(errors.CredentialError, match="token can't be read") as caught:
        await source.load()
    assert "automountServiceAccountToken" in caught.value.hint
    (tmp_path / "token").write_text(" \n")
    (tmp_path / "ca.crt").write_text("x")
    with pytest.raises(errors.CredentialError, match="is empty"):
        await source.load()
    with pytest.raises(errors.CredentialError, match="KUBERNETES_SERVICE_HOST isn't set"):
        await InClusterSource({}, tmp_path).load()


async def test_a_pods_token_that_is_replaced_all_the_time(tmp_path: Path) -> None:
    """A token is replaced every ten seconds and refused when fifteen old; no 401 reaches a caller in five minutes of work."""
    authority = trustme.CA()
    clock = ManualClock()
    began = clock.seconds
    refused = itertools.count()
    refusals = 0

    def token_at(seconds: float) -> str:
        return f"token-number-{int((seconds - began) // 10)}"

    async def handle(request: web.Request) -> web.Response:
        nonlocal refusals
        number = int(request.headers["Authorization"].rpartition("-")[2])
        if clock.seconds - began - number * 10 > 15:
            refusals = next(refused) + 1
            return web.json_response(status_body(401, "Unauthorized", "Unauthorized"), status=401)
        return web.json_response(OBJECT)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_context(authority, "127.0.0.1")).start()
    source, _ = service_account(tmp_path, f"https://127.0.0.1:{runner.addresses[0][1]}", token=token_at(began))
    (tmp_path / "ca.crt").write_bytes(pem(authority))
    client = new_client(Transport(source, clock=clock), policy=ONE_TRY, clock=clock)
    try:
        for _ in range(100):
            await client.get(CONFIG_MAPS, "demo", "a")
            await clock.sleep(3)
            (tmp_path / "token").write_text(token_at(clock.seconds))
    finally:
        await client.close()
        await runner.cleanup()

    assert refusals > 0, "the test's server never refused: it proves nothing"


async def test_a_closed_client_says_so(flaky: FlakyApi) -> None:
    """After close nothing is sent any more."""
    async with client_of(flaky.url, policy=Retrying(max_attempts=1)) as client:
        pass
    with pytest.raises(errors.UnreachableError, match="closed"):
        await client.get(CONFIG_MAPS, "demo", "a")
    assert flaky.count() == 0


async def test_retries_go_on_over_a_page_of_a_guest_network(flaky: FlakyApi) -> None:
    """A 503 in HTML from something on the way is an outage, not an answer."""
    flaky.add(html(503), times=2)
    flaky.add(reply(200, OBJECT))
    async with client_of(flaky.url, policy=FAST) as client:
        assert (await client.get(CONFIG_MAPS, "demo", "a"))["kind"] == "ConfigMap"
