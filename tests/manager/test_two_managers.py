"""Two managers on one PostgreSQL database: what one takes in, the other hands out, and never both."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest
import sqlalchemy as sa

from delegate.manager.service import Manager
from delegate.manager.settings import Rhythm
from delegate.manager.store.tables import history
from tests.manager.delegates import Caller, FakeDelegate, RefusedCallError
from tests.manager.history import Checker, from_audit
from tests.manager.operators import Operator
from tests.manager.postgres import PostgresServer
from tests.manager.waiting import eventually

RHYTHM = Rhythm(sweep_seconds=0.05, grace_seconds=0.0)
TASKS = 90


@pytest.fixture
def database_url(postgres: PostgresServer) -> str:
    return postgres.create_database()


@pytest.fixture
async def pair(tmp_path: Path, database_url: str) -> AsyncIterator[tuple[Manager, Manager]]:
    """Time is the database's."""
    one = Manager(state_dir=tmp_path / "one", database_url=database_url, rhythm=RHYTHM)
    two = Manager(state_dir=tmp_path / "two", database_url=database_url, rhythm=RHYTHM)
    async with one, two:
        yield one, two


async def test_a_task_reaches_a_poll_at_the_other_manager(pair: tuple[Manager, Manager], http: aiohttp.ClientSession) -> None:
    """By the sweep, and its result is known to both."""
    one, two = pair
    operator = Operator(http, one.url, one.admin_token)
    delegate = await FakeDelegate(Caller(http, two.url)).start(await operator.create_token())
    async with asyncio.TaskGroup() as group:
        poll = group.create_task(delegate.acquire(1, wait_seconds=10.0))
        task_id = await operator.submit()
    (task,) = poll.result()
    await delegate.finish(task)

    assert task.task_id == task_id
    assert (await operator.task(task_id))["outcome"] == "succeeded"


async def test_a_cancellation_at_one_reaches_a_delegate_at_the_other(pair: tuple[Manager, Manager], http: aiohttp.ClientSession) -> None:
    """Its open poll for commands is answered by the sweep."""
    one, two = pair
    operator = Operator(http, one.url, one.admin_token)
    delegate = await FakeDelegate(Caller(http, two.url)).start(await operator.create_token())
    task_id = await operator.submit()
    await delegate.acquire(1, wait_seconds=10.0)
    async with asyncio.TaskGroup() as group:
        poll = group.create_task(delegate.commands(wait_seconds=20.0))
        await eventually(lambda: two.open_command_polls == 1)
        await operator.cancel(task_id)

    assert [command.data["verdict"] for command in poll.result().commands] == ["cancel"]


async def test_load_at_both_at_once(pair: tuple[Manager, Manager], http: aiohttp.ClientSession) -> None:
    """Few applications, many tasks, delegates at each manager: locks hold, nothing is lost, nothing runs twice."""
    managers = pair
    operators = [Operator(http, manager.url, managers[0].admin_token) for manager in managers]
    token = await operators[0].create_token()
    delegates = [await FakeDelegate(Caller(http, managers[number % 2].url), f"d-{number}").start(token) for number in range(4)]
    done = asyncio.Event()
    verdicts: list[str] = []

    async def work(delegate: FakeDelegate) -> None:
        while not done.is_set():
            tasks = await delegate.acquire(3, wait_seconds=0.2)
            verdicts.extend([await delegate.finish(task) for task in tasks])

    async def submit(number: int) -> str:
        return await operators[number % 2].submit(application=f"app-{number % 7}", supersedes=number % 11 == 0)

    async with asyncio.timeout(50), asyncio.TaskGroup() as group:
        for delegate in delegates:
            group.create_task(work(delegate))
        ids = await asyncio.gather(*(submit(number) for number in range(TASKS)))
        for task_id in ids:
            await _until_finished(operators[0], task_id)
        done.set()

    assert set(verdicts) == {"accepted"}
    audit = await managers[0].read(lambda tx: tx.rows(sa.select(history).where(history.c.task_id != "").order_by(history.c.id)))
    events = from_audit([row._asdict() | {"detail": msgspec.json.decode(row.detail)} for row in audit])
    # Entries are numbered when they are written, under the locks of their application; their times are of the transaction's beginning.
    assert Checker(in_order=False).read(events).expect_all_final().violations == []
    outcomes = Counter([(await operators[1].task(task_id))["outcome"] for task_id in ids])
    assert set(outcomes) <= {"succeeded", "superseded"}
    assert outcomes["succeeded"] == len(verdicts)


async def _until_finished(operator: Operator, task_id: str) -> None:
    shown = await operator.task(task_id)
    while shown["state"] != "finished":
        await asyncio.sleep(0.02)
        shown = await operator.task(task_id)


async def test_time_is_the_databases(
    tmp_path: Path, database_url: str, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Managers whose clocks are three minutes apart agree on when a lease ends, and on how long a token lives."""
    rhythm = msgspec.structs.replace(RHYTHM, lease_seconds=60.0, session_token_seconds=60.0)
    managers = []
    for name, skew in (("ahead", 90.0), ("behind", -90.0)):
        real = time.time
        monkeypatch.setattr(time, "time", lambda skew=skew, real=real: real() + skew)
        managers.append(Manager(state_dir=tmp_path / name, database_url=database_url, rhythm=rhythm))
        monkeypatch.undo()
    async with managers[0] as ahead, managers[1] as behind:
        operator = Operator(http, ahead.url, ahead.admin_token)
        delegate = await FakeDelegate(Caller(http, behind.url)).start(await operator.create_token())
        task_id = await operator.submit()
        (task,) = await delegate.acquire(1, wait_seconds=10.0)
        for manager in managers:
            await manager.sweep()
        assert (await operator.task(task_id))["state"] == "running"
        delegate.caller = Caller(http, ahead.url)
        assert await delegate.verdict(task) == "ok"
        assert await delegate.finish(task) == "accepted"
        attempts = (await operator.show(task_id))["attempts"]
        assert [attempt["state"] for attempt in attempts] == ["finished"]


async def test_a_revocation_at_one_is_known_to_the_other(pair: tuple[Manager, Manager], http: aiohttp.ClientSession) -> None:
    """At the next call that looks at the session."""
    one, two = pair
    operator = Operator(http, one.url, one.admin_token)
    delegate = await FakeDelegate(Caller(http, two.url)).start(await operator.create_token())
    await delegate.beat()
    await operator.call("DELETE", "/api/v1/tokens/edge")

    with pytest.raises(RefusedCallError, match="delegate_revoked"):
        await delegate.beat()
