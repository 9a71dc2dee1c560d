"""Doing several things at once: order, bound, the first fault, and turns for everybody else."""

import asyncio

import pytest

from delegate.engine.tasks.concurrency import for_each


async def test_results_stand_in_the_order_of_items() -> None:
    """Who is done first doesn't matter."""
    first = asyncio.Event()

    async def work(item: int) -> int:
        if item == 0:
            await first.wait()
        elif item == 99:
            first.set()
        return item * 2

    assert await for_each(range(100), work) == [item * 2 for item in range(100)]


async def test_no_items_are_no_work() -> None:
    """Nothing gives nothing."""

    async def work(item: int) -> int:
        raise AssertionError(item)

    assert await for_each([], work) == []


async def test_at_most_so_many_at_once() -> None:
    """The bound holds, and is used."""
    running, most = 0, 0

    async def work(item: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    await for_each(range(50), work, at_once=4)

    assert most == 4


async def test_first_fault_stops_the_rest_and_is_raised_as_itself() -> None:
    """What waits is cancelled, what has not begun never begins."""
    begun: list[int] = []
    cancelled: list[int] = []

    async def work(item: int) -> None:
        begun.append(item)
        if item == 3:
            raise ValueError("the third")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(item)
            raise

    with pytest.raises(ValueError, match="the third"):
        await for_each(range(1000), work, at_once=8)

    assert max(begun) < 16
    assert sorted(cancelled) == [item for item in sorted(begun) if item != 3]


async def test_others_get_turns_while_items_wait_for_nothing() -> None:
    """A thousand items that need no wait don't keep the loop to themselves."""
    turns = 0
    done = asyncio.Event()

    async def other() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    async def work(item: int) -> int:
        return item

    beside = asyncio.create_task(other())
    await for_each(range(1000), work)
    done.set()
    await beside

    assert turns >= 10
