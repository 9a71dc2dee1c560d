"""`delegate sync` and `delegate diff`: the common case without a task document, here and now, without a manager."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import click
import msgspec

from delegate.cli.attempts import new_identity, run_attempt
from delegate.cli.contexts import NO_CLUSTER, ChosenCluster, choose_cluster
from delegate.cli.exits import ExitCode, faults_end_with
from delegate.cli.locations import application_name, source_of
from delegate.cli.options import output_option, with_settings
from delegate.cli.outputs import Output, UsageFaultError
from delegate.cli.progress import shown_progress
from delegate.cli.results import exit_code_of_diff, exit_code_of_result, show_differences, show_result
from delegate.foundation.errors import DelegateError
from delegate.foundation.settings.loading import Loaded
from delegate.foundation.settings.programs import LocalSettings
from delegate.model.results import TaskResult, failed_result
from delegate.model.tasks import Destination, SyncOptions, SyncPolicy, SyncSpec, Task, TaskKind, read_task

Command = TypeVar("Command", bound=Callable[..., Any])


def run_here(task: Task, *, settings: LocalSettings, context: str, output: Output, default_namespace: bool = False) -> TaskResult:
    """Runs a task on this machine, saying on standard error on which cluster, and how far it is.

    Faults are in the result. `default_namespace`: objects without a namespace go where kubectl would send them.
    """
    identity = new_identity()
    try:
        cluster = choose_cluster(settings.cluster.kubeconfig, context, task.destination)
    except DelegateError as error:
        if _needs_no_cluster(task):
            with shown_progress(lines=output is Output.TEXT) as progress:
                return run_attempt(task, identity, settings=settings, cluster=NO_CLUSTER, progress=progress)
        return failed_result(
            task=identity.task_id, attempt=identity.attempt_id, kind=task.kind.value, application=task.application, error=error
        )
    if default_namespace and not task.destination.namespace:
        task = _with_namespace(task, cluster)
    _announce(task, cluster)
    with shown_progress(lines=output is Output.TEXT) as progress:
        return run_attempt(task, identity, settings=settings, cluster=cluster, progress=progress)


def _needs_no_cluster(task: Task) -> bool:
    """Metrics are asked where they are; a check that needs a cluster after all says so itself."""
    return task.kind is TaskKind.VERIFY and not task.spec.get("workload")


def context_option(command: Command) -> Command:
    """`--context NAME`, as `context`."""
    option = click.option("--context", default="", metavar="NAME", help="Context of the kubeconfig; by default its current one.")
    return option(command)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The options that `sync` and `diff` share."""

    location: str
    revision: str
    path: str
    namespace: str
    app: str
    prune: bool
    force: bool
    create_namespace: bool

    def task(self, kind: TaskKind, *, timeout: str, wait: bool = True) -> Task:
        """The task document that the options stand for, read as any other is. Raises TaskDocumentError, LocationError."""
        if self.prune and not self.app:
            raise UsageFaultError("--prune wants --app: what is deleted is what that application owned", hint="say --app NAME")
        policy = SyncPolicy(sync_options=("CreateNamespace=true",) if self.create_namespace else ())
        spec = SyncSpec(source=source_of(self.location, revision=self.revision, path=self.path), sync_policy=policy)
        task = Task(
            kind=kind,
            application=self.app or application_name(self.location, self.path),
            destination=Destination(namespace=self.namespace),
            timeout=timeout,
            options=SyncOptions(prune=self.prune, wait=wait, force=self.force),
            spec=msgspec.to_builtins(spec),
        )
        return read_task(task.document())


def _gathered(command: Command) -> Command:
    """Hands the shared options over as one value."""

    @functools.wraps(command)
    def run(*arguments: Any, **named: Any) -> Any:
        wanted = Wanted(**{field.name: named.pop(field.name) for field in fields(Wanted)})
        return command(*arguments, wanted=wanted, **named)

    return run  # type: ignore[return-value]  # the same call for click


