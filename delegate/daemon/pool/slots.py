"""Slots: how much is done at once. Each is free, reserved (for what a poll may bring) or taken; together they are always the capacity.

Whoever resumes after parking comes before new work: it gets the next slot that is given back, and takes a reserved one where none is
free. A reservation may so shrink while its poll is open; what comes beyond it is handed back to the manager.
"""

import asyncio
from collections import deque


class Slots:
    """For one event loop."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.free = capacity
        self.taken = 0
        self._reservations: list[Reservation] = []
        self._resuming: deque[asyncio.Future[None]] = deque()
        self._some_free = asyncio.Event()
        self._some_free.set()

    @property
    def reserved(self) -> int:
        return sum(reservation.count for reservation in self._reservations)

    async def reserve(self, most: int | None = None) -> "Reservation":
        """All free slots, up to `most`; waits until there is one."""
        while not self.free:
            self._some_free.clear()
            await self._some_free.wait()
        count = self.free if most is None else min(self.free, most)
        self.free -= count
        reservation = Reservation(self, count)
        self._reservations.append(reservation)
        return reservation

    def release(self) -> None:
        """Gives one taken slot back."""
        assert self.taken > 0, "a slot was given back twice"
        while self._resuming:
            waiting = self._resuming.popleft()
            if not waiting.done():
                waiting.set_result(None)  # the slot changes hands: still taken
                return
        self.taken -= 1
        self._set_free(1)

    async def retake(self) -> None:
        """A slot for work that was parked; before all new work."""
        if self.free:
            self.free -= 1
            self.taken += 1
            return
        for reservation in self._reservations:
            if reservation.count:
                reservation._yield_one()
                self.taken += 1
                return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._resuming.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            # Two-phase: the slot may have been handed over in the moment of the cancellation.
            if waiting.done() and not waiting.cancelled():
                self.release()
            raise

    def _set_free(self, count: int) -> None:
        self.free += count
        if self.free:
            self._some_free.set()

    def _end(self, reservation: "Reservation") -> None:
        self._reservations.remove(reservation)


class Reservation:
    """Slots held for the answer of one poll. `exhausted` is set when all of them went to work that resumed."""

    def __init__(self, slots: Slots, count: int) -> None:
        self._slots = slots
        self._ended = False
        self.count = count
        self.exhausted = asyncio.Event()

    def take(self) -> bool:
        """Turns one reserved slot into a taken one; False when none is left."""
        if not self.count:
            return False
        self.count -= 1
        self._slots.taken += 1
        return True

    def give_back(self) -> None:
        """Frees what was not taken; said again, it does nothing."""
        if self._ended:
            return
        self._ended = True
        count, self.count = self.count, 0
        self._slots._end(self)
        self._slots._set_free(count)

    def _yield_one(self) -> None:
        self.count -= 1
        if not self.count:
            self.exhausted.set()
