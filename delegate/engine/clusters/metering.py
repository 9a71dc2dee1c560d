"""Counts what a task asks of an API server, for its result and for the metrics."""

import enum
from collections.abc import Callable

from delegate.model.results import RequestCounts


class Effect(enum.Enum):
    """What a request does to the cluster. Reviews of access are reads, though they're posted."""

    READ = "read"
    WRITE = "write"
    DRY_RUN = "dry_run"


OnRequest = Callable[[str, str], None]
"""Called with the verb (`get`, `list`, `watch`, `apply`, ...) and the status code, or `error`, of each try."""

_MOST_WARNINGS = 100


class RequestMeter:
    """The requests of one task, each try counted, and the warnings that the server sent along (the first hundred)."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(Effect, 0)
        self._warnings: dict[str, None] = {}

    def count(self, effect: Effect) -> None:
        self._counts[effect] += 1

    def warn(self, text: str) -> None:
        if len(self._warnings) < _MOST_WARNINGS:
            self._warnings[text] = None

    @property
    def counts(self) -> RequestCounts:
        return RequestCounts(reads=self._counts[Effect.READ], writes=self._counts[Effect.WRITE], dry_runs=self._counts[Effect.DRY_RUN])

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)
