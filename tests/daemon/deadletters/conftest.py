"""A real S3 server for the session, a bucket of its own and a faulty way to it for each test.

The server is moto's. With DELEGATE_TEST_S3_URL it is another one, which has to know the key and secret below, as in
`rclone serve s3 --auth-key AKIDEXAMPLE,wJalrXUtnFEMIexampleKEY DIRECTORY`; that one checks signatures and ignores If-None-Match.
"""

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from delegate.daemon.deadletters.bucket import BucketAddress
from tests.fakes.s3_server import FaultyS3, faulty_s3, s3_server

_NUMBERS = itertools.count()
FOREIGN_SERVER = os.environ.get("DELEGATE_TEST_S3_URL", "")
moto_only = pytest.mark.skipif(bool(FOREIGN_SERVER), reason="needs If-None-Match, or a server that takes any key and time")
ACCESS_KEY, SECRET_KEY = "AKIDEXAMPLE", "wJalrXUtnFEMIexampleKEY"


@pytest.fixture(scope="session")
def s3_address() -> Iterator[str]:
    if FOREIGN_SERVER:
        yield FOREIGN_SERVER.rstrip("/")
        return
    with s3_server() as address:
        yield address


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An environment with nothing but a key in it; the directory of AWS's files."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    files = tmp_path / "aws"
    files.mkdir()
    monkeypatch.setenv("AWS_CONFIG_FILE", str(files / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(files / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    return files


@pytest.fixture
async def s3(s3_address: str, aws: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FaultyS3]:
    async with faulty_s3(s3_address) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


@pytest.fixture
async def address(s3_address: str) -> BucketAddress:
    """A bucket that is there and empty, with a prefix."""
    name = f"dlq-{os.getpid()}-{next(_NUMBERS)}"
    if FOREIGN_SERVER:
        import aioboto3

        session = aioboto3.Session(ACCESS_KEY, SECRET_KEY, region_name="us-east-1")
        async with session.client("s3", endpoint_url=s3_address) as client:
            await client.create_bucket(Bucket=name)
    else:
        async with aiohttp.ClientSession() as http, http.put(f"{s3_address}/{name}") as answer:
            assert answer.status == 200
    return BucketAddress(name, "team/edge")
