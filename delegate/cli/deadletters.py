"""`delegate dlq`: dead letters, in the spool of this machine, in the bucket, and as the manager knows them."""

import datetime as dt
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from delegate.cli.exits import ExitCode
from delegate.cli.loops import run_async
from delegate.cli.options import output_option, with_settings
from delegate.cli.outputs import Output, UsageFaultError, print_json, print_table
from delegate.cli.redriving import list_known, purge_known, redrive
from delegate.foundation.quantities import format_duration, parse_duration
from delegate.foundation.settings.loading import Loaded
from delegate.foundation.settings.programs import DelegateSettings
from delegate.foundation.telemetry.metrics import DEAD_LETTER_REASONS

if TYPE_CHECKING:
    from delegate.daemon.deadletters.bucket import Bucket
    from delegate.daemon.deadletters.inspection import Selection, StoredRow
    from delegate.daemon.deadletters.letter import Letter

Command = TypeVar("Command", bound=Callable[..., Any])
T = TypeVar("T")
_SHORTEST_BEGINNING = 6


@click.group()
def dlq() -> None:
    """Dead letters: what could not be read, delivered or done. Works on the files, also while the daemon runs.

    Letters wait in the spool (DELEGATE_DLQ_DIR) until they are moved to the bucket (DLQ_BUCKET), if one is set. The manager is told of
    each, and can queue what they are about again: `delegate dlq redrive`, with DELEGATE_MANAGER_URL and DELEGATE_API_TOKEN.
    """


dlq.add_command(redrive)


def selection_options(command: Command) -> Command:
    """Which letters are meant, as `selection`."""

    def decorate(wrapped: Any) -> Any:
        for option in (
            click.option("--older-than", metavar="DURATION", default="", help="Written at least so long ago, as 24h."),
            click.option("--task", default="", help="Of this task."),
            click.option("--app", "application", default="", help="Of this application."),
            click.option("--reason", "reasons", multiple=True, type=click.Choice(DEAD_LETTER_REASONS), help="May be given several times."),
        ):
            wrapped = option(wrapped)
        return wrapped

    result: Command = decorate(command)
    return result


manager_option = click.option("--at-manager", is_flag=True, help="Those that the manager knows, of all delegates.")
bucket_option = click.option("--bucket", "in_bucket", is_flag=True, help="Those that are in the bucket instead of the spool.")
prefix_option = click.option("--prefix", default="", metavar="DELEGATE[/YYYY/MM/DD]", help="With --bucket: only those keys.")
most_option = click.option(
    "--most", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="With --bucket: at most so many."
)


@dlq.command(name="list")
@selection_options
@manager_option
@bucket_option
@prefix_option
@most_option
@with_settings(DelegateSettings, require=False)
@output_option
def list_letters(
    *, loaded: Loaded[DelegateSettings], output: Output, at_manager: bool, in_bucket: bool, prefix: str, most: int, **selected: Any
) -> None:
    """Letters, oldest first."""
    if at_manager:
        list_known(output, most=most, **selected)
        return
    from delegate.daemon.deadletters import inspection  # noqa: PLC0415 - not before it is needed

    selection = _selection(**selected)
    if in_bucket:
        _refuse_selection(selection)
        _list_stored(loaded, prefix, most, output)
        return
    rows = inspection.list_letters(loaded.settings.dead_letters.directory, selection, dt.datetime.now(dt.UTC))
    if output is Output.JSON:
        print_json({"letters": rows})
    elif not rows:
        click.echo("no dead letters")
    else:
        lines: list[tuple[str, ...]] = [
            (
                row.id[:12],
                "damaged" if row.damaged else row.reason,
                row.application or "-",
                row.task or "-",
                row.outcome or "-",
                format_duration(round(row.age_seconds)),
                str(row.size),
                row.part or "-",
            )
            for row in rows
        ]
        print_table(("LETTER", "REASON", "APPLICATION", "TASK", "OUTCOME", "AGE", "BYTES", "PART"), lines)


@dlq.command()
@click.argument("letter")
@with_settings(DelegateSettings, require=False)
@output_option
def show(loaded: Loaded[DelegateSettings], output: Output, letter: str) -> None:
    """One letter with its payload: by the beginning of its id in the spool, or by its s3:// URL."""
    from delegate.daemon.deadletters import inspection  # noqa: PLC0415

    if letter.startswith("s3://"):
        found: Letter = _with_bucket(loaded, lambda bucket: inspection.find_stored(bucket, letter))
    else:
        found = inspection.find_letter(loaded.settings.dead_letters.directory, letter)
    document = msgspec.to_builtins(found)
    if output is Output.JSON:
        print_json(document)
        return
    payload = document.pop("payload")
    for name, value in document.items():
        if isinstance(value, str | int) and value not in ("", 0):
            click.echo(f"{name}: {value}")
    if found.redaction.masked:
        click.echo(f"masked: {found.redaction.masked} values")
    for error in found.errors:
        click.echo(f"error: {error.code}: {error.message}")
    click.echo(f"payload ({payload['kind']}, {payload['encoding']}, {payload['size']} bytes):")
    content = payload["content"]
    click.echo(content if isinstance(content, str) else msgspec.json.format(msgspec.json.encode(content), indent=2).decode())


