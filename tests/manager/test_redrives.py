"""Case 46: dead letters are indexed, and sent round again at a rate, each once, by whichever manager is there."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.manager.redrives import MOST_REDRIVES, Candidate, Pace, why_not
from delegate.manager.service import Manager
from delegate.protocol.work import LeasedTask
from tests.manager.clocks import FakeClock
from tests.manager.conftest import RHYTHM
from tests.manager.delegates import Caller, FakeDelegate, RefusedCallError, make_notice
from tests.manager.operators import Operator

LETTERS, REDRIVES = "/api/v1/dead-letters", "/api/v1/redrives"


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Returns once the condition holds."""
    async with asyncio.timeout(20.0):
        while not await condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)


async def dead_tasks(operator: Operator, delegate: FakeDelegate, count: int, prefix: str = "app") -> list[LeasedTask]:
    """Tasks that failed, each with a letter in the index."""
    for number in range(count):
        await operator.submit(application=f"{prefix}-{number}")
    tasks = await delegate.acquire(count)
    assert len(tasks) == count
    for task in tasks:
        await delegate.finish(task, "failed")
    assert await delegate.letters(*(make_notice(task) for task in tasks)) == count
    return tasks


async def ended(operator: Operator, redrive: str, clock: FakeClock, step: float = 1.0) -> Any:
    """The redrive once it has ended, with time going by."""
    shown: Any = None

    async def has_ended() -> bool:
        nonlocal shown
        clock.advance(step)
        shown = await operator.call("GET", f"{REDRIVES}/{redrive}")
        return bool(shown["state"] != "running")

    await until(has_ended)
    return shown


async def test_each_letter_becomes_one_new_task_that_names_the_old_one(
    manager: Manager, operator: Operator, delegate: FakeDelegate, clock: FakeClock
) -> None:
    """A second redrive moves nothing again; audit and history tell who, which filter, and where each came from."""
    tasks = await dead_tasks(operator, delegate, 3)
    await manager.sweep()
    assert b"delegate_manager_dead_letters 3.0" in manager.metrics.expose()[0]
    dry = await operator.call("POST", REDRIVES, {"dryRun": True})
    assert (dry["state"], dry["total"], dry["moved"]) == ("dry_run", 3, 3)

    started = await operator.call("POST", REDRIVES, {"filter": {"reason": "retries_exhausted"}, "rate": 100})
    shown = await ended(operator, started["id"], clock)

    assert (shown["state"], shown["total"], shown["moved"], shown["skipped"]) == ("finished", 3, 3, {})
    letters = (await operator.call("GET", f"{LETTERS}?state=redriven"))["items"]
    assert [letter["task"] for letter in letters] == [task.task_id for task in tasks]
    for letter in letters:
        assert (await operator.task(letter["redrivenAs"]))["retryOf"] == letter["task"]
        [entry] = [each for each in await operator.history(letter["redrivenAs"]) if each["operation"] == "redriven"]
        assert (entry["actor"], entry["detail"]["letter"]) == ("first-admin", letter["id"])
    again = await ended(operator, (await operator.call("POST", REDRIVES, {}))["id"], clock)
    assert (again["total"], again["moved"]) == (0, 0)
    assert len((await operator.call("GET", "/api/v1/tasks?state=queued"))["items"]) == 3


async def test_a_second_redrive_is_refused_with_the_id_of_the_first(operator: Operator, delegate: FakeDelegate) -> None:
    """One at a time; cancelled, what was moved stays moved, and another may begin. Time stands still: it never gets further."""
    await dead_tasks(operator, delegate, 2)
    first = await operator.call("POST", REDRIVES, {"rate": 1})

    with pytest.raises(RefusedCallError) as refused:
        await operator.call("POST", REDRIVES, {})
    assert refused.value.problem.status == 409
    assert first["id"] in refused.value.problem.detail

    cancelled = await operator.call("POST", f"{REDRIVES}/{first['id']}/cancel")
    assert (cancelled["state"], cancelled["endedBy"]) == ("cancelled", "first-admin")
    assert (await operator.call("POST", f"{REDRIVES}/{first['id']}/cancel"))["state"] == "cancelled"
    second = await operator.call("POST", REDRIVES, {"rate": 1})
    assert [each["id"] for each in (await operator.call("GET", REDRIVES))["items"]].count(second["id"]) == 1


