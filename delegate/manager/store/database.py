"""Group commit: operations that arrive while the disk is busy share the next transaction.

With SQLite there is one commit at a time; everything that waits when it ends goes into the next one, so that under load one
sync of the disk serves many operations, and without load an operation waits for nobody; nor does it wait long for the work of
its neighbours: a commit takes in what is done within a few milliseconds. A failure spoils nothing for its
neighbours: the transaction is rolled back and run again with a savepoint around each operation. PostgreSQL groups the commits
of several connections by itself: there each operation has a transaction of its own, in one of several lanes. What an operation
did counts, and its effects are told, only after the commit.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import sqlalchemy as sa
import structlog

from delegate.foundation.errors import DelegateError
from delegate.manager.clocks import Clock
from delegate.manager.effects import Effects
from delegate.manager.errors import OverloadedError
from delegate.manager.settings import Limits, Rhythm
from delegate.manager.store.engines import Engine
from delegate.manager.store.errors import is_repeatable, translate
from delegate.manager.store.transactions import Operation, Transaction

T = TypeVar("T")
log = structlog.get_logger(__name__)
_BATCH = 128
_QUEUE = 10_000
_SLICE_SECONDS = 0.005  # then those who are done are answered, and the others have the next commit
_MOMENT_SECONDS = 0.05
_REPEATS = 10
_DATABASE_TIME = sa.text("SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)")


@dataclass
class _Waiting(Generic[T]):
    operation: Operation[T]
    answer: asyncio.Future[T]


@dataclass
class _Outcome:
    value: Any = None
    error: BaseException | None = None
    effects: Effects | None = None


class Database:
    """The store's front: `write` and `read` run an operation; `run` is the writer that has to be running meanwhile.

    Without a `clock`, time is the database's own.
    """

    def __init__(
        self, engine: Engine, *, clock: Clock | None, rhythm: Rhythm, limits: Limits, on_commit: Callable[[Effects], None]
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._rhythm = rhythm
        self._limits = limits
        self._on_commit = on_commit
        self._queue: asyncio.Queue[_Waiting[Any]] = asyncio.Queue(_QUEUE)
        self._ended = False
        self._latest_soon = 0.0
        self.commits = 0
        self.operations = 0

    @property
    def waiting(self) -> int:
        """Operations that wait for a commit."""
        return self._queue.qsize()

    async def write(self, operation: Operation[T]) -> T:
        """What the operation returns, after it is durable. Raises what it raises, StoreError, or OverloadedError."""
        if self._ended:
            raise _stopping()
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        waiting = _Waiting(operation, answer)
        try:
            self._queue.put_nowait(waiting)
        except asyncio.QueueFull:
            raise OverloadedError("the manager has more to write than its disk takes", retry_after=1.0) from None
        return await answer

    async def write_soon(self, operation: Operation[T]) -> T:
        """The same for what comes often, from many, and can wait a moment: under load those of one moment share a commit."""
        loop = asyncio.get_running_loop()
        before, self._latest_soon = self._latest_soon, loop.time()
        if self._latest_soon - before < _MOMENT_SECONDS:
            await asyncio.sleep(_MOMENT_SECONDS - self._latest_soon % _MOMENT_SECONDS)
        return await self.write(operation)

    async def read(self, operation: Operation[T]) -> T:
        """What the operation returns, from one consistent state."""

        def work(connection: sa.Connection) -> T:
            with connection.begin():
                answer: T = operation(self._transaction(connection, self._time(connection)))
            return answer

        answer: T = await self._engine.read(work)
        return answer

    async def tidy(self) -> None:
        """What has to be done now and then, beside the writing."""
        await self._engine.tidy()

    async def run(self) -> None:
        """Commits what comes in, until cancelled; then nobody is left waiting."""
        try:
            async with asyncio.TaskGroup() as lanes:
                for _ in range(self._engine.lanes):
                    lanes.create_task(self._run_lane(_BATCH if self._engine.lanes == 1 else 1))
        finally:
            self._ended = True
            while not self._queue.empty():
                waiting = self._queue.get_nowait()
                if not waiting.answer.done():
                    waiting.answer.set_exception(_stopping())

    async def _run_lane(self, most: int) -> None:
        batch: deque[_Waiting[Any]] = deque()
        while True:
            if not batch:
                batch.append(await self._queue.get())
            while len(batch) < most and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            batch = deque(waiting for waiting in batch if not waiting.answer.cancelled())
            for _ in range(await self._commit(list(batch))):
                batch.popleft()

    async def _commit(self, batch: Sequence[_Waiting[Any]]) -> int:
        """How many of the batch were committed, or failed: those at its beginning that fitted into one slice of time."""
        if not batch:
            return 0
        operations = [waiting.operation for waiting in batch]
        try:
            outcomes = await self._engine.write(lambda connection: self._run_together(connection, operations))
        except DelegateError as error:
            log.warning("store.commit_failed", error=str(error), operations=len(batch))
            outcomes = [_Outcome(error=error) for _ in batch]
        self.commits += 1
        self.operations += len(outcomes)
        effects = Effects()
        for waiting, outcome in zip(batch, outcomes, strict=False):
            if outcome.effects is not None:
                effects.add(outcome.effects)
            if waiting.answer.done():
                continue
            if outcome.error is not None:
                waiting.answer.set_exception(outcome.error)
            else:
                waiting.answer.set_result(outcome.value)
        self._on_commit(effects)
        return len(outcomes)

    def _run_together(self, connection: sa.Connection, operations: Sequence[Operation[Any]]) -> list[_Outcome]:
        if len(operations) > 1:
            with contextlib.suppress(_FailedTogetherError):
                return self._run_plainly(connection, operations)
        for _ in range(_REPEATS):
            try:
                return self._run_apart(connection, operations)
            except sa.exc.DBAPIError as error:
                if not is_repeatable(error):
                    raise
        return self._run_apart(connection, operations, last=True)

    def _run_plainly(self, connection: sa.Connection, operations: Sequence[Operation[Any]]) -> list[_Outcome]:
        ends_at = time.monotonic() + _SLICE_SECONDS
        with connection.begin():
            now = self._time(connection)
            outcomes: list[_Outcome] = []
            for operation in operations:
                if outcomes and time.monotonic() > ends_at:
                    break
                transaction = self._transaction(connection, now)
                try:
                    outcomes.append(_Outcome(operation(transaction), effects=transaction.effects))
                except Exception as error:  # whatever it was, the second run finds out whose it is
                    raise _FailedTogetherError from error
        return outcomes

    def _run_apart(self, connection: sa.Connection, operations: Sequence[Operation[Any]], last: bool = False) -> list[_Outcome]:
        with connection.begin():
            now = self._time(connection)
            return [self._run_one(connection, operation, now, last) for operation in operations]

    def _run_one(self, connection: sa.Connection, operation: Operation[Any], now: float, last: bool) -> _Outcome:
        transaction = self._transaction(connection, now)
        savepoint = connection.begin_nested()
        try:
            value = operation(transaction)
        except sa.exc.DBAPIError as error:
            if connection.invalidated or (is_repeatable(error) and not last):
                raise
            _undo(savepoint, error)
            return _Outcome(error=translate(error))
        except Exception as error:  # noqa: BLE001 - belongs to the one who asked for the operation, and is raised there
            _undo(savepoint, error)
            return _Outcome(error=error)
        savepoint.commit()
        return _Outcome(value, effects=transaction.effects)

    def _transaction(self, connection: sa.Connection, now: float) -> Transaction:
        return Transaction(connection, now, self._rhythm, self._limits)

    def _time(self, connection: sa.Connection) -> float:
        return self._clock() if self._clock is not None else float(connection.execute(_DATABASE_TIME).scalar_one())


def _stopping() -> OverloadedError:
    return OverloadedError("the manager is stopping", hint="try again when it is back", retry_after=1.0)


def _undo(savepoint: sa.NestedTransaction, error: Exception) -> None:
    """Takes back what one operation wrote. Where the database has ended the whole transaction (SQLite does, when the disk is
    full), nothing may run on in it: the error is everybody's."""
    try:
        savepoint.rollback()
    except sa.exc.DBAPIError:
        raise error from None


class _FailedTogetherError(Exception):
    """One of several operations failed."""
