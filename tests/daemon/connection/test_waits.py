"""How long to wait before the next try: briefly for a manager that is gone, by how many wait for it, and longer for one that refuses."""

import heapq
import random
from collections import Counter
from dataclasses import dataclass
from functools import partial

import pytest

from delegate.daemon.connection.errors import ManagerFaultError, OverloadedError, RefusalError, TransportError
from delegate.daemon.connection.waits import ReconnectSchedule, Waits, is_gone
from delegate.manager.settings import Rhythm
from delegate.protocol import routes
from tests.daemon.connection.harness import linked
from tests.daemon.waiting import eventually


@dataclass
class Clock:
    seconds: float = 0.0

    def passed(self, seconds: float) -> float:
        self.seconds += seconds
        return seconds


GONE = TransportError("nothing answers", code="connection.unreachable")


@pytest.mark.parametrize(
    ("error", "gone"),
    [
        (GONE, True),
        (TransportError("cut", code="connection.cut"), True),
        (TransportError("no upstream", code="connection.not_the_manager", facts={"status": 502}), True),
        (TransportError("come later", code="connection.not_the_manager", facts={"status": 503}, retry_after=30.0), False),
        (TransportError("a login page", code="connection.not_the_manager", facts={"status": 200}), False),
        (TransportError("silence", code="connection.silent"), False),
        (OverloadedError("too many"), False),
        (ManagerFaultError("a fault"), False),
    ],
)
def test_who_is_gone(error: TransportError | RefusalError, gone: bool) -> None:
    """Nobody there is one thing; somebody who is in trouble, or wants to be left alone, is another."""
    assert is_gone(error) is gone


def test_a_manager_that_is_gone_is_asked_again_soon_and_one_in_trouble_late() -> None:
    """However long it went on: within what the manager said for the one, doubling to the cap for the other, and from the start again after
    it worked."""
    now, schedule = Clock(), ReconnectSchedule(lambda: now.seconds)
    schedule.seconds = 1.0
    waits = Waits(0.25, 30.0, schedule, dice=lambda: 1.0)

    assert [now.passed(waits.after(GONE)) for _ in range(6)] == [0.25, 0.5, 1.0, 1.0, 1.0, 1.0]
    assert [waits.after(ManagerFaultError("")) for _ in range(3)] == [16.0, 30.0, 30.0]
    waits.reset()
    assert waits.after(ManagerFaultError("")) == 0.25


@pytest.mark.parametrize("outage", [20.0, 600.0])
@pytest.mark.parametrize("crowd", [120, 1000])
def test_a_crowd_comes_back_apart(crowd: int, outage: float) -> None:
    """Case 10: over the time that the manager gave them no second sees three times the mean of its window, and all are there in time.
    Each delegate has several loops: counted is the first of them that is heard."""
    dice = random.Random(7)
    back: Counter[int] = Counter()
    for _ in range(crowd):
        now = Clock()
        schedule = ReconnectSchedule(partial(getattr, now, "seconds"))
        schedule.seconds = Rhythm().come_back_seconds(crowd)
        loops = [Waits(first, 10.0, schedule, dice=dice.random) for first in (0.25, 0.5, 1.0)]
        tries = [(0.0, number) for number in range(len(loops))]
        while now.seconds < outage:
            now.seconds, number = heapq.heappop(tries)
            heapq.heappush(tries, (now.seconds + loops[number].after(GONE), number))
        back[int(now.seconds - outage)] += 1

    assert max(back) < 10
    assert max(back.values()) < 3 * crowd / (max(back) + 1)


def test_loops_of_one_delegate_wait_together() -> None:
    """For a manager that is gone; one that refuses a single call is no reason for the others to wait."""
    now = Clock()
    schedule = ReconnectSchedule(lambda: now.seconds)
    first, second = Waits(4.0, 30.0, schedule, dice=lambda: 1.0), Waits(4.0, 30.0, schedule, dice=lambda: 0.1)

    assert first.after(GONE) == 4.0
    now.seconds = 3.0
    assert second.after(GONE) == 1.0
    assert second.after(ManagerFaultError("")) == pytest.approx(0.8)
    now.seconds = 4.5
    assert second.after(GONE) == pytest.approx(1.0)  # its own draw: a tenth of its cap, for the time before is over


def test_few_delegates_come_back_at_once() -> None:
    """So that the first task runs within two seconds of a restart."""
    assert Rhythm().come_back_seconds(1) == Rhythm().come_back_seconds(20) == 1.0
    assert Rhythm().come_back_seconds(100_000) == Rhythm().heartbeat_seconds


async def test_the_manager_says_in_how_long_they_come_back() -> None:
    """With each heartbeat that says it; one that says nothing changes nothing."""
    async with linked(heartbeat_seconds=0.05) as link:
        link.manager.come_back_seconds = 3.5
        await eventually(lambda: link.keeper.reconnect_schedule.seconds == 3.5)

        link.manager.come_back_seconds = 0.0
        beats = len(link.manager.at(routes.HEARTBEAT))
        await eventually(lambda: len(link.manager.at(routes.HEARTBEAT)) > beats + 2)

        assert link.keeper.reconnect_schedule.seconds == 3.5
