"""Letters reach a real S3 server, and every fault on the way has a remedy or words."""

import asyncio
import datetime as dt
import hashlib
import hmac
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from delegate.daemon.deadletters.bucket import Bucket, BucketAddress, Stored
from delegate.daemon.deadletters.errors import (
    AccessDeniedError,
    BucketBusyError,
    BucketError,
    BucketFaultError,
    BucketMissingError,
    BucketRegionError,
    BucketSettingError,
    BucketUnreachableError,
    ClockSkewError,
    CredentialsError,
    LetterRefusedError,
    ObjectMissingError,
)
from delegate.daemon.deadletters.rules import BucketRules
from delegate.foundation.redaction import KNOWN_SECRETS
from tests.daemon.deadletters.conftest import ACCESS_KEY, SECRET_KEY, moto_only
from tests.daemon.waiting import eventually
from tests.fakes.s3_server import (
    Fault,
    FaultyS3,
    Seen,
    answered,
    cut,
    frozen,
    html,
    redirect,
    stored_then_cut,
    without_conditions,
)

BODY = b'{"a":"letter"}'
SHA256 = hashlib.sha256(BODY).hexdigest()
QUICK = BucketRules(connect_seconds=2.0, read_seconds=0.3, call_seconds=5.0)


@asynccontextmanager
async def opened(address: BucketAddress, rules: BucketRules | None = None) -> AsyncIterator[Bucket]:
    bucket = Bucket(address, rules=rules)
    try:
        yield bucket
    finally:
        await bucket.close()


async def put(bucket: Bucket, name: str = "letter.json") -> Stored:
    return await bucket.put(bucket.address.key(name), BODY, sha256=SHA256, facts={"letter-id": "abc"})


def signed_as(seen: Seen, secret: str) -> str:
    """The signature that a request has to have (AWS Signature Version 4), worked out from what arrived."""
    authorization = dict(part.split("=", 1) for part in seen.headers["authorization"].removeprefix("AWS4-HMAC-SHA256 ").split(", "))
    scope = authorization["Credential"].split("/", 1)[1]
    names = authorization["SignedHeaders"].split(";")
    headers = "".join(f"{name}:{seen.headers[name].strip()}\n" for name in names)
    request = "\n".join([seen.method, seen.path, "", headers, ";".join(names), hashlib.sha256(seen.body).hexdigest()])
    text = "\n".join(["AWS4-HMAC-SHA256", seen.headers["x-amz-date"], scope, hashlib.sha256(request.encode()).hexdigest()])
    key = b"AWS4" + secret.encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def has_right_signature(seen: Seen, secret: str = SECRET_KEY) -> bool:
    return seen.headers["authorization"].endswith(f"Signature={signed_as(seen, secret)}")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("s3://dlq", BucketAddress("dlq", "")),
        ("s3://dlq/", BucketAddress("dlq", "")),
        ("s3://dlq/team/edge/", BucketAddress("dlq", "team/edge")),
    ],
)
def test_reads_the_address_of_a_bucket(url: str, address: BucketAddress) -> None:
    """With a prefix or without."""
    assert BucketAddress.parse(url) == address
    assert address.url(address.key("x")) == f"s3://{address.name}/{address.prefix + '/' if address.prefix else ''}x"


def test_refuses_what_is_no_address() -> None:
    """With the form that it should have."""
    with pytest.raises(BucketSettingError) as refused:
        BucketAddress.parse("https://dlq")
    assert "s3://bucket/prefix" in refused.value.hint


