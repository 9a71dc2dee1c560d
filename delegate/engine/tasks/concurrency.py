"""Doing several things at once inside one attempt, bounded, with the first fault raised as itself."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")
AT_ONCE = 16
"""Objects worked on side by side; the cluster client bounds the requests in flight below that."""

_IN_ONE_GO = 4
"""Items that a worker does before the loop gets a turn, however little each has to wait."""


async def for_each(items: Iterable[T], work: Callable[[T], Awaitable[R]], at_once: int = AT_ONCE) -> list[R]:
    """The results in the order of the items. The first fault stops the rest and is raised."""
    numbered = list(enumerate(items))
    left = iter(numbered)
    results: dict[int, R] = {}

    async def work_on() -> None:
        # A few workers, not a task an item: most of a thousand items may need no wait at all.
        for count, (position, item) in enumerate(left):
            results[position] = await work(item)
            if count % _IN_ONE_GO == _IN_ONE_GO - 1:
                await asyncio.sleep(0)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(at_once, len(numbered))):
                group.create_task(work_on())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return [results[position] for position, _ in numbered]


@asynccontextmanager
async def alongside(*coroutines: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs coroutines while the block runs, and ends them with it. A fault of one of them ends the block and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in coroutines]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors
