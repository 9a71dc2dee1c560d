"""Case 13: a task that keeps the event loop, or the whole interpreter, busy costs neither leases nor honesty."""

import time
from pathlib import Path

from delegate.manager.settings import Rhythm
from tests.daemon.harness import Operator
from tests.daemon.waiting import eventually
from tests.process.harness import effects, managed_delegate

RHYTHM = Rhythm(lease_seconds=4.0, heartbeat_seconds=0.5, poll_seconds=2.0, grace_seconds=2.0, sweep_seconds=0.1)


async def longest_silence(operator: Operator, task: str) -> float:
    """Seconds: the oldest that the delegate's last heartbeat got until the task was final."""
    longest = 0.0
    while (await operator.show(task))["task"]["state"] != "finished":
        [delegate] = await operator.delegates()
        longest = max(longest, float(delegate["heartbeatSecondsAgo"]))
    return longest


async def test_heartbeats_keep_their_rhythm_while_a_task_burns(tmp_path: Path) -> None:
    """The lease is kept for many times its length, the culprit's stack is in the log, and other deadlines hold afterwards."""
    async with managed_delegate(tmp_path, rhythm=RHYTHM) as (operator, child):
        late = await operator.submit("sleep-600", timeout="4s")
        await eventually(lambda: effects(tmp_path, "began"))
        burning = await operator.submit("burn-10")

        silence = await longest_silence(operator, burning)

        shown = await operator.show(burning)
        assert (shown["task"]["outcome"], len(shown["attempts"])) == ("succeeded", 1)
        assert silence < RHYTHM.lease_seconds
        stalled = await child.logged("loop.stalled")
        assert "in burn" in stalled["stack"]
        shown = await operator.finished(late)
        assert (shown["task"]["outcome"], len(shown["attempts"])) == ("timed_out", 1)


async def test_leases_outlast_a_task_that_holds_the_interpreter(tmp_path: Path) -> None:
    """Between its slices there is time for a heartbeat."""
    async with managed_delegate(tmp_path, rhythm=RHYTHM) as (operator, _):
        shown = await operator.finished(await operator.submit("hold-8"), within=40.0)

        assert (shown["task"]["outcome"], len(shown["attempts"])) == ("succeeded", 1)


async def test_a_cancel_of_a_busy_task_is_seen_at_once(tmp_path: Path) -> None:
    """Case 44 d: it can't be acted on, but the next heartbeat says that the attempt is being cancelled."""
    async with managed_delegate(tmp_path, rhythm=RHYTHM) as (operator, _):
        task = await operator.submit("burn-6")
        await eventually(lambda: effects(tmp_path, "began"))
        sent_at = time.monotonic()
        await operator.ask("POST", f"/tasks/{task}/cancel", {})

        shown = await operator.until(task, lambda shown: shown["attempts"][0]["reportedState"] == "cancelling")

        assert shown["task"]["state"] == "running"
        assert time.monotonic() - sent_at < 3.0
        assert (await operator.finished(task))["task"]["outcome"] == "cancelled"