async def test_stores_a_letter_with_its_facts(s3: FaultyS3, address: BucketAddress) -> None:
    """Signed, checked by the server against its digest, on condition that nothing is there, and readable again."""
    async with opened(address) as bucket:
        assert await put(bucket) is Stored.CREATED

        [request] = s3.puts()
        assert request.path == f"/{address.name}/team/edge/letter.json"
        assert request.body == BODY
        assert request.headers["if-none-match"] == "*"
        assert request.headers["content-type"] == "application/json"
        assert request.headers["x-amz-meta-letter-id"] == "abc"
        assert "x-amz-checksum-sha256" in request.headers
        assert "x-amz-server-side-encryption" not in request.headers
        assert has_right_signature(request)
        assert await bucket.get("team/edge/letter.json") == BODY
        [found], more = await bucket.list_objects("lett")
        assert (found.key, found.size, more) == ("team/edge/letter.json", len(BODY), False)
        assert await bucket.list_objects("other") == ([], False)


@moto_only
async def test_storing_again_changes_nothing(s3: FaultyS3, address: BucketAddress) -> None:
    """412 says that it is there already, which is what was wanted."""
    async with opened(address) as bucket:
        assert [await put(bucket), await put(bucket), await put(bucket)] == [Stored.CREATED, Stored.ALREADY_THERE, Stored.ALREADY_THERE]


@moto_only
async def test_an_answer_that_was_lost_is_no_second_letter(s3: FaultyS3, address: BucketAddress) -> None:
    """The server stored it and nobody heard: the next try finds it there."""
    s3.add(stored_then_cut, times=2)  # one repetition is the HTTP library's own
    async with opened(address) as bucket:
        with pytest.raises(BucketUnreachableError):
            await put(bucket)
        assert await put(bucket) is Stored.ALREADY_THERE


@moto_only
async def test_a_server_that_ignores_conditions_is_fine(s3: FaultyS3, address: BucketAddress) -> None:
    """It writes the same bytes under the same key."""
    s3.add(without_conditions, times=2)
    async with opened(address) as bucket:
        assert [await put(bucket), await put(bucket)] == [Stored.CREATED, Stored.CREATED]
        assert await bucket.get("team/edge/letter.json") == BODY


async def test_a_server_that_can_not_do_conditions_is_asked_without(s3: FaultyS3, address: BucketAddress) -> None:
    """Once it has said so, it isn't asked that way again."""
    s3.add(answered(501, "NotImplemented", "A header you provided implies functionality that is not implemented"))
    async with opened(address) as bucket:
        assert [await put(bucket), await put(bucket)] == [Stored.CREATED, Stored.CREATED]
    assert ["if-none-match" in each.headers for each in s3.puts()] == [True, False, False]


async def test_encrypts_with_the_key_that_is_set(s3: FaultyS3, address: BucketAddress) -> None:
    """SSE-KMS, where a key is set."""
    async with opened(address, BucketRules(kms_key="alias/dlq")) as bucket:
        await put(bucket)
    [request] = s3.puts()
    assert request.headers["x-amz-server-side-encryption"] == "aws:kms"
    assert request.headers["x-amz-server-side-encryption-aws-kms-key-id"] == "alias/dlq"


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (answered(403, "AccessDenied", "Access Denied"), AccessDeniedError, "allow s3:PutObject on arn:aws:s3:::{bucket}/*"),
        (answered(500, "InternalError", "We encountered an internal error"), BucketFaultError, "500 InternalError"),
        (answered(400, "EntityTooLarge", "too large"), LetterRefusedError, "400 EntityTooLarge"),
        (answered(400, "KMS.NotFoundException", "no such key"), BucketError, "DELEGATE_DLQ_KMS_KEY"),
        (html(200), BucketUnreachableError, "captive portal"),
        (html(502), BucketFaultError, "502"),
        (html(403), AccessDeniedError, "403"),
        (cut, BucketUnreachableError, "can't be reached"),
        (frozen, BucketUnreachableError, "did not answer in time"),
    ],
    ids=["denied", "internal", "too large", "key", "html 200", "html 502", "html 403", "cut", "frozen"],
)
async def test_each_fault_has_words(s3: FaultyS3, address: BucketAddress, fault: Fault, kind: type[BucketError], words: str) -> None:
    """One error that says what to do; the next call is not harmed."""
    requests = 2 if fault is cut else 1  # the HTTP library repeats a PUT once whose connection ended
    s3.add(fault, times=requests)
    async with opened(address, QUICK) as bucket:
        with pytest.raises(kind) as failed:
            await put(bucket)
        assert words.format(bucket=address.name) in f"{failed.value.message} {failed.value.hint}"
        assert len(s3.puts()) == requests
        assert await put(bucket) is Stored.CREATED


