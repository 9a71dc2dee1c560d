"""Slots are never lost and never made: whatever happens, free, reserved and taken are the capacity."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delegate.daemon.pool.slots import Reservation, Slots
from tests.daemon.waiting import eventually


async def test_reserving_waits_for_a_free_slot() -> None:
    """A reservation takes all that is free, and the next one waits until something comes back."""
    slots = Slots(2)
    first = await slots.reserve()
    assert first.count == 2
    waiting = asyncio.create_task(slots.reserve())
    await asyncio.sleep(0)
    assert not waiting.done()

    assert first.take()
    first.give_back()
    first.give_back()

    assert (await waiting).count == 1
    assert (slots.free, slots.reserved, slots.taken) == (0, 1, 1)


async def test_resuming_work_comes_before_new_work() -> None:
    """With no slot free, parked work takes one that an open poll reserved; the poll hears when nothing is left for it."""
    slots = Slots(2)
    reservation = await slots.reserve()

    await slots.retake()
    assert not reservation.exhausted.is_set()
    await slots.retake()

    assert reservation.exhausted.is_set()
    assert not reservation.take()
    assert (slots.free, slots.reserved, slots.taken) == (0, 0, 2)


async def test_a_slot_that_comes_back_goes_to_whoever_resumes() -> None:
    """The first of those that resume gets it, not a poll that waits longer."""
    slots = Slots(1)
    (await slots.reserve()).take()
    polling = asyncio.create_task(slots.reserve())
    resuming = asyncio.create_task(slots.retake())
    await asyncio.sleep(0)

    slots.release()
    await resuming

    assert not polling.done()
    slots.release()
    assert (await polling).count == 1


async def test_a_slot_handed_to_a_cancelled_waiter_is_not_lost() -> None:
    """The hand-over and the cancellation in the same moment leave the slot free."""
    slots = Slots(1)
    (await slots.reserve()).take()
    resuming = asyncio.create_task(slots.retake())
    await asyncio.sleep(0)

    slots.release()
    resuming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resuming

    assert (slots.free, slots.taken) == (1, 0)


@given(st.lists(st.sampled_from(["reserve", "take", "give_back", "release", "park", "resume", "cancel"]), max_size=60), st.integers(1, 4))
def test_the_sum_is_always_the_capacity(steps: list[str], capacity: int) -> None:
    """Any sequence of steps, with cancellations between, keeps the sum and never goes below zero."""

    async def walk() -> None:
        slots = Slots(capacity)
        reservations: list[Reservation] = []
        resuming: list[asyncio.Task[None]] = []
        holding = 0
        for step in steps:
            if step == "reserve" and slots.free:
                reservations.append(await slots.reserve(2))
            elif step == "take" and reservations:
                holding += reservations[-1].take()
            elif step == "give_back" and reservations:
                reservations.pop().give_back()
            elif step in ("release", "park") and holding:
                holding -= 1
                slots.release()
            elif step == "resume":
                resuming.append(asyncio.create_task(slots.retake()))
            elif step == "cancel" and resuming:
                resuming[0].cancel()
            await asyncio.sleep(0)
            for each in [task for task in resuming if task.done()]:
                resuming.remove(each)
                holding += not each.cancelled()
            assert slots.free + slots.reserved + slots.taken == capacity
            assert min(slots.free, slots.reserved, slots.taken) >= 0
            assert slots.taken == holding
        for each in resuming:
            each.cancel()
        await asyncio.gather(*resuming, return_exceptions=True)

    asyncio.run(walk())


async def test_many_reservations_wait_in_turn() -> None:
    """A slot that is freed wakes those who wait, and nobody gets one that is not there."""
    slots = Slots(1)
    held = await slots.reserve()
    waiting = [asyncio.create_task(slots.reserve()) for _ in range(3)]
    await asyncio.sleep(0)

    held.give_back()
    await eventually(lambda: sum(task.done() for task in waiting) == 1)

    assert slots.reserved == 1
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
