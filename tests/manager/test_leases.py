"""Leases: who has the authority, how it is lost, and how it comes back."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import msgspec
import pytest

from delegate.manager.service import Manager
from tests.manager.clocks import FakeClock
from tests.manager.conftest import RHYTHM
from tests.manager.delegates import Caller, FakeDelegate
from tests.manager.operators import Operator, sync_document

Start = Callable[..., Awaitable[FakeDelegate]]
Swept = Callable[[], Awaitable[None]]


async def test_heartbeats_keep_the_lease(operator: Operator, delegate: FakeDelegate, clock: FakeClock, swept: Swept) -> None:
    """An attempt that is named in time stays its delegate's for longer than a lease."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    for _ in range(6):
        clock.advance(40)
        assert await delegate.verdict(task) == "ok"
        await swept()

    assert (await operator.task(task_id))["state"] == "running"
    assert await delegate.finish(task) == "accepted"


async def test_a_silent_delegate_loses_its_task_to_another(
    operator: Operator, delegate: FakeDelegate, other: Start, clock: FakeClock, swept: Swept
) -> None:
    """After the lease and the wait another delegate gets the task; what the first one sends later is refused."""
    task_id = await operator.submit()
    (lost,) = await delegate.acquire()
    clock.advance(46)
    await swept()
    second = await other("d-2")
    assert await second.acquire() == []  # it backs off first
    clock.advance(1.1)
    (taken,) = await second.acquire()

    assert (taken.task_id, taken.fence, taken.attempt_number) == (task_id, 2, 2)
    assert await delegate.verdict(lost) == "lost"
    assert await second.finish(taken, "succeeded", "by the second") == "accepted"
    assert await delegate.finish(lost, "failed", "by the first") == "lease_lost"
    shown = await operator.show(task_id)
    assert shown["result"]["message"] == "by the second"
    assert [attempt["state"] for attempt in shown["attempts"]] == ["finished", "expired"]


async def test_the_refusal_of_a_late_result_names_the_attempt(
    operator: Operator, delegate: FakeDelegate, other: Start, clock: FakeClock, swept: Swept
) -> None:
    """Who comes too late learns which attempt lost its lease, and to which."""
    from tests.manager.delegates import make_result

    await operator.submit()
    (lost,) = await delegate.acquire()
    clock.advance(50)
    await swept()
    clock.advance(2)
    await (await other("d-2")).acquire()

    (decision,) = await delegate.report(make_result(lost))

    assert decision.message == "attempt 1 lost its lease; the task was handed out again with fence 2"


async def test_a_delegate_that_comes_back_before_another_took_over_goes_on(
    operator: Operator, delegate: FakeDelegate, clock: FakeClock, swept: Swept
) -> None:
    """Authority moves with the next hand-out, not with the clock: a partition without a stand-in costs no attempt."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    clock.advance(50)
    await swept()
    assert (await operator.task(task_id))["state"] == "queued"

    assert await delegate.verdict(task) == "ok"

    shown = await operator.task(task_id)
    assert (shown["state"], shown["requeues"], shown["attempts"]) == ("running", 0, 1)
    assert await delegate.finish(task) == "accepted"


async def test_a_result_is_taken_from_a_delegate_that_was_away_and_not_replaced(
    operator: Operator, delegate: FakeDelegate, clock: FakeClock, swept: Swept
) -> None:
    """The work was done and nobody else began it: it counts."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    clock.advance(50)
    await swept()

    assert await delegate.finish(task) == "accepted"
    assert (await operator.task(task_id))["outcome"] == "succeeded"
    clock.advance(10)
    assert await delegate.acquire() == []


async def test_an_attempt_does_not_come_back_when_its_application_is_taken(
    operator: Operator, delegate: FakeDelegate, other: Start, clock: FakeClock, swept: Swept
) -> None:
    """While it was away, a more urgent task of the same application began."""
    await operator.submit(application="checkout")
    (task,) = await delegate.acquire()
    clock.advance(50)
    await swept()
    urgent = await operator.submit(application="checkout", priority=10)
    second = await other("d-2")
    (taken,) = await second.acquire()

    assert taken.task_id == urgent
    assert await delegate.verdict(task) == "lost"
    assert await delegate.finish(task) == "lease_lost"


