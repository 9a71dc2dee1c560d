"""One statement with many sets of parameters, handed to the driver as it is.

What SQLAlchemy does for each set (checks, defaults, conversions) costs as much as SQLite's own work. None of it is needed here: our columns
are texts, numbers and bytes, which the driver takes as they are, and every set brings the same names.
"""

from collections.abc import Sequence

import sqlalchemy as sa

_Names = tuple[str, ...]
_PREPARED: dict[tuple[sa.Executable, _Names], tuple[str, tuple[tuple[str, object], ...]]] = {}
"""Of statements that live as long as the process: their text; and in order the names of their parameters, with what stands there else."""
_ABSENT = object()


def run_many(connection: sa.Connection, statement: sa.Executable, parameters: Sequence[dict[str, object]]) -> None:
    """Runs the statement once for each set, on SQLite."""
    names = tuple(parameters[0])
    text, places = _PREPARED.get((statement, names)) or _prepare(connection, statement, names)
    rows = [tuple([each.get(name, default) for name, default in places]) for each in parameters]
    connection.exec_driver_sql(text, rows)


def _prepare(connection: sa.Connection, statement: sa.Executable, names: _Names) -> tuple[str, tuple[tuple[str, object], ...]]:
    assert isinstance(statement, sa.ClauseElement)
    compiled = statement.compile(dialect=connection.dialect, column_keys=list(names))
    assert isinstance(compiled, sa.engine.interfaces.Compiled)
    order: Sequence[str] = compiled.positiontup or ()  # type: ignore[attr-defined]
    own = {name: value for name, value in (compiled.params or {}).items() if name not in names}
    prepared = str(compiled), tuple((name, own.get(name, _ABSENT)) for name in order)
    assert all(name in names or default is not _ABSENT for name, default in prepared[1])
    _PREPARED[statement, names] = prepared
    return prepared
