"""Whom the demo tells its story. The command line tells it on; tests listen to it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from delegate.model.resources import JsonObject
from delegate.model.results import TaskResult

OnEvent = Callable[[str, JsonObject], None]


class Narrator(Protocol):
    def chapter(self, title: str) -> None:
        """What comes next."""
        ...

    def say(self, words: str) -> None: ...

    def watching(self) -> AbstractContextManager[OnEvent]:
        """While a task runs: what to call with each event of it."""
        ...

    def result(self, result: TaskResult) -> None: ...

    def verified(self, words: str) -> None:
        """Something that was looked up in the cluster and found to be so."""
        ...
