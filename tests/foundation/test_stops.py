"""Stop requests wake whoever waits; signals make them: the first drains, the second hurries."""

import asyncio
import os
import signal

import pytest

from delegate.foundation.lifecycle import StopReason, StopRequests, stop_on_signals
from tests.foundation.clocks import ManualClock


async def test_a_request_wakes_everybody_who_waits() -> None:
    """Each learns the first request; nobody hurries yet."""
    stops = StopRequests()
    waiting = [asyncio.create_task(stops.wait()) for _ in range(3)]

    stops.request(StopReason.REVOKED, "by an operator")

    assert [request.reason for request in await asyncio.gather(*waiting)] == [StopReason.REVOKED] * 3
    assert stops.requested
    assert not stops.hurried


async def test_the_second_signal_hurries() -> None:
    """Of whichever kind; other reasons only if they say so."""
    stops = StopRequests()
    stops.request(StopReason.OUTDATED)
    stops.request(StopReason.SIGTERM)
    assert not stops.hurried

    stops.request(StopReason.SIGINT)

    await asyncio.wait_for(stops.wait_until_hurried(), 30)
    assert stops.hurried


async def test_a_request_may_hurry_at_once() -> None:
    """Superseded: somebody else works already."""
    stops = StopRequests()
    stops.request(StopReason.SUPERSEDED, hurry=True)

    assert stops.hurried


async def test_the_decisive_reason_is_the_one_that_says_most() -> None:
    """Revoked while draining after SIGTERM: revoked. Nothing is decisive before any request."""
    stops = StopRequests()
    decisive = [stops.decisive]
    for reason, detail in ((StopReason.SIGTERM, ""), (StopReason.REVOKED, "by an operator"), (StopReason.PART_FAILED, "poller")):
        stops.request(reason, detail)
        decisive.append(stops.decisive)

    assert [each and each.reason for each in decisive] == [None, StopReason.SIGTERM, StopReason.REVOKED, StopReason.REVOKED]
    assert decisive[-1] is not None
    assert decisive[-1].detail == "by an operator"


async def test_sleep_ends_with_a_stop() -> None:
    """A loop that waits for an hour doesn't hold up the end."""
    stops = StopRequests()
    sleeping = asyncio.create_task(stops.sleep(3600))
    await asyncio.sleep(0)

    stops.request(StopReason.SIGTERM)

    assert await asyncio.wait_for(sleeping, 30) is True
    assert await stops.sleep(3600) is True


async def test_sleep_ends_by_itself_otherwise() -> None:
    """And says that nobody asked to stop."""
    clock = ManualClock()

    assert await StopRequests().sleep(60, clock) is False
    assert clock.slept == [60]


async def test_sleep_leaves_nothing_behind_when_cancelled() -> None:
    """No task of it outlives it."""
    sleeping = asyncio.create_task(StopRequests().sleep(3600))
    await asyncio.sleep(0)
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping

    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signals_become_requests(number: signal.Signals) -> None:
    """The process lives on; the first asks to drain, the second to hurry."""
    stops = StopRequests()

    with stop_on_signals(stops):
        os.kill(os.getpid(), number)
        request = await asyncio.wait_for(stops.wait(), 30)
        assert not stops.hurried
        os.kill(os.getpid(), number)
        await asyncio.wait_for(stops.wait_until_hurried(), 30)

    assert request.reason.value == number.name.lower()


async def test_signals_are_given_back() -> None:
    """After it, the handlers are gone."""
    with stop_on_signals(StopRequests()):
        pass

    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
