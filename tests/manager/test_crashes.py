"""A manager that is killed at any moment under load: no task is lost, no result counts twice, and answers that never came are made good."""

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import aiohttp
import msgspec
import pytest
import sqlalchemy as sa

from delegate.manager.store.tables import history
from delegate.protocol.work import LeasedTask
from tests.manager.delegates import Caller, FakeDelegate, RefusedCallError, new_request_id
from tests.manager.history import Checker, from_audit
from tests.manager.operators import Operator, sync_document

T = TypeVar("T")
TASKS = 120
KILLS = 4
APPLICATIONS = 25


class Child:
    """The manager as a process of its own, on one port for all its lives."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        environment = {
            **os.environ,
            "DELEGATE_MANAGER_STATE_DIR": str(self.directory / "state"),
            "DELEGATE_MANAGER_LISTEN": f"127.0.0.1:{self.port}",
            "DELEGATE_MANAGER_LEASE": "3s",
            "DELEGATE_MANAGER_HEARTBEAT": "200ms",
            "DELEGATE_MANAGER_POLL": "500ms",
            "DELEGATE_MANAGER_GRACE": "2s",
            "DELEGATE_MANAGER_REQUEUE_BASE": "100ms",
        }
        with (self.directory / "manager.log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "delegate", "manager", "serve", stdout=log, stderr=log, env=environment
            )
        async with asyncio.timeout(30), aiohttp.ClientSession() as session:
            while True:
                assert self.process.returncode is None, (self.directory / "manager.log").read_text()
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(self.url + "/readyz") as response:
                        if response.status == 200:
                            return
                await asyncio.sleep(0.02)

    async def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def stop(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(20):
                await self.process.wait()


class Unreliable:
    """Makes calls until one is answered; some answers are thrown away after they came, as if the way had been cut."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.lost = 0

    async def insist(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                answer = await call()
            except (aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(0.02)
                continue
            if self.dice.random() < 0.1:
                self.lost += 1
                continue
            return answer


class Worker:
    """A delegate that does its best: the same request until it is answered, the same result until there is a verdict."""

    def __init__(self, delegate: FakeDelegate, way: Unreliable) -> None:
        self.delegate = delegate
        self.way = way
        self.held: dict[str, LeasedTask] = {}
        self.verdicts: list[tuple[str, str]] = []

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._beat())
            group.create_task(self._work())

    async def _beat(self) -> None:
        while True:
            answer = await self.way.insist(lambda: self.delegate.beat(*self.held.values()))
            for decision in answer.attempts:
                if decision.verdict == "lost":
                    self.held.pop(decision.attempt_id, None)
            await asyncio.sleep(0.1)

    async def _work(self) -> None:
        while True:
            request_id = new_request_id()
            tasks = await self.way.insist(
                lambda request_id=request_id: self.delegate.acquire(4, 0.3, request_id=request_id, running=list(self.held))  # type: ignore[misc]
            )
            self.held |= {task.attempt_id: task for task in tasks}
            await asyncio.sleep(0.02)
            for task in tasks:
                verdict = await self.way.insist(lambda task=task: self.delegate.finish(task, "succeeded", task.attempt_id))  # type: ignore[misc]
                self.verdicts.append((task.task_id, verdict))
                self.held.pop(task.attempt_id, None)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", [1])
async def test_killed_again_and_again(tmp_path: Path, seed: int) -> None:
    """Submitters, delegates and a killer at once; in the end every task has exactly one result."""
    dice = random.Random(seed)
    way = Unreliable(dice)
    child = Child(tmp_path)
    await child.start()
    token = (tmp_path / "state" / "admin-token").read_text().strip()
    try:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
            operator = Operator(session, child.url, token)
            secret = await operator.create_token()
            workers = [Worker(await FakeDelegate(Caller(session, child.url), f"d-{number}").start(secret), way) for number in range(3)]
            running = [asyncio.create_task(worker.run()) for worker in workers]
            killing = asyncio.create_task(_kill_again_and_again(child, dice))
            ids = await _submit_all(operator, way)
            await killing
            await _wait_until_all_ended(operator, way, ids)
            for task in running:
                task.cancel()
            results = await asyncio.gather(*running, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in results), results
            outcomes = Counter([(await operator.task(task_id))["outcome"] for task_id in ids])
    finally:
        await child.stop()

    assert outcomes == {"succeeded": TASKS}
    assert way.lost > 10
    verdicts = Counter(verdict for worker in workers for _, verdict in worker.verdicts)
    assert set(verdicts) <= {"accepted", "duplicate", "lease_lost"}
    audit = _read_history(tmp_path / "state" / "manager.db")
    accepted = Counter(row["task_id"] for row in audit if row["operation"] == "result_accepted")
    assert accepted == dict.fromkeys(ids, 1)
    assert Checker().read(from_audit(audit)).expect_all_final().violations == []


async def _submit_all(operator: Operator, way: Unreliable) -> list[str]:
    """Every submission has a key of its own, and is repeated with it until it is answered."""
    ids = []
    for number in range(TASKS):
        document = sync_document(f"app-{number % APPLICATIONS}")
        ids.append(await way.insist(lambda document=document, number=number: operator.submit(document, key=f"task-{number}")))  # type: ignore[misc]
        await asyncio.sleep(0.01)
    assert len(set(ids)) == TASKS
    return ids


async def _kill_again_and_again(child: Child, dice: random.Random) -> None:
    for _ in range(KILLS):
        await asyncio.sleep(0.2 + dice.random())
        await child.kill()
        await child.start()


async def _wait_until_all_ended(operator: Operator, way: Unreliable, ids: list[str]) -> None:
    async with asyncio.timeout(90):
        for task_id in ids:
            await _wait_until_ended(operator, way, task_id)


async def _wait_until_ended(operator: Operator, way: Unreliable, task_id: str) -> None:
    shown = await way.insist(lambda: operator.task(task_id))
    while shown["state"] != "finished":
        await asyncio.sleep(0.05)
        shown = await way.insist(lambda: operator.task(task_id))


def _read_history(path: Path) -> list[dict[str, object]]:
    engine = sa.create_engine(f"sqlite:///{path}")
    try:
        with engine.connect() as connection:
            rows = connection.execute(sa.select(history).where(history.c.task_id != "").order_by(history.c.id))
            return [row._asdict() | {"detail": msgspec.json.decode(row.detail)} for row in rows]
    finally:
        engine.dispose()


async def test_a_crash_between_commit_and_answer(tmp_path: Path) -> None:
    """What was committed before the crash is what the repeated call is answered with."""
    child = Child(tmp_path)
    await child.start()
    token = (tmp_path / "state" / "admin-token").read_text().strip()
    try:
        async with aiohttp.ClientSession() as session:
            operator = Operator(session, child.url, token)
            delegate = await FakeDelegate(Caller(session, child.url)).start(await operator.create_token())
            first = await operator.submit(key="once")  # all three answers below count as never received
            request_id = new_request_id()
            (task,) = await delegate.acquire(2, request_id=request_id)
            await child.kill()
            await child.start()
            assert await operator.submit(key="once") == first
            (again,) = await delegate.acquire(2, request_id=request_id)
            assert (again.attempt_id, again.attempt_token) == (task.attempt_id, task.attempt_token)
            assert await delegate.finish(again) == "accepted"
            await child.kill()
            await child.start()
            assert await delegate.finish(again) == "duplicate"
            with pytest.raises(RefusedCallError, match="is another document"):
                await operator.submit(sync_document("other"), key="once")
            assert (await operator.task(first))["outcome"] == "succeeded"
    finally:
        await child.stop()
