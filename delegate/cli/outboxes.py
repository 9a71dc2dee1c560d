"""`delegate outbox`: results that the manager has not acknowledged yet, read from the state directory."""

import datetime as dt
from pathlib import Path

import click

from delegate.cli.exits import ExitCode
from delegate.cli.options import output_option, with_settings
from delegate.cli.outputs import Output, print_json, print_table
from delegate.foundation.quantities import format_duration
from delegate.foundation.settings.loading import Loaded
from delegate.foundation.settings.programs import DelegateSettings


@click.group()
def outbox() -> None:
    """Results that the manager has not acknowledged yet. Reads the state directory; changes nothing, also while the daemon runs."""


@outbox.command(name="list")
@with_settings(DelegateSettings, require=False)
@output_option
def list_results(loaded: Loaded[DelegateSettings], output: Output) -> None:
    """What is owed to the manager: undelivered results, and attempts without an end."""
    from delegate.daemon.connection.inspection import list_entries  # noqa: PLC0415 - not before it is needed

    entries = list_entries(_directory(loaded), dt.datetime.now(dt.UTC))
    if output is Output.JSON:
        print_json({"entries": entries})
        return
    if not entries:
        click.echo("nothing is owed to the manager")
        return
    rows: list[tuple[str, ...]] = [
        (
            entry.attempt,
            entry.state,
            entry.kind,
            entry.application,
            entry.outcome or "-",
            "-" if entry.age_seconds is None else format_duration(round(entry.age_seconds)),
            str(entry.bytes),
        )
        for entry in entries
    ]
    print_table(("ATTEMPT", "STATE", "KIND", "APPLICATION", "OUTCOME", "AGE", "BYTES"), rows)


outbox.add_command(list_results, "ls")


@outbox.command()
@with_settings(DelegateSettings, require=False)
@output_option
def verify(loaded: Loaded[DelegateSettings], output: Output) -> ExitCode:
    """Checks every record: 0 if all are what was written, 1 if one is damaged. A torn end was never promised, and is no damage."""
    from delegate.daemon.connection.inspection import verify as verify_journals  # noqa: PLC0415

    directory = _directory(loaded)
    checks = verify_journals(directory)
    damaged = any(check.damages for check in checks)
    if output is Output.JSON:
        print_json({"journals": checks, "sound": not damaged})
        return ExitCode.FAILED if damaged else ExitCode.DONE
    for check in checks:
        user = ", in use" if check.living else ""
        torn = f", {check.torn_bytes} bytes of a torn end" if check.torn_bytes else ""
        click.echo(f"{check.file}: {check.records} records, {check.results} results{torn}{user}")
        for damage in check.damages:
            click.echo(f"  damaged: {damage}")
    if not checks:
        click.echo(f"{directory}: no journal, so nothing is owed to the manager")
    return ExitCode.FAILED if damaged else ExitCode.DONE


def _directory(loaded: Loaded[DelegateSettings]) -> Path:
    return loaded.settings.identity.state_dir / "outbox"
