"""Letters in an S3 bucket. The AWS libraries (30 MiB) are loaded by the first call, so only where a bucket is set.

One client is kept and shared. Where another one may find better credentials, or the bucket turned out to be in another region, a new
one takes its place, and the old one is closed when the last call on it has ended. Each such remedy is tried once in a call; what is left
is an error that says what to do, and the courier's to try again.

Storing is idempotent: the key names the content, and `If-None-Match: *` has the server keep what is there. A server that doesn't
know the header writes the same bytes again.
"""

import asyncio
import base64
import contextlib
import datetime as dt
import enum
import importlib
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

import structlog

from delegate.daemon.deadletters.errors import (
    BucketError,
    BucketFaultError,
    BucketRegionError,
    BucketSettingError,
    BucketUnreachableError,
    ClockSkewError,
    ConditionUnknownError,
    CredentialsError,
    ObjectExistsError,
)
from delegate.daemon.deadletters.refusals import Target
from delegate.daemon.deadletters.rules import BucketRules
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.foundation.settings.sections import DeadLetters

log = structlog.get_logger(__name__)
T = TypeVar("T")
_ADDRESS = re.compile(r"s3://([^/]+)/?(.*)")
_LARGEST_OBJECT = 64 * 2**20
_SKEW_STEP_SECONDS = 30.0


class BucketAddress(NamedTuple):
    """`s3://name/prefix`."""

    name: str
    prefix: str = ""

    @classmethod
    def parse(cls, url: str) -> "BucketAddress":
        """Raises BucketSettingError."""
        match = _ADDRESS.fullmatch(url)
        if match is None:
            raise BucketSettingError(f"{url!r} is no bucket", hint="write s3://bucket or s3://bucket/prefix (DLQ_BUCKET)")
        return cls(match[1], match[2].strip("/"))

    def key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    def url(self, key: str) -> str:
        return f"s3://{self.name}/{key}"


class Stored(enum.StrEnum):
    CREATED = "created"
    ALREADY_THERE = "already_there"


class StoredObject(NamedTuple):
    """An object of a listing."""

    key: str
    size: int
    modified: dt.datetime


class _Connection:
    """A client, and how many calls are on it."""

    def __init__(self, client: Any, exits: AsyncExitStack, region: str) -> None:
        self.region = region
        self._client = client
        self._exits = exits
        self._users = 0
        self._retired = False

    @contextlib.asynccontextmanager
    async def used(self) -> AsyncIterator[Any]:
        self._users += 1
        try:
            yield self._client
        finally:
            self._users -= 1
            await self._close_unused()

    async def retire(self) -> None:
        """Closes it as soon as nobody uses it."""
        self._retired = True
        await self._close_unused()

    async def _close_unused(self) -> None:
        if self._retired and not self._users:
            await self._exits.aclose()


