"""Everything that matters of a bucket, against a second S3 server: it ignores If-None-Match, and checks signatures."""

import asyncio
import hashlib
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from delegate.daemon.deadletters.bucket import Bucket, BucketAddress
from delegate.daemon.deadletters.courier import Courier, CourierHooks, StoredLetter
from delegate.daemon.deadletters.errors import BucketMissingError, CredentialsError, ObjectMissingError
from delegate.daemon.deadletters.inspection import check_stored, find_stored, list_stored
from delegate.daemon.deadletters.letterbox import DeadLetters
from delegate.daemon.deadletters.rules import BucketRules
from tests.daemon.deadletters.conftest import ACCESS_KEY, SECRET_KEY
from tests.daemon.deadletters.letters import letter, sealed
from tests.daemon.deadletters.test_courier import QUICK, running
from tests.daemon.waiting import eventually
from tests.fakes.rclone_server import rclone_server

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with rclone_server(tmp_path_factory.mktemp("s3"), ACCESS_KEY, SECRET_KEY) as address:
        yield address


@pytest.fixture
async def bucket(server: str, aws: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bucket]:
    """An empty one."""
    import aioboto3

    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    name = f"letters-{next(_NUMBERS)}"
    async with aioboto3.Session(region_name="us-east-1").client("s3") as client:
        await client.create_bucket(Bucket=name)
    made = Bucket(BucketAddress(name, "edge"), rules=BucketRules())
    yield made
    await made.close()


async def test_a_letter_that_is_stored_twice_is_one_object(bucket: Bucket) -> None:
    """The key names the content, so that writing it again without the condition does no harm."""
    body = b'{"a": 1}'
    sha256 = hashlib.sha256(body).hexdigest()
    for _ in range(2):
        await bucket.put("edge/v1/a.json", body, sha256=sha256, facts={"letter-id": "a"})

    assert await bucket.get("edge/v1/a.json") == body
    found, more = await bucket.list_objects()
    assert ([each.key for each in found], more) == (["edge/v1/a.json"], False)
    with pytest.raises(ObjectMissingError):
        await bucket.get("edge/v1/none.json")


async def test_letters_are_moved_once_also_when_a_courier_dies_in_between(bucket: Bucket, tmp_path: Path) -> None:
    """The second one stores what is there already, tells of it, and takes it from the disk."""
    letters = DeadLetters(tmp_path / "spool", piece_bytes=500)
    letters.open()
    for number in range(5):
        await letters.put(letter(number, size=700 if number == 4 else 0))
    count = letters.entries
    told: list[StoredLetter] = []

    async def die(stored: StoredLetter) -> None:
        told.append(stored)
        if len(told) == 3:
            raise RuntimeError("the process dies here")

    with pytest.raises(ExceptionGroup):
        async with asyncio.timeout(20.0):
            await Courier(letters, bucket, rules=QUICK, hooks=CourierHooks(on_stored=die)).run()
    async with running(Courier(letters, bucket, rules=QUICK, hooks=CourierHooks(on_stored=die))):
        await eventually(lambda: letters.entries == 0)

    rows, _ = await list_stored(bucket)
    assert len(rows) == count
    assert [row.wrong for row in await check_stored(bucket, rows)] == [""] * count
    [whole] = {(await find_stored(bucket, row.url)).id for row in rows if f"/{letter(4).task}/" in row.url}
    assert whole == sealed(4, size=700)[0].letter.id
    await letters.close()


async def test_a_wrong_key_and_a_missing_bucket_are_told_apart(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with what to do about it."""
    missing = Bucket(BucketAddress("no-such-bucket", ""), rules=BucketRules())
    with pytest.raises(BucketMissingError, match="no-such-bucket"):
        await missing.put("a.json", b"{}", sha256=hashlib.sha256(b"{}").hexdigest())
    await missing.close()

    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret-key")
    with pytest.raises(CredentialsError, match="signature"):
        await bucket.put("a.json", b"{}", sha256=hashlib.sha256(b"{}").hexdigest())
