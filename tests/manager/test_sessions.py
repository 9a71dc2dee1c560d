"""Sessions: which process of a delegate may work, and what becomes of what the one before it held."""

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
import pytest

from delegate.manager.service import Manager
from delegate.protocol.enrolment import AttemptReport
from tests.manager.clocks import FakeClock
from tests.manager.delegates import Caller, FakeDelegate, RefusedCallError
from tests.manager.operators import Operator
from tests.manager.waiting import eventually

Start = Callable[..., Awaitable[FakeDelegate]]


async def test_enrolling_again_is_the_same_delegate(operator: Operator, delegate: FakeDelegate, token: str) -> None:
    """A delegate is told by its instance."""
    before = delegate.delegate_id

    await delegate.enrol(token)

    assert delegate.delegate_id == before
    assert len((await operator.call("GET", "/api/v1/delegates"))["items"]) == 1


async def test_equal_names_coexist(operator: Operator, delegate: FakeDelegate, other: Start) -> None:
    """A deployment has several replicas of one name."""
    twin = await other(delegate.name)

    assert twin.delegate_id != delegate.delegate_id
    assert await twin.acquire() == await delegate.acquire() == []


async def test_a_session_said_again_is_the_same(delegate: FakeDelegate) -> None:
    """The answer was lost: the same process gets the same epoch."""
    assert (await delegate.open()).epoch == (await delegate.open()).epoch == 1


async def test_a_newer_process_supersedes_the_older_one(
    manager: Manager, http: aiohttp.ClientSession, delegate: FakeDelegate, token: str
) -> None:
    """Calls with the old epoch are refused, and its open polls end at once."""
    clone = FakeDelegate(Caller(http, manager.url), instance=delegate.instance)
    async with asyncio.TaskGroup() as group:
        poll = group.create_task(_refusal(delegate.acquire(1, wait_seconds=5.0)))
        commands = group.create_task(_refusal(delegate.commands(wait_seconds=5.0)))
        await eventually(lambda: manager.open_polls == 1 and manager.open_command_polls == 1)
        await clone.start(token)

    assert (poll.result(), commands.result()) == ("session_superseded", "session_superseded")
    assert clone.epoch == 2
    assert await _refusal(delegate.beat()) == "session_superseded"
    assert await clone.acquire() == []


async def _refusal(call: Awaitable[object]) -> str:
    """The code that a call is refused with."""
    try:
        await call
    except RefusedCallError as error:
        return error.problem.code
    return "accepted"


async def test_without_a_session_nothing_is_handed_out(manager: Manager, http: aiohttp.ClientSession, token: str) -> None:
    """An enrolled delegate opens a session first."""
    fresh = FakeDelegate(Caller(http, manager.url))
    await fresh.enrol(token)
    fresh.epoch = 1

    assert await _refusal(fresh.acquire()) == "session_unknown"


