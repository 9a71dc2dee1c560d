"""What the kinds of rollback have in common: what they are given, and what is asked of each."""

from dataclasses import dataclass
from typing import Protocol

from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.pinning import Owners
from delegate.engine.tasks.preparing import Parts
from delegate.engine.tasks.reports import Report
from delegate.model.rollbacks import RollbackSpec
from delegate.model.tasks import Task


@dataclass(frozen=True)
class Occasion:
    """One attempt of a rollback task, and the owners that it has found."""

    task: Task
    spec: RollbackSpec
    context: AttemptContext
    parts: Parts
    report: Report
    owners: Owners

    def seconds_to_watch(self, without_owner: float = 0.0) -> float:
        """For how long what was restored is watched: as the task says, else two intervals of its owner."""
        said = self.spec.watch_seconds
        return said if said is not None else self.owners.watch_seconds or without_owner


class Undo(Protocol):
    """What a rollback restores, by its kind."""

    async def execute(self) -> str:
        """Restores it, and watches that it stays; what was done, in words. Raises DelegateError."""

    async def settle(self, watch: float) -> None:
        """Until it is there, and has been so for `watch` seconds. Raises SetBackError, HealthTimeoutError."""

    async def after_checks(self) -> None:
        """It has passed its checks."""

    @property
    def evidence(self) -> str:
        """For whoever reads the commit that takes the change back."""

    @property
    def not_the_cause(self) -> str:
        """What there is to say where it fails its checks as well."""
