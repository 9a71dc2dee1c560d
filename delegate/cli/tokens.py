"""`delegate token`: tokens at a manager."""

import click

from delegate.cli.calls import call_manager
from delegate.cli.options import output_option, with_settings
from delegate.cli.outputs import Output, UsageFaultError, print_json, print_table
from delegate.foundation.quantities import parse_duration
from delegate.foundation.settings.kinds import parse_labels
from delegate.foundation.settings.loading import Loaded
from delegate.foundation.settings.programs import OperatorSettings
from delegate.manager.selectors import show_labels
from delegate.model.resources import JsonObject


@click.group()
def token() -> None:
    """Tokens at a manager: for delegates to enrol with, and for operators."""


@token.command()
@click.option("--name", required=True, help="What to call it.")
@click.option("--scope", required=True, help="GITOPS for all task kinds, single kinds separated by commas, or admin for an operator.")
@click.option("--expires-in", default="2160h", show_default=True, metavar="DURATION", help="How long it lives.")
@click.option("--labels", default="", metavar="KEY=VALUE,...", help="Stamped on every delegate that enrols with it.")
@click.option("--description", default="", help="What it is for.")
@click.option("--max-uses", type=click.IntRange(min=1), default=None, help="How many delegates may enrol with it.")
@with_settings(OperatorSettings)
@output_option
def create(
    *,
    name: str,
    scope: str,
    expires_in: str,
    labels: str,
    description: str,
    max_uses: int | None,
    loaded: Loaded[OperatorSettings],
    output: Output,
) -> None:
    """Creates a token and prints its secret, which nobody can read again."""
    wanted: JsonObject = {"name": name, "scope": scope, "expiresIn": _duration(expires_in), "labels": _labels(labels)}
    wanted |= {"description": description, "maxUses": max_uses}
    created = call_manager(loaded.settings, lambda client: client.create_token(wanted))
    if output is Output.JSON:
        print_json(created)
        return
    shown = created.token
    click.echo(created.secret)
    click.echo(f"token {shown.name} with scope {', '.join(shown.scopes)}, until {shown.expires_at}; it is not shown again", err=True)


def _duration(text: str) -> str:
    try:
        parse_duration(text)
    except ValueError as error:
        raise UsageFaultError(f"--expires-in: {error}") from error
    return text


def _labels(text: str) -> dict[str, str]:
    try:
        return parse_labels(text)
    except ValueError as error:
        raise UsageFaultError(f"--labels: {error}") from error


@token.command(name="list")
@with_settings(OperatorSettings)
@output_option
def list_tokens(loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Lists tokens, without their secrets."""
    listed = call_manager(loaded.settings, lambda client: client.list_tokens())
    if output is Output.JSON:
        print_json(listed)
        return
    rows: list[tuple[str, ...]] = [
        (each.name, each.state, ",".join(each.scopes), each.expires_at or "never", str(each.uses), show_labels(each.labels) or "-")
        for each in listed.items
    ]
    print_table(("NAME", "STATE", "SCOPE", "EXPIRES", "USES", "LABELS"), rows)


@token.command()
@click.argument("name")
@with_settings(OperatorSettings)
@output_option
def revoke(name: str, loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Revokes a token, by name or id, and the delegates that were enrolled with it: for good, and at once."""
    revoked = call_manager(loaded.settings, lambda client: client.revoke_token(name))
    if output is Output.JSON:
        print_json(revoked)
    else:
        click.echo(f"token {revoked.name} is revoked, and with it the delegates that enrolled with it")
