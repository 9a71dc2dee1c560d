"""Brings the tables of a database up to date (alembic), at each start and by `delegate manager migrate`."""

import logging
from typing import TYPE_CHECKING

import sqlalchemy as sa

from delegate.manager.store.engines import Engine
from delegate.manager.store.errors import StoreError

if TYPE_CHECKING:
    from alembic.config import Config

_ONE_AT_A_TIME = sa.text("SELECT pg_advisory_lock(7310229)")
_DONE = sa.text("SELECT pg_advisory_unlock(7310229)")


def _configuration() -> "Config":
    from alembic.config import Config  # noqa: PLC0415 - see _migrate

    configuration = Config()
    configuration.set_main_option("script_location", "delegate.manager.store:migrations")
    return configuration


async def migrate(engine: Engine) -> tuple[str, str]:
    """Runs the missing migrations; the revisions before and after. Raises StoreError for a database of a newer version."""
    return await engine.write(_migrate)


def _migrate(connection: sa.Connection) -> tuple[str, str]:
    logging.getLogger("alembic").setLevel(logging.WARNING)  # before the import, which tells of every plugin
    shared = connection.dialect.name == "postgresql"
    if shared:
        connection.execute(_ONE_AT_A_TIME)
        connection.commit()
    try:
        with connection.begin():
            return _upgrade(connection)
    finally:
        if shared:
            connection.execute(_DONE)
            connection.commit()


def _upgrade(connection: sa.Connection) -> tuple[str, str]:
    from alembic import command  # noqa: PLC0415
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    configuration = _configuration()
    scripts = ScriptDirectory.from_config(configuration)
    before = MigrationContext.configure(connection).get_current_revision() or ""
    if before and before not in {script.revision for script in scripts.walk_revisions()}:
        raise StoreError(
            f"the database is at revision {before}, which this version doesn't know",
            hint="it was used by a newer version: install that one, or restore a backup",
            code="manager.database_newer",
        )
    head = scripts.get_current_head() or ""
    if before != head:
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, "head")
    return before, head
