"""An engine whose tasks do nothing, for what is around them to be measured."""

from collections.abc import Callable

from delegate.engine.tasks.contexts import AttemptContext
from delegate.model.results import Outcome, TaskResult
from delegate.model.tasks import Task
from delegate.protocol.enrolment import ClusterName

CLUSTER = ClusterName(name="in-cluster", uid="00000000-0000-4000-8000-000000000001")


class IdleEngine:
    """`began` hears of each task's application as it begins."""

    def __init__(self, began: Callable[[str], None]) -> None:
        self._began = began

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("sync",)

    async def run(self, task: Task, context: AttemptContext) -> TaskResult:
        self._began(task.application)
        return TaskResult(
            task=context.task_id,
            attempt=context.attempt_id,
            kind=task.kind.value,
            application=task.application,
            outcome=Outcome.SUCCEEDED,
        )

    async def announce_clusters(self) -> tuple[ClusterName, ...]:
        return (CLUSTER,)

    async def close(self) -> None:
        return None
