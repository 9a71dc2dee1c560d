"""How tasks are handed out: to whom, how many, in which order, and once."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.manager.delegates import FakeDelegate
from tests.manager.operators import Operator

Start = Callable[..., Awaitable[FakeDelegate]]


async def test_an_open_poll_gets_a_new_task_at_once(operator: Operator, delegate: FakeDelegate) -> None:
    """A poll that waits is answered when a task is submitted."""
    async with asyncio.TaskGroup() as group:
        poll = group.create_task(delegate.acquire(4, wait_seconds=5.0))
        await asyncio.sleep(0.05)
        task_id = await operator.submit(application="checkout")
    (task,) = poll.result()

    assert (task.task_id, task.attempt_number, task.fence, task.application) == (task_id, 1, 1, "checkout")
    assert task.lease_seconds == 45.0
    assert task.deadline_seconds == 900.0
    assert task.document["spec"] == {"source": {"repoURL": "https://git.example/config.git"}}
    assert (await operator.task(task_id))["state"] == "running"
