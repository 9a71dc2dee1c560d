"""Runs migrations on the connection that it is given; there is no other way in."""

from alembic import context

from delegate.manager.store.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=connection.dialect.name == "sqlite")
with context.begin_transaction():
    context.run_migrations()