@dlq.command()
@bucket_option
@prefix_option
@most_option
@with_settings(DelegateSettings, require=False)
@output_option
def verify(loaded: Loaded[DelegateSettings], output: Output, in_bucket: bool, prefix: str, most: int) -> ExitCode:
    """Checks every letter's bytes against the digest in its name: 0 if all are what was written, 1 if one is not."""
    from delegate.daemon.deadletters import inspection  # noqa: PLC0415

    if in_bucket:
        return _verify_stored(loaded, prefix, most, output)
    check = inspection.check_spool(loaded.settings.dead_letters.directory)
    if output is Output.JSON:
        print_json(msgspec.to_builtins(check) | {"sound": check.sound})
    else:
        click.echo(f"{check.directory}: {check.letters} letters, {check.size} bytes")
        for each in check.damaged:
            click.echo(f"  damaged: {each}")
        for each in check.foreign:
            click.echo(f"  no letter, left alone: {each}")
    return ExitCode.DONE if check.sound else ExitCode.FAILED


@dlq.command()
@click.argument("letters", nargs=-1)
@selection_options
@click.option("--all", "everything", is_flag=True, help="All letters of the spool.")
@click.option("--damaged", is_flag=True, help="Files that were set aside because they are not what was written.")
@click.option("--dry-run", is_flag=True, help="Says what would go, and leaves it.")
@manager_option
@with_settings(DelegateSettings, require=False)
@output_option
def purge(
    *,
    loaded: Loaded[DelegateSettings],
    output: Output,
    letters: tuple[str, ...],
    everything: bool,
    damaged: bool,
    dry_run: bool,
    at_manager: bool,
    **selected: Any,
) -> None:
    """Takes letters out of the spool for good: by the beginnings of their ids, by what they are, or all.

    With --at-manager out of the manager's index, by whole ids; the letters themselves stay where they are.
    """
    from delegate.daemon.deadletters import inspection  # noqa: PLC0415

    if any(len(each) < _SHORTEST_BEGINNING for each in letters):
        raise UsageFaultError(f"give at least {_SHORTEST_BEGINNING} characters of a letter's id")
    selection = _selection(ids=letters, **selected)
    if selection.everything and not (everything or damaged):
        raise UsageFaultError("nothing says which letters to purge", hint="name them, choose by --reason, --app, ..., or give --all")
    if not selection.everything and everything:
        raise UsageFaultError("--all and a choice of letters exclude each other")
    if at_manager:
        purge_known(output, everything=everything, dry_run=dry_run, letters=letters, **selected)
        return
    directory = loaded.settings.dead_letters.directory
    purged = inspection.purge(
        directory, selection, dt.datetime.now(dt.UTC), letters=everything or not selection.everything, damaged=damaged, dry_run=dry_run
    )
    if output is Output.JSON:
        print_json(purged)
        return
    count = len(purged.letters) + len(purged.damaged_files)
    click.echo(f"{'would purge' if dry_run else 'purged'} {count} letters, {purged.size} bytes")


def _list_stored(loaded: Loaded[DelegateSettings], prefix: str, most: int, output: Output) -> None:
    from delegate.daemon.deadletters import inspection  # noqa: PLC0415

    rows, more = _with_bucket(loaded, lambda bucket: inspection.list_stored(bucket, prefix=prefix, most=most))
    if output is Output.JSON:
        print_json({"letters": rows, "more": more})
        return
    print_table(("DELEGATE", "DAY", "TASK", "BYTES", "URL"), [(row.delegate, row.day, row.task, str(row.size), row.url) for row in rows])
    if more:
        click.echo(f"there are more than {len(rows)}; --prefix and --most choose", err=True)


def _verify_stored(loaded: Loaded[DelegateSettings], prefix: str, most: int, output: Output) -> ExitCode:
    from delegate.daemon.deadletters import inspection  # noqa: PLC0415

    async def check(bucket: "Bucket") -> "tuple[list[StoredRow], bool]":
        rows, more = await inspection.list_stored(bucket, prefix=prefix, most=most)
        return await inspection.check_stored(bucket, rows), more

    rows, more = _with_bucket(loaded, check)
    wrong = [row for row in rows if row.wrong]
    if output is Output.JSON:
        print_json({"letters": len(rows), "wrong": wrong, "more": more, "sound": not wrong})
    else:
        click.echo(f"{len(rows)} letters read" + (", and there are more" if more else ""))
        for row in wrong:
            click.echo(f"  damaged: {row.url}: {row.wrong}")
    return ExitCode.FAILED if wrong else ExitCode.DONE


def _with_bucket(loaded: Loaded[DelegateSettings], call: "Callable[[Bucket], Coroutine[Any, Any, T]]") -> T:
    from delegate.daemon.connection.trust import tls_context  # noqa: PLC0415
    from delegate.daemon.deadletters.bucket import Bucket  # noqa: PLC0415
    from delegate.foundation.settings.proxies import ProxyRules  # noqa: PLC0415

    settings = loaded.settings
    authorities = settings.network.ssl_cert_file

    async def run() -> T:
        bucket = Bucket.of_settings(
            settings.dead_letters,
            proxy_for=ProxyRules.from_settings(settings.network).address_for,
            tls=lambda: tls_context(authorities),
        )
        if bucket is None:
            raise UsageFaultError("no bucket is set", hint="set DLQ_BUCKET to s3://bucket/prefix")
        try:
            return await call(bucket)
        finally:
            await bucket.close()

    return run_async(run())


def _selection(*, reasons: tuple[str, ...], application: str, task: str, older_than: str, ids: tuple[str, ...] = ()) -> "Selection":
    from delegate.daemon.deadletters.inspection import Selection  # noqa: PLC0415

    try:
        age = parse_duration(older_than) if older_than else 0.0
    except ValueError as error:
        raise UsageFaultError(f"--older-than: {error}") from error
    return Selection(ids=ids, reasons=reasons, application=application, task=task, older_than_seconds=age)


def _refuse_selection(selection: "Selection") -> None:
    if not selection.everything:
        raise UsageFaultError(
            "letters in the bucket are chosen by --prefix alone", hint="keys begin with the delegate's name, then the day"
        )
