"""`delegate task`: tasks at a manager."""

import asyncio
from typing import TYPE_CHECKING

import click
import msgspec

from delegate.cli.calls import call_manager
from delegate.cli.documents import read_task_file
from delegate.cli.exits import ExitCode
from delegate.cli.options import output_option, with_settings
from delegate.cli.outputs import Output, print_json, print_table
from delegate.cli.progress import LineProgress
from delegate.cli.results import exit_code_of_result, show_result
from delegate.cli.signing import make_key_file, sign_with
from delegate.foundation.errors import DelegateError
from delegate.foundation.settings.loading import Loaded
from delegate.foundation.settings.programs import OperatorSettings
from delegate.manager.pausing import describe_pause, state_of
from delegate.manager.views import TaskSummary, TaskView
from delegate.model.resources import JsonObject
from delegate.model.results import TaskResult

if TYPE_CHECKING:
    from delegate.cli.manager_client import ManagerClient

_POLL_SECONDS = 0.5
_PATIENCE_SECONDS = 120.0
_FINISHED = "finished"


@click.group()
def task() -> None:
    """Tasks, at a manager."""


@task.command()
@click.argument("file", metavar="FILE")
@click.option("--wait/--no-wait", default=False, help="Watches it to its end; the exit code is then that of the task.")
@click.option("--sign-key", metavar="FILE", default="", help="Signs it with this private key, for delegates that want that.")
@click.option("--sign-for", metavar="DURATION", default="24h", show_default=True, help="How long it may wait before it begins.")
@with_settings(OperatorSettings)
@output_option
def submit(*, file: str, wait: bool, sign_key: str, sign_for: str, loaded: Loaded[OperatorSettings], output: Output) -> ExitCode:
    """Queues a task document (YAML or JSON, `-` for standard input) or an Argo CD Application."""
    document = sign_with(read_task_file(file), sign_key, sign_for).document()

    async def work(client: "ManagerClient") -> TaskView:
        queued = await client.submit_task(document)
        if not wait:
            return await client.show_task(queued.task.id)
        click.echo(f"task {queued.task.id} is queued", err=True)
        return await _follow(client, queued.task.id, tell=output is Output.TEXT)

    shown = call_manager(loaded.settings, work)
    if wait:
        return _end(shown, output)
    if output is Output.JSON:
        print_json(shown)
    else:
        click.echo(shown.task.id)
        if shown.why_queued:
            click.echo(shown.why_queued, err=True)
    return ExitCode.DONE


@task.command()
@click.argument("file", metavar="FILE")
@click.option("--sign-key", metavar="FILE", required=True, help="The private key.")
@click.option("--sign-for", metavar="DURATION", default="24h", show_default=True, help="How long it may wait before it begins.")
def sign(file: str, sign_key: str, sign_for: str) -> None:
    """Prints a task document, signed: for a machine that has the key and no way to the manager. Submit what it prints."""
    print_json(sign_with(read_task_file(file), sign_key, sign_for).document())


@task.command(name="make-key")
@click.argument("file", metavar="FILE")
def make_key(file: str) -> None:
    """Makes a key that signs tasks, in a new FILE that its owner alone can read, and prints its public half for delegates' policies."""
    click.echo(make_key_file(file))


@task.command(name="list")
@click.option("--state", type=click.Choice(["queued", "running", _FINISHED]), default=None)
@click.option("--outcome", default="", help="How they ended.")
@click.option("--kind", default="", help="Their kind, such as sync.")
@click.option("--app", "application", default="", metavar="NAME", help="Their application.")
@click.option("--cluster", default="", help="Name or uid of their cluster.")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--continue", "continue_", default="", metavar="TOKEN", help="What the page before ended with.")
@with_settings(OperatorSettings)
@output_option
def list_tasks(
    *,
    state: str | None,
    outcome: str,
    kind: str,
    application: str,
    cluster: str,
    limit: int,
    continue_: str,
    loaded: Loaded[OperatorSettings],
    output: Output,
) -> None:
    """Lists tasks, the newest first."""
    wanted: dict[str, str | int] = {"state": state or "", "outcome": outcome, "kind": kind, "application": application}
    wanted |= {"cluster": cluster, "limit": limit, "continue": continue_}
    listed = call_manager(loaded.settings, lambda client: client.list_tasks(**wanted))
    if output is Output.JSON:
        print_json(listed)
        return
    rows = [_row(each) for each in listed.items]
    print_table(("ID", "KIND", "APPLICATION", "STATE", "CLUSTER", "DELEGATE", "CREATED", "MESSAGE"), rows)
    if listed.continue_:
        click.echo(f"there are more: --continue {listed.continue_}", err=True)


def _row(each: TaskSummary) -> tuple[str, ...]:
    message = describe_pause(each) or each.message
    message = message if len(message) <= 80 else message[:79] + "…"
    return (
        each.id,
        each.kind,
        each.application,
        state_of(each),
        each.destination.name or "-",
        each.delegate or "-",
        each.created_at,
        message or "-",
    )


