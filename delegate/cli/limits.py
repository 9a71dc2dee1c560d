"""`delegate limits`: how many tasks of an environment, a cluster or a key a manager lets run at once."""

import click

from delegate.cli.calls import call_manager
from delegate.cli.options import output_option, with_settings
from delegate.cli.outputs import Output, print_json, print_table
from delegate.foundation.settings.loading import Loaded
from delegate.foundation.settings.programs import OperatorSettings
from delegate.manager.concurrency import LimitKind

_KIND = click.argument("kind", type=click.Choice([kind.value for kind in LimitKind]))


@click.group()
def limits() -> None:
    """How many tasks of an environment, a cluster or a key run at once. Keys that task documents name have a limit of 1 by default."""


@limits.command(name="list")
@with_settings(OperatorSettings)
@output_option
def list_limits(loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Lists the limits that are set, with what runs under them."""
    listed = call_manager(loaded.settings, lambda client: client.list_limits())
    if output is Output.JSON:
        print_json(listed)
        return
    if not listed.items:
        click.echo("no limit is set")
        return
    rows = [(each.kind, each.name, str(each.max_parallel), str(each.running), each.set_by, each.set_at) for each in listed.items]
    print_table(("KIND", "NAME", "LIMIT", "RUNNING", "SET BY", "AT"), list(rows))


@limits.command(name="set")
@_KIND
@click.argument("name")
@click.argument("most", type=click.IntRange(0, 100_000))
@with_settings(OperatorSettings)
@output_option
def set_limit(kind: str, name: str, most: int, loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Lets at most MOST tasks run at once; 0 pauses. What runs already is left alone. A cluster is named by its uid, or by a name that
    only one has."""
    shown = call_manager(loaded.settings, lambda client: client.set_limit(kind, name, most))
    if output is Output.JSON:
        print_json(shown)
    else:
        click.echo(f"{shown.kind} {shown.name}: at most {shown.max_parallel} at once, {shown.running} running")


@limits.command()
@_KIND
@click.argument("name")
@with_settings(OperatorSettings)
@output_option
def remove(kind: str, name: str, loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Takes a limit away."""
    left = call_manager(loaded.settings, lambda client: client.remove_limit(kind, name))
    if output is Output.JSON:
        print_json(left)
    else:
        click.echo(f"{kind} {name} has no limit any more")
