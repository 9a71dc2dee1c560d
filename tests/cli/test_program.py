"""The program as people meet it: help, names that are nearly right, faults told in words or as JSON, exit codes."""

import os
import subprocess
import sys

import pytest

from tests.cli.programs import environment, run, run_python


def test_help_lists_the_commands() -> None:
    """Each with a line on what it does, on standard output."""
    ended = run("--help")

    assert ended.code == 0
    for command in ("config", "probe", "version"):
        assert f"\n  {command} " in ended.stdout


def test_without_a_command_the_help_comes_with_code_2() -> None:
    """A script that lost its argument notices."""
    ended = run()

    assert ended.code == 2
    assert "Commands:" in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("confg", "show"), "no such command 'confg'", "did you mean config?"),
        (("config", "shwo"), "no such command 'shwo'", "did you mean show?"),
        (("config", "show", "--task-capcity", "3"), "no such option '--task-capcity'", "did you mean --task-capacity?"),
        (("config", "show", "--tags", "x"), "--tags is not used any more", "use --labels"),
        (("config", "show", "--config"), "option '--config' requires an argument", "--help"),
        (("probe", "readyzz"), "'readyzz' is not one of", "--help"),
        (("version", "-o", "xml"), "'xml' is not one of 'text', 'json'", "--help"),
    ],
)
def test_wrong_usage_is_told_with_the_nearest_name(arguments: tuple[str, ...], message: str, hint: str) -> None:
    """Two lines on standard error, exit code 2, nothing on standard output."""
    ended = run(*arguments)

    error_line, hint_line = ended.stderr.splitlines()
    assert ended.code == 2
    assert error_line.startswith("error: ")
    assert message in error_line
    assert hint_line.startswith("hint: ")
    assert hint in hint_line
    assert ended.stdout == ""


@pytest.mark.parametrize("form", [("-o", "json"), ("-ojson",), ("--output", "json"), ("--output=json",)])
def test_wrong_usage_is_one_document_where_json_was_asked_for(form: tuple[str, ...]) -> None:
    """Also where the command line can't be parsed."""
    ended = run("config", "show", "--task-capcity", "3", *form)

    assert ended.code == 2
    assert ended.document["error"]["code"] == "input.usage"
    assert ended.document["error"]["category"] == "input"
    assert ended.document["error"]["hint"] == "did you mean --task-capacity?"
    assert ended.stderr == ""


def test_the_version_comes_from_one_place() -> None:
    """`--version` and the command agree."""
    ended = run("--version")

    assert ended.code == 0
    assert ended.stdout.split() == ["delegate", run("version", "-o", "json").document["delegate"]]


def test_light_commands_import_no_heavy_library() -> None:
    """`delegate version` answers at once, for it doesn't load what the daemon needs."""
    heavy = {"aiohttp", "structlog", "kubernetes_asyncio", "sqlalchemy", "prometheus_client", "yaml", "rich"}
    code = f"import sys; from delegate.cli.program import run_program; run_program(['version']); print(sorted({heavy} & set(sys.modules)))"

    assert run_python("-c", code).stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "arguments", [("config", "show"), ("config", "show", "-o", "json"), ("config", "show", "--nonsense", "-o", "json")]
)
def test_a_reader_that_goes_away_is_no_fault(arguments: tuple[str, ...]) -> None:
    """As in `delegate config show | head -1`: no traceback, no complaint at exit."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "delegate", *arguments],
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=50,
            env=environment(),
            check=False,
        )
    finally:
        os.close(writing)

    assert ended.stderr == b""
    assert ended.returncode == 1


COMMAND = """
import asyncio, click, sys, types
from delegate.cli import program
from delegate.cli.exits import ExitCode, faults_end_with
from delegate.cli.loops import run_async
from delegate.cli.options import output_option, with_settings
from delegate.foundation.errors import DelegateError, ErrorGroup
from delegate.foundation.lifecycle import PartFailedError
from delegate.foundation.settings import LocalSettings, SettingsError

