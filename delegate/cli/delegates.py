"""`delegate delegates`: delegates as a manager sees them."""

import click

from delegate.cli.calls import call_manager
from delegate.cli.options import output_option, with_settings
from delegate.cli.outputs import Output, print_json, print_table
from delegate.foundation.settings.loading import Loaded
from delegate.foundation.settings.programs import OperatorSettings
from delegate.manager.selectors import show_labels
from delegate.manager.views import DelegateView


@click.group()
def delegates() -> None:
    """Delegates, as a manager sees them."""


@delegates.command(name="list")
@click.option("--revoked", is_flag=True, help="Also the revoked ones.")
@with_settings(OperatorSettings)
@output_option
def list_delegates(revoked: bool, loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Lists delegates with their health and connection."""
    listed = call_manager(loaded.settings, lambda client: client.list_delegates(revoked=revoked))
    if output is Output.JSON:
        print_json(listed)
        return
    if not listed.items:
        click.echo("no delegate has enrolled")
        return
    print_table(
        ("NAME", "HEALTH", "CONNECTION", "RUNNING", "CLUSTERS", "LABELS", "VERSION", "HEARTBEAT", "REASONS"),
        [_row(each) for each in listed.items],
    )


def _row(each: DelegateView) -> tuple[str, ...]:
    heartbeat = "never" if each.heartbeat_seconds_ago is None else f"{each.heartbeat_seconds_ago:g} s ago"
    return (
        each.name,
        each.health,
        each.connection + (" (draining)" if each.draining else ""),
        f"{each.running}/{each.capacity}",
        ",".join(each.clusters) or "-",
        show_labels(each.labels) or "-",
        each.version or "-",
        heartbeat,
        "; ".join(each.reasons) or "-",
    )


@delegates.command()
@click.argument("name")
@with_settings(OperatorSettings)
@output_option
def revoke(name: str, loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Cuts a delegate off, by id or by a name that no other has: for good, and at once. Only a token that is made later enrols it again."""
    revoked = call_manager(loaded.settings, lambda client: client.revoke_delegate(name))
    if output is Output.JSON:
        print_json(revoked)
    else:
        click.echo(f"delegate {revoked.name} ({revoked.id}) is revoked")