_HINTS = {
    "input.namespace_not_found": "create it, add it to the set, or say --create-namespace",
    "conflict.field_manager": "let the other one have the field (leave it out of the manifest), or take it over with --force",
    "policy.empty_render": "check the path and --revision; to take everything away: sync --prune --force",
}
"""What to do, in this command's own words."""


def _source_options(command: Command) -> Command:
    decorators = (
        click.argument("location", metavar="PATH-OR-URL"),
        click.option("--revision", default="", metavar="R", help="Branch, tag or commit; of a path's repository where a path is given."),
        click.option("--path", default="", metavar="P", help="Directory or file inside it."),
        click.option("-n", "--namespace", default="", metavar="NS", help="Where objects go that name none; by default the context's."),
        click.option("--app", default="", metavar="NAME", help="Name of the application; by default the last element of its place."),
        click.option("--prune/--no-prune", default=False, help="Also deletes what the application owned and no longer has; wants --app."),
        click.option("--force", is_flag=True, help="Takes fields over from other field managers, and an empty set at its word."),
        click.option("--create-namespace", is_flag=True, help="Creates the namespace where it is missing."),
        context_option,
        with_settings(LocalSettings),
        output_option,
        _gathered,
    )
    return functools.reduce(lambda wrapped, decorate: decorate(wrapped), reversed(decorators), command)


@click.command()
@click.option("--wait/--no-wait", default=True, show_default=True, help="Waits until everything is healthy.")
@click.option("--timeout", default="15m", show_default=True, metavar="DURATION", help="Of everything together.")
@_source_options
def sync(*, wait: bool, timeout: str, wanted: Wanted, context: str, loaded: Loaded[LocalSettings], output: Output) -> ExitCode:
    """Brings a Git repository, a directory or a file of manifests into a cluster.

    PATH-OR-URL is a Git URL, or a path on this machine: a directory or file as it stands, or with --revision the repository
    that it is in. Exit codes: 0 done, 1 it ended in anything else, 2 wrong usage or input, 3 interrupted.
    """
    task = wanted.task(TaskKind.SYNC, timeout=timeout, wait=wait)
    result = _in_own_words(run_here(task, settings=loaded.settings, context=context, output=output, default_namespace=True))
    show_result(result, output)
    return exit_code_of_result(result)


@click.command()
@click.option("--wait/--no-wait", default=False, hidden=True, expose_value=False, help="As `sync` takes it; a diff never waits.")
@click.option("--timeout", default="5m", show_default=True, metavar="DURATION", help="Of everything together.")
@click.option("--unified", is_flag=True, help="As a unified diff of the objects' YAML instead of field by field.")
@_source_options
@faults_end_with(ExitCode.USAGE)
def diff(*, timeout: str, unified: bool, wanted: Wanted, context: str, loaded: Loaded[LocalSettings], output: Output) -> ExitCode:
    """Shows what `sync` with the same options would change, object by object; changes nothing.

    Exit codes: 0 no difference, 1 differences, 2 could not tell, 3 interrupted.
    """
    task = wanted.task(TaskKind.DIFF, timeout=timeout)
    result = _in_own_words(run_here(task, settings=loaded.settings, context=context, output=output, default_namespace=True))
    show_differences(result, output, unified=unified)
    return exit_code_of_diff(result)


def _in_own_words(result: TaskResult) -> TaskResult:
    """The hints of the result by this command's options."""
    errors = tuple(msgspec.structs.replace(error, hint=_HINTS.get(error.code, error.hint)) for error in result.errors)
    return msgspec.structs.replace(result, errors=errors, error=errors[0] if errors else None)


def _with_namespace(task: Task, cluster: ChosenCluster) -> Task:
    return msgspec.structs.replace(task, destination=msgspec.structs.replace(task.destination, namespace=cluster.namespace))


def _announce(task: Task, cluster: ChosenCluster) -> None:
    namespace = f", namespace {task.destination.namespace}" if task.destination.namespace else ""
    click.echo(f"{task.kind.value} {task.application}: {cluster}{namespace}", err=True)
