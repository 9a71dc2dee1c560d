"""Who waits for what: polls of delegates, woken when there is something for them and not before.

Lives in the event loop and in memory alone. A wake-up is a hint: the one who was woken asks the store, which decides. A hint
that is lost (another manager wrote the task, a waiter went away) is made good by the sweep.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from delegate.manager.effects import Effects, ReadyTask
from delegate.manager.selectors import matches


@dataclass(frozen=True)
class Profile:
    """What a delegate may be handed."""

    kinds: frozenset[str] = frozenset()
    clusters: frozenset[str] = frozenset()
    labels: dict[str, str] = field(default_factory=dict)

    def fits(self, task: ReadyTask) -> bool:
        return task.kind in self.kinds and (not task.cluster_uid or task.cluster_uid in self.clusters) and matches(task.labels, self.labels)


class Waiter:
    """One open poll. `promised` hints are tasks that it was woken for and has not asked the store about yet."""

    def __init__(self, delegate_id: str, free_slots: int = 0) -> None:
        self.delegate_id = delegate_id
        self.free_slots = free_slots
        self.profile: Profile | None = None
        self.promised: list[ReadyTask] = []
        self._called = asyncio.Event()

    def call(self) -> None:
        self._called.set()

    def settle(self) -> None:
        """Takes note that the store is being asked now: what was promised until here is answered by that."""
        self._called.clear()
        self.promised.clear()

    async def wait(self, until: float) -> bool:
        """Waits for a call, at most until this loop time. Whether one came."""
        try:
            async with asyncio.timeout_at(until):
                await self._called.wait()
        except TimeoutError:
            return False
        return True


class Dispatch:
    """All open polls of this process."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._workers: dict[str, list[Waiter]] = {}  # by cluster uid; under the empty one all of them
        self._listeners: dict[str, list[Waiter]] = {}  # polls for commands, by delegate
        self._timers: set[asyncio.TimerHandle] = set()
        self.closing = False

    @property
    def waiting(self) -> int:
        """Open polls for tasks."""
        return len(self._workers.get("", ()))

    @property
    def listening(self) -> int:
        """Open polls for commands."""
        return sum(len(each) for each in self._listeners.values())

    def listens(self, delegate_id: str) -> bool:
        return delegate_id in self._listeners

    @contextmanager
    def enter_worker(self, waiter: Waiter) -> Iterator[Waiter]:
        """For as long as a poll for tasks is open."""
        self._add(waiter, "")
        try:
            yield waiter
        finally:
            self._remove(waiter)
            unkept = list(waiter.promised)
            waiter.promised.clear()
            for task in unkept:  # it went away before it asked: somebody else gets the hint
                self._offer(task)

    def describe_worker(self, waiter: Waiter, profile: Profile) -> None:
        """From now on the waiter is woken for what fits, and for nothing else. A new session may have changed what that is."""
        before = waiter.profile.clusters if waiter.profile is not None else frozenset()
        waiter.profile = profile
        for uid in profile.clusters - before:
            self._add(waiter, uid)
        for uid in before - profile.clusters:
            self._drop(waiter, uid)

    @contextmanager
    def enter_listener(self, waiter: Waiter) -> Iterator[Waiter]:
        """For as long as a poll for commands is open."""
        self._listeners.setdefault(waiter.delegate_id, []).append(waiter)
        try:
            yield waiter
        finally:
            remaining = self._listeners[waiter.delegate_id]
            remaining.remove(waiter)
            if not remaining:
                del self._listeners[waiter.delegate_id]

    def _add(self, waiter: Waiter, uid: str) -> None:
        self._workers.setdefault(uid, []).append(waiter)

    def _remove(self, waiter: Waiter) -> None:
        uids = waiter.profile.clusters if waiter.profile is not None else ()
        for uid in ("", *uids):
            self._drop(waiter, uid)

    def _drop(self, waiter: Waiter, uid: str) -> None:
        remaining = self._workers[uid]
        remaining.remove(waiter)
        if not remaining:
            del self._workers[uid]

    def apply(self, effects: Effects) -> None:
        """Wakes those whom a commit concerns."""
        for task in effects.ready:
            delay = task.at - self._now()
            if delay > 0:
                self._offer_later(task, delay)
            else:
                self._offer(task)
        for delegate_id in effects.commands_for:
            for listener in self._listeners.get(delegate_id, ()):
                listener.call()
        for delegate_id in effects.sessions_of:
            self.recheck(delegate_id)
        if effects.certificates_ended:
            for waiters in (*self._listeners.values(), list(self._workers.get("", ()))):
                for waiter in waiters:
                    waiter.call()

    def recheck(self, delegate_id: str) -> None:
        """Has the open polls of a delegate look at their session again."""
        for listener in self._listeners.get(delegate_id, ()):
            listener.call()
        for worker in self._workers.get("", ()):
            if worker.delegate_id == delegate_id:
                worker.call()

    def _offer(self, task: ReadyTask) -> bool:
        """Wakes the fitting poll with the most slots left; one, because one task needs no more."""
        best: Waiter | None = None
        most = 0
        for worker in self._workers.get(task.cluster_uid, ()):
            left = worker.free_slots - len(worker.promised)
            if left > most and (worker.profile is None or worker.profile.fits(task)):
                best, most = worker, left
        if best is None:
            return False
        best.promised.append(task)
        best.call()
        return True

    def _offer_later(self, task: ReadyTask, delay: float) -> None:
        def offer() -> None:
            self._timers.discard(handle)
            self._offer(task)

        handle = asyncio.get_running_loop().call_later(delay, offer)
        self._timers.add(handle)

    def close(self) -> None:
        """Ends all polls; whoever polls from now on is answered at once."""
        self.closing = True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        for waiters in (*self._workers.values(), *self._listeners.values()):
            for waiter in waiters:
                waiter.call()