async def test_a_bucket_that_is_missing_is_named(s3: FaultyS3) -> None:
    """By the real server."""
    async with opened(BucketAddress("nobody-made-this")) as bucket:
        with pytest.raises(BucketMissingError, match="there is no bucket nobody-made-this"):
            await put(bucket)
        with pytest.raises(BucketMissingError):
            await bucket.get("x")


async def test_an_object_that_is_missing_is_named(s3: FaultyS3, address: BucketAddress) -> None:
    """By the real server."""
    async with opened(address) as bucket:
        with pytest.raises(ObjectMissingError, match="nothing is stored at s3://"):
            await bucket.get("x")


async def test_slow_down_says_how_long(s3: FaultyS3, address: BucketAddress) -> None:
    """Retry-After is the floor of the next wait; the call itself is not repeated."""
    s3.add(answered(503, "SlowDown", "Please reduce your request rate", headers={"Retry-After": "7"}))
    async with opened(address) as bucket:
        with pytest.raises(BucketBusyError) as busy:
            await put(bucket)
    assert busy.value.retry_after == 7.0
    assert len(s3.puts()) == 1


async def test_a_call_is_bounded_as_a_whole(s3: FaultyS3, address: BucketAddress) -> None:
    """Whatever happens inside it."""
    s3.add(frozen)
    async with opened(address, BucketRules(read_seconds=30.0, call_seconds=0.5)) as bucket:
        with pytest.raises(BucketUnreachableError, match=r"did not answer within 0\.5 s"):
            await put(bucket)


