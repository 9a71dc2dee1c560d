"""How tasks are handed out: to whom, how many, in which order, and once."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from delegate.manager.service import Manager
from tests.manager.clocks import FakeClock
from tests.manager.delegates import FakeDelegate, RefusedCallError, new_request_id
from tests.manager.operators import Operator
from tests.manager.waiting import eventually

Start = Callable[..., Awaitable[FakeDelegate]]
OTHER_CLUSTER = "6f1c2a34-0000-4000-8000-000000000002"


async def test_an_open_poll_gets_a_new_task_at_once(manager: Manager, operator: Operator, delegate: FakeDelegate) -> None:
    """A poll that waits is answered when a task is submitted."""
    async with asyncio.TaskGroup() as group:
        poll = group.create_task(delegate.acquire(4, wait_seconds=5.0))
        await eventually(lambda: manager.open_polls == 1)
        task_id = await operator.submit(application="checkout")
    (task,) = poll.result()

    assert (task.task_id, task.attempt_number, task.fence, task.application) == (task_id, 1, 1, "checkout")
    assert task.lease_seconds == 45.0
    assert task.deadline_seconds == 900.0
    assert task.document["spec"] == {"source": {"repoURL": "https://git.example/config.git"}}
    assert (await operator.task(task_id))["state"] == "running"


async def test_an_empty_queue_answers_when_the_wait_is_over(delegate: FakeDelegate) -> None:
    """A poll that finds nothing is answered with no tasks."""
    assert await delegate.acquire(4, wait_seconds=0.05) == []


async def test_never_more_than_free_slots(operator: Operator, delegate: FakeDelegate) -> None:
    """An answer holds at most as many tasks as slots were named."""
    for number in range(5):
        await operator.submit(application=f"app-{number}")

    assert [len(await delegate.acquire(2)) for _ in range(4)] == [2, 2, 1, 0]


async def test_a_poll_without_free_slots_is_refused(delegate: FakeDelegate) -> None:
    """Slots are reserved before polling; a poll with none is a mistake."""
    with pytest.raises(RefusedCallError, match="422 invalid: freeSlots is 0"):
        await delegate.acquire(0)


async def test_a_repeated_request_gets_the_same_batch(operator: Operator, delegate: FakeDelegate) -> None:
    """An answer that was lost on the way is given again, token and all, and nothing is handed out twice."""
    for number in range(3):
        await operator.submit(application=f"app-{number}")
    request_id = new_request_id()

    first = await delegate.acquire(2, request_id=request_id)
    again = await delegate.acquire(2, request_id=request_id)

    assert [task.attempt_id for task in again] == [task.attempt_id for task in first]
    assert [task.attempt_token for task in again] == [task.attempt_token for task in first]
    assert len(await delegate.acquire(2)) == 1


async def test_two_polls_with_one_request_id_share_a_batch(manager: Manager, operator: Operator, delegate: FakeDelegate) -> None:
    """A request that was repeated while the first one still waited hands nothing out twice."""
    request_id = new_request_id()
    async with asyncio.TaskGroup() as group:
        polls = [group.create_task(delegate.acquire(1, wait_seconds=1.0, request_id=request_id)) for _ in range(2)]
        await eventually(lambda: manager.open_polls == 2)
        task_id = await operator.submit()
        await operator.submit(application="second")
    handed_out = {task.task_id for poll in polls for task in poll.result()}

    assert handed_out == {task_id}


async def test_a_request_id_is_remembered_for_ten_minutes(operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """After that a request with the same id is a new one."""
    await operator.submit(application="one")
    await operator.submit(application="two")
    request_id = new_request_id()
    (first,) = await delegate.acquire(1, request_id=request_id)
    for _ in range(25):
        clock.advance(25)
        await delegate.beat(first)

    (second,) = await delegate.acquire(1, request_id=request_id)

    assert second.task_id != first.task_id


async def test_all_labels_of_a_selector_must_match(operator: Operator, other: Start) -> None:
    """A delegate that lacks one of the labels gets nothing; one that has them all and more does."""
    task_id = await operator.submit(selector={"env": "dev", "gpu": "true"})
    partial = await other("partial", labels={"env": "dev"})
    whole = await other("whole", labels={"env": "dev", "gpu": "true", "zone": "b"})

    assert await partial.acquire(4) == []
    assert [task.task_id for task in await whole.acquire(4)] == [task_id]


async def test_only_kinds_that_the_delegate_does(operator: Operator, other: Start) -> None:
    """A task goes to a delegate that does its kind."""
    task_id = await operator.submit()
    verifier = await other("verifier", kinds=("verify",))
    syncer = await other("syncer", kinds=("sync", "diff"))

    assert await verifier.acquire(4) == []
    assert [task.task_id for task in await syncer.acquire(4)] == [task_id]


async def test_only_clusters_that_the_delegate_reaches(operator: Operator, delegate: FakeDelegate, other: Start) -> None:
    """A task goes to a delegate that announced the uid of its cluster, under whatever name."""
    task_id = await operator.submit()
    elsewhere = await other("elsewhere", clusters={"far": OTHER_CLUSTER})
    beside = await other("beside", clusters={"prod-by-another-name": delegate.clusters["in-cluster"]})

    assert await elsewhere.acquire(4) == []
    assert [task.task_id for task in await beside.acquire(4)] == [task_id]


async def test_first_in_first_out(operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """Tasks of one priority are handed out in the order in which they came."""
    submitted = []
    for number in range(4):
        submitted.append(await operator.submit(application=f"app-{number}"))
        clock.advance(0.5)

    assert [task.task_id for task in await delegate.acquire(10)] == submitted


async def test_priority_goes_first(operator: Operator, delegate: FakeDelegate) -> None:
    """The higher priority is handed out before the lower, whichever came first."""
    low = await operator.submit(application="low", priority=-1)
    middle = await operator.submit(application="middle")
    high = await operator.submit(application="high", priority=5)

    assert [task.task_id for task in await delegate.acquire(10)] == [high, middle, low]


async def test_waiting_long_makes_up_for_priority(operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """One step of priority outweighs a minute of waiting, so that nobody starves."""
    patient = await operator.submit(application="patient")
    clock.advance(61)
    urgent = await operator.submit(application="urgent", priority=1)

    assert [task.task_id for task in await delegate.acquire(10)] == [patient, urgent]


async def test_one_running_task_for_an_application_and_cluster(operator: Operator, delegate: FakeDelegate) -> None:
    """The next task of the application waits for the end of the one before."""
    first = await operator.submit(application="checkout")
    second = await operator.submit(application="checkout")

    (running,) = await delegate.acquire(10)
    assert running.task_id == first
    assert await delegate.acquire(10) == []
    assert await delegate.finish(running) == "accepted"
    assert [task.task_id for task in await delegate.acquire(10)] == [second]


async def test_an_application_runs_in_two_clusters_at_once(operator: Operator, other: Start) -> None:
    """The lock is of the application in one cluster."""
    both = await other("both", clusters={"one": "uid-1", "two": "uid-2"})
    await operator.submit(application="checkout", destination={"name": "one"})
    await operator.submit(application="checkout", destination={"name": "two"})

    assert {task.cluster_uid for task in await both.acquire(10)} == {"uid-1", "uid-2"}


async def test_a_crowd_of_one_application_does_not_hold_up_the_others(operator: Operator, delegate: FakeDelegate) -> None:
    """Only the first task of an application stands in the way of others."""
    for _ in range(30):
        await operator.submit(application="busy")
    last = await operator.submit(application="quiet")

    assert last in [task.task_id for task in await delegate.acquire(2)]


async def test_only_one_poll_gets_a_task(manager: Manager, operator: Operator, other: Start) -> None:
    """Many wait, one task comes: one of them gets it, the others go on waiting."""
    crowd = [await other(f"d-{number}") for number in range(5)]
    async with asyncio.TaskGroup() as group:
        polls = [group.create_task(each.acquire(4, wait_seconds=0.5)) for each in crowd]
        await eventually(lambda: manager.open_polls == 5)
        task_id = await operator.submit()

    assert [task.task_id for poll in polls for task in poll.result()] == [task_id]


async def test_a_task_for_a_poll_that_went_away_goes_to_another(
    manager: Manager, operator: Operator, delegate: FakeDelegate, other: Start
) -> None:
    """A poll that was cut leaves nothing behind that keeps tasks from others."""
    second = await other("d-2")
    async with asyncio.TaskGroup() as group:
        cut = group.create_task(delegate.acquire(16, wait_seconds=5.0))
        poll = group.create_task(second.acquire(1, wait_seconds=5.0))
        await eventually(lambda: manager.open_polls == 2)
        cut.cancel()
        await eventually(lambda: manager.open_polls == 1)
        task_id = await operator.submit()

    assert [task.task_id for task in poll.result()] == [task_id]


async def test_a_draining_delegate_gets_nothing(operator: Operator, delegate: FakeDelegate) -> None:
    """What a delegate said in its heartbeat counts before what it asks for."""
    await operator.submit()
    await delegate.beat(draining=True)

    assert await delegate.acquire(4) == []


async def test_the_fence_grows_with_each_hand_out(operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """Whatever ended the hand-out before, the next one has a higher fence; only those that began are counted."""
    await operator.submit()
    (first,) = await delegate.acquire(1)
    await delegate.release(first)
    (second,) = await delegate.acquire(1)
    await delegate.finish(second, "interrupted")
    (third,) = await delegate.acquire(1)

    assert [task.fence for task in (first, second, third)] == [1, 2, 3]
    assert [task.attempt_number for task in (first, second, third)] == [1, 1, 2]
