"""What an operation on the store works with.

An operation is a plain function of a transaction: it decides and writes, and never waits for anything but the database. So
it is the same on every dialect, may run together with others in one commit, and may be run again from its beginning when a
neighbour in that commit failed.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from delegate.manager.effects import Effects
from delegate.manager.settings import Limits, Rhythm

T = TypeVar("T")
Row = sa.Row[*tuple[Any, ...]]


class Transaction:
    """A connection inside a transaction, with the one reading of the clock that holds for the whole operation."""

    def __init__(self, connection: sa.Connection, now: float, rhythm: Rhythm, limits: Limits) -> None:
        self._connection = connection
        self.now = now
        self.rhythm = rhythm
        self.limits = limits
        self.effects = Effects()

    def rows(self, statement: sa.Executable, **parameters: object) -> Sequence[Row]:
        return self._connection.execute(statement, parameters).fetchall()

    def row(self, statement: sa.Executable, **parameters: object) -> Row | None:
        return self._connection.execute(statement, parameters).fetchone()

    def scalar(self, statement: sa.Executable, **parameters: object) -> Any:
        return self._connection.execute(statement, parameters).scalar()

    def execute(self, statement: sa.Executable, **parameters: object) -> int:
        """Runs a write; how many rows it met."""
        return self._connection.execute(statement, parameters).rowcount

    def execute_many(self, statement: sa.Executable, parameters: Sequence[dict[str, object]]) -> None:
        """Runs a write once for each set of parameters, in one go."""
        if parameters:
            self._connection.execute(statement, parameters)

    def hold_keys(self, keys: Iterable[str]) -> None:
        """Until the end of the transaction nobody else decides about these applications. SQLite has one writer anyway."""
        if self._connection.dialect.name != "postgresql":
            return
        for key in sorted(set(keys)):
            self._connection.execute(_HOLD, {"key": key})


Operation = Callable[[Transaction], T]
_HOLD = sa.text("SELECT pg_advisory_xact_lock(hashtextextended(:key, 0))")
