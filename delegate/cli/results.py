"""A task's result for people and for scripts: what was done to which object, why not, and the exit code."""

import json
import os
import sys
from collections.abc import Iterator

import click
import msgspec

from delegate.cli.exits import ExitCode
from delegate.cli.outputs import Output, print_json
from delegate.cli.verdicts import show_verification
from delegate.foundation.errors import Category
from delegate.foundation.redaction import redact
from delegate.model.health.verdicts import HealthStatus
from delegate.model.plan import describe_summary
from delegate.model.resources import ResourceKey
from delegate.model.results import Action, Change, ErrorDetail, Outcome, ResourceResult, SyncStatus, TaskResult

_WELL = (HealthStatus.HEALTHY, HealthStatus.UNKNOWN, HealthStatus.SUSPENDED)
_SIGNS = {Action.CREATED: "+", Action.CONFIGURED: "~", Action.PRUNED: "-", Action.FAILED: "!", Action.SKIPPED: "?"}
_INTENTIONS = {
    Action.CREATED: "would be created",
    Action.CONFIGURED: "would change",
    Action.PRUNED: "would be pruned",
    Action.FAILED: "is refused",
    Action.SKIPPED: "is left as it is",
}
_COLOURS = {
    Action.CREATED: "green",
    Action.CONFIGURED: "yellow",
    Action.PRUNED: "red",
    Action.FAILED: "red",
}
_SHORT_REVISION = 12


def show_result(result: TaskResult, output: Output) -> None:
    """The result of a task that was to change something; with JSON the result document and nothing else."""
    if output is Output.JSON:
        print_json(result)
        return
    _show_objects(result)
    if not isinstance(result.verification, msgspec.UnsetType):
        show_verification(result.verification)
    _show_words(result)


def show_differences(result: TaskResult, output: Output, *, unified: bool = False) -> None:
    """The result of a diff, object by object: leaf by leaf, or as unified diffs of their YAML."""
    if output is Output.JSON:
        print_json(result)
        return
    for resource in result.resources:
        if resource.action is not Action.UNCHANGED:
            for line in _unified(resource) if unified and resource.unified else _difference(resource):
                echo(line)
    _show_words(result)


def exit_code_of_result(result: TaskResult) -> ExitCode:
    """0 done; 2 refused for what was given; 3 interrupted; 1 any other end."""
    match result.outcome:
        case Outcome.SUCCEEDED:
            return ExitCode.DONE
        case Outcome.INTERRUPTED:
            return ExitCode.INTERRUPTED
        case Outcome.REFUSED if result.error is not None and result.error.category == Category.INPUT:
            return ExitCode.USAGE
        case _:
            return ExitCode.FAILED


def exit_code_of_diff(result: TaskResult) -> ExitCode:
    """As diff programs have it: 0 no difference, 1 differences, 2 could not tell; and 3 interrupted."""
    if result.outcome is Outcome.INTERRUPTED:
        return ExitCode.INTERRUPTED
    if result.outcome is not Outcome.SUCCEEDED:
        return ExitCode.USAGE
    return ExitCode.DONE if result.sync is SyncStatus.SYNCED else ExitCode.FAILED


def show_value(value: object) -> str:
    """A value on one line: a text as it is where that can't be mistaken, anything else as JSON."""
    if isinstance(value, str) and value and value.isprintable() and value == value.strip() and not _is_json(value):
        return value
    return json.dumps(value, ensure_ascii=not (isinstance(value, str) and value.isprintable()))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _show_objects(result: TaskResult) -> None:
    shown = [each for each in result.resources if _is_worth_showing(each, result.outcome)]
    if not shown:
        return
    rows = [(each.action.value, _health(each), _name(each)) for each in shown]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for resource, (action, health, name) in zip(shown, rows, strict=True):
        coloured = click.style(action.ljust(widths[0]), fg=_COLOURS.get(resource.action))
        echo(f"{coloured}  {health.ljust(widths[1])}  {name}")
        for line in _changes(resource.changes):
            echo(f"    {line}")
        if resource.health.status not in _WELL and (resource.health.message or resource.health.reason):
            echo(f"    {resource.health.message or resource.health.reason}")