module = types.ModuleType("delegate.cli.probing")
module.__spec__ = __import__("importlib.machinery").machinery.ModuleSpec("delegate.cli.probing", None)
sys.modules["delegate.cli.probing"] = module
program.COMMANDS = (*program.COMMANDS, program.Entry("test", "delegate.cli.probing", "command", "A command of a test."))

{body}

module.command = command
program.main()
"""


def run_command(body: str, *arguments: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Runs `delegate test ...`, a command with this body, in a child process."""
    ended = run_python("-c", COMMAND.format(body=body), "test", *arguments, env=env)
    return ended.code, ended.stdout, ended.stderr


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        ("DelegateError('it failed')", 1),
        ("SettingsError('bad value')", 2),
        ("PartFailedError('poller', 'poller died 5 times')", 7),
        ("ExceptionGroup('', [DelegateError('a'), ExceptionGroup('', [PartFailedError('poller', 'b')])])", 7),
        ("ErrorGroup([SettingsError('a'), SettingsError('b')])", 2),
        ("KeyboardInterrupt()", 3),
    ],
)
def test_each_fault_has_its_exit_code(raised: str, code: int) -> None:
    """In words, with as many `error:` lines as there are faults."""
    returned, stdout, stderr = run_command(f"@click.command()\ndef command():\n    raise {raised}")

    assert (returned, stdout) == (code, "")
    faults = 2 if "Group" in raised else 1
    assert len([line for line in stderr.splitlines() if line]) == faults


def test_a_commands_own_code_for_faults_counts() -> None:
    """`diff` could not tell: 2, whatever the fault."""
    code, _, stderr = run_command(
        "@click.command()\n@faults_end_with(ExitCode.USAGE)\ndef command():\n    raise DelegateError('unreachable', hint='try later')"
    )

    assert code == 2
    assert stderr == "error: unreachable\nhint: try later\n"


def test_the_returned_code_is_the_exit_code() -> None:
    """Which is how a command says that a task failed."""
    assert run_command("@click.command()\ndef command():\n    return ExitCode.FAILED")[0] == 1
    assert run_command("@click.command()\ndef command():\n    pass")[0] == 0


def test_an_error_as_json_is_masked_and_whole() -> None:
    """With place, hint and category; no secret in any of its texts."""
    body = (
        "@click.command()\n@output_option\ndef command(output):\n"
        "    raise SettingsError('no https://u:hunter22@h', hint='see password=hunter22', file='a.yaml', line=3)"
    )

    code, stdout, stderr = run_command(body, "-o", "json")

    assert code == 2
    assert '"line": 3' in stdout
    assert '"file": "a.yaml"' in stdout
    assert "hunter22" not in stdout + stderr


def test_a_command_with_settings_logs_to_standard_error() -> None:
    """Warnings about the settings too; standard output stays the command's."""
    body = """
@click.command()
@with_settings(LocalSettings)
@output_option
def command(loaded, output):
    import structlog
    structlog.get_logger().warning("it.happened", token="hunter22", retries=loaded.settings.retry.max_attempts)
    print("{}")
"""

    code, stdout, stderr = run_command(body, "--retry-max-attempts", "3", "-o", "json", env={"DELEGATE_TASK_CAPACTIY": "1"})

    assert (code, stdout) == (0, "{}\n")
    warned, happened = stderr.splitlines()
    assert "settings.unknown_variable" in warned
    assert "DELEGATE_TASK_CAPACITY" in warned
    assert '"retries":3' in happened
    assert "hunter22" not in stderr


def test_a_fault_of_the_program_itself_shows_where() -> None:
    """Only what nobody expected has a traceback."""
    child = subprocess.run(
        [sys.executable, "-c", COMMAND.format(body="@click.command()\ndef command():\n    raise ZeroDivisionError"), "test"],
        capture_output=True,
        text=True,
        timeout=50,
        env=environment(),
        check=False,
    )

    assert child.returncode == 1
    assert "ZeroDivisionError" in child.stderr
