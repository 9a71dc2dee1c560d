"""`python -m benchmarks [NAME ...] [--json FILE] [--quick]`."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import msgspec

from benchmarks.errors import BrokenRunError, OutOfBoundsError
from benchmarks.reports import Report, render
from benchmarks.subjects import SUBJECTS, Subject
from delegate.foundation.errors import DelegateError


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.argument("names", nargs=-1, metavar="[NAME ...]", type=click.Choice(sorted(SUBJECTS)))
@click.option("--json", "json_file", type=click.Path(path_type=Path), metavar="FILE", help="Also writes the figures to a file.")
@click.option("--quick", is_flag=True, help="Tiny sizes, which prove that it works and mean nothing.")
def main(names: tuple[str, ...], json_file: Path | None, quick: bool) -> None:
    """Measures NAMEs (by default all) against a peer or a raw limit in the same run.

    Exit codes: 0 measured, whether a target was reached or not; 1 something could not be measured; 2 wrong usage.
    """
    reports: list[Report] = []
    failed = False
    for subject in (SUBJECTS[name] for name in dict.fromkeys(names or SUBJECTS)):
        click.echo(f"measuring {subject.name}: {subject.about} (at most {subject.seconds:g} s)", err=True)
        try:
            reports.append(_run(subject, quick=quick))
        except DelegateError as error:
            failed = True
            click.echo(f"error: {error}", err=True)
            continue
        click.echo(render(reports[-1]) + ("\n  sizes were tiny: none of these figures mean anything\n" if quick else "\n"))
        if json_file is not None:
            json_file.write_bytes(msgspec.json.format(msgspec.json.encode(reports), indent=2) + b"\n")
    sys.exit(1 if failed else 0)


def _run(subject: Subject, *, quick: bool) -> Report:
    """The report of a subject, measured in a process of its own. Raises BenchmarkError."""
    command = [sys.executable, "-m", "benchmarks.alone", subject.name, *(["--quick"] if quick else [])]
    # A session of its own: what the subject started can be ended with it, however it ends.
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        output, _ = process.communicate(timeout=subject.seconds)
    except subprocess.TimeoutExpired:
        raise OutOfBoundsError(f"{subject.name} was not done within {subject.seconds:g} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode:
        raise BrokenRunError(f"{subject.name} could not be measured: its process ended with {process.returncode}")
    return msgspec.json.decode(output, type=Report)


if __name__ == "__main__":
    main()
