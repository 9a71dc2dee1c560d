"""What an attempt gets from whoever runs it: the daemon's pool, or a local command."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

from delegate.engine.tasks.resuming import ResumeSignal
from delegate.engine.tasks.stopping import StopSignal
from delegate.model.resources import JsonObject
from delegate.model.rollouts.pauses import Pause


@asynccontextmanager
async def _keep_the_slot() -> AsyncIterator[None]:
    yield


def _tell_nobody(event: str, data: JsonObject) -> None:
    del event, data


def _show_nobody(pause: Pause | None) -> None:
    del pause


def _allow_all(namespace: str, what: str) -> None:
    del namespace, what


@dataclass(frozen=True, kw_only=True)
class AttemptContext:
    """`deadline` is loop time. `report` takes a progress event and never blocks. `parked` gives the slot back while inside.
    `paused` takes the pause that the attempt stands at, None when it goes on, and never blocks.

    `check_namespace` is asked for each object that a task may touch, by namespace (empty: none) and name, and raises where this machine's
    own policy doesn't allow it.
    """

    task_id: str
    attempt_id: str
    fence: int = 0
    deadline: float
    stop: StopSignal = field(default_factory=StopSignal)
    resume: ResumeSignal = field(default_factory=ResumeSignal)
    report: Callable[[str, JsonObject], None] = _tell_nobody
    paused: Callable[[Pause | None], None] = _show_nobody
    parked: Callable[[], AbstractAsyncContextManager[None]] = _keep_the_slot
    check_namespace: Callable[[str, str], None] = _allow_all
