"""Ending tasks from outside: cancel, supersede, and trying again."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from delegate.manager.service import Manager
from tests.manager.clocks import FakeClock
from tests.manager.delegates import FakeDelegate, RefusedCallError, make_result
from tests.manager.operators import Operator, sync_document
from tests.manager.waiting import eventually

Start = Callable[..., Awaitable[FakeDelegate]]
Swept = Callable[[], Awaitable[None]]


async def test_a_cancelled_task_in_the_queue_is_never_handed_out(operator: Operator, delegate: FakeDelegate) -> None:
    """It ends at once, and the next one of its application is free."""
    first = await operator.submit(application="checkout")
    second = await operator.submit(application="checkout")

    assert await operator.cancel(first, "not today") == "cancelled"
    shown = await operator.task(first)
    assert (shown["state"], shown["outcome"]) == ("finished", "cancelled")
    assert shown["message"] == "cancelled by first-admin: not today"
    assert [task.task_id for task in await delegate.acquire(10)] == [second]


async def test_a_running_task_is_cancelled_by_its_delegate(manager: Manager, operator: Operator, delegate: FakeDelegate) -> None:
    """The open poll for commands tells it at once; heartbeats repeat it until it reports how it ended."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    async with asyncio.TaskGroup() as group:
        poll = group.create_task(delegate.commands(wait_seconds=5.0))
        await eventually(lambda: manager.open_command_polls == 1)
        assert await operator.cancel(task_id) == "cancel_requested"
    (command,) = poll.result().commands

    assert (command.kind, command.data["attemptId"], command.data["verdict"]) == ("cancel", task.attempt_id, "cancel")
    assert (await operator.task(task_id))["stopRequested"] == "cancel"
    assert await delegate.verdict(task) == "cancel"
    assert await delegate.finish(task, "cancelled", "stopped after 3 of 9 objects") == "accepted"
    shown = await operator.task(task_id)
    assert (shown["outcome"], shown["stopRequested"]) == ("cancelled", "")


async def test_commands_are_repeated_until_acknowledged(operator: Operator, delegate: FakeDelegate) -> None:
    """In polls and heartbeats alike."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    await operator.cancel(task_id)

    (first,) = (await delegate.commands()).commands
    (again,) = (await delegate.beat(task)).commands
    assert again == first
    assert (await delegate.beat(task, acknowledged=[first.id])).commands == ()
    assert (await delegate.commands()).commands == ()


async def test_cancelling_twice_is_fine(operator: Operator, delegate: FakeDelegate) -> None:
    """The second time changes nothing and says so."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()

    assert [await operator.cancel(task_id), await operator.cancel(task_id)] == ["cancel_requested", "cancel_requested"]
    assert len((await delegate.commands()).commands) == 1
    await delegate.finish(task, "cancelled")
    assert await operator.cancel(task_id) == "already_finished"


async def test_a_cancel_that_races_with_the_result_leaves_one_final_state(operator: Operator, delegate: FakeDelegate) -> None:
    """Whichever is committed first decides; the other one is told."""
    for number in range(10):
        task_id = await operator.submit(application=f"app-{number}")
        (task,) = await delegate.acquire()
        effect, verdict = await asyncio.gather(operator.cancel(task_id), delegate.finish(task))
        shown = await operator.task(task_id)

        assert verdict == "accepted"
        assert effect in ("cancel_requested", "already_finished")
        assert (shown["state"], shown["outcome"]) == ("finished", "succeeded")
        finals = [entry for entry in await operator.history(task_id) if entry["operation"] == "finished"]
        assert len(finals) == 1


async def test_a_cancelled_task_ends_when_its_delegate_is_lost(
    operator: Operator, delegate: FakeDelegate, clock: FakeClock, swept: Swept
) -> None:
    """It is not handed out again."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    await operator.cancel(task_id)
    clock.advance(46)
    await swept()

    assert (await operator.task(task_id))["outcome"] == "cancelled"
    assert await delegate.finish(task) == "lease_lost"


async def test_a_cancelled_task_that_is_given_back_ends(operator: Operator, delegate: FakeDelegate) -> None:
    """Acquired, not started, cancelled: released at once, and done with."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    await operator.cancel(task_id)

    assert await delegate.release(task) == "accepted"
    assert (await operator.task(task_id))["outcome"] == "cancelled"
    assert await delegate.acquire() == []