async def test_after_a_restart_attempts_are_settled_at_once(operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """What the journal knows counts: finished is sent, lost is handed out again, unheard of was never begun."""
    ids = [await operator.submit(application=f"app-{number}") for number in range(3)]
    finished, lost, unheard = await delegate.acquire(3)
    await delegate.beat(finished, lost)

    answer = await delegate.open(
        [
            AttemptReport(attempt_id=finished.attempt_id, task_id=finished.task_id, fence=finished.fence, state="finished"),
            AttemptReport(attempt_id=lost.attempt_id, task_id=lost.task_id, fence=lost.fence, state="lost"),
        ],
        restarted=True,
    )

    assert answer.epoch == 2
    assert {decision.attempt_id: decision.verdict for decision in answer.attempts} == {
        finished.attempt_id: "send",
        lost.attempt_id: "drop",
    }
    shown = [await operator.task(task_id) for task_id in ids]
    assert [each["state"] for each in shown] == ["running", "queued", "queued"]
    assert [each["requeues"] for each in shown] == [0, 1, 0]
    assert await delegate.finish(finished) == "accepted"
    assert [task.task_id for task in await delegate.acquire(3)] == [unheard.task_id]
    clock.advance(1.1)
    assert [task.task_id for task in await delegate.acquire(3)] == [lost.task_id]
    assert await delegate.finish(lost) == "lease_lost"


async def test_a_process_that_reconnects_keeps_what_it_runs(operator: Operator, delegate: FakeDelegate) -> None:
    """The same process opens its session again and goes on."""
    await operator.submit()
    (task,) = await delegate.acquire()

    answer = await delegate.open([AttemptReport(attempt_id=task.attempt_id, task_id=task.task_id, fence=task.fence)])

    assert [decision.verdict for decision in answer.attempts] == ["keep"]
    assert await delegate.finish(task) == "accepted"


async def test_what_is_another_delegates_now_is_dropped(
    operator: Operator, delegate: FakeDelegate, other: Start, clock: FakeClock, swept: Callable[[], Awaitable[None]]
) -> None:
    """A process that was cut off for too long learns at its session that it has to stop."""
    await operator.submit()
    (task,) = await delegate.acquire()
    clock.advance(46)
    await swept()
    clock.advance(2)
    await (await other("d-2")).acquire()

    answer = await delegate.open([AttemptReport(attempt_id=task.attempt_id, task_id=task.task_id, fence=task.fence)])

    assert [decision.verdict for decision in answer.attempts] == ["drop"]


async def test_unknown_attempts_are_dropped_item_by_item(operator: Operator, delegate: FakeDelegate) -> None:
    """One report of something strange spoils no other."""
    await operator.submit()
    (task,) = await delegate.acquire()
    answer = await delegate.open(
        [
            AttemptReport(attempt_id="strange-1", state="finished"),
            AttemptReport(attempt_id=task.attempt_id, fence=task.fence, state="a word of a newer version"),
        ]
    )

    assert [decision.verdict for decision in answer.attempts] == ["drop", "keep"]


async def test_bye_shows_the_delegate_as_gone(operator: Operator, delegate: FakeDelegate) -> None:
    """At once, not after the heartbeats have failed to come."""
    await delegate.bye("drained")

    (shown,) = (await operator.call("GET", "/api/v1/delegates"))["items"]
    assert (shown["health"], shown["connection"], shown["reasons"]) == ("Unhealthy", "Disconnected", ["it left: drained"])
    assert await _refusal(delegate.acquire()) == "session_unknown"
    assert (await delegate.open(restarted=True)).epoch == 2


async def test_delegates_are_shown_with_their_health(operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """Healthy and Connected while heartbeats come; with reasons where not."""
    await operator.submit()
    (task,) = await delegate.acquire()
    await delegate.beat(task)
    (shown,) = (await operator.call("GET", "/api/v1/delegates"))["items"]
    assert (shown["health"], shown["connection"], shown["running"], shown["capacity"]) == ("Healthy", "Connected", 1, 16)
    assert shown["clusters"] == delegate.clusters

    await delegate.beat(task, stalled=True)
    (shown,) = (await operator.call("GET", "/api/v1/delegates"))["items"]
    assert (shown["health"], shown["connection"]) == ("Unhealthy", "Connected")
    clock.advance(31)
    shown = await operator.call("GET", f"/api/v1/delegates/{delegate.delegate_id}")
    assert (shown["connection"], shown["reasons"]) == ("Disconnected", ["nothing was heard of it for 31 s"])


async def test_two_processes_that_take_an_identity_from_each_other_are_shown(
    manager: Manager, http: aiohttp.ClientSession, operator: Operator, delegate: FakeDelegate, token: str
) -> None:
    """A volume that was cloned is a mistake that somebody has to see."""
    clone = await FakeDelegate(Caller(http, manager.url), instance=delegate.instance).start(token)
    for _ in range(4):
        delegate.token = clone.token
        await delegate.open()
        await clone.open()

    (shown,) = (await operator.call("GET", "/api/v1/delegates"))["items"]
    assert shown["duplicateIdentity"] is True
    assert "two processes take its identity from each other" in shown["reasons"]


async def test_a_version_without_anything_in_common_is_outdated(delegate: FakeDelegate, token: str) -> None:
    """426, and who has to be brought up to date."""
    from delegate.protocol import routes
    from delegate.protocol.enrolment import EnrolAnswer, EnrolRequest
    from delegate.protocol.versions import ProtocolRange

    request = EnrolRequest(request_id="r", name="old", instance="old", protocol=ProtocolRange(7, 9))
    with pytest.raises(RefusedCallError) as refused:
        await delegate.caller.post(routes.ENROL, request, EnrolAnswer, token)

    assert (refused.value.problem.status, refused.value.problem.code) == (426, "outdated")
    assert refused.value.problem.hint == "bring the manager up to date"
