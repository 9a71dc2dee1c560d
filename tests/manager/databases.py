"""Databases whose tables are there already, made once and copied for each test."""

import asyncio
import functools
import tempfile
from pathlib import Path

from delegate.manager.store.engines import open_engine
from delegate.manager.store.migrating import migrate


@functools.cache
def empty_sqlite() -> bytes:
    """The file of a migrated database."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "empty.db"
        migrate_now(f"sqlite:///{path}")
        return path.read_bytes()


def migrate_now(url: str) -> None:
    """Runs the migrations on a database."""

    async def run() -> None:
        engine = open_engine(url)
        try:
            await migrate(engine)
        finally:
            await engine.close()

    with asyncio.Runner() as runner:
        runner.run(run())
