"""`delegate verify`: judges a stored verification, or a window of time that has gone by, again."""

from collections import defaultdict
from pathlib import Path

import click
import msgspec

from delegate.cli.documents import LARGEST_DOCUMENT, STANDARD_INPUT, read_task_file
from delegate.cli.exits import ExitCode
from delegate.cli.options import output_option, with_settings
from delegate.cli.outputs import Output, UsageFaultError, print_json
from delegate.cli.results import exit_code_of_result, show_result
from delegate.cli.syncing import context_option, run_here
from delegate.cli.verdicts import show_verification
from delegate.foundation.settings.loading import Loaded
from delegate.foundation.settings.programs import LocalSettings
from delegate.model.results import TaskResult
from delegate.model.tasks import TaskKind
from delegate.model.verification.checks import Check, faults_of_check
from delegate.model.verification.readings import Verdict
from delegate.model.verification.records import VerificationRecord

_LARGEST_RECORD = 16 * LARGEST_DOCUMENT


@click.command()
@click.option(
    "--replay",
    "file",
    required=True,
    metavar="FILE",
    help="A result with a verification (JSON), or a verify task with spec.window; - for standard input.",
)
@click.option("--threshold", "thresholds", multiple=True, metavar="CHECK=RULE", help="Judges a stored check by another rule.")
@click.option("--fails-allowed", "fails", multiple=True, metavar="CHECK=N", help="Judges a stored check with another number of fails.")
@context_option
@with_settings(LocalSettings)
@output_option
def verify(
    *, file: str, thresholds: tuple[str, ...], fails: tuple[str, ...], context: str, loaded: Loaded[LocalSettings], output: Output
) -> ExitCode:
    """Judges again: a stored result from what it holds, asking nobody; a verify task with a window, from what its sources still have.

    A result is what `exec -o json`, or `task show -o json` as `result`, prints. Exit codes: 0 verified, 1 not, 2 it can't be read.
    """
    record = _read_record(file)
    if record is not None:
        return _replay(record, thresholds, fails, output)
    if thresholds or fails:
        raise UsageFaultError("--threshold and --fails-allowed are for stored results", hint="change them in the task itself")
    task = read_task_file(file)
    if task.kind is not TaskKind.VERIFY or "window" not in task.spec:
        raise UsageFaultError(
            f"{file} is neither a stored result with a verification nor a verify task with a window",
            hint="give the task spec.window: {from: …, to: …}, or run it now with `delegate exec`",
        )
    result = run_here(task, settings=loaded.settings, context=context, output=output)
    show_result(result, output)
    return exit_code_of_result(result)


def _replay(record: VerificationRecord, thresholds: tuple[str, ...], fails: tuple[str, ...], output: Output) -> ExitCode:
    from delegate.engine.verification.replaying import replay  # noqa: PLC0415 - `--help` does without

    again = replay(record, _changed(record, thresholds, fails))
    if output is Output.JSON:
        print_json(again)
    else:
        show_verification(again)
        before = "as before" if again.verdict is record.verdict else f"before: {record.verdict}"
        click.echo(f"{again.verdict}: {again.reason} ({before})")
    return ExitCode.DONE if again.verdict is Verdict.PASS else ExitCode.FAILED


def _changed(record: VerificationRecord, thresholds: tuple[str, ...], fails: tuple[str, ...]) -> dict[str, Check]:
    """The checks that are to be other ones. Raises UsageFaultError."""
    checks = {each.check.name: each.check for each in record.checks}
    changed: dict[str, Check] = {}
    for option, texts in (("threshold", thresholds), ("fails-allowed", fails)):
        for text in texts:
            name, _, value = text.partition("=")
            if name not in checks:
                raise UsageFaultError(f"--{option} {text}: there is no check {name!r}", hint=f"there are: {', '.join(checks)}")
            check = changed.get(name, checks[name])
            if option == "threshold":
                check = msgspec.structs.replace(check, threshold=value.strip())
            elif value.strip().isdecimal():
                check = msgspec.structs.replace(check, fails_allowed=int(value))
            else:
                raise UsageFaultError(f"--{option} {text}: {value!r} is no number")
            # What its variables stood for is in no record, and not needed: the queries are not asked again.
            for _, words, hint in faults_of_check(check, name, defaultdict(str)):
                raise UsageFaultError(f"--{option} {text}: {words}", hint=hint)
            changed[name] = check
    return changed


def _read_record(file: str) -> VerificationRecord | None:
    """The record in a file; None where it is something else. Raises UsageFaultError for a record that can't be read."""
    if file == STANDARD_INPUT:
        return None
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(_LARGEST_RECORD + 1)
    except OSError as error:
        raise UsageFaultError(f"{file} can't be read: {error.strerror}") from error
    if len(data) > _LARGEST_RECORD or data.lstrip()[:1] != b"{":
        return None
    try:
        document = msgspec.json.decode(data)
        if isinstance(document.get("result"), dict):
            document = document["result"]
        if "outcome" in document:
            found = msgspec.convert(document, TaskResult).verification
            if isinstance(found, msgspec.UnsetType):
                raise UsageFaultError(f"{file} is the result of a {document.get('kind')} task in which nothing was verified")
            return found
        return msgspec.convert(document, VerificationRecord) if "checks" in document else None
    except msgspec.ValidationError as error:
        raise UsageFaultError(f"{file} holds no verification that can be read: {error}") from error
    except msgspec.DecodeError:
        return None
