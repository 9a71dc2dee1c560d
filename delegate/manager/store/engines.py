"""Where the database is, and how a plain function gets a connection to it.

SQLite: one writing connection in a thread of its own and a few reading ones; the loop goes on while the disk syncs, and a
statement costs no change of threads. PostgreSQL: asyncpg, with the same functions run on a greenlet (`run_sync`).
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from delegate.manager.store.errors import StoreError, translate

T = TypeVar("T")
_READERS = 2
_LANES = 8
_CHECKPOINT = "wal_autocheckpoint = 20000"  # 80 MB: `tidy` comes long before that, and lets no writer wait for it


class Engine(Protocol):
    """Runs functions of a connection: so many writing at a time as there are lanes, and several reading."""

    async def write(self, work: Callable[[sa.Connection], T]) -> T: ...

    async def read(self, work: Callable[[sa.Connection], T]) -> T: ...

    async def tidy(self) -> None:
        """What has to be done now and then, beside the writing."""
        ...

    async def close(self) -> None: ...

    @property
    def lanes(self) -> int:
        """How many may write at the same time."""
        ...

    @property
    def keeps_time(self) -> bool:
        """Whether several managers share it, so that its clock is the one that counts."""
        ...


def open_engine(url: str) -> Engine:
    """The engine for a database URL. Raises StoreError for one that is neither SQLite nor PostgreSQL."""
    try:
        parsed = sa.make_url(url)
    except sa.exc.ArgumentError as error:
        raise StoreError(f"no database URL: {error}", hint="write postgresql://user:password@host/name or sqlite:////path/file") from error
    match parsed.get_backend_name():
        case "sqlite" if parsed.database:
            return SqliteEngine(Path(parsed.database))
        case "postgresql":
            return PostgresEngine(parsed.set(drivername="postgresql+asyncpg"))
        case other:
            raise StoreError(f"{other} is no database that is supported here", hint="use PostgreSQL, or SQLite in a file")


class SqliteEngine:
    """A file, in WAL mode, synced at each commit."""

    keeps_time = False
    lanes = 1

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))  # SQLite gives its other files the same mode
        self._writer = self._engine(path, begin="BEGIN IMMEDIATE", size=1)
        self._readers = self._engine(path, begin="BEGIN", size=_READERS)
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._reading = ThreadPoolExecutor(_READERS, thread_name_prefix="store-reader")

    @staticmethod
    def _engine(path: Path, *, begin: str, size: int) -> sa.Engine:
        engine = sa.create_engine(
            sa.URL.create("sqlite", database=str(path)),
            poolclass=sa.pool.QueuePool,
            pool_size=size,
            max_overflow=0,
            connect_args={"check_same_thread": False, "timeout": 5.0},
        )

        @sa.event.listens_for(engine, "connect")
        def _prepare(connection: Any, _: object) -> None:
            connection.isolation_level = None  # transactions are begun below, not by the driver
            for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON", "cache_size = -16000", _CHECKPOINT):
                connection.execute(f"PRAGMA {pragma}")

        @sa.event.listens_for(engine, "begin")
        def _begin(connection: sa.Connection) -> None:
            connection.exec_driver_sql(begin)

        return engine

    async def write(self, work: Callable[[sa.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writing, self._run, self._writer, work)

    async def read(self, work: Callable[[sa.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reading, self._run, self._readers, work)

    @staticmethod
    def _run(engine: sa.Engine, work: Callable[[sa.Connection], T]) -> T:
        try:
            with engine.connect() as connection:
                return work(connection)
        except sa.exc.DBAPIError as error:
            raise translate(error) from error

    async def tidy(self) -> None:
        """Moves what was committed from the log into the database file, while writing goes on."""
        await self.read(lambda connection: connection.exec_driver_sql("PRAGMA wal_checkpoint(PASSIVE)").fetchall())

    async def close(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._reading, self._readers.dispose)
        await loop.run_in_executor(self._writing, self._writer.dispose)
        self._reading.shutdown()
        self._writing.shutdown()


class PostgresEngine:
    """A server that several managers may share; its clock decides."""

    keeps_time = True
    lanes = _LANES

    def __init__(self, url: sa.URL) -> None:
        self._engine: AsyncEngine = create_async_engine(
            url, pool_size=_LANES, max_overflow=4, pool_timeout=10, pool_pre_ping=True, connect_args={"timeout": 10, "command_timeout": 30}
        )

    async def write(self, work: Callable[[sa.Connection], T]) -> T:
        try:
            async with self._engine.connect() as connection:
                return await connection.run_sync(work)
        except (sa.exc.DBAPIError, sa.exc.TimeoutError, OSError) as error:
            raise translate(error) from error

    async def read(self, work: Callable[[sa.Connection], T]) -> T:
        return await self.write(work)

    async def tidy(self) -> None:
        """The server does all of that itself."""

    async def close(self) -> None:
        await self._engine.dispose()
