"""How long to wait before the next try: briefly for a manager that is gone, by how many wait for it, and longer for one that refuses."""

import random
from collections import Counter

import pytest

from delegate.daemon.connection.errors import ManagerFaultError, OverloadedError, RefusalError, TransportError
from delegate.daemon.connection.waits import Waits, is_gone
from delegate.manager.settings import Rhythm
from delegate.protocol import routes
from tests.daemon.connection.harness import linked
from tests.daemon.waiting import eventually

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
    waits = Waits(0.25, 30.0, lambda: 1.0, dice=lambda: 1.0)

    assert [waits.after(GONE) for _ in range(6)] == [0.25, 0.5, 1.0, 1.0, 1.0, 1.0]
    assert [waits.after(ManagerFaultError("")) for _ in range(3)] == [16.0, 30.0, 30.0]
    waits.reset()
    assert waits.after(ManagerFaultError("")) == 0.25


@pytest.mark.parametrize("outage", [20.0, 600.0])
@pytest.mark.parametrize("crowd", [120, 1000])
def test_a_crowd_comes_back_apart(crowd: int, outage: float) -> None:
    """Case 10: over the time that the manager gave them no second sees three times the mean of its window, and all are there in time."""
    dice = random.Random(7)
    seconds = Rhythm().come_back_seconds(crowd)
    back: Counter[int] = Counter()
    for _ in range(crowd):
        waits, now = Waits(1.0, 10.0, lambda: seconds, dice=dice.random), 0.0
        while now < outage:
            now += waits.after(GONE)
        back[int(now - outage)] += 1

    assert max(back) < 10
    assert max(back.values()) < 3 * crowd / (max(back) + 1)


def test_few_delegates_come_back_at_once() -> None:
    """So that the first task runs within two seconds of a restart."""
    assert Rhythm().come_back_seconds(1) == Rhythm().come_back_seconds(20) == 1.0
    assert Rhythm().come_back_seconds(100_000) == Rhythm().heartbeat_seconds


async def test_the_manager_says_in_how_long_they_come_back() -> None:
    """With each heartbeat that says it; one that says nothing changes nothing."""
    async with linked(heartbeat_seconds=0.05) as link:
        link.manager.come_back_seconds = 3.5
        await eventually(lambda: link.keeper.come_back_seconds == 3.5)

        link.manager.come_back_seconds = 0.0
        beats = len(link.manager.at(routes.HEARTBEAT))
        await eventually(lambda: len(link.manager.at(routes.HEARTBEAT)) > beats + 2)

        assert link.keeper.come_back_seconds == 3.5
