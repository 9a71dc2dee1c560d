"""One call for all who want its answer at the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Call(Generic[T]):
    def __init__(self, task: "asyncio.Future[T]") -> None:
        self.task = task
        self.waiters = 0


class SharedCall(Generic[T]):
    """Runs a coroutine function, one call after the other, as often as needed and no oftener.

    Who comes while a call is under way shares the next one, not that one: it may have been answered before what they
    want to see came about. A call that nobody waits for any more is cancelled.
    """

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        self._function = function
        self._turn = asyncio.Lock()
        self._next: _Call[T] | None = None

    async def result(self) -> T:
        """The answer of a call that begins after this one did. Raises what the call raises."""
        call = self._next
        if call is None:
            call = self._next = _Call(asyncio.ensure_future(self._run()))
            call.task.add_done_callback(_retrieve)
        call.waiters += 1
        try:
            return await asyncio.shield(call.task)
        finally:
            call.waiters -= 1
            if not call.waiters and not call.task.done():
                call.task.cancel()
                self._next = None if self._next is call else self._next

    async def _run(self) -> T:
        async with self._turn:
            self._next = None
            return await self._function()


def _retrieve(task: "asyncio.Future[T]") -> None:
    """The waiters get the fault through their shields; when there are none left, it is nobody's."""
    if not task.cancelled():
        task.exception()
