"""A manager comes back, and all its delegates with it: spread over the time that there is, and within it."""

import asyncio
import signal
import socket
import time
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest

from benchmarks.crowds import Arrivals, gather_crowd
from tests.daemon.waiting import eventually
from tests.manager.operators import Operator
from tests.process.harness import Child, started

SIZE = 120


@pytest.mark.timeout(180)
async def test_a_crowd_comes_back_spread_out(tmp_path: Path) -> None:
    """Case 10: many delegates, their manager killed and away for fifteen seconds: all are heard within thirty, and in no second more than
    three times as many as in the mean one. (`make bench` does it with two thousand, and twenty seconds.)"""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = int(reserved.getsockname()[1])
    url = f"http://127.0.0.1:{port}"
    arrivals = Arrivals()
    async with AsyncExitStack() as exits:
        manager = await start_manager(exits, tmp_path, port)
        http = await exits.enter_async_context(aiohttp.ClientSession())
        token = await Operator(http, url, (tmp_path / "state" / "admin-token").read_text().strip()).create_token()
        crowd = asyncio.create_task(gather(arrivals, url, token))
        exits.callback(crowd.cancel)
        await eventually(lambda: len(arrivals.opened) == SIZE, within=90.0)
        await asyncio.sleep(1.0)  # until the manager has counted them all
        arrivals.reset()
        await eventually(lambda: len(arrivals.contacts) == SIZE, within=60.0)  # by now each has been told how many they are
        manager.signal(signal.SIGKILL)
        await manager.ended()
        await asyncio.sleep(15.0)  # the outage itself: longer than the first steps of a backoff

        await start_manager(exits, tmp_path, port)
        arrivals.reset()
        back_at = time.monotonic()
        await eventually(lambda: len(arrivals.contacts) == SIZE, within=30.0)
        crowd.cancel()
        await asyncio.wait([crowd])

    by_second = arrivals.by_second(back_at)
    mean = SIZE / (max(by_second) + 1)
    assert max(by_second.values()) < 3.0 * mean, sorted(by_second.items())


async def start_manager(exits: AsyncExitStack, directory: Path, port: int) -> Child:
    """As people start it, once it answers."""
    places = {"DELEGATE_MANAGER_LISTEN": f"127.0.0.1:{port}", "DELEGATE_MANAGER_STATE_DIR": str(directory / "state")}
    child = await exits.enter_async_context(started(directory / "manager.log", "-m", "delegate", "manager", "serve", **places))
    begun = len(child.logs("manager.started"))
    await eventually(lambda: len(child.logs("manager.started")) > begun, within=30.0)
    return child


async def gather(arrivals: Arrivals, url: str, token: str) -> None:
    async with asyncio.TaskGroup() as group:
        await gather_crowd(group, SIZE, url, token, arrivals)