async def test_waits_between_attempts_grow_and_end(operator: Operator, delegate: FakeDelegate, clock: FakeClock, swept: Swept) -> None:
    """A task whose delegates are lost again and again is given up, with the reason."""
    task_id = await operator.submit(timeout="24h")
    for wait in (1, 2, 4, 8, 16):
        (task,) = await delegate.acquire()
        clock.advance(46)
        await swept()
        assert await delegate.acquire() == []
        clock.advance(wait - 0.1)
        assert await delegate.acquire() == []
        clock.advance(0.2)
    (task,) = await delegate.acquire()
    clock.advance(46)
    await swept()

    shown = await operator.task(task_id)
    assert (shown["state"], shown["outcome"]) == ("finished", "failed")
    told = "quarantined: given up after 6 attempts that lost their delegate; the last one: delegate d-1 was not heard of"
    assert shown["message"].startswith(told)
    assert shown["quarantined"]
    assert await delegate.verdict(task) == "lost"


async def test_a_batch_that_never_arrived_is_handed_out_again_uncounted(
    operator: Operator, delegate: FakeDelegate, clock: FakeClock
) -> None:
    """Two heartbeats that don't know of an attempt, a heartbeat's interval after the hand-out, show that the answer was lost."""
    task_id = await operator.submit()
    (lost,) = await delegate.acquire()
    await delegate.beat()
    await delegate.beat()
    assert (await operator.task(task_id))["state"] == "running"  # too early to tell
    clock.advance(10.5)
    await delegate.beat()

    shown = await operator.task(task_id)
    assert (shown["state"], shown["attempts"], shown["requeues"]) == ("queued", 0, 0)
    (again,) = await delegate.acquire()
    assert (again.task_id, again.fence, again.attempt_number) == (lost.task_id, 2, 1)


