"""Runs one subject in this process, bounded in memory, and prints its report as JSON: `python -m benchmarks.alone NAME [--quick]`.

Each subject has a process of its own, so that none inherits the memory or the warmed-up libraries of another.
"""

import asyncio
import resource
import sys
import tempfile
from pathlib import Path

import msgspec

from benchmarks.reports import Report
from benchmarks.subjects import SUBJECTS, Subject
from delegate.cli.loops import loop_factory
from delegate.foundation.errors import DelegateError, flatten
from delegate.foundation.settings.sections import LocalLogging, LogLevel
from delegate.foundation.telemetry import logs


async def _measure(subject: Subject, *, quick: bool) -> Report:
    with tempfile.TemporaryDirectory(prefix="delegate-bench-") as directory:
        return await subject.measure()(Path(directory), quick=quick)


def main(name: str, *, quick: bool) -> int:
    subject = SUBJECTS[name]
    resource.setrlimit(resource.RLIMIT_DATA, (subject.memory_bytes, subject.memory_bytes))
    with logs.configure(LocalLogging(level=LogLevel.WARNING)), asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            report = runner.run(_measure(subject, quick=quick))
        except* DelegateError as group:
            _tell(name, group)
            sys.exit(1)
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    return 0


def _tell(name: str, group: BaseExceptionGroup[DelegateError]) -> None:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            _tell(name, error)
        else:
            sys.stderr.write("".join(f"error: {name}: {each}\n" for each in flatten(error)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], quick="--quick" in sys.argv[2:]))
