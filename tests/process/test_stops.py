"""Case 14, with real signals: what each way of stopping leaves behind."""

import asyncio
import os
import signal
from pathlib import Path

from tests.daemon.harness import running_manager
from tests.daemon.waiting import eventually
from tests.fakes.fault_proxy import fault_proxy
from tests.process.harness import child_delegate, effects, managed_delegate


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_sigterm_lets_short_tasks_finish_and_interrupts_long_ones(tmp_path: Path) -> None:
    """The short ones succeed, the long ones are interrupted with their child processes and queued again; exit code 3."""
    async with running_manager(tmp_path) as operator:
        token = await operator.token()
        async with child_delegate(tmp_path, operator.manager.url, token) as child:
            short = [await operator.submit(f"sleep-1.{number}") for number in range(3)]
            long = [await operator.submit("child-600"), await operator.submit("sleep-600"), await operator.submit("deaf-600")]
            await eventually(lambda: len(effects(tmp_path, "began")) == 6 and effects(tmp_path, "child"))

            child.signal(signal.SIGTERM)

            assert await child.ended() == 3, child.text()
            for task in short:
                assert (await operator.show(task))["task"]["outcome"] == "succeeded"
            for task in long:
                shown = await operator.show(task)
                assert shown["task"]["state"] == "queued"
                assert [attempt["state"] for attempt in shown["attempts"]] == ["finished"]
            [line] = effects(tmp_path, "child")
            assert not is_alive(int(line.split()[1]))


async def test_sigterm_with_nothing_running_ends_at_once_with_0(tmp_path: Path) -> None:
    """An idle delegate drains in no time."""
    async with managed_delegate(tmp_path, DELEGATE_DRAIN_TIMEOUT="1h") as (_, child):
        child.signal(signal.SIGTERM)

        assert await child.ended(within=10.0) == 0


async def test_a_second_sigterm_hurries(tmp_path: Path) -> None:
    """It skips to the interruption."""
    async with managed_delegate(tmp_path, DELEGATE_DRAIN_TIMEOUT="1h") as (operator, child):
        await operator.submit("sleep-600")
        await eventually(lambda: effects(tmp_path, "began"))
        child.signal(signal.SIGTERM)
        await child.logged("daemon.draining")

        child.signal(signal.SIGTERM)

        assert await child.ended(within=15.0) == 3


async def test_a_drain_without_the_manager_keeps_results_for_the_next_start(tmp_path: Path) -> None:
    """Three results that could not be sent wait on disk, and the next start sends them."""
    async with running_manager(tmp_path) as operator, fault_proxy(operator.manager.url) as proxy:
        token = await operator.token()
        async with child_delegate(tmp_path, proxy.url, token) as child:
            tasks = [await operator.submit(f"sleep-1.{number}") for number in range(3)]
            await eventually(lambda: len(effects(tmp_path, "began")) == 3)
            proxy.partition()
            await eventually(lambda: len(effects(tmp_path, "ended")) == 3)

            child.signal(signal.SIGTERM)

            assert await child.ended() == 0
            kept = await child.logged("outbox.kept_for_next_start")
            assert kept["results"] == 3
        proxy.heal()
        async with child_delegate(tmp_path, proxy.url, token):
            for task in tasks:
                shown = await operator.finished(task)
                assert shown["task"]["outcome"] == "succeeded"
                assert len(shown["attempts"]) == 1


async def test_sigkill_during_the_drain_is_recovered_too(tmp_path: Path) -> None:
    """What SIGTERM began, SIGKILL cuts off: the same tasks are recovered, only later."""
    async with running_manager(tmp_path) as operator:
        token = await operator.token()
        async with child_delegate(tmp_path, operator.manager.url, token) as child:
            task = await operator.submit("sleep-2")
            await eventually(lambda: effects(tmp_path, "began"))
            child.signal(signal.SIGTERM)
            await child.logged("daemon.draining")
            child.signal(signal.SIGKILL)
            await child.ended()
        async with child_delegate(tmp_path, operator.manager.url, token):
            assert (await operator.finished(task))["task"]["outcome"] == "succeeded"


async def test_the_last_line_says_how_it_ended(tmp_path: Path) -> None:
    """Exit code and reason are one line of JSON at the end of the log."""
    async with running_manager(tmp_path) as operator, child_delegate(tmp_path, operator.manager.url, await operator.token()) as child:
        child.signal(signal.SIGTERM)
        await child.ended()

        last = child.logs()[-1]
        assert (last["event"], last["exit_code"], last["reason"]) == ("daemon.stopped", 0, "sigterm")


async def test_interrupting_from_the_keyboard_is_a_stop_too(tmp_path: Path) -> None:
    """SIGINT drains like SIGTERM."""
    async with running_manager(tmp_path) as operator, child_delegate(tmp_path, operator.manager.url, await operator.token()) as child:
        child.signal(signal.SIGINT)

        assert await child.ended(within=10.0) == 0
        await asyncio.sleep(0)
