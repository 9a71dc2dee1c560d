"""Which subjects there are, and how much time and memory each may take."""

import importlib
from collections.abc import Awaitable
from pathlib import Path
from typing import Protocol, cast

import msgspec

from benchmarks.reports import Report

_MEBIBYTE = 2**20


class Measure(Protocol):
    """`directory` is empty and goes away afterwards. `quick` has tiny sizes, whose figures mean nothing."""

    def __call__(self, directory: Path, *, quick: bool) -> Awaitable[Report]: ...


class Subject(msgspec.Struct, frozen=True):
    """`memory_bytes` bounds the data of each process on its own."""

    name: str
    about: str
    seconds: float
    memory_bytes: int = 2048 * _MEBIBYTE

    def measure(self) -> Measure:
        return cast("Measure", importlib.import_module(f"benchmarks.{self.name}").measure)


SUBJECTS = {
    each.name: each
    for each in (
        Subject("loader", "the YAML loader against PyYAML's C loader", seconds=180.0),
        Subject("logs", "a line of the log against the standard library's logging", seconds=60.0),
        Subject("judge", "how often the judge of canaries is wrong, against Kayenta's; seeded", seconds=900.0),
        Subject("canaries", "what a canary's steps take beyond their waits, alone and 150 at once", seconds=600.0),
        Subject("sync", "a sync of 1,000 objects against bare applies and kubectl", seconds=1200.0),
        Subject("applications", "1,000 Applications of four objects each against bare applies", seconds=900.0),
        Subject("sources", "clone and fetch, cold and warm, against git itself; 500 Applications in one repository", seconds=300.0),
        Subject("simulated", "the simulated cluster alone: start, applies, a list", seconds=180.0),
        Subject("process", "start, memory and CPU of a delegate that idles", seconds=240.0),
        Subject("rotation", "1,000 certificates that live seconds, under load, against certificates that live days", seconds=600.0),
        Subject("soak", "100,000 tasks: memory, descriptors, threads, child processes", seconds=1200.0),
        Subject("crowd", "2,000 idle delegates on one manager, and how 1,000 come back to it", seconds=900.0),
        Subject("queue", "tasks through manager and delegate against bare durable posts", seconds=300.0),
    )
}