@task.command()
@click.argument("task_id", metavar="ID")
@with_settings(OperatorSettings)
@output_option
def show(task_id: str, loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Shows a task: its attempts, its result, and why it is queued."""
    shown = call_manager(loaded.settings, lambda client: client.show_task(task_id))
    if output is Output.JSON:
        print_json(shown)
        return
    _print_task(shown)


def _print_task(shown: TaskView) -> None:
    summary = shown.task
    lines = [
        ("task", summary.id),
        ("kind", summary.kind),
        ("application", summary.application),
        ("cluster", summary.destination.name or "-"),
        ("state", state_of(summary)),
        ("why queued", shown.why_queued),
        ("paused", describe_pause(summary)),
        ("go on with", f"delegate task resume {summary.id} --pause {summary.paused.number}" if summary.paused is not None else ""),
        ("stop requested", summary.stop_requested),
        ("message", summary.message),
        ("submitted", f"{summary.created_at} by {summary.submitted_by}"),
        ("started", summary.started_at),
        ("finished", summary.finished_at),
        ("retry of", summary.retry_of),
        ("superseded by", summary.superseded_by),
    ]
    width = max(len(name) for name, value in lines if value)
    for name, value in lines:
        if value:
            click.echo(f"{name.ljust(width)}  {value}")
    if shown.attempts:
        click.echo()
        rows = [
            (str(each.number), str(each.fence), each.delegate, each.outcome or each.state, each.started_at, each.reason or "-")
            for each in shown.attempts
        ]
        print_table(("ATTEMPT", "FENCE", "DELEGATE", "STATE", "STARTED", "REASON"), list(rows))
    result = _result_of(shown)
    if result is not None:
        click.echo()
        show_result(result, Output.TEXT)


@task.command()
@click.argument("task_id", metavar="ID")
@with_settings(OperatorSettings)
@output_option
def watch(task_id: str, loaded: Loaded[OperatorSettings], output: Output) -> ExitCode:
    """Follows a task to its end. Exit codes: 0 it succeeded, 1 it ended in anything else."""
    shown = call_manager(loaded.settings, lambda client: _follow(client, task_id, tell=output is Output.TEXT))
    return _end(shown, output)


@task.command()
@click.argument("task_id", metavar="ID")
@click.option("--reason", default="", help="Told to whoever looks at the task.")
@with_settings(OperatorSettings)
@output_option
def cancel(task_id: str, reason: str, loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Cancels a task: a queued one at once, a running one by its delegate."""
    answer = call_manager(loaded.settings, lambda client: client.cancel_task(task_id, reason))
    if output is Output.JSON:
        print_json(answer)
        return
    words = {
        "cancelled": f"task {task_id} is cancelled",
        "cancel_requested": f"task {task_id} is running; its delegate is told to stop it",
        "already_finished": f"task {task_id} had ended before: {answer.task.outcome}",
    }
    click.echo(words.get(answer.effect, answer.effect))


@task.command()
@click.argument("task_id", metavar="ID")
@click.option("--pause", type=click.IntRange(0), default=0, metavar="NUMBER", help="The pause that is over, as `task show` counts them.")
@with_settings(OperatorSettings)
@output_option
def resume(task_id: str, pause: int, loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Has a canary go on that pauses, or is held. Without --pause: from where it stands now; with it, it may be repeated."""
    answer = call_manager(loaded.settings, lambda client: client.resume_task(task_id, pause))
    if output is Output.JSON:
        print_json(answer)
    elif answer.effect == "already_resumed":
        click.echo(f"task {task_id} was resumed from pause {pause} before")
    else:
        where = f" from pause {answer.task.paused.number}" if answer.task.paused is not None else ""
        click.echo(f"task {task_id} runs at {answer.task.delegate}; its delegate is told to go on{where}")


@task.command()
@click.argument("task_id", metavar="ID")
@with_settings(OperatorSettings)
@output_option
def retry(task_id: str, loaded: Loaded[OperatorSettings], output: Output) -> None:
    """Queues a finished task again, as a new one that names it."""
    shown = call_manager(loaded.settings, lambda client: client.retry_task(task_id))
    if output is Output.JSON:
        print_json(shown)
    else:
        click.echo(shown.task.id)


async def _follow(client: "ManagerClient", task_id: str, *, tell: bool) -> TaskView:
    """The task when it has ended; until then its events, and why it waits, are told on standard error."""
    after, told, silent_since, progress = 0, "", None, LineProgress()
    loop = asyncio.get_running_loop()
    while True:
        try:
            listed = await client.list_events(task_id, after)
            shown = await client.show_task(task_id)
            silent_since = None
        except DelegateError as error:
            silent_since = silent_since or loop.time()
            if not error.retryable or loop.time() - silent_since > _PATIENCE_SECONDS:
                raise
            await asyncio.sleep(_POLL_SECONDS)
            continue
        after = listed.next
        if tell:
            for event in listed.items:
                progress.report(event.event, event.data)
            running = f"running at {shown.task.delegate}" if shown.task.state == "running" else ""
            now = shown.why_queued or describe_pause(shown.task) or running
            if now and now != told:
                click.echo(now, err=True)
            told = now
        if shown.task.state == _FINISHED and listed.finished:
            return shown
        await asyncio.sleep(_POLL_SECONDS)


def _end(shown: TaskView, output: Output) -> ExitCode:
    result = _result_of(shown)
    if output is Output.JSON:
        print_json(shown)
    elif result is not None:
        show_result(result, output)
    else:
        click.echo(f"{shown.task.outcome}: {shown.task.message}")
    if shown.task.outcome == "succeeded":
        return ExitCode.DONE
    return exit_code_of_result(result) if result is not None and result.outcome == shown.task.outcome else ExitCode.FAILED


def _result_of(shown: TaskView) -> TaskResult | None:
    """The result as this version knows it; None where there is none or it is a newer version's."""
    document: JsonObject | None = shown.result
    if document is None:
        return None
    try:
        return msgspec.convert(document, TaskResult)
    except msgspec.ValidationError:
        return None
