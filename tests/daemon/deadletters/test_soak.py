"""Many letters leave nothing behind: memory, threads, descriptors and tasks stay flat, and one client serves them all."""

import asyncio
import contextlib
import multiprocessing
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import aiohttp
import psutil  # type: ignore[import-untyped]  # no stubs
import pytest

from delegate.daemon.deadletters.bucket import Bucket, BucketAddress
from delegate.daemon.deadletters.courier import Courier, CourierHooks
from delegate.daemon.deadletters.letterbox import DeadLetters
from tests.daemon.deadletters.letters import letter
from tests.daemon.waiting import eventually
from tests.fakes.s3_server import s3_server


def _serve(told: Connection, end: Connection) -> None:
    with s3_server() as address:
        told.send(address)
        with contextlib.suppress(EOFError):
            end.recv()


@pytest.fixture
def foreign_s3(aws: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A server in a process of its own, so that what it keeps is not counted as ours."""
    context = multiprocessing.get_context("spawn")
    hears, tells = context.Pipe(duplex=False)
    end, ends = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(tells, end))
    process.start()
    tells.close()
    end.close()
    try:
        address = hears.recv()
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        yield address
    finally:
        hears.close()
        ends.close()
        process.join()


async def test_five_hundred_letters_leave_nothing_behind(foreign_s3: str, tmp_path: Path) -> None:
    """Case 23: after a warm-up of a hundred, the next five hundred of 20 KiB each cost no lasting memory."""
    async with aiohttp.ClientSession() as session, session.put(f"{foreign_s3}/dlq") as answer:
        assert answer.status == 200
    endings: list[str] = []
    letters = DeadLetters(tmp_path / "spool")
    letters.open()
    bucket = Bucket(BucketAddress("dlq"))
    courier = asyncio.create_task(Courier(letters, bucket, hooks=CourierHooks(on_ending=endings.append)).run())
    process = psutil.Process()

    async def send(first: int, count: int) -> tuple[int, int, int, int]:
        for number in range(first, first + count):
            await letters.put(letter(number, size=20_000))
        await eventually(lambda: letters.entries == 0, within=40.0)
        return process.memory_info().rss, threading.active_count(), process.num_fds(), len(asyncio.all_tasks())

    warm = await send(0, 100)
    client = bucket._connection
    after = await send(100, 500)

    assert endings == ["sent"] * 600
    assert bucket._connection is client
    assert after[0] < 1.05 * warm[0]
    assert after[1] <= warm[1]
    assert after[2] <= warm[2] + 4
    assert after[3] <= warm[3]
    courier.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await courier
    await letters.close()
    assert bucket._connection is None