class Bucket:
    """Calls may run at once; all raise BucketErrors. `close` it in the end."""

    def __init__(self, address: BucketAddress, *, rules: BucketRules | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self.address = address
        self._rules = rules or BucketRules()
        self._clock = clock
        self._connection: _Connection | None = None
        self._connecting = asyncio.Lock()
        self._clients: ModuleType | None = None
        self._region = ""
        self._ahead_seconds = 0.0
        self._conditional = True

    @classmethod
    def of_settings(
        cls, settings: DeadLetters, *, proxy_for: Callable[[str], str | None], tls: Callable[[], ssl.SSLContext]
    ) -> "Bucket | None":
        """The bucket that is set; None where there is none. Raises BucketSettingError."""
        if settings.bucket is None:
            return None
        return cls(BucketAddress.parse(settings.bucket), rules=BucketRules(kms_key=settings.kms_key, proxy_for=proxy_for, tls=tls))

    async def put(self, key: str, body: bytes, *, sha256: str, facts: Mapping[str, str] | None = None) -> Stored:
        """Stores a letter under a key that names its content. `facts` become metadata of the object."""
        arguments: dict[str, Any] = {
            "Bucket": self.address.name,
            "Key": key,
            "Body": body,
            "ContentType": "application/json",
            "ChecksumSHA256": base64.b64encode(bytes.fromhex(sha256)).decode(),
            "Metadata": dict(facts or {}),
        }
        if self._rules.kms_key:
            arguments |= {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": self._rules.kms_key}

        async def store(client: Any) -> Stored:
            answer = await client.put_object(**arguments, **({"IfNoneMatch": "*"} if self._conditional else {}))
            if not answer.get("ETag"):
                raise BucketUnreachableError(
                    f"what answers for {self.address.url(key)} is no S3: it took the letter and gave no ETag",
                    hint="look for a proxy or a captive portal on the way, and check AWS_ENDPOINT_URL",
                )
            return Stored.CREATED

        try:
            return await self._call("PutObject", key, store)
        except ObjectExistsError:
            return Stored.ALREADY_THERE

    async def get(self, key: str) -> bytes:
        """An object's bytes. ObjectMissingError where there is none."""

        async def fetch(client: Any) -> bytes:
            answer = await client.get_object(Bucket=self.address.name, Key=key)
            if answer["ContentLength"] > _LARGEST_OBJECT:
                raise BucketFaultError(f"{self.address.url(key)} is larger than any dead letter", retryable=False)
            async with answer["Body"] as body:
                data: bytes = await body.read()
                return data

        return await self._call("GetObject", key, fetch)

    async def delete(self, key: str) -> None:
        """Removes an object, whether it was there or not. For probes alone: nobody deletes letters."""

        async def remove(client: Any) -> None:
            await client.delete_object(Bucket=self.address.name, Key=key)

        await self._call("DeleteObject", key, remove)

    async def list_objects(self, prefix: str = "", *, most: int = 1000) -> tuple[list[StoredObject], bool]:
        """Objects whose key under the bucket's own prefix begins so, in order of their keys; and whether there are more."""
        found: list[StoredObject] = []
        token = ""
        while True:
            page, token = await self._list_page(prefix, token)
            found += page
            if not token or len(found) >= most:
                return found[:most], bool(token) or len(found) > most

    async def close(self) -> None:
        """Ends the client; a later call would make another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.retire()

    # Steps.

    async def _list_page(self, prefix: str, token: str) -> tuple[list[StoredObject], str]:
        async def fetch(client: Any) -> tuple[list[StoredObject], str]:
            further = {"ContinuationToken": token} if token else {}
            answer = await client.list_objects_v2(Bucket=self.address.name, Prefix=self.address.key(prefix), **further)
            objects = [StoredObject(each["Key"], each["Size"], each["LastModified"]) for each in answer.get("Contents", ())]
            return objects, answer.get("NextContinuationToken", "") if answer.get("IsTruncated") else ""

        return await self._call("ListObjectsV2", "", fetch)

    async def _call(self, operation: str, key: str, call: Callable[[Any], Awaitable[T]]) -> T:
        target = Target(bucket=self.address.name, key=key, kms_key=self._rules.kms_key)
        tried: set[str] = set()
        try:
            async with asyncio.timeout(self._rules.call_seconds):
                while True:
                    connection, ahead = await self._connect(target), self._ahead_seconds
                    try:
                        return await self._use(connection, operation, target, call)
                    except BucketError as error:
                        remedy = await self._mend(error, connection, ahead)
                        if not remedy or remedy in tried:
                            raise
                        tried.add(remedy)
                        log.info("dead_letters.bucket_remedy", remedy=remedy, error=str(error))
        except TimeoutError as error:
            raise BucketUnreachableError(
                f"{target.shown} did not answer within {self._rules.call_seconds:g} s", hint="check the way to S3"
            ) from error

    async def _use(self, connection: _Connection, operation: str, target: Target, call: Callable[[Any], Awaitable[T]]) -> T:
        clients = await self._load()
        try:
            async with connection.used() as client:
                return await call(client)
        except clients.FAILURES as error:
            raise clients.translate(error, operation, target, self._clock.now()) from error

    async def _connect(self, target: Target) -> _Connection:
        """The client in use, or a new one: whoever asks meanwhile waits for the same."""
        async with self._connecting:
            if self._connection is None:
                clients = await self._load()
                exits = AsyncExitStack()
                region = self._region
                try:
                    session = await asyncio.to_thread(clients.prepare_session, self._rules)
                    client = await clients.open_client(session, region, lambda: self._ahead_seconds, exits)
                except clients.FAILURES as error:
                    await exits.aclose()
                    raise clients.translate(error, "connecting", target, self._clock.now()) from error
                except BaseException:
                    await exits.aclose()
                    raise
                self._connection = _Connection(client, exits, region)
            return self._connection

    async def _load(self) -> ModuleType:
        if self._clients is None:
            self._clients = await asyncio.to_thread(importlib.import_module, "delegate.daemon.deadletters.clients")
        return self._clients

    async def _mend(self, error: BucketError, connection: _Connection, ahead_seconds: float) -> str:
        """Changes what can be mended from here. The remedy's name, empty where there is none; `ahead_seconds` was signed with."""
        match error:
            case CredentialsError(renewable=True):
                await self._replace(connection)
                return "fresh_client"
            case BucketRegionError(region=region) if region and region != connection.region:
                self._region = region
                await self._replace(connection)
                return "region"
            case ClockSkewError(ahead_seconds=float(ahead)) if abs(ahead - ahead_seconds) > _SKEW_STEP_SECONDS:
                self._ahead_seconds = ahead
                return "clock"
            case ConditionUnknownError():
                self._conditional = False
                return "unconditional"
            case _:
                return ""

    async def _replace(self, connection: _Connection) -> None:
        """Has the next call make a new client, unless another call has already seen to it."""
        if self._connection is connection:
            self._connection = None
        await connection.retire()