async def test_an_interrupted_attempt_of_a_cancelled_task_ends_it(operator: Operator, delegate: FakeDelegate) -> None:
    """The delegate stopped for another reason, but the task was to end anyway."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    await operator.cancel(task_id)
    await delegate.finish(task, "interrupted")

    assert (await operator.task(task_id))["outcome"] == "cancelled"


async def test_cancelling_a_task_that_does_not_exist(operator: Operator) -> None:
    """It is said so."""
    with pytest.raises(RefusedCallError, match="404 not_found: there is no task nowhere"):
        await operator.cancel("nowhere")


async def test_a_newer_task_supersedes_the_older_ones(operator: Operator, delegate: FakeDelegate) -> None:
    """Queued ones end at once; the running one gets the verdict; others are left alone."""
    running = await operator.submit(application="checkout")
    (held,) = await delegate.acquire()
    queued = [await operator.submit(application="checkout") for _ in range(2)]
    unrelated = await operator.submit(application="cart")

    newest = await operator.submit(application="checkout", supersedes=True)

    for task_id in queued:
        shown = await operator.task(task_id)
        assert (shown["outcome"], shown["supersededBy"]) == ("superseded", newest)
    assert (await operator.task(running))["stopRequested"] == "superseded"
    (command,) = (await delegate.commands()).commands
    assert command.data == {"attemptId": held.attempt_id, "verdict": "superseded", "reason": f"superseded by task {newest}"}
    assert await delegate.verdict(held) == "superseded"
    assert await operator.why(newest) == f"waiting for task {running}, which holds application checkout"
    await delegate.finish(held, "superseded")
    assert {task.task_id for task in await delegate.acquire(10)} == {newest, unrelated}


async def test_a_task_is_superseded_only_in_its_own_cluster(operator: Operator, other: Start) -> None:
    """The same application elsewhere goes on."""
    both = await other("both", clusters={"one": "uid-1", "two": "uid-2"})
    elsewhere = await operator.submit(application="checkout", destination={"name": "one"})
    await operator.submit(application="checkout", destination={"name": "two"}, supersedes=True)

    assert elsewhere in [task.task_id for task in await both.acquire(10)]


async def test_an_expired_attempt_of_a_superseded_task_does_not_come_back(
    operator: Operator, delegate: FakeDelegate, clock: FakeClock, swept: Swept
) -> None:
    """The older revision lost its lease, then a newer one took its place."""
    await operator.submit(application="checkout")
    (old,) = await delegate.acquire()
    clock.advance(46)
    await swept()
    await operator.submit(application="checkout", supersedes=True)

    assert await delegate.verdict(old) == "lost"
    assert await delegate.finish(old) == "lease_lost"


async def test_a_finished_task_is_tried_again_as_a_new_one(operator: Operator, delegate: FakeDelegate) -> None:
    """The new one names the old one and has its document."""
    old = await operator.submit(environment="dev", priority=3)
    (task,) = await delegate.acquire()
    await delegate.finish(task, "failed")

    shown = await operator.call("POST", f"/api/v1/tasks/{old}/retry")

    assert shown["task"]["retryOf"] == old
    assert shown["task"]["id"] != old
    assert shown["document"] == (await operator.show(old))["document"]
    assert (shown["task"]["environment"], shown["task"]["priority"]) == ("dev", 3)
    assert len(await delegate.acquire()) == 1


async def test_a_task_that_has_not_ended_is_not_tried_again(operator: Operator) -> None:
    """There would be two of it."""
    task_id = await operator.submit()

    with pytest.raises(RefusedCallError, match=f"409 conflict: task {task_id} is queued"):
        await operator.call("POST", f"/api/v1/tasks/{task_id}/retry")


async def test_a_retry_of_a_call_retries_once(operator: Operator, delegate: FakeDelegate) -> None:
    """With an idempotency key, a repeated retry is the same new task."""
    old = await operator.submit()
    (task,) = await delegate.acquire()
    await delegate.report(make_result(task, "failed"))
    headers = {"Idempotency-Key": "again-1"}

    first = await operator.call("POST", f"/api/v1/tasks/{old}/retry", headers=headers)
    second = await operator.call("POST", f"/api/v1/tasks/{old}/retry", headers=headers)

    assert first["task"]["id"] == second["task"]["id"]


async def test_a_repeated_submission_is_the_same_task(operator: Operator) -> None:
    """The answer was lost, the submission comes again with its key: nothing is queued twice."""
    ids = {await operator.submit(key="deploy-42") for _ in range(3)}

    assert len(ids) == 1
    with pytest.raises(RefusedCallError, match="409 conflict: this idempotency key was used for task"):
        await operator.submit(sync_document("another"), key="deploy-42")


async def test_a_reason_that_the_database_can_not_keep_is_refused(operator: Operator) -> None:
    """A character that one database takes and another does not: kept, or 422 with nothing done; no fault of the manager."""
    task = (await operator.call("POST", "/api/v1/tasks", sync_document()))["task"]["id"]
    refusals = []
    try:
        await operator.call("POST", f"/api/v1/tasks/{task}/cancel", {"reason": "a\x00b"})
    except RefusedCallError as refused:
        refusals.append((refused.problem.status, refused.problem.code))

    shown = await operator.call("GET", f"/api/v1/tasks/{task}")
    assert (refusals, shown["task"]["state"]) in (([], "finished"), ([(422, "invalid")], "queued"))
