"""Telling a canary that what it pauses for is over."""

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from delegate.manager.service import Manager
from delegate.model.resources import JsonObject
from delegate.protocol.control import PauseReport
from delegate.protocol.enrolment import AttemptReport
from delegate.protocol.work import LeasedTask
from tests.manager.clocks import FakeClock
from tests.manager.delegates import FakeDelegate, RefusedCallError
from tests.manager.operators import Operator
from tests.manager.waiting import eventually

Swept = Callable[[], Awaitable[None]]


def canary_document() -> JsonObject:
    return {
        "kind": "canary",
        "application": "checkout",
        "destination": {"name": "in-cluster", "namespace": "default"},
        "spec": {
            "workload": {"kind": "Deployment", "name": "web"},
            "images": {"main": "web:2"},
            "steps": [{"setWeight": 20}, {"pause": {}}],
        },
    }


async def resume(operator: Operator, task_id: str, pause: int = 0) -> str:
    return str((await operator.call("POST", f"/api/v1/tasks/{task_id}/resume?pause={pause}"))["effect"])


def pause_of(number: int = 1, **more: Any) -> PauseReport:
    return PauseReport(number=number, step=1, ago_seconds=60.0, **more)


async def paused(operator: Operator, delegate: FakeDelegate, number: int = 1) -> tuple[str, LeasedTask]:
    """A canary that stands at a pause."""
    task_id = await operator.submit(canary_document())
    (task,) = await delegate.acquire()
    await delegate.beat(task, pause=pause_of(number))
    return task_id, task


async def test_the_delegate_is_told_at_once(manager: Manager, operator: Operator, delegate: FakeDelegate) -> None:
    """By its open poll; and who said so is written down."""
    task_id, task = await paused(operator, delegate)
    async with asyncio.TaskGroup() as group:
        poll = group.create_task(delegate.commands(wait_seconds=5.0))
        await eventually(lambda: manager.open_command_polls == 1)
        assert await resume(operator, task_id) == "resume_requested"
    (command,) = poll.result().commands

    assert (command.kind, command.data) == ("resume", {"attemptId": task.attempt_id, "pause": 1})
    said = [entry for entry in await operator.history(task_id) if entry["operation"] == "resume_requested"]
    assert [(entry["actor"], entry["attemptId"]) for entry in said] == [("first-admin", task.attempt_id)]


async def test_a_word_that_waits_is_not_said_twice(operator: Operator, delegate: FakeDelegate) -> None:
    """Once it was heard and the canary still stands there, it is said again: of the same pause, which opens once."""
    task_id, task = await paused(operator, delegate)
    await resume(operator, task_id)
    await resume(operator, task_id)

    (command,) = (await delegate.commands()).commands
    await delegate.beat(task, acknowledged=[command.id], pause=pause_of())
    await resume(operator, task_id)

    (second,) = (await delegate.commands()).commands
    assert second.id != command.id
    assert second.data == command.data


async def test_one_that_is_repeated_when_the_next_pause_has_begun_opens_it_not(operator: Operator, delegate: FakeDelegate) -> None:
    """Named, it is over; unnamed, so soon after the first, it has to be named."""
    task_id, task = await paused(operator, delegate)
    assert await resume(operator, task_id, 1) == "resume_requested"
    (first,) = (await delegate.commands()).commands
    await delegate.beat(task, acknowledged=[first.id], pause=pause_of(2))

    assert await resume(operator, task_id, 1) == "already_resumed"
    with pytest.raises(RefusedCallError, match=r"was resumed 0 s ago, and stands at the next pause, number 2"):
        await resume(operator, task_id)
    assert (await delegate.commands()).commands == ()

    assert await resume(operator, task_id, 2) == "resume_requested"
    (second,) = (await delegate.commands()).commands
    assert second.data["pause"] == 2


async def test_the_next_pause_is_resumed_without_its_number_when_some_time_is_over(
    operator: Operator, delegate: FakeDelegate, clock: FakeClock
) -> None:
    """Nobody says the same word twice after half a minute."""
    task_id, task = await paused(operator, delegate)
    await resume(operator, task_id)
    clock.advance(31)
    await delegate.beat(task, pause=pause_of(2))

    assert await resume(operator, task_id) == "resume_requested"