async def test_of_two_that_begin_at_once_one_is_refused(operator: Operator, delegate: FakeDelegate) -> None:
    """And a letter that is told twice at once is one letter."""
    (task,) = await dead_tasks(operator, delegate, 1)
    added = await asyncio.gather(*(delegate.letters(make_notice(task, "twice")) for _ in range(6)))
    assert sum(added) == 1

    begun = await asyncio.gather(*(operator.call("POST", REDRIVES, {"rate": 0.01}) for _ in range(6)), return_exceptions=True)

    refused = [each for each in begun if isinstance(each, RefusedCallError)]
    assert [each.problem.status for each in refused] == [409] * 5


async def test_the_rate_is_held(operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """At two a second, so many are moved as half seconds have gone by; what was not used is not made up for."""
    await dead_tasks(operator, delegate, 6)
    started = await operator.call("POST", REDRIVES, {"rate": 2})

    async def moved() -> int:
        return int((await operator.call("GET", f"{REDRIVES}/{started['id']}"))["moved"])

    for expected in (1, 2, 3):
        clock.advance(0.5)
        await until(_is(moved, expected))
    clock.advance(3600)
    await until(_is(moved, 4))
    assert await moved() == 4


def _is(read: Callable[[], Awaitable[int]], expected: int) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return await read() == expected

    return check


async def test_a_redrive_goes_on_after_a_restart_of_the_manager(
    tmp_path: Path, database_url: str, http: aiohttp.ClientSession, clock: FakeClock
) -> None:
    """Nothing of it is in the manager's memory."""

    def manager() -> Manager:
        return Manager(state_dir=tmp_path / "state", database_url=database_url, rhythm=RHYTHM, clock=clock)

    async with manager() as first:
        operator = Operator(http, first.url, first.admin_token)
        delegate = await FakeDelegate(Caller(http, first.url)).start(await operator.create_token())
        await dead_tasks(operator, delegate, 4)
        started = await operator.call("POST", REDRIVES, {"rate": 4})
        clock.advance(0.25)
        await until(_has_moved(operator, started["id"], 1))
    async with manager() as second:
        operator = Operator(http, second.url, second.admin_token)
        shown = await ended(operator, started["id"], clock, 0.25)
        assert (shown["moved"], shown["skipped"]) == (4, {})
        tasks = (await operator.call("GET", "/api/v1/tasks?state=queued"))["items"]
        assert len({task["retryOf"] for task in tasks}) == len(tasks) == 4


def _has_moved(operator: Operator, redrive: str, count: int) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        return bool((await operator.call("GET", f"{REDRIVES}/{redrive}"))["moved"] == count)

    return check


async def test_a_poisoned_task_is_not_sent_round_for_ever(operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """It comes back as a letter of its own each time, and stays where it is after a few."""
    await dead_tasks(operator, delegate, 1)
    for turn in range(MOST_REDRIVES):
        shown = await ended(operator, (await operator.call("POST", REDRIVES, {"rate": 100}))["id"], clock)
        assert shown["moved"] == 1
        (task,) = await delegate.acquire(1)
        await delegate.finish(task, "failed")
        await delegate.letters(make_notice(task))
        [letter] = (await operator.call("GET", LETTERS))["items"]
        assert letter["redrives"] == turn + 1

    shown = await ended(operator, (await operator.call("POST", REDRIVES, {"rate": 100}))["id"], clock)

    assert (shown["moved"], shown["skipped"]) == (0, {"redriven_too_often": 1})


async def test_letters_are_chosen(operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """By reason, application, error, age; the rest stays."""
    shop, till = await dead_tasks(operator, delegate, 2)
    await delegate.letters(make_notice(shop, "late", "superseded", error_code="git.unreachable"))

    for query, expected in (
        ("reason=superseded", ["late"]),
        ("reason=superseded,retries_exhausted&application=app-0", [f"letter-{shop.attempt_id}", "late"]),
        ("errorCode=git.unreachable", ["late"]),
        (f"task={till.task_id}", [f"letter-{till.attempt_id}"]),
        ("id=late", ["late"]),
        ("delegate=d-1&limit=1", [f"letter-{shop.attempt_id}"]),
        ("delegate=another", []),
        ("olderThanSeconds=1e12", []),
    ):
        found = (await operator.call("GET", f"{LETTERS}?{query}"))["items"]
        assert [letter["id"] for letter in found] == expected, query
    shown = await ended(operator, (await operator.call("POST", REDRIVES, {"rate": 100}))["id"], clock)
    assert (shown["moved"], shown["skipped"]) == (2, {"has_another_result": 1})


async def test_purging_takes_letters_out_of_the_index(operator: Operator, delegate: FakeDelegate) -> None:
    """Only those that are chosen, and nothing in a dry run."""
    await dead_tasks(operator, delegate, 2)
    with pytest.raises(RefusedCallError):
        await operator.call("POST", f"{LETTERS}/purge", {})
    dry = await operator.call("POST", f"{LETTERS}/purge", {"filter": {"application": "app-0"}, "dryRun": True})
    assert dry == {"letters": 1, "dryRun": True}

    assert await operator.call("POST", f"{LETTERS}/purge", {"filter": {"application": "app-0"}}) == {"letters": 1, "dryRun": False}

    assert [letter["application"] for letter in (await operator.call("GET", LETTERS))["items"]] == ["app-1"]


async def test_a_letter_that_is_told_again_learns_where_it_is_stored(operator: Operator, delegate: FakeDelegate) -> None:
    """First on the delegate's disk, then in the bucket; it is one letter. Another delegate can't change it."""
    (task,) = await dead_tasks(operator, delegate, 1)
    [letter] = (await operator.call("GET", LETTERS))["items"]

    assert await delegate.letters(make_notice(task, letter["id"], url="s3://dead/2.json", size=7)) == 0

    shown = await operator.call("GET", f"{LETTERS}/{letter['id']}")
    assert (shown["url"], shown["size"], shown["delegate"]) == ("s3://dead/2.json", 7, "d-1")


async def test_a_letter_speaks_only_for_tasks_that_its_delegate_had(
    operator: Operator, delegate: FakeDelegate, other: Callable[..., Awaitable[FakeDelegate]], clock: FakeClock
) -> None:
    """Another delegate's task is not queued again by its word."""
    await operator.submit()
    (task,) = await delegate.acquire(1)
    await delegate.finish(task, "failed")
    liar = await other()

    await liar.letters(make_notice(task))

    shown = await ended(operator, (await operator.call("POST", REDRIVES, {"rate": 100}))["id"], clock)
    assert (shown["moved"], shown["skipped"]) == (0, {"task_unknown": 1})


async def test_a_task_that_lost_every_delegate_is_a_letter_of_the_manager(
    manager: Manager, operator: Operator, delegate: FakeDelegate, clock: FakeClock, swept: Callable[[], Awaitable[None]]
) -> None:
    """Given up after so many attempts, it is in the index with its document, and may be sent round again."""
    await operator.submit()
    for _ in range(RHYTHM.requeues + 1):
        clock.advance(61)
        assert len(await delegate.acquire(1)) == 1
        clock.advance(RHYTHM.lease_seconds + 1)
        await swept()

    [letter] = (await operator.call("GET", LETTERS))["items"]

    assert (letter["reason"], letter["delegate"], letter["url"], letter["notRedrivable"]) == ("retries_exhausted", "", "", "")
    assert "attempts that lost their delegate" in letter["message"]
    shown = await ended(operator, (await operator.call("POST", REDRIVES, {"rate": 100}))["id"], clock)
    assert shown["moved"] == 1


@given(
    rate=st.floats(0.01, 1000.0),
    steps=st.lists(st.floats(0.0, 5.0), min_size=1, max_size=200),
)
def test_no_window_ever_sees_more_than_the_rate_allows(rate: float, steps: list[float]) -> None:
    """However irregularly it is asked: at most the rate times the window, and one burst."""
    pace = Pace(rate, 0.0)
    now = 0.0
    sent: list[tuple[float, int]] = []
    for step in steps:
        now += step
        count = pace.allows(now)
        pace = pace.after(count, now)
        sent.append((now, count))
    burst = max(0.25 * rate, 1.0)
    for start in range(len(sent)):
        total = 0
        for at, count in sent[start:]:
            total += count
            assert total <= rate * (at - sent[start][0]) + burst + 1e-3


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        (Candidate(reason="invalid", generation=0, has_document=True, task_state="finished"), ""),
        (Candidate(reason="undecodable", generation=0, has_document=True, task_state="queued"), "task_not_finished"),
        (Candidate(reason="conflict", generation=0, has_document=True, task_state="finished"), "has_another_result"),
        (Candidate(reason="invalid", generation=0, has_document=False), "task_unknown"),
        (Candidate(reason="invalid", generation=0, has_document=True), ""),
    ],
)
def test_what_may_be_sent_round(candidate: Candidate, expected: str) -> None:
    """A letter whose task is gone from the manager still has its document."""
    assert why_not(candidate) == expected
