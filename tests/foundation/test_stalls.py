"""The loop's lag is seen from outside, while the loop is stuck, with the culprit's stack."""

import asyncio
import threading

import pytest
import structlog
from structlog.testing import capture_logs

from delegate.foundation.lifecycle import LoopMonitor


async def test_a_loop_that_keeps_up_has_no_lag() -> None:
    """Nothing is reported about it."""
    stacks = list[str]()
    with LoopMonitor(on_stall=stacks.append, report_after=3600) as monitor:
        await asyncio.sleep(0)

        assert not monitor.stalled(3600)

    assert stacks == []


async def test_a_stuck_loop_is_reported_while_it_is_stuck() -> None:
    """With the stack of what holds it up; any thread may ask how long; when it is over, that is told too."""
    reported, stacks, stalled = threading.Event(), list[str](), list[bool]()
    recovered = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_stall(stack: str) -> None:
        stacks.append(stack)
        stalled.extend([monitor.stalled(0.05), monitor.stalled(3600), monitor.lag_seconds() >= 0.05])
        reported.set()

    def the_culprit() -> None:
        assert reported.wait(30)

    def on_event(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        if event["event"] == "loop.recovered":
            loop.call_soon_threadsafe(recovered.set)
        return event

    with (
        capture_logs(processors=[on_event]) as lines,
        LoopMonitor(interval=0.01, report_after=0.05, on_stall=on_stall) as monitor,
    ):
        the_culprit()
        await asyncio.wait_for(recovered.wait(), 30)

    assert "the_culprit" in stacks[0]
    assert stalled[:3] == [True, False, True]
    assert [line["event"] for line in lines][:2] == ["loop.stalled", "loop.recovered"]
    assert "the_culprit" in lines[0]["stack"]


@pytest.mark.parametrize("ending", [None, ValueError])
async def test_its_thread_ends_with_it(ending: type[Exception] | None) -> None:
    """However the block is left."""
    before = threading.active_count()

    def leave() -> None:
        with LoopMonitor():
            assert threading.active_count() == before + 1
            if ending is not None:
                raise ending

    if ending is None:
        leave()
    else:
        with pytest.raises(ending):
            leave()

    assert threading.active_count() == before
