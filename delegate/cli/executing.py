"""`delegate exec`: one task document, here and now, through the same code as the daemon's."""

import click
import msgspec

from delegate.cli.documents import read_task_file
from delegate.cli.exits import ExitCode
from delegate.cli.options import output_option, with_settings
from delegate.cli.outputs import Output
from delegate.cli.results import exit_code_of_diff, exit_code_of_result, show_differences, show_result
from delegate.cli.syncing import context_option, run_here
from delegate.foundation.settings.loading import Loaded
from delegate.foundation.settings.programs import LocalSettings
from delegate.model.tasks import TaskKind


@click.command("exec")
@click.argument("file", metavar="FILE")
@click.option(
    "--approved-plan", default="", metavar="HASH", help="Refuses any other plan than the one with this hash (planHash of a diff's result)."
)
@context_option
@with_settings(LocalSettings)
@output_option
def execute(file: str, approved_plan: str, context: str, loaded: Loaded[LocalSettings], output: Output) -> ExitCode:
    """Runs one task document (YAML or JSON, `-` for standard input) or an Argo CD Application, without a manager.

    Exit codes: those of `sync`, for a task of kind diff those of `diff`.
    """
    task = read_task_file(file)
    if approved_plan:
        task = msgspec.structs.replace(task, approved_plan=approved_plan)
    result = run_here(task, settings=loaded.settings, context=context, output=output)
    if task.kind is TaskKind.DIFF:
        show_differences(result, output)
        return exit_code_of_diff(result)
    show_result(result, output)
    return exit_code_of_result(result)
