"""Fair, limited, explained: whose tasks begin, how many at once, and what those that wait are told."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from delegate.manager.service import Manager
from delegate.manager.store.explaining import find_unroutable
from delegate.protocol.enrolment import AttemptReport
from tests.manager.clocks import FakeClock
from tests.manager.conftest import RHYTHM
from tests.manager.delegates import Caller, FakeDelegate, RefusedCallError
from tests.manager.operators import Operator
from tests.manager.waiting import eventually

Start = Callable[..., Awaitable[FakeDelegate]]


async def limit(operator: Operator, kind: str, name: str, most: int) -> None:
    await operator.call("PUT", f"/api/v1/limits/{kind}/{name}", {"maxParallel": most})


async def test_a_flood_does_not_hold_up_others(operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """Case 45: of two hundred tasks of one environment and two of another that came later, the later ones begin with the next slots."""
    for number in range(200):
        await operator.submit(application=f"flood-{number}", environment="dev")
    clock.advance(1)
    await delegate.acquire(4)
    clock.advance(1)
    late = [await operator.submit(application=f"late-{number}", environment="prod") for number in range(2)]
    clock.advance(1)

    begun = [task.task_id for task in await delegate.acquire(4)]

    assert set(late) <= set(begun)
    assert [task.application for task in await delegate.acquire(2)] == ["flood-6", "flood-7"]


async def test_a_limit_of_an_environment_holds(operator: Operator, delegate: FakeDelegate) -> None:
    """Of three tasks of an environment with a limit of one, the second begins when the first has ended; those beside it go on."""
    await limit(operator, "environment", "prod", 1)
    first, second, third = [await operator.submit(application=f"app-{number}", environment="prod") for number in range(3)]
    other = await operator.submit(application="other", environment="dev")

    begun = {task.task_id: task for task in await delegate.acquire(4)}

    assert set(begun) == {first, other}
    assert await operator.why(third) == f"waiting behind 2 tasks of environment prod (limit 1): {first} runs, 1 more comes first"
    assert await operator.call("GET", f"/api/v1/tasks/{second}/why") == {
        "id": second,
        "state": "queued",
        "why": f"waiting behind 1 task of environment prod (limit 1): {first} runs",
    }
    await delegate.finish(begun[first])
    assert [task.task_id for task in await delegate.acquire(4)] == [second]


async def test_the_next_one_under_a_limit_begins_at_once(manager: Manager, operator: Operator, delegate: FakeDelegate) -> None:
    """A poll that waits is woken by the end of the task that held the key, also in another application."""
    first = await operator.submit(application="one", concurrencyKey="database")
    second = await operator.submit(application="two", concurrencyKey="database")
    (task,) = await delegate.acquire(4)
    assert task.task_id == first
    async with asyncio.TaskGroup() as group:
        poll = group.create_task(delegate.acquire(4, wait_seconds=5.0))
        await eventually(lambda: manager.open_polls == 1)
        await delegate.finish(task)
    assert [each.task_id for each in poll.result()] == [second]


async def test_rollbacks_are_no_storm(operator: Operator, delegate: FakeDelegate) -> None:
    """Three at a time in one destination, where nobody says otherwise; by a key of its own one goes past them."""
    wanted = [await operator.submit(kind="rollback", application=f"app-{number}", spec={}) for number in range(4)]
    urgent = await operator.submit(kind="rollback", application="urgent", spec={}, concurrencyKey="urgent")

    begun = {task.task_id: task for task in await delegate.acquire(10)}

    assert set(begun) == {*wanted[:3], urgent}
    why = await operator.why(wanted[3])
    assert why.startswith("waiting behind 3 tasks of key rollbacks@in-cluster (limit 3): ")
    await delegate.finish(begun[wanted[0]])
    assert [task.task_id for task in await delegate.acquire(10)] == [wanted[3]]
    await limit(operator, "key", "rollbacks@in-cluster", 5)
    more = [await operator.submit(kind="rollback", application=f"more-{number}", spec={}) for number in range(3)]
    assert {task.task_id for task in await delegate.acquire(10)} == set(more[:2])


async def test_a_limit_is_kept_when_a_delegate_dies(
    operator: Operator, delegate: FakeDelegate, other: Start, clock: FakeClock, swept: Callable[[], Awaitable[None]]
) -> None:
    """Case 45: the place of a task whose delegate was lost goes to another one, and the lost one does not get it back meanwhile."""
    await limit(operator, "cluster", "in-cluster", 1)
    first = await operator.submit(application="one")
    second = await operator.submit(application="two")
    (lost,) = await delegate.acquire(4)
    assert lost.task_id == first
    beside = await other("beside")
    clock.advance(46)
    await beside.beat()
    await swept()

    (next_one,) = await beside.acquire(4)
    assert next_one.task_id == second
    assert (await delegate.verdict(lost)) == "lost"
    await beside.finish(next_one)
    clock.advance(5)
    (again,) = await beside.acquire(4)
    assert (again.task_id, again.fence) == (first, 2)


async def test_a_limit_outlives_its_manager(tmp_path: Path, http: aiohttp.ClientSession, database_url: str) -> None:
    """What runs by the database counts, whoever handed it out."""
    async with Manager(state_dir=tmp_path / "state", database_url=database_url, rhythm=RHYTHM) as manager:
        operator = Operator(http, manager.url, manager.admin_token)
        token = await operator.create_token()
        delegate = await FakeDelegate(Caller(http, manager.url)).start(token)
        await limit(operator, "environment", "prod", 1)
        for number in range(2):
            await operator.submit(application=f"app-{number}", environment="prod")
        (held,) = await delegate.acquire(4)
    async with Manager(state_dir=tmp_path / "state", database_url=database_url, rhythm=RHYTHM) as manager:
        operator.url = delegate.caller.url = manager.url
        await delegate.open()
        assert await delegate.acquire(4, running=[held.attempt_id]) == []
        assert await delegate.finish(held) == "accepted"
        assert len(await delegate.acquire(4)) == 1


async def test_two_delegates_at_once_get_no_more_than_the_limit(operator: Operator, other: Start) -> None:
    """Polls that meet at the same moment share what is left."""
    await limit(operator, "environment", "prod", 3)
    for number in range(12):
        await operator.submit(application=f"app-{number}", environment="prod")
    crowd = [await other(f"d-{number}") for number in range(6)]

    handed_out = [task for tasks in await asyncio.gather(*(each.acquire(2) for each in crowd)) for task in tasks]
    handed_out += [task for each in crowd for task in await each.acquire(2)]

    assert len(handed_out) == 3


async def test_a_limit_of_zero_pauses(manager: Manager, operator: Operator, delegate: FakeDelegate) -> None:
    """Nothing begins, and it is said; when the limit is taken up again, a waiting poll gets the task at once."""
    await limit(operator, "environment", "prod", 0)
    task_id = await operator.submit(environment="prod")
    assert await delegate.acquire(4) == []
    assert await operator.why(task_id) == "environment prod is paused (limit 0)"
    async with asyncio.TaskGroup() as group:
        poll = group.create_task(delegate.acquire(4, wait_seconds=5.0))
        await eventually(lambda: manager.open_polls == 1)
        await limit(operator, "environment", "prod", 2)
    assert [task.task_id for task in poll.result()] == [task_id]


async def test_limits_are_listed_and_taken_away(operator: Operator, delegate: FakeDelegate) -> None:
    """With what runs under them; unknown kinds and limits are refused in words."""
    await limit(operator, "environment", "prod", 2)
    await limit(operator, "key", "database", 5)
    await operator.submit(environment="prod", concurrencyKey="database")
    await delegate.acquire(1)

    listed = (await operator.call("GET", "/api/v1/limits"))["items"]

    assert [(each["kind"], each["name"], each["maxParallel"], each["running"]) for each in listed] == [
        ("environment", "prod", 2, 1),
        ("key", "database", 5, 1),
    ]
    left = await operator.call("DELETE", "/api/v1/limits/environment/prod")
    assert [each["name"] for each in left["items"]] == ["database"]
    with pytest.raises(RefusedCallError, match="there is no limit for environment 'prod'"):
        await operator.call("DELETE", "/api/v1/limits/environment/prod")
    with pytest.raises(RefusedCallError, match="'planet' has no limits"):
        await operator.call("DELETE", "/api/v1/limits/planet/prod")


async def test_poison_is_found_and_its_neighbours_are_not_lost(
    operator: Operator, delegate: FakeDelegate, clock: FakeClock, swept: Callable[[], Awaitable[None]]
) -> None:
    """A task that kills its delegate each time is quarantined; of fifteen that ran beside it, all succeed."""
    poison = await operator.submit(application="poison")
    others = [await operator.submit(application=f"app-{number}") for number in range(15)]
    for _ in range(60):
        held = await delegate.acquire(16)
        if any(task.task_id == poison for task in held):
            reports = [AttemptReport(attempt_id=task.attempt_id, task_id=task.task_id, fence=task.fence, state="lost") for task in held]
            await delegate.open(reports, restarted=True)
        else:
            for task in held:
                await delegate.finish(task)
        await delegate.beat()
        clock.advance(20)
        await swept()
        if not held and (await operator.task(poison))["state"] == "finished":
            break

    shown = await operator.task(poison)
    assert (shown["outcome"], shown["quarantined"], shown["requeues"]) == ("failed", True, 5)
    assert shown["message"].startswith("quarantined: given up after 6 attempts that lost their delegate")
    assert {(await operator.task(task_id))["outcome"] for task_id in others} == {"succeeded"}


async def test_a_selector_that_matches_nothing_ends_unroutable(tmp_path: Path, http: aiohttp.ClientSession, clock: FakeClock) -> None:
    """Case 45: it says which delegate is nearest, never runs, and ends as refused after its time; one that could run stays."""
    rhythm = type(RHYTHM)(sweep_seconds=0.02, unroutable_seconds=0.3, poll_seconds=5.0)
    async with Manager(state_dir=tmp_path / "state", rhythm=rhythm) as manager:
        operator = Operator(http, manager.url, manager.admin_token)
        delegate = await FakeDelegate(Caller(http, manager.url), "d-7").start(await operator.create_token())
        await delegate.beat()
        stuck = await operator.submit(application="render", selector={"gpu": "true"})
        fine = await operator.submit(application="fine")
        words = "no connected delegate has gpu=true (nearest: d-7 lacks gpu=true)"
        assert await operator.why(stuck) == words
        assert (await operator.task(stuck))["state"] == "queued"
        async with asyncio.timeout(20):
            while (await operator.task(stuck))["state"] == "queued":  # noqa: ASYNC110 - what is waited for has no event
                await asyncio.sleep(0.02)
        shown = await operator.task(stuck)
        assert (shown["outcome"], shown["message"]) == ("refused", f"unroutable: {words}")
        assert (await operator.task(fine))["state"] == "queued"
        assert await manager.read(find_unroutable) == {}