async def test_an_attempt_that_was_confirmed_is_not_missed(operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """Once a delegate has named an attempt, only the lease decides."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    await delegate.beat(task)
    for _ in range(3):
        clock.advance(11)
        await delegate.beat()

    assert (await operator.task(task_id))["state"] == "running"


async def test_running_attempts_in_a_poll_confirm_them(operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """What the next poll names as running was received."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    await delegate.acquire(running=[task.attempt_id])
    clock.advance(11)
    for _ in range(3):
        await delegate.beat()

    assert (await operator.task(task_id))["state"] == "running"


async def test_a_stalled_delegate_renews_nothing(operator: Operator, delegate: FakeDelegate, clock: FakeClock, swept: Swept) -> None:
    """A heartbeat whose main loop is stuck doesn't vouch for the attempts."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    for _ in range(5):
        clock.advance(10)
        await delegate.beat(task, stalled=True)
    await swept()

    assert (await operator.task(task_id))["state"] == "queued"


async def test_giving_back_counts_nothing(operator: Operator, delegate: FakeDelegate, other: Start) -> None:
    """A released task is handed out again at once, as if it had never been."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()

    assert await delegate.release(task, "draining") == "accepted"
    assert await delegate.release(task, "draining") == "accepted"
    shown = await operator.task(task_id)
    assert (shown["state"], shown["attempts"], shown["requeues"], shown["startedAt"]) == ("queued", 0, 0, "")
    (again,) = await (await other("d-2")).acquire()
    assert again.task_id == task_id
    assert await delegate.release(task, "draining") == "accepted"
    assert await delegate.verdict(task) == "lost"


async def test_a_task_that_cannot_be_read_waits_for_another_delegate(
    operator: Operator, delegate: FakeDelegate, other: Start, clock: FakeClock
) -> None:
    """A release for being unsupported waits a moment, so that the same delegate does not get it at once again."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    await delegate.release(task, "unsupported", "no such kind here")

    assert await delegate.acquire() == []
    assert "no such kind here" in await operator.why(task_id)
    clock.advance(1.1)
    assert [each.task_id for each in await (await other("d-2")).acquire()] == [task_id]


async def test_an_interrupted_attempt_is_continued_by_another(
    operator: Operator, delegate: FakeDelegate, other: Start, clock: FakeClock
) -> None:
    """A delegate that had to stop hands its task on: at once, and without counting it as lost."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()

    assert await delegate.finish(task, "interrupted", "drained") == "accepted"
    assert await delegate.finish(task, "interrupted", "drained") == "duplicate"
    (again,) = await (await other("d-2")).acquire()
    assert (again.task_id, again.attempt_number, again.fence) == (task_id, 2, 2)
    shown = await operator.show(task_id)
    assert shown["task"]["requeues"] == 0
    assert shown["attempts"][1]["outcome"] == "interrupted"


async def test_the_timeout_counts_from_the_first_attempt(
    operator: Operator, delegate: FakeDelegate, clock: FakeClock, swept: Swept
) -> None:
    """Further attempts get what is left; a hand-out that never began starts no clock."""
    await operator.submit(timeout="2m")
    clock.advance(600)
    await delegate.beat()
    (released,) = await delegate.acquire()
    clock.advance(30)
    await delegate.release(released)
    (first,) = await delegate.acquire()
    assert first.deadline_seconds == pytest.approx(120)
    clock.advance(46)
    await swept()
    clock.advance(2)

    (second,) = await delegate.acquire()
    assert second.deadline_seconds == pytest.approx(72)


async def test_a_task_out_of_time_is_told_so_and_its_result_counts(
    operator: Operator, delegate: FakeDelegate, clock: FakeClock, swept: Swept
) -> None:
    """The delegate gets the verdict `deadline` by command and heartbeat, and says itself how it ended."""
    task_id = await operator.submit(timeout="30s")
    (task,) = await delegate.acquire()
    clock.advance(31)
    await swept()

    (command,) = (await delegate.commands()).commands
    assert (command.kind, command.data["verdict"], command.data["attemptId"]) == ("cancel", "deadline", task.attempt_id)
    assert await delegate.verdict(task) == "deadline"
    assert await delegate.finish(task, "timed_out", "stopped in time") == "accepted"
    shown = await operator.task(task_id)
    assert (shown["outcome"], shown["message"]) == ("timed_out", "stopped in time")


async def test_a_task_out_of_time_ends_without_its_delegate(
    operator: Operator, delegate: FakeDelegate, clock: FakeClock, swept: Swept
) -> None:
    """A delegate that keeps its lease but doesn't answer the verdict doesn't hold the application for ever."""
    task_id = await operator.submit(timeout="30s")
    (task,) = await delegate.acquire()
    clock.advance(31)
    await swept()
    for _ in range(3):
        clock.advance(21)
        await delegate.beat(task)
    await swept()

    shown = await operator.task(task_id)
    assert (shown["state"], shown["outcome"]) == ("finished", "timed_out")
    assert await delegate.verdict(task) == "lost"
    assert await delegate.finish(task, "succeeded") == "lease_lost"


async def test_a_task_that_runs_out_of_time_in_the_queue_ends(
    operator: Operator, delegate: FakeDelegate, clock: FakeClock, swept: Swept
) -> None:
    """The time of a task goes on while it waits for its second attempt."""
    task_id = await operator.submit(timeout="1m")
    await delegate.acquire()
    clock.advance(46)
    await swept()
    clock.advance(20)
    await swept()

    shown = await operator.task(task_id)
    assert (shown["state"], shown["outcome"]) == ("finished", "timed_out")
    assert await delegate.acquire() == []


def canary_document() -> dict[str, object]:
    spec = {"workload": {"kind": "Deployment", "name": "web"}, "images": {"main": "web:2"}, "steps": [{"setWeight": 20}]}
    return sync_document(timeout="1m") | {"kind": "canary", "spec": spec}


async def test_a_canary_out_of_time_in_the_queue_is_handed_out_to_be_taken_back(
    operator: Operator, delegate: FakeDelegate, other: Start, clock: FakeClock, swept: Swept
) -> None:
    """Its delegate died: what it has left in the cluster is nobody's else. Without any time left, and told so (case 12)."""
    task_id = await operator.submit(canary_document())
    (lost,) = await delegate.acquire()
    clock.advance(7200)
    await swept()
    await swept()
    second = await other("d-2")
    clock.advance(2)

    (taken,) = await second.acquire()
    await swept()
    (command,) = (await second.commands()).commands

    assert (taken.task_id, taken.fence, taken.deadline_seconds) == (task_id, lost.fence + 1, 0.0)
    assert (command.kind, command.data["verdict"]) == ("cancel", "deadline")
    assert await second.finish(taken, "timed_out", "taken back") == "accepted"
    shown = await operator.task(task_id)
    assert (shown["outcome"], shown["message"]) == ("timed_out", "taken back")


async def test_a_canary_that_is_lost_while_it_is_taken_back_goes_on_being_taken_back(
    operator: Operator, delegate: FakeDelegate, other: Start, clock: FakeClock, swept: Swept
) -> None:
    """It was told that its time is over, and died before it was done."""
    task_id = await operator.submit(canary_document())
    await delegate.acquire()
    clock.advance(40)
    await delegate.beat()
    clock.advance(25)
    await swept()
    clock.advance(60)
    await swept()
    second = await other("d-2")
    clock.advance(2)

    (taken,) = await second.acquire()

    assert (taken.task_id, taken.deadline_seconds) == (task_id, 0.0)
    assert await second.finish(taken, "timed_out", "taken back") == "accepted"


async def test_a_canary_that_nobody_takes_back_ends_when_its_result_would_no_longer_count(
    operator: Operator, delegate: FakeDelegate, clock: FakeClock, swept: Swept
) -> None:
    """It does not wait for ever."""
    task_id = await operator.submit(canary_document())
    await delegate.acquire()
    for _ in range(3):
        clock.advance(43_200)
        await swept()

    shown = await operator.task(task_id)
    assert (shown["state"], shown["outcome"]) == ("finished", "timed_out")


async def test_the_result_of_a_canary_that_takes_itself_back_is_waited_for(
    operator: Operator, delegate: FakeDelegate, clock: FakeClock, swept: Swept
) -> None:
    """A drain and an old version that becomes ready take longer than an answer."""
    task_id = await operator.submit(canary_document())
    (task,) = await delegate.acquire()
    for _ in range(10):
        clock.advance(30)
        await delegate.beat(task)
        await swept()

    assert (await operator.task(task_id))["state"] == "running"
    assert await delegate.finish(task, "timed_out", "taken back") == "accepted"


@pytest.fixture
async def restarted(
    tmp_path: Path, database_url: str, clock: FakeClock, http: aiohttp.ClientSession
) -> AsyncIterator[Callable[[float], Awaitable[Manager]]]:
    """Starts the manager anew on the same state, with this grace; five minutes pass while it is away."""
    running: list[Manager] = []

    async def start(grace_seconds: float) -> Manager:
        while running:
            await running.pop().__aexit__(None, None, None)
            clock.advance(300)
        rhythm = msgspec.structs.replace(RHYTHM, grace_seconds=grace_seconds)
        manager = Manager(state_dir=tmp_path / "state", database_url=database_url, rhythm=rhythm, clock=clock)
        running.append(await manager.__aenter__())
        return manager

    yield start
    while running:
        await running.pop().__aexit__(None, None, None)


async def test_no_lease_ends_in_the_grace_after_a_restart(
    restarted: Callable[[float], Awaitable[Manager]], http: aiohttp.ClientSession, clock: FakeClock
) -> None:
    """Delegates that could not reach a manager that was down keep their attempts when it comes back."""
    manager = await restarted(0.0)
    operator = Operator(http, manager.url, manager.admin_token)
    delegate = await FakeDelegate(Caller(http, manager.url)).start(await operator.create_token())
    task_id = await operator.submit()
    (task,) = await delegate.acquire()

    manager = await restarted(3600.0)
    operator.url = delegate.caller.url = manager.url
    await manager.sweep()
    assert (await operator.task(task_id))["state"] == "running"
    assert await delegate.verdict(task) == "ok"
    assert await delegate.finish(task) == "accepted"


async def test_leases_end_after_the_grace(
    restarted: Callable[[float], Awaitable[Manager]], http: aiohttp.ClientSession, clock: FakeClock
) -> None:
    """The grace is no amnesty: who stays away loses the attempt afterwards."""
    manager = await restarted(0.0)
    operator = Operator(http, manager.url, manager.admin_token)
    delegate = await FakeDelegate(Caller(http, manager.url)).start(await operator.create_token())
    task_id = await operator.submit()
    await delegate.acquire()

    manager = await restarted(0.05)
    operator.url = manager.url
    await asyncio.sleep(0.06)  # the grace is of real time
    await manager.sweep()
    assert (await operator.task(task_id))["state"] == "queued"
