"""`delegate dlq redrive`: sends dead letters round again, by the manager; and what the manager knows of letters."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from delegate.cli.calls import call_manager
from delegate.cli.exits import ExitCode
from delegate.cli.options import output_option, with_settings
from delegate.cli.outputs import Output, UsageFaultError, print_json, print_table
from delegate.foundation.quantities import parse_duration
from delegate.foundation.settings.loading import Loaded, load
from delegate.foundation.settings.programs import OperatorSettings
from delegate.foundation.telemetry.metrics import DEAD_LETTER_REASONS
from delegate.model.resources import JsonObject

if TYPE_CHECKING:
    from delegate.cli.manager_client import ManagerClient
    from delegate.manager.letter_views import RedriveView

T = TypeVar("T")
_POLL_SECONDS = 0.5


@click.command()
@click.argument("letters", nargs=-1)
@click.option("--reason", "reasons", multiple=True, type=click.Choice(DEAD_LETTER_REASONS), help="May be given several times.")
@click.option("--app", "application", default="", help="Of this application.")
@click.option("--task", default="", help="Of this task.")
@click.option("--kind", default="", help="Of tasks of this kind.")
@click.option("--delegate", "from_delegate", default="", metavar="NAME", help="Written by this delegate.")
@click.option("--cluster", default="", metavar="UID", help="Of tasks for this cluster.")
@click.option("--error-code", default="", help="With this code of the first error, as transient.git_unreachable.")
@click.option("--older-than", metavar="DURATION", default="", help="Written at least so long ago, as 24h.")
@click.option("--all", "everything", is_flag=True, help="All letters that the manager knows.")
@click.option("--rate", type=click.FloatRange(0.01, 1000.0), default=10.0, show_default=True, help="Letters a second, at most.")
@click.option("--dry-run", is_flag=True, help="Says what would be done.")
@click.option("--wait/--no-wait", default=True, help="Watches it to its end.")
@click.option("--cancel", "cancelled", default="", metavar="ID", help="Ends this redrive; what was moved stays moved.")
@click.option("--show", "shown", default="", metavar="ID", help="How far this redrive is.")
@click.option("--list", "listed", is_flag=True, help="Redrives, the newest first.")
@with_settings(OperatorSettings)
@output_option
def redrive(loaded: Loaded[OperatorSettings], output: Output, **given: Any) -> ExitCode:
    """Queues what dead letters are about again, each once, as new tasks that name the old ones.

    The manager does it, one redrive at a time, and goes on by itself when it was restarted. Letters by their whole ids, by what they are,
    or all. Exit codes: 0 done, 1 it was cancelled.
    """
    if given["listed"]:
        return _list(loaded, output)
    if given["cancelled"]:
        return _print(_call_manager(loaded, lambda client: client.cancel_redrive(given["cancelled"])), output)
    if given["shown"]:
        return _print(_call_manager(loaded, lambda client: client.show_redrive(given["shown"])), output)
    selection = _selection(**{name: given[name] for name in ("letters", "reasons", *_PLAIN, "from_delegate", "older_than")})
    if not selection and not given["everything"]:
        raise UsageFaultError("nothing says which letters to send again", hint="name them, choose by --reason, --app, ..., or give --all")
    if selection and given["everything"]:
        raise UsageFaultError("--all and a choice of letters exclude each other")
    order: JsonObject = {"filter": selection, "rate": given["rate"], "dryRun": given["dry_run"]}

    async def work(client: "ManagerClient") -> "RedriveView":
        begun = await client.redrive(order)
        if given["dry_run"] or not given["wait"]:
            return begun
        click.echo(f"redrive {begun.id} has begun: {begun.total} letters", err=True)
        while begun.state == "running":
            await asyncio.sleep(_POLL_SECONDS)
            begun = await client.show_redrive(begun.id)
        return begun

    return _print(_call_manager(loaded, work), output)


def _call_manager(loaded: Loaded[OperatorSettings] | None, work: "Callable[[ManagerClient], Awaitable[T]]") -> T:
    """As `call_manager`; without settings at hand, those of the environment are taken."""
    return call_manager((loaded or load(OperatorSettings)).settings, work)


def list_known(output: Output, *, reasons: tuple[str, ...], application: str, task: str, older_than: str, most: int) -> None:
    """The letters that the manager knows, oldest first."""
    selection = _selection(letters=(), reasons=reasons, application=application, task=task, older_than=older_than)
    listed = _call_manager(None, lambda client: client.list_letters({**selection, "state": "", "limit": min(most, 500)}))
    if output is Output.JSON:
        print_json(listed)
        return
    rows: list[tuple[str, ...]] = [
        (
            each.id[:12],
            each.reason,
            each.application or "-",
            each.task or "-",
            each.delegate or "the manager",
            each.redriven_as or each.not_redrivable or each.state,
            each.url or "-",
        )
        for each in listed.items
    ]
    print_table(("LETTER", "REASON", "APPLICATION", "TASK", "DELEGATE", "STATE", "URL"), rows)
    if listed.continue_:
        click.echo(f"there are more than {len(rows)}; --reason, --app and --older-than choose", err=True)


def purge_known(output: Output, *, everything: bool, dry_run: bool, **selected: Any) -> None:
    """Takes letters out of the manager's index."""
    order: JsonObject = {"filter": {**_selection(**selected), "state": ""}, "all": everything, "dryRun": dry_run}
    purged = _call_manager(None, lambda client: client.purge_letters(order))
    if output is Output.JSON:
        print_json(purged)
        return
    click.echo(f"{'would purge' if dry_run else 'purged'} {purged.letters} letters at the manager")


_PLAIN = ("application", "task", "kind", "cluster", "error_code")


def _selection(
    *, letters: tuple[str, ...] = (), reasons: tuple[str, ...] = (), from_delegate: str = "", older_than: str = "", **plain: str
) -> JsonObject:
    try:
        age = parse_duration(older_than) if older_than else 0.0
    except ValueError as error:
        raise UsageFaultError(f"--older-than: {error}") from error
    names = {"error_code": "errorCode"}
    chosen: JsonObject = {names.get(name, name): value for name, value in plain.items()}
    chosen |= {"id": ",".join(letters), "reason": ",".join(reasons), "delegate": from_delegate, "olderThanSeconds": age}
    return {name: value for name, value in chosen.items() if value not in ("", 0.0)}


def _list(loaded: Loaded[OperatorSettings], output: Output) -> ExitCode:
    listed = _call_manager(loaded, lambda client: client.list_redrives())
    if output is Output.JSON:
        print_json(listed)
        return ExitCode.DONE
    rows: list[tuple[str, ...]] = [
        (each.id, each.state, f"{each.moved}/{each.total}", each.started_by, each.started_at, each.ended_at or "-") for each in listed.items
    ]
    print_table(("REDRIVE", "STATE", "MOVED", "BY", "STARTED", "ENDED"), rows)
    return ExitCode.DONE


def _print(shown: "RedriveView", output: Output) -> ExitCode:
    if output is Output.JSON:
        print_json(shown)
    else:
        skipped = "".join(f", {count} skipped: {why}" for why, count in sorted(shown.skipped.items()))
        if shown.state == "dry_run":
            seconds = math.ceil(shown.moved / shown.rate) if shown.rate else 0
            click.echo(f"would queue {shown.moved} of {shown.total} letters again within {seconds} s{skipped}")
        else:
            click.echo(f"redrive {shown.id} is {shown.state}: {shown.moved} of {shown.total} letters queued again{skipped}")
    return ExitCode.FAILED if shown.state == "cancelled" else ExitCode.DONE
