"""The loader against PyYAML's C loader: the time it takes, and how long it keeps every other thread from running.

A thread that should wake each millisecond measures the longest time that it could not, while the main thread loads. A plain loop
measured the same way shows what the interpreter's own switching, and a busy machine, cost.
"""

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from benchmarks.errors import BrokenRunError
from benchmarks.machine import load_average
from benchmarks.reports import Figure, Report, Target, of_samples
from benchmarks.sets import application_objects, as_yaml, large_document
from delegate.engine.sources.loader.files import SourceFile, load

_MEBIBYTE = 2**20
_TICK_SECONDS = 0.001
_LOOP_SECONDS = 0.3


@dataclass(frozen=True)
class Sizes:
    objects: int
    document_bytes: int
    rounds: int


FULL = Sizes(objects=1000, document_bytes=int(4.6 * _MEBIBYTE), rounds=5)
QUICK = Sizes(objects=8, document_bytes=20_000, rounds=1)


async def measure(directory: Path, *, quick: bool) -> Report:
    sizes = QUICK if quick else FULL
    many, large = as_yaml(application_objects(sizes.objects)), large_document(sizes.document_bytes)
    return Report(
        subject="loader",
        title=f"YAML to checked objects that know their lines, median of {sizes.rounds}",
        circumstances=(load_average(),),
        figures=(
            *_compare(f"{sizes.objects:,} objects ({len(many) / _MEBIBYTE:.2f} MiB)", many, sizes.objects, sizes.rounds),
            *_compare(f"one document of {len(large) / _MEBIBYTE:.2f} MiB", large, large.count(b"kind: Deployment"), sizes.rounds),
        ),
    )


def _compare(name: str, data: bytes, count: int, rounds: int) -> list[Figure]:
    def ours() -> None:
        found = len(load([SourceFile("set.yaml", data)]).manifests)
        if found != count:
            raise BrokenRunError(f"{name}: the loader found {found} objects where there are {count}")

    def theirs() -> None:
        list(yaml.load_all(data, Loader=yaml.CSafeLoader))

    def events_alone() -> None:
        for _ in yaml.parse(data, Loader=yaml.CSafeLoader):
            pass

    seconds: dict[str, list[float]] = {}
    held: dict[str, list[float]] = {}
    subjects: dict[str, Callable[[], None]] = {"loader": ours, "CSafeLoader": theirs, "libyaml events": events_alone, "plain loop": _loop}
    for _ in range(rounds):
        for subject, work in subjects.items():
            took, longest = _timed(work)
            seconds.setdefault(subject, []).append(took)
            held.setdefault(subject, []).append(1000 * longest)
    base, base_held = seconds["CSafeLoader"], held["CSafeLoader"]
    return [
        of_samples(f"{name}: CSafeLoader", base, "s"),
        of_samples("  libyaml's events alone", seconds["libyaml events"], "s", against="CSafeLoader", base=base),
        of_samples("  our loader", seconds["loader"], "s", against="CSafeLoader", base=base, target=Target("ratio", at_most=1.0)),
        of_samples("  interpreter held at a time by CSafeLoader", base_held, "ms"),
        of_samples("  by our loader", held["loader"], "ms", against="CSafeLoader", base=base_held),
        of_samples("  by a plain loop", held["plain loop"], "ms"),
    ]


def _loop() -> None:
    ends_at = time.monotonic() + _LOOP_SECONDS
    while time.monotonic() < ends_at:
        pass


def _timed(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds that the work took, and the longest time in it that another thread could not run."""
    gc.collect()
    with _ticking() as gaps:
        began = time.monotonic()
        work()
        took = time.monotonic() - began
    return took, max(gaps, default=0.0)


@contextmanager
def _ticking() -> Iterator[list[float]]:
    """Times, beyond the tick, between one wake-up and the next; complete when the block ends."""
    gaps: list[float] = []
    stop, started = threading.Event(), threading.Event()

    def tick() -> None:
        last = time.monotonic()
        while not stop.is_set():
            started.set()
            time.sleep(_TICK_SECONDS)
            now = time.monotonic()
            gaps.append(now - last - _TICK_SECONDS)
            last = now

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    started.wait()
    try:
        yield gaps
    finally:
        stop.set()
        thread.join()
