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
from delegate.manager.store.repeating import run_many

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
        """Runs a write once for each set of parameters, in one go; all sets have the same names."""
        if not parameters:
            return
        if self.alone:
            run_many(self._connection, statement, parameters)
        else:
            self._connection.execute(statement, parameters)

    @property
    def alone(self) -> bool:
        """Whether nobody else writes at the same time, as in SQLite, so that no lock is needed."""
        return self._connection.dialect.name == "sqlite"

    def hold_keys(self, keys: Iterable[str]) -> None:
        """Waits until nobody else decides about these applications, and keeps it so until the end of the transaction.

        Whoever changes the state of a task holds the key of its application first, and reads again what it decides by. An
        operation holds all of its keys at once: they are locked in one order, so that no two operations wait for each other.
        """
        wanted = list(set(keys))
        if wanted and not self.alone:
            self._connection.execute(_HOLD, {"keys": wanted}).fetchall()

    def try_keys(self, keys: Iterable[str]) -> set[str]:
        """The same for those of the keys that nobody holds, without waiting."""
        wanted = set(keys)
        if not wanted or self.alone:
            return wanted
        return {key for key, held in self._connection.execute(_TRY, {"keys": list(wanted)}) if held}


Operation = Callable[[Transaction], T]
_HOLD = sa.text(
    "SELECT pg_advisory_xact_lock(hash)"
    " FROM (SELECT DISTINCT hashtextextended(key, 0) AS hash FROM unnest(CAST(:keys AS text[])) AS key ORDER BY 1) AS hashes"
)
_TRY = sa.text("SELECT key, pg_try_advisory_xact_lock(hashtextextended(key, 0)) FROM unnest(CAST(:keys AS text[])) AS key")
