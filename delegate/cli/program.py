"""The program `delegate`: which commands there are, and how each of them ends.

Commands are imported when they are run, so that `delegate version` doesn't wait for the libraries of `delegate run`. A
command returns its exit code (None for 0) and raises DelegateErrors, which are told here: `error:` and `hint:` on standard
error, or one JSON document on standard output.
"""

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import click

from delegate import __version__
from delegate.cli.exits import CommandFailedError, ExitCode, exit_code_of
from delegate.cli.outputs import CommandInterruptedError, Output, UsageFaultError, report_error
from delegate.foundation.errors import DelegateError
from delegate.foundation.settings.names import RENAMED_FLAGS


class Entry(NamedTuple):
    """A command: the module that has it and its name there. A module that isn't installed isn't listed."""

    name: str
    module: str
    attribute: str
    help: str


COMMANDS = (
    Entry("demo", "delegate.cli.demonstration", "demo", "The whole story on this machine: manager, delegate, simulated cluster, Git."),
    Entry("run", "delegate.cli.running", "run", "The daemon: takes tasks from a manager and does them."),
    Entry("exec", "delegate.cli.executing", "execute", "Runs one task document here and now, without a manager."),
    Entry("sync", "delegate.cli.syncing", "sync", "Brings a directory or Git repository into a cluster."),
    Entry("diff", "delegate.cli.syncing", "diff", "Shows what sync would change."),
    Entry("render", "delegate.cli.rendering", "render", "Prints the objects that a source renders to."),
    Entry("verify", "delegate.cli.verifying", "verify", "Judges a stored verification, or a past window, again."),
    Entry("simulator", "delegate.cli.simulation", "simulator", "The simulated cluster alone."),
    Entry("probe", "delegate.cli.probes", "probe", "Asks the daemon on this machine how it is."),
    Entry("certs", "delegate.cli.certs", "certs", "The certificate of the delegate on this machine: show, rotate."),
    Entry("doctor", "delegate.cli.doctor", "doctor", "Checks everything that a delegate needs, and names what fails."),
    Entry("outbox", "delegate.cli.outboxes", "outbox", "Results that the manager has not acknowledged yet."),
    Entry("dlq", "delegate.cli.deadletters", "dlq", "Dead letters: what could not be read, delivered or done."),
    Entry("config", "delegate.cli.configuration", "config", "Settings: their values and where they come from."),
    Entry("manager", "delegate.cli.managers", "manager", "The manager: serve, migrate; whom it believes."),
    Entry("token", "delegate.cli.tokens", "token", "Tokens of delegates, at a manager."),
    Entry("task", "delegate.cli.tasks", "task", "Tasks, at a manager: submit, list, show, watch, resume, cancel, retry."),
    Entry("limits", "delegate.cli.limits", "limits", "How many tasks run at once, at a manager: set, list, remove."),
    Entry("delegates", "delegate.cli.delegates", "delegates", "Delegates, as a manager sees them."),
    Entry("version", "delegate.cli.versions", "version", "Versions of this program and of what it uses."),
)


class LazyGroup(click.Group):
    """A group whose commands are imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [entry.name for entry in _present()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for entry in _present():
            if entry.name == cmd_name:
                command: click.Command = getattr(importlib.import_module(entry.module), entry.attribute)
                return command
        return None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=self.list_commands(ctx), ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(entry.name, entry.help) for entry in _present()])


def _present() -> list[Entry]:
    return [entry for entry in COMMANDS if importlib.util.find_spec(entry.module) is not None]


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="delegate", message="%(prog)s %(version)s")
def cli() -> None:
    """Runs deployments in Kubernetes clusters for a manager that it alone connects to, or here and now by hand.

    Exit codes: 0 done, 1 failed, 2 wrong usage, configuration or input, 3 interrupted; see the documentation for those of `run`.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the program and ends the process."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = run_program(given)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has gone; what is still buffered goes nowhere instead of into a traceback at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ExitCode.FAILED
    sys.exit(code)


def run_program(arguments: list[str]) -> int:
    """Runs one command line to its exit code. Expected faults are told, never raised."""
    output = _output_of(arguments)
    try:
        returned = cli.main(arguments, prog_name="delegate", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return ExitCode.USAGE
    except click.UsageError as error:
        _tell_usage(error, output)
        return ExitCode.USAGE
    except click.ClickException as error:
        report_error(UsageFaultError(error.format_message()), output)
        return ExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        report_error(CommandInterruptedError("interrupted"), output)
        return ExitCode.INTERRUPTED
    except CommandFailedError as failure:
        report_error(failure.error, output)
        return failure.code
    except DelegateError as error:
        report_error(error, output)
        return exit_code_of(error)
    except BaseExceptionGroup as group:
        return _tell_group(group, output)
    return returned if isinstance(returned, int) else ExitCode.DONE


def _tell_usage(error: click.UsageError, output: Output) -> None:
    message = error.message.rstrip(".")
    message = message[:1].lower() + message[1:]
    command = error.ctx.command_path if error.ctx is not None else "delegate"
    hint = f"`{command} --help` says what there is"
    if isinstance(error, click.exceptions.NoSuchOption | click.exceptions.NoSuchCommand) and error.possibilities:
        hint = f"did you mean {' or '.join(error.possibilities)}?"
    if isinstance(error, click.exceptions.NoSuchOption) and error.option_name in RENAMED_FLAGS:
        message, hint = f"{error.option_name} is not used any more", f"use {RENAMED_FLAGS[error.option_name]}"
    elif not isinstance(error, click.exceptions.NoSuchOption | click.exceptions.NoSuchCommand):
        message = error.format_message().rstrip(".")
        message = message[:1].lower() + message[1:]
    report_error(UsageFaultError(message, hint=hint), output)


def _tell_group(group: BaseExceptionGroup[BaseException], output: Output) -> int:
    """Tells the faults inside a group; one that holds anything unexpected is raised again."""
    expected, unexpected = group.split(DelegateError)
    if unexpected is not None or expected is None:
        raise group
    errors = list(_leaves(expected))
    for error in errors[:1] if output is Output.JSON else errors:
        report_error(error, output)
    return max(exit_code_of(error) for error in errors)


def _leaves(group: BaseExceptionGroup[DelegateError]) -> list[DelegateError]:
    leaves: list[DelegateError] = []
    for each in group.exceptions:
        leaves += _leaves(each) if isinstance(each, BaseExceptionGroup) else [each]
    return leaves


def _output_of(arguments: list[str]) -> Output:
    """Which form was asked for, known also where the command line can't be parsed."""
    for position, argument in enumerate(arguments):
        if argument == "--":
            break
        following = arguments[position + 1] if position + 1 < len(arguments) else ""
        if argument in ("-ojson", "--output=json", "-o=json") or (argument in ("-o", "--output") and following == "json"):
            return Output.JSON
    return Output.TEXT
