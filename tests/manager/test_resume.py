"""Telling a canary that what it pauses for is over."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from delegate.manager.service import Manager
from delegate.model.resources import JsonObject
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


async def resume(operator: Operator, task_id: str) -> str:
    return str((await operator.call("POST", f"/api/v1/tasks/{task_id}/resume"))["effect"])


async def test_the_delegate_is_told_at_once(manager: Manager, operator: Operator, delegate: FakeDelegate) -> None:
    """By its open poll; and who said so is written down."""
    task_id = await operator.submit(canary_document())
    (task,) = await delegate.acquire()
    async with asyncio.TaskGroup() as group:
        poll = group.create_task(delegate.commands(wait_seconds=5.0))
        await eventually(lambda: manager.open_command_polls == 1)
        assert await resume(operator, task_id) == "resume_requested"
    (command,) = poll.result().commands

    assert (command.kind, command.data) == ("resume", {"attemptId": task.attempt_id})
    said = [entry for entry in await operator.history(task_id) if entry["operation"] == "resume_requested"]
    assert [(entry["actor"], entry["attemptId"]) for entry in said] == [("first-admin", task.attempt_id)]


async def test_a_word_that_waits_is_not_said_twice(operator: Operator, delegate: FakeDelegate) -> None:
    """Two pauses would end by it. Once it was heard, the next one is another."""
    task_id = await operator.submit(canary_document())
    (task,) = await delegate.acquire()
    await resume(operator, task_id)
    await resume(operator, task_id)

    (command,) = (await delegate.commands()).commands
    await delegate.beat(task, acknowledged=[command.id])
    await resume(operator, task_id)

    (second,) = (await delegate.commands()).commands
    assert second.id != command.id


async def test_a_word_for_an_attempt_that_is_lost_goes_to_nobody(
    operator: Operator, delegate: FakeDelegate, clock: FakeClock, swept: Swept
) -> None:
    """The next attempt may stand somewhere else."""
    task_id = await operator.submit(canary_document())
    await delegate.acquire()
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
