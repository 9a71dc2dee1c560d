"""Processes are killed at any moment: no task is lost, each has one final state, and nothing stale is taken."""

import asyncio
import datetime as dt
import random
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp

from delegate.daemon.connection.inspection import list_entries
from delegate.manager.settings import Rhythm
from tests.daemon.harness import QUICK_RHYTHM, Json, Operator, running_manager
from tests.daemon.waiting import eventually
from tests.process.harness import Child, child_delegate, effects, started

LONG_LEASE = Rhythm(
    lease_seconds=60.0, heartbeat_seconds=0.3, poll_seconds=2.0, grace_seconds=2.0, requeue_base_seconds=0.05, sweep_seconds=0.1
)


def check_one_ending(shown: Json, outcome: str = "succeeded") -> None:
    assert shown["task"]["outcome"] == outcome
    finished = [attempt for attempt in shown["attempts"] if attempt["state"] == "finished"]
    assert [attempt["id"] for attempt in finished] == [shown["result"]["attempt"]]


async def test_a_killed_delegates_task_is_finished_by_another(tmp_path: Path) -> None:
    """Killed in the middle, the task goes on after the lease elsewhere; the first one, revived, has nothing to say."""
    async with running_manager(tmp_path) as operator:
        token = await operator.token()
        async with child_delegate(tmp_path, operator.manager.url, token) as first:
            task = await operator.submit("sleep-1")
            await eventually(lambda: effects(tmp_path, "began"))
            first.signal(signal.SIGKILL)
            await first.ended()
        async with child_delegate(tmp_path, operator.manager.url, token, name="second"):
            shown = await operator.finished(task)
            check_one_ending(shown)

            async with child_delegate(tmp_path, operator.manager.url, token) as revived:
                await revived.logged("outbox.recovered")
                again = await operator.finished(await operator.submit("quick"))
                check_one_ending(again)

        assert (await operator.show(task))["result"] == shown["result"]
        assert len(effects(tmp_path, "began")) == 3


async def test_a_restart_settles_at_once(tmp_path: Path) -> None:
    """Case 39: killed with five tasks and restarted with the same identity: they run again without waiting for any lease."""
    async with running_manager(tmp_path, rhythm=LONG_LEASE) as operator:
        token = await operator.token()
        async with child_delegate(tmp_path, operator.manager.url, token) as first:
            tasks = [await operator.submit(f"sleep-{number + 1}.5") for number in range(5)]
            await eventually(lambda: len(effects(tmp_path, "began")) == 5)
            journals = tmp_path / "first" / "outbox"  # written beside the work, which doesn't wait for it
            await eventually(lambda: len(list_entries(journals, dt.datetime.now(dt.UTC))) == 5)
            first.signal(signal.SIGKILL)
            await first.ended()
        async with child_delegate(tmp_path, operator.manager.url, token) as second:
            recovered = await second.logged("outbox.recovered")
            assert recovered["lost_attempts"] == 5
            for task in tasks:
                shown = await operator.finished(task)  # long before the lease of a minute
                check_one_ending(shown)
                assert len(shown["attempts"]) == 2


async def test_a_copy_from_the_same_volume_takes_over(tmp_path: Path) -> None:
    """Case 39: the later process wins, the earlier one stops cleanly with 5; the journal of each is whole."""
    async with running_manager(tmp_path) as operator:
        token = await operator.token()
        async with child_delegate(tmp_path, operator.manager.url, token) as earlier:
            task = await operator.submit("sleep-2")
            await eventually(lambda: effects(tmp_path, "began"))
            async with child_delegate(tmp_path, operator.manager.url, token, DELEGATE_LOG_LEVEL="info") as later:
                assert await earlier.ended() == 5
                check_one_ending(await operator.finished(task))
                assert later.process.returncode is None
                assert len(await operator.delegates()) == 1


async def manager_process(exits: AsyncExitStack, directory: Path, port: int) -> Child:
    """A manager as people start it, once it answers."""
    child = await exits.enter_async_context(
        started(
            directory / "manager.log",
            *("-m", "delegate", "manager", "serve"),
            DELEGATE_MANAGER_LISTEN=f"127.0.0.1:{port}",
            DELEGATE_MANAGER_STATE_DIR=str(directory / "manager"),
            DELEGATE_MANAGER_LEASE="3s",
            DELEGATE_MANAGER_HEARTBEAT="300ms",
            DELEGATE_MANAGER_POLL="2s",
            DELEGATE_MANAGER_GRACE="3s",
            DELEGATE_MANAGER_REQUEUE_BASE="50ms",
        )
    )
    begun = len(child.logs("manager.started"))
    await eventually(lambda: len(child.logs("manager.started")) > begun or child.process.returncode is not None, within=20.0)
    assert child.process.returncode is None, child.text()
    return child


class Address:
    """Stands in for a manager of this process: where it is, and its first token."""

    def __init__(self, directory: Path, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.admin_token = (directory / "manager" / "admin-token").read_text().strip()


async def test_a_manager_that_is_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    """Killed at random moments while tasks are submitted, handed out and reported: each task ends once, none is lost."""
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    port = free_port()
    async with AsyncExitStack() as exits:
        manager = await manager_process(exits, tmp_path, port)
        address = Address(tmp_path, port)
        session = await exits.enter_async_context(aiohttp.ClientSession(headers={"Authorization": f"Bearer {address.admin_token}"}))
        operator = Operator(address, session)  # type: ignore[arg-type]
        token = await operator.token()
        child = await exits.enter_async_context(child_delegate(tmp_path, address.url, token))
        submitted: list[str] = []
        for _ in range(4):
            submitted += [await operator.submit("quick" if number % 3 else "sleep-0.5", environment=f"e{number}") for number in range(6)]
            await asyncio.sleep(dice.random() * 0.6)
            manager.signal(signal.SIGKILL)
            await manager.ended()
            await asyncio.sleep(dice.random() * 0.5)
            manager = await manager_process(exits, tmp_path, port)
        for task in submitted:
            check_one_ending(await operator.finished(task, within=40.0))
        assert child.process.returncode is None, f"seed {seed}"
        assert child.logs("result.rejected") == [], f"seed {seed}"


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as reserved:
        return int(reserved.getsockname()[1])


async def test_killed_at_random_moments_every_task_still_ends_once(tmp_path: Path) -> None:
    """One delegate is killed and restarted again and again under a stream of short tasks."""
    seed = random.randrange(2**32)
    dice = random.Random(seed)
    async with running_manager(tmp_path, rhythm=QUICK_RHYTHM) as operator:
        token = await operator.token()
        submitted: list[str] = []
        for _ in range(5):
            async with child_delegate(tmp_path, operator.manager.url, token) as child:
                submitted += [await operator.submit(f"sleep-0.{number}") for number in range(8)]
                await asyncio.sleep(dice.random())
                child.signal(signal.SIGKILL)
                await child.ended()
        async with child_delegate(tmp_path, operator.manager.url, token):
            for task in submitted:
                check_one_ending(await operator.finished(task, within=40.0))
