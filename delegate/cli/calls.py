"""Asks a manager something, for a command that has nothing else to wait for."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from delegate.cli.loops import run_async
from delegate.foundation.settings.programs import OperatorSettings

if TYPE_CHECKING:
    from delegate.cli.manager_client import ManagerClient

T = TypeVar("T")


def call_manager(settings: OperatorSettings, work: "Callable[[ManagerClient], Awaitable[T]]") -> T:
    """What the work returns. Raises as `ManagerClient` does; KeyboardInterrupt once it has ended in order."""
    from delegate.cli.manager_client import ManagerClient  # noqa: PLC0415 - slow to import

    async def call() -> T:
        async with ManagerClient(settings) as client:
            return await work(client)

    return run_async(call())
