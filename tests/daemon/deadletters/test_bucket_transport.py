"""Letters go over TLS to nobody but S3, behind a proxy too, and through the proxy that our rule names."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from delegate.daemon.deadletters.bucket import Bucket, BucketAddress, Stored
from delegate.daemon.deadletters.errors import BucketUnreachableError
from delegate.daemon.deadletters.rules import BucketRules
from delegate.foundation.settings.sections import DeadLetters
from tests.daemon.deadletters.test_bucket import opened, put
from tests.fakes.s3_server import FaultyS3, faulty_s3


@asynccontextmanager
async def tunnels(opened_to: list[str]) -> AsyncIterator[str]:
    """An HTTP proxy that knows CONNECT alone, and notes where to."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        assert method == "CONNECT"
        opened_to.append(target)
        port = int(target.rpartition(":")[2])
        there, back = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(pump(reader, back), pump(there, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
async def https_s3(s3_address: str, aws: Path, authority: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FaultyS3]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    async with faulty_s3(s3_address, tls=context) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.mark.parametrize("behind_proxy", [False, True], ids=["direct", "behind a proxy"])
async def test_a_server_of_a_trusted_authority_gets_letters(
    https_s3: FaultyS3, address: BucketAddress, authority: trustme.CA, behind_proxy: bool
) -> None:
    """Through the proxy that the rule names, or directly."""
    connects: list[str] = []
    async with tunnels(connects) as proxy:
        rules = BucketRules(proxy_for=lambda url: proxy if behind_proxy else None, tls=lambda: trusting(authority))
        async with opened(address, rules) as bucket:
            assert await put(bucket) is Stored.CREATED
    assert connects == ([https_s3.url.removeprefix("https://")] if behind_proxy else [])


@pytest.mark.parametrize("behind_proxy", [False, True], ids=["direct", "behind a proxy"])
async def test_a_server_of_nobody_we_trust_gets_no_letter(https_s3: FaultyS3, address: BucketAddress, behind_proxy: bool) -> None:
    """Behind a proxy neither, where the AWS libraries would not look."""
    connects: list[str] = []
    async with (
        tunnels(connects) as proxy,
        opened(address, BucketRules(proxy_for=lambda url: proxy if behind_proxy else None)) as bucket,
    ):
        with pytest.raises(BucketUnreachableError, match="certificate") as untrusted:
            await put(bucket)
    assert "SSL_CERT_FILE" in untrusted.value.hint
    assert https_s3.seen == []
    assert len(connects) == behind_proxy


async def test_an_authority_of_aws_own_variable_is_trusted(
    https_s3: FaultyS3, address: BucketAddress, authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS_CA_BUNDLE, beside the others."""
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    async with opened(address) as bucket:
        assert await put(bucket) is Stored.CREATED


async def test_a_bundle_that_can_not_be_read_is_told(
    https_s3: FaultyS3, address: BucketAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As any other fault."""
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "nothing.pem"))
    async with opened(address) as bucket:
        with pytest.raises(BucketUnreachableError):
            await put(bucket)


async def test_a_proxy_that_is_away_is_named(https_s3: FaultyS3, address: BucketAddress, authority: trustme.CA) -> None:
    """With the settings that name it, and without its password."""
    rules = BucketRules(proxy_for=lambda url: "http://user:hunter22@127.0.0.1:1", tls=lambda: trusting(authority), connect_seconds=2.0)
    async with opened(address, rules) as bucket:
        with pytest.raises(BucketUnreachableError, match="proxy") as away:
            await put(bucket)
    assert "HTTPS_PROXY" in away.value.hint
    assert "hunter22" not in str(away.value)


async def test_a_proxy_of_the_environment_is_not_taken_behind_our_rule(
    s3: FaultyS3, address: BucketAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NO_PROXY with networks is our rule's alone to read."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with opened(address) as bucket:
        assert await put(bucket) is Stored.CREATED


async def test_a_bucket_is_made_of_settings(s3: FaultyS3, address: BucketAddress) -> None:
    """And none where none is set."""
    settings = DeadLetters(bucket=f"s3://{address.name}/team/edge", kms_key="alias/dlq")
    bucket = Bucket.of_settings(settings, proxy_for=lambda url: None, tls=ssl.create_default_context)
    assert bucket is not None
    try:
        assert await put(bucket) is Stored.CREATED
    finally:
        await bucket.close()
    assert s3.puts()[0].path.startswith(f"/{address.name}/team/edge/")
    assert s3.puts()[0].headers["x-amz-server-side-encryption-aws-kms-key-id"] == "alias/dlq"
    assert Bucket.of_settings(DeadLetters(), proxy_for=lambda url: None, tls=ssl.create_default_context) is None
