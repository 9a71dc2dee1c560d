"""`delegate manager`: the manager itself."""

import asyncio

import click

from delegate.cli.exits import ExitCode
from delegate.cli.extras import require_extra
from delegate.cli.identities import authorities, certificates, cluster_keys
from delegate.cli.loops import loop_factory
from delegate.cli.options import output_option, with_settings
from delegate.cli.outputs import Output, print_json
from delegate.foundation.settings.loading import Loaded
from delegate.foundation.settings.programs import ManagerSettings

_LIBRARIES = ("sqlalchemy", "alembic", "asyncpg", "jinja2", "jwt")


@click.group()
def manager() -> None:
    """The manager: the queue, the tokens, and what is known of delegates."""


for _group in (cluster_keys, certificates, authorities):
    manager.add_command(_group)


@manager.command()
@with_settings(ManagerSettings)
def serve(loaded: Loaded[ManagerSettings]) -> ExitCode:
    """Serves until SIGTERM. At the first start an admin token is written into the state directory (admin-token, mode 0600)."""
    require_extra("manager", *_LIBRARIES)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(loaded.settings))
    return ExitCode.DONE


async def _serve(settings: ManagerSettings) -> None:
    from delegate.foundation.lifecycle import StopRequests, stop_on_signals  # noqa: PLC0415 - loaded once the settings are known to be good
    from delegate.manager.service import serve as serve_manager  # noqa: PLC0415

    stops = StopRequests()
    with stop_on_signals(stops):
        await serve_manager(settings, stops)


@manager.command()
@with_settings(ManagerSettings)
@output_option
def migrate(loaded: Loaded[ManagerSettings], output: Output) -> None:
    """Brings the tables of the database up to date; `serve` does the same at its start."""
    require_extra("manager", *_LIBRARIES)
    with asyncio.Runner() as runner:
        before, after = runner.run(_migrate(loaded.settings.storage.database_url.reveal()))
    if output is Output.JSON:
        print_json({"before": before, "after": after})
    elif before == after:
        click.echo(f"the tables are up to date (revision {after})")
    else:
        click.echo(f"migrated from {before or 'nothing'} to revision {after}")


async def _migrate(url: str) -> tuple[str, str]:
    from delegate.manager.store.engines import open_engine  # noqa: PLC0415 - the manager's libraries
    from delegate.manager.store.migrating import migrate as run_migrations  # noqa: PLC0415

    engine = open_engine(url)
    try:
        return await run_migrations(engine)
    finally:
        await engine.close()
