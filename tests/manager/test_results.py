"""Results: one for each attempt, from the attempt that has the authority, whatever is sent how often."""

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from tests.manager.clocks import FakeClock
from tests.manager.delegates import FakeDelegate, make_result
from tests.manager.operators import Operator

Start = Callable[..., Awaitable[FakeDelegate]]


async def test_a_result_ends_its_task(operator: Operator, delegate: FakeDelegate) -> None:
    """The outcome and the result document are the task's."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()

    (decision,) = await delegate.report(make_result(task, "failed", "it broke", summary={"failed": 1}))

    assert (decision.attempt_id, decision.verdict) == (task.attempt_id, "accepted")
    shown = await operator.show(task_id)
    assert (shown["task"]["state"], shown["task"]["outcome"], shown["task"]["message"]) == ("finished", "failed", "it broke")
    assert shown["result"]["summary"] == {"failed": 1}


async def test_a_result_sent_again_is_a_duplicate(operator: Operator, delegate: FakeDelegate) -> None:
    """The answer was lost, the result comes again: it is known, and nothing changes."""
    await operator.submit()
    (task,) = await delegate.acquire()

    assert [await delegate.finish(task) for _ in range(3)] == ["accepted", "duplicate", "duplicate"]


async def test_another_result_of_the_same_attempt_is_a_conflict(operator: Operator, delegate: FakeDelegate) -> None:
    """The first one stays."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()
    await delegate.finish(task, "succeeded")

    assert await delegate.finish(task, "failed") == "conflict"
    assert (await operator.task(task_id))["outcome"] == "succeeded"


async def test_the_same_result_twice_in_one_array(operator: Operator, delegate: FakeDelegate) -> None:
    """Each place of the array gets its own verdict."""
    await operator.submit()
    (task,) = await delegate.acquire()

    decisions = await delegate.report(make_result(task), make_result(task), make_result(task, "failed"))

    assert [decision.verdict for decision in decisions] == ["accepted", "duplicate", "conflict"]


async def test_one_bad_result_spoils_no_other(operator: Operator, delegate: FakeDelegate) -> None:
    """Results of one array are judged one by one."""
    for number in range(3):
        await operator.submit(application=f"app-{number}")
    first, second, third = await delegate.acquire(3)
    bad = msgspec.structs.replace(make_result(second), digest="0" * 64)

    decisions = await delegate.report(make_result(first), bad, make_result(third))

    assert [(decision.attempt_id, decision.verdict) for decision in decisions] == [
        (first.attempt_id, "accepted"),
        (second.attempt_id, "invalid"),
        (third.attempt_id, "accepted"),
    ]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"attempt_token": "dgx_no"}, "the attempt token does not fit"),
        ({"fence": 7}, "there is no such attempt"),
        ({"task_id": "another"}, "there is no such attempt"),
        ({"attempt_id": "unknown-1"}, "there is no such attempt"),
        ({"digest": "f" * 64}, "the digest is not that of the result"),
    ],
)
async def test_what_does_not_belong_together_is_invalid(
    operator: Operator, delegate: FakeDelegate, change: dict[str, object], words: str
) -> None:
    """A result is authorized by its attempt token, for its attempt and fence alone."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()

    (decision,) = await delegate.report(msgspec.structs.replace(make_result(task), **change))

    assert (decision.verdict, decision.message) == ("invalid", words)
    assert (await operator.task(task_id))["state"] == "running"


async def test_a_result_without_an_outcome_is_invalid(operator: Operator, delegate: FakeDelegate) -> None:
    """What says nothing about how the task ended is no result."""
    await operator.submit()
    (task,) = await delegate.acquire()

    (decision,) = await delegate.report(make_result(task, outcome=None))  # type: ignore[arg-type]

    assert decision.verdict == "invalid"


async def test_an_outcome_of_a_newer_version_counts_as_failed(operator: Operator, delegate: FakeDelegate) -> None:
    """An unknown word is no success; the document keeps it."""
    task_id = await operator.submit()
    (task,) = await delegate.acquire()

    assert await delegate.finish(task, "partially_succeeded") == "accepted"
    shown = await operator.show(task_id)
    assert (shown["task"]["outcome"], shown["result"]["outcome"]) == ("failed", "partially_succeeded")


async def test_a_result_is_accepted_after_the_session_has_ended(operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """Attempt tokens live as long as the task may run and a day longer; the session's token is not needed."""
    task_id = await operator.submit(timeout="2h")
    (task,) = await delegate.acquire()
    clock.advance(3600)
    delegate.token = "dgs_gone"

    assert await delegate.finish(task) == "accepted"
    assert (await operator.task(task_id))["outcome"] == "succeeded"


async def test_a_result_comes_too_late_a_day_after_the_deadline(operator: Operator, delegate: FakeDelegate, clock: FakeClock) -> None:
    """Then the attempt token has expired."""
    await operator.submit(timeout="1m")
    (task,) = await delegate.acquire()
    clock.advance(60 + 86400 + 1)

    assert await delegate.finish(task) == "lease_lost"


async def test_many_results_in_one_call(operator: Operator, delegate: FakeDelegate) -> None:
    """An array is settled in one go, and the next tasks of the applications are free at once."""
    for number in range(40):
        await operator.submit(application=f"app-{number % 20}")
    first = await delegate.acquire(100)
    decisions = await delegate.report(*(make_result(task) for task in first))
    second = await delegate.acquire(100)

    assert {decision.verdict for decision in decisions} == {"accepted"}
    assert (len(first), len(second)) == (20, 20)
