"""A line of the log, masked and as JSON, against the standard library's logging with a plain JSON formatter that masks nothing.

Both write the same fields to the same place. Ours hands lines to a thread that writes them; that thread's time is in the
figures, for the block ends when everything is written.
"""

import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from benchmarks.machine import load_average
from benchmarks.reports import Report, of_samples
from delegate.foundation.settings.sections import LogFormat, Logging, LogLevel
from delegate.foundation.telemetry import logs

STANDARD = "standard library, nothing masked"
_FIELDS: dict[str, object] = {"kind": "sync", "outcome": "succeeded", "message": "12 resources, 2 changed", "seconds": 1.234}
_BOUND = {"task": "8b1d4a3e-52a0-4f6e-9f0a-0d5a4b1c2d3e", "attempt": "0f2e4d6c-8b0a-4c1e-a2d3-4b5c6d7e8f90", "application": "checkout-dev"}


@dataclass(frozen=True)
class Sizes:
    lines: int
    rounds: int


FULL = Sizes(lines=5_000, rounds=7)
QUICK = Sizes(lines=50, rounds=1)


async def measure(directory: Path, *, quick: bool) -> Report:
    sizes = QUICK if quick else FULL
    standard, ours = list[float](), list[float]()
    for _ in range(sizes.rounds):
        standard.append(_microseconds(_log_by_standard_library, sizes.lines))
        ours.append(_microseconds(_log_by_ours, sizes.lines))
    return Report(
        subject="logs",
        title=f"processor time of one line of the log, median of {sizes.rounds} times {sizes.lines:,}",
        circumstances=(load_average(),),
        figures=(
            of_samples(STANDARD, standard, "µs"),
            of_samples("ours, secrets masked", ours, "µs", against=STANDARD, base=standard),
        ),
    )


def _microseconds(log: Callable[[int], None], lines: int) -> float:
    began = time.process_time()
    log(lines)
    return 1e6 * (time.process_time() - began) / lines


def _log_by_ours(lines: int) -> None:
    with open(os.devnull, "wb") as stream:
        settings = Logging(level=LogLevel.INFO, format=LogFormat.JSON)
        with logs.configure(settings, stream=stream, most_lines=lines), logs.bound(**_BOUND):
            log = structlog.get_logger("bench")
            for _ in range(lines):
                log.info("task.ended", **_FIELDS)


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {"timestamp": self.formatTime(record), "level": record.levelname.lower(), "event": record.getMessage()}
        return json.dumps({**fields, **record.__dict__["fields"]})


def _log_by_standard_library(lines: int) -> None:
    with open(os.devnull, "w", encoding="utf-8") as stream:
        handler = logging.StreamHandler(stream)
        handler.setFormatter(_JsonFormatter())
        log = logging.Logger("bench", logging.INFO)
        log.addHandler(handler)
        for _ in range(lines):
            log.info("task.ended", extra={"fields": {**_BOUND, **_FIELDS}})