def _is_worth_showing(resource: ResourceResult, outcome: Outcome) -> bool:
    """What is as it was is only counted, as is what a refused set would have had beside its faults."""
    if resource.action is Action.SKIPPED and outcome is Outcome.REFUSED:
        return False
    return resource.action is not Action.UNCHANGED or resource.health.status not in _WELL


def _health(resource: ResourceResult) -> str:
    return "-" if resource.health.status is HealthStatus.UNKNOWN else resource.health.status.value


def _changes(changes: tuple[Change, ...]) -> Iterator[str]:
    for change in changes:
        if not change.path:
            yield str(change.after)
        elif _is_absent(change.before):
            yield f"{change.path}: added {show_value(change.after)}"
        elif _is_absent(change.after):
            yield f"{change.path}: removed {show_value(change.before)}"
        else:
            yield f"{change.path}: {show_value(change.before)} -> {show_value(change.after)}"


def _difference(resource: ResourceResult) -> Iterator[str]:
    origin = f"  ({resource.origin})" if resource.origin else ""
    head = f"{_SIGNS[resource.action]} {_name(resource)} {_INTENTIONS[resource.action]}"
    yield click.style(head, fg=_COLOURS.get(resource.action), bold=True) + origin
    for change in resource.changes:
        if not change.path:
            yield f"    {change.after}"
            continue
        yield f"    {change.path}"
        if not _is_absent(change.before):
            yield click.style(f"      - {show_value(change.before)}", fg="red")
        if not _is_absent(change.after):
            yield click.style(f"      + {show_value(change.after)}", fg="green")


def _unified(resource: ResourceResult) -> Iterator[str]:
    for line in resource.unified.splitlines():
        colour = "cyan" if line.startswith("@@") else "red" if line.startswith("-") else "green" if line.startswith("+") else None
        yield click.style(line, fg=colour, bold=line.startswith(("---", "+++")))


def _is_absent(value: object) -> bool:
    return value is msgspec.UNSET


def _name(resource: ResourceResult) -> str:
    return str(ResourceKey(resource.group, resource.kind, resource.namespace, resource.name))


def _show_words(result: TaskResult) -> None:
    for notice in result.notices:
        click.echo(f"note: {redact(notice)}", err=True)
    for error in result.errors:
        _show_error(error)
    if not result.errors and result.outcome is not Outcome.SUCCEEDED:
        click.echo(f"error: {redact(result.message)}", err=True)
    echo(_summary(result))


def _show_error(error: ErrorDetail) -> None:
    place = f"{error.file}:{error.line}: " if error.file and error.line else f"{error.file}: " if error.file else ""
    if error.file and error.file in error.message:
        place = ""
    named = f"{error.object}: " if place and error.object.rpartition(" ")[2] not in error.message else ""
    click.echo(f"error: {redact(place + named + error.message)}", err=True)
    if error.hint:
        click.echo(f"hint: {redact(error.hint)}", err=True)


def _summary(result: TaskResult) -> str:
    if result.kind == "diff" and result.outcome is Outcome.SUCCEEDED:
        head = "no difference" if result.sync is SyncStatus.SYNCED else "differences"
    else:
        head = result.outcome.value.replace("_", " ")
    words = [describe_summary(result.summary)] if result.resources else []
    if result.outcome is Outcome.REFUSED:
        words.insert(0, "nothing was touched")
    if result.kind != "diff" and result.sync is not SyncStatus.UNKNOWN:
        words.append(f"{result.sync.value}, {result.health.value}")
    if result.revision:
        words.append(f"revision {result.revision[:_SHORT_REVISION]}")
    words.append(f"{sum(result.seconds.values()):.1f} s")
    return f"{head}: {'; '.join(words)}"


def echo(line: str) -> None:
    """Colours are for a terminal whose owner didn't say otherwise (no-color.org)."""
    click.echo(line, color=False if os.environ.get("NO_COLOR") or not sys.stdout.isatty() else None)
