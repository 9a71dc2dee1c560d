"""Finished tasks are kept for a while, and only so many of them; what has not ended is never forgotten."""

from pathlib import Path

import aiohttp
import msgspec
import sqlalchemy as sa

from delegate.manager.service import Manager
from delegate.manager.store import tables
from delegate.manager.store.retention import forget_old
from delegate.manager.store.transactions import Transaction
from tests.manager.clocks import FakeClock
from tests.manager.conftest import RHYTHM
from tests.manager.delegates import Caller, FakeDelegate, make_notice, make_result, shortened
from tests.manager.operators import Operator
from tests.manager.test_large_results import large_result

OF_TASKS = ("tasks", "attempts", "results", "events", "history", "blobs", "blob_pieces")


def count_rows(transaction: Transaction) -> dict[str, int]:
    """How many rows are about tasks, by table."""
    found = {}
    for name in OF_TASKS:
        table = tables.metadata.tables[name]
        statement = sa.select(sa.func.count()).select_from(table)
        found[name] = int(transaction.scalar(statement.where(table.c.task_id != "") if name == "history" else statement))
    return found


async def forget_all(manager: Manager) -> None:
    while await manager._services.database.write(forget_old):
        pass


async def finish_one(operator: Operator, delegate: FakeDelegate, application: str) -> str:
    task_id = await operator.submit(application=application)
    (task,) = await delegate.acquire(1)
    await delegate.finish(task)
    return task_id


async def test_old_tasks_go_with_all_that_belongs_to_them(
    manager: Manager, operator: Operator, delegate: FakeDelegate, clock: FakeClock
) -> None:
    """Attempts, results, large results, events and history; a younger one, a queued and a running one stay."""
    await operator.submit(application="old")
    (task,) = await delegate.acquire(1)
    item, whole = large_result(task, 10)
    await delegate.send_piece(task, whole, 0, len(whole))
    await delegate.report(shortened(item, whole))
    queued = await operator.submit(application="blocked", selector={"zone": "nowhere"})
    running = await operator.submit(application="running", timeout="1000h")
    await delegate.acquire(1)
    clock.advance(RHYTHM.keep_tasks_seconds - 60)
    young = await operator.submit(application="young")
    await operator.cancel(young)
    clock.advance(61)

    await forget_all(manager)

    left = {each["id"] for each in (await operator.call("GET", "/api/v1/tasks"))["items"]}
    assert left >= {queued, young}
    assert task.task_id not in left
    assert running in left
    rows = await manager.read(count_rows)
    assert (rows["blobs"], rows["blob_pieces"], rows["results"]) == (0, 0, 0)
    [again] = await delegate.report(make_result(task))
    assert again.verdict == "invalid"


async def test_only_so_many_finished_tasks_are_kept(
    tmp_path: Path, database_url: str, http: aiohttp.ClientSession, clock: FakeClock
) -> None:
    """The oldest go first."""
    rhythm = msgspec.structs.replace(RHYTHM, keep_tasks=2)
    async with Manager(state_dir=tmp_path / "state", database_url=database_url, rhythm=rhythm, clock=clock) as manager:
        operator = Operator(http, manager.url, manager.admin_token)
        delegate = await FakeDelegate(Caller(http, manager.url)).start(await operator.create_token())
        finished = []
        for number in range(4):
            finished.append(await finish_one(operator, delegate, f"app-{number}"))
            clock.advance(1)

        await forget_all(manager)

        assert [each["id"] for each in (await operator.call("GET", "/api/v1/tasks"))["items"]] == finished[:1:-1]
        assert (await manager.read(count_rows))["attempts"] == 2


async def test_a_letter_outlives_its_task(manager: Manager, operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """It can still be sent round again; much later the letter goes too."""
    await operator.submit()
    (task,) = await delegate.acquire(1)
    await delegate.finish(task, "failed")
    await delegate.letters(make_notice(task))
    clock.advance(RHYTHM.keep_tasks_seconds + 1)
    await forget_all(manager)

    dry = await operator.call("POST", "/api/v1/redrives", {"dryRun": True})

    assert (dry["moved"], (await operator.call("GET", "/api/v1/tasks"))["items"]) == (1, [])
    clock.advance(RHYTHM.keep_letters_seconds)
    await forget_all(manager)
    assert (await operator.call("GET", "/api/v1/dead-letters"))["items"] == []
