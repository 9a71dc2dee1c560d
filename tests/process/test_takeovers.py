"""Delegates come and go under load, as in a rolling update or the drain of a node: nothing is lost, nothing is done by halves."""

import asyncio
import contextlib
import itertools
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.daemon.harness import Operator, running_manager
from tests.daemon.waiting import eventually
from tests.process.harness import Child, child_delegate, effects
from tests.process.test_crashes import check_one_ending


@asynccontextmanager
async def load(operator: Operator) -> AsyncIterator[list[str]]:
    """Short tasks all the time, for as long as the block runs."""
    submitted: list[str] = []

    async def submit() -> None:
        for number in itertools.count():
            submitted.append(await operator.submit(f"sleep-0.{number % 3}", environment=f"e{number % 7}"))
            await asyncio.sleep(0.05)

    submitting = asyncio.create_task(submit())
    try:
        yield submitted
    finally:
        submitting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await submitting


async def drained(child: Child) -> int:
    child.signal(signal.SIGTERM)
    return await child.ended()


async def test_a_rolling_update_under_load_loses_nothing(tmp_path: Path) -> None:
    """Each delegate is drained and replaced by a new one, one after the other: every task succeeds in its first attempt that began."""
    async with AsyncExitStack() as exits:
        operator = await exits.enter_async_context(running_manager(tmp_path))
        token = await operator.token()

        async def start(name: str) -> Child:
            return await exits.enter_async_context(child_delegate(tmp_path, operator.manager.url, token, name=name))

        first, second = await start("first"), await start("second")
        async with load(operator) as submitted:
            await eventually(lambda: len(effects(tmp_path, "ended")) > 5)
            assert await drained(first) == 0
            third = await start("third")
            assert await drained(second) == 0
            fourth = await start("fourth")
            before = len(effects(tmp_path, "ended"))
            await eventually(lambda: len(effects(tmp_path, "ended")) > before + 5)
        for task in submitted:
            shown = await operator.finished(task, within=40.0)
            check_one_ending(shown)
            assert [attempt["state"] for attempt in shown["attempts"] if attempt["state"] != "released"] == ["finished"]
        assert await drained(third) == await drained(fourth) == 0


async def test_a_node_that_is_drained_hands_its_long_tasks_on(tmp_path: Path) -> None:
    """Both delegates of a node stop at once, with little time; the next one does all of it, what had begun and what had not."""
    async with running_manager(tmp_path) as operator:
        token = await operator.token()
        async with (
            child_delegate(tmp_path, operator.manager.url, token, DELEGATE_DRAIN_TIMEOUT="1s", DELEGATE_TASK_CAPACITY="3") as first,
            child_delegate(
                tmp_path, operator.manager.url, token, name="second", DELEGATE_DRAIN_TIMEOUT="1s", DELEGATE_TASK_CAPACITY="3"
            ) as second,
        ):
            tasks = [await operator.submit(f"sleep-2.{number}") for number in range(8)]
            await eventually(lambda: len(effects(tmp_path, "began")) == 6)
            assert list(await asyncio.gather(drained(first), drained(second))) == [3, 3]
        async with child_delegate(tmp_path, operator.manager.url, token, name="third"):
            for task in tasks:
                shown = await operator.finished(task, within=40.0)
                assert (shown["task"]["outcome"], shown["result"]["attempt"]) == ("succeeded", shown["attempts"][-1]["id"])
                assert {attempt["state"] for attempt in shown["attempts"]} <= {"finished", "released"}


async def test_a_killed_delegates_task_runs_again_when_its_lease_is_over(tmp_path: Path) -> None:
    """The other delegate, which was there all the time, has it as soon as the manager has given the first one up."""
    async with running_manager(tmp_path) as operator:
        token = await operator.token()
        async with (
            child_delegate(tmp_path, operator.manager.url, token) as first,
            child_delegate(tmp_path, operator.manager.url, token, name="second") as second,
        ):
            task = await operator.submit("sleep-2")
            await eventually(lambda: effects(tmp_path, "began"))
            [began] = effects(tmp_path, "began")
            busy = first if began.split()[2] == str(first.process.pid) else second

            busy.signal(signal.SIGKILL)
            await busy.ended()

            shown = await operator.finished(task)
            check_one_ending(shown)
            assert [attempt["delegateId"] for attempt in shown["attempts"]].count(shown["attempts"][0]["delegateId"]) == 1