async def test_nobody_at_the_address_is_told(aws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the settings that may be wrong."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{taken.getsockname()[1]}")
        async with opened(BucketAddress("dlq"), QUICK) as bucket:
            with pytest.raises(BucketUnreachableError, match="can't be reached") as failed:
                await put(bucket)
    assert "AWS_ENDPOINT_URL" in failed.value.hint


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9000", "http://", "nonsense"])
async def test_an_endpoint_that_is_none_is_told(aws: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    """Before anything is sent."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    async with opened(BucketAddress("dlq"), QUICK) as bucket:
        with pytest.raises(BucketSettingError) as failed:
            await put(bucket)
    assert "AWS_ENDPOINT_URL" in failed.value.hint


async def test_a_letter_follows_no_redirect(s3: FaultyS3, address: BucketAddress) -> None:
    """Whoever answers for S3 doesn't get to say where letters go."""
    visitors: list[str] = []

    async def welcome(request: web.Request) -> web.Response:
        visitors.append(request.path)
        return web.Response(headers={"ETag": '"x"'})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", welcome)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        s3.add(redirect(f"http://127.0.0.1:{runner.addresses[0][1]}/elsewhere"), times=3)
        async with opened(address) as bucket:
            with pytest.raises(BucketRegionError):
                await put(bucket)
    finally:
        await runner.cleanup()
    assert visitors == []


# Credentials.


def credentials_file(files: Path, key: str, secret: str = SECRET_KEY) -> None:
    (files / "credentials").write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n")


def only_for(key: str, fault: Fault) -> Fault:
    """The fault for requests that are signed with this key."""

    async def choose(proxy: FaultyS3, request: web.Request, body: bytes) -> web.StreamResponse:
        if f"Credential={key}/" in request.headers["Authorization"]:
            return await fault(proxy, request, body)
        return await proxy.forward(request, body)

    return choose


@moto_only
@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidAccessKeyId"])
async def test_renewed_credentials_are_picked_up(
    s3: FaultyS3, address: BucketAddress, aws: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """Case 23: without a restart, within the call that the old ones failed, and once for all that failed at the same time."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    credentials_file(aws, "AKIDOLD")
    s3.add(only_for("AKIDOLD", answered(400, code, "The provided token has expired.")), times=1000)
    async with opened(address) as bucket:
        with pytest.raises(CredentialsError):
            await put(bucket)
        assert len(s3.puts()) == 2

        credentials_file(aws, "AKIDNEW", "another-secret-key")
        stored = await asyncio.gather(*(put(bucket, f"{number}.json") for number in range(5)))

        assert stored == [Stored.CREATED] * 5
        assert all("AKIDNEW" in each.headers["authorization"] for each in s3.puts()[-5:])
        assert has_right_signature(s3.puts()[-1], "another-secret-key")
    assert KNOWN_SECRETS.mask("another-secret-key") == "(hidden)"


@moto_only
async def test_missing_credentials_are_explained_and_found_later(
    s3: FaultyS3, address: BucketAddress, aws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent without them; whoever sets them needs no restart."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    async with opened(address) as bucket:
        with pytest.raises(CredentialsError, match="there are no credentials") as missing:
            await put(bucket)
        assert missing.value.code == "dead_letter.credentials_missing"
        assert "AWS_WEB_IDENTITY_TOKEN_FILE" in missing.value.hint
        assert s3.seen == []

        credentials_file(aws, "AKIDNEW")

        assert await put(bucket) is Stored.CREATED


async def test_a_profile_that_is_not_there_is_named(
    s3: FaultyS3, address: BucketAddress, aws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AWS's settings are checked with the first call, and again with the next."""
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    async with opened(address) as bucket:
        with pytest.raises(BucketSettingError, match="nobody"):
            await put(bucket)
        monkeypatch.delenv("AWS_PROFILE")
        assert await put(bucket) is Stored.CREATED


@moto_only
async def test_a_web_identity_is_exchanged(s3: FaultyS3, address: BucketAddress, aws: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 23: as in a pod whose service account has a role; the token is read again for each exchange."""
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    (aws / "token").write_text("first-token")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(aws / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/edge")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    s3.add(answered(403, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity"), method="POST")
    async with opened(address) as bucket:
        with pytest.raises(CredentialsError, match="brought no credentials"):
            await put(bucket)

        (aws / "token").write_text("second-token")
        assert await put(bucket) is Stored.CREATED

    exchanges = [each.body for each in s3.seen if each.method == "POST"]
    assert b"WebIdentityToken=second-token" in exchanges[-1]
    assert "/eu-west-1/s3/" in s3.puts()[-1].headers["authorization"]
    assert "x-amz-security-token" in s3.puts()[-1].headers


# Region and clock.


def only_outside(region: str, fault: Fault) -> Fault:
    async def choose(proxy: FaultyS3, request: web.Request, body: bytes) -> web.StreamResponse:
        if f"/{region}/s3/" in request.headers["Authorization"]:
            return await proxy.forward(request, body)
        return await fault(proxy, request, body)

    return choose


@pytest.mark.parametrize(
    "fault",
    [
        answered(400, "AuthorizationHeaderMalformed", "the region 'us-east-1' is wrong", Region="eu-central-1"),
        answered(301, "PermanentRedirect", "use the endpoint", Endpoint="dlq.s3.eu-central-1.amazonaws.com"),
        answered(301, "PermanentRedirect", "use the endpoint", headers={"x-amz-bucket-region": "eu-central-1"}),
    ],
    ids=["element", "endpoint", "header"],
)
async def test_finds_the_region_of_the_bucket(s3: FaultyS3, address: BucketAddress, fault: Fault) -> None:
    """By the answer, within the call; later calls go there at once."""
    s3.add(only_outside("eu-central-1", fault), times=1000)
    async with opened(address) as bucket:
        assert await put(bucket) is Stored.CREATED
        before = len(s3.puts())
        assert await put(bucket, "other.json") is Stored.CREATED
        assert len(s3.puts()) == before + 1
        assert has_right_signature(s3.puts()[-1])


async def test_a_region_that_nobody_tells_is_asked_for(s3: FaultyS3, address: BucketAddress) -> None:
    """From whoever reads the error."""
    s3.add(answered(301, "PermanentRedirect", "elsewhere"), times=1000)
    async with opened(address) as bucket:
        with pytest.raises(BucketRegionError) as elsewhere:
            await put(bucket)
    assert "AWS_REGION" in elsewhere.value.hint


def skewed(clock: dict[str, float]) -> Fault:
    """A server whose time is so many hours ahead, and which refuses what is 15 minutes off."""

    async def check(proxy: FaultyS3, request: web.Request, body: bytes) -> web.StreamResponse:
        now = dt.datetime.now(dt.UTC) + dt.timedelta(hours=clock["hours"])
        signed = dt.datetime.strptime(request.headers["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC)
        if abs((now - signed).total_seconds()) > 900:
            date = now.strftime("%a, %d %b %Y %H:%M:%S GMT")
            refused = answered(403, "RequestTimeTooSkewed", "The difference is too large", headers={"Date": date})
            return await refused(proxy, request, body)
        return await proxy.forward(request, body)

    return check


@moto_only
@pytest.mark.parametrize("hours", [1.0, -30.0])
async def test_signs_with_the_time_of_the_server(s3: FaultyS3, address: BucketAddress, hours: float) -> None:
    """A wrong clock on this machine keeps no letter here; when it is set right, the correction goes."""
    server = {"hours": hours}
    s3.add(skewed(server), times=1000)
    async with opened(address) as bucket:
        assert await put(bucket) is Stored.CREATED
        assert len(s3.puts()) == 2
        assert has_right_signature(s3.puts()[-1])

        await asyncio.gather(*(put(bucket, f"{number}.json") for number in range(4)))
        assert len(s3.puts()) == 6

        server["hours"] = 0.0
        assert await put(bucket, "later.json") is Stored.CREATED
        assert has_right_signature(s3.puts()[-1])


async def test_a_clock_that_can_not_be_corrected_is_told(s3: FaultyS3, address: BucketAddress) -> None:
    """A server that refuses the right time too is left to a person."""
    s3.add(answered(403, "RequestTimeTooSkewed", "too large"), times=1000)
    async with opened(address) as bucket:
        with pytest.raises(ClockSkewError) as wrong:
            await put(bucket)
    assert "NTP" in wrong.value.hint
    assert len(s3.puts()) == 1


# The client.


async def test_one_client_serves_all_calls(s3: FaultyS3, address: BucketAddress) -> None:
    """Case 23: closed in the end; a later call makes another."""
    bucket = Bucket(address)
    await asyncio.gather(*(put(bucket, f"{number}.json") for number in range(10)))
    connection = bucket._connection
    await put(bucket)
    assert bucket._connection is connection

    await bucket.close()
    await bucket.close()

    assert await put(bucket, "again.json") is Stored.CREATED
    assert bucket._connection is not connection
    await bucket.close()


async def test_a_cancelled_call_leaves_a_client_that_works(s3: FaultyS3, address: BucketAddress) -> None:
    """The end of one courier's life is no harm to the next."""
    s3.add(frozen)
    async with opened(address) as bucket:
        call = asyncio.create_task(put(bucket))
        await eventually(s3.puts)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await put(bucket) is Stored.CREATED


async def test_lists_more_than_a_page(s3: FaultyS3, address: BucketAddress) -> None:
    """In the order of keys, up to a limit, and says when there are more."""
    async with opened(address) as bucket:
        for number in range(5):
            await put(bucket, f"{number}.json")

        found, more = await bucket.list_objects(most=3)

    assert [each.key for each in found] == [f"team/edge/{number}.json" for number in range(3)]
    assert more
    assert ACCESS_KEY in s3.seen[0].headers["authorization"]