async def test_a_canary_that_is_on_its_way_says_so(operator: Operator, delegate: FakeDelegate) -> None:
    """Nothing is opened ahead; and a pause that it has not come to is named."""
    task_id, task = await paused(operator, delegate)
    with pytest.raises(RefusedCallError, match=r"doesn't stand at pause 2: it pauses for the time number 1"):
        await resume(operator, task_id, 2)
    await delegate.beat(task)

    with pytest.raises(RefusedCallError, match=r"409 conflict: task \S+ doesn't pause now"):
        await resume(operator, task_id)
    assert (await delegate.commands()).commands == ()


async def test_where_it_pauses_is_shown(operator: Operator, delegate: FakeDelegate) -> None:
    """Since when, at which step, until when; a hold with its reason; and no more when it goes on, or is over."""
    task_id, task = await paused(operator, delegate)
    waits = (await operator.task(task_id))["paused"]
    await delegate.beat(task, pause=pause_of(2, left_seconds=60.0))
    timed = (await operator.task(task_id))["paused"]
    await delegate.beat(task, pause=pause_of(3, held=True, reason="errors 3 % are over 1 %"))
    held = (await operator.task(task_id))["paused"]
    await delegate.open([AttemptReport(attempt_id=task.attempt_id, task_id=task_id, fence=task.fence)])
    again = (await operator.task(task_id))["paused"]
    await delegate.finish(task)

    assert (waits["number"], waits["step"], waits["until"], waits["held"]) == (1, 1, "", False)
    seconds = [dt.datetime.fromisoformat(timed[field]).timestamp() for field in ("since", "until")]
    assert seconds[1] - seconds[0] == pytest.approx(120.0)
    assert (held["held"], held["reason"]) == (True, "errors 3 % are over 1 %")
    assert again == held
    assert (await operator.task(task_id))["paused"] is None


async def test_a_delegate_that_tells_of_no_pauses_is_told_as_before(operator: Operator, delegate: FakeDelegate) -> None:
    """One of an older version: whatever it stands at."""
    older = delegate
    await older.open(features=("commands", "events"))
    task_id = await operator.submit(canary_document())
    (task,) = await older.acquire()

    assert await resume(operator, task_id) == "resume_requested"
    (command,) = (await older.commands()).commands
    assert command.data == {"attemptId": task.attempt_id}


async def test_a_word_for_an_attempt_that_is_lost_goes_to_nobody(
    operator: Operator, delegate: FakeDelegate, clock: FakeClock, swept: Swept
) -> None:
    """The next attempt may stand somewhere else."""
    task_id, _ = await paused(operator, delegate)
    await resume(operator, task_id)
    clock.advance(46)
    await swept()

    assert (await operator.task(task_id))["state"] == "queued"
    assert (await delegate.commands()).commands == ()
    with pytest.raises(RefusedCallError, match=r"409 conflict: task \S+ is queued; only a running one pauses"):
        await resume(operator, task_id)


async def test_what_never_pauses_is_refused(operator: Operator, delegate: FakeDelegate) -> None:
    """A sync, an ended canary, one that is being stopped, none at all: each is told as itself."""
    sync = await operator.submit()
    with pytest.raises(RefusedCallError, match=r"409 conflict: task \S+ is a sync, which never pauses"):
        await resume(operator, sync)
    await operator.cancel(sync)

    canary = await operator.submit(canary_document())
    (task,) = await delegate.acquire()
    await operator.cancel(canary)
    with pytest.raises(RefusedCallError, match=r"409 conflict: task \S+ is being stopped \(cancel\)"):
        await resume(operator, canary)
    await delegate.finish(task, "cancelled")
    with pytest.raises(RefusedCallError, match=r"409 conflict: task \S+ has ended: cancelled"):
        await resume(operator, canary)
    with pytest.raises(RefusedCallError, match="404 not_found: there is no task nowhere"):
        await resume(operator, "nowhere")
