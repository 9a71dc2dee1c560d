"""Exit codes, and which one an ending has."""

import enum
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from delegate.foundation.errors import Category, DelegateError

if TYPE_CHECKING:
    from delegate.foundation.lifecycle.stops import StopRequest

P = ParamSpec("P")
T = TypeVar("T")


class ExitCode(enum.IntEnum):
    """The program's exit codes. `diff` has its own meaning for 1: there are differences."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    INTERRUPTED = 3
    REVOKED = 4
    SUPERSEDED = 5
    OUTDATED = 6
    PART_FAILED = 7


# By the words of StopReason, for commands without a loop do without the lifecycle's import time.
_OF_STOPS = {
    "revoked": ExitCode.REVOKED,
    "superseded": ExitCode.SUPERSEDED,
    "outdated": ExitCode.OUTDATED,
    "part_failed": ExitCode.PART_FAILED,
}
_OF_ERRORS = {"internal.part_failed": ExitCode.PART_FAILED}


class CommandFailedError(Exception):
    """An error with the exit code that its command wants for it; the error is the cause."""

    def __init__(self, error: DelegateError, code: ExitCode) -> None:
        super().__init__(str(error))
        self.error = error
        self.code = code


def exit_code_of(error: DelegateError) -> ExitCode:
    """What the program ends with after an error that a command let through."""
    if error.code in _OF_ERRORS:
        return _OF_ERRORS[error.code]
    return ExitCode.USAGE if error.category is Category.INPUT else ExitCode.FAILED


def exit_code_of_stop(request: "StopRequest | None", *, interrupted: bool) -> ExitCode:
    """What the daemon ends with: why it stopped, or whether work was interrupted, or drained."""
    if request is not None and request.reason.value in _OF_STOPS:
        return _OF_STOPS[request.reason.value]
    return ExitCode.INTERRUPTED if interrupted else ExitCode.DONE


def faults_end_with(code: ExitCode) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Has every fault of a command end with this code: `diff` could not tell, so 2."""

    def decorate(command: Callable[P, T]) -> Callable[P, T]:
        @wraps(command)
        def run(*arguments: P.args, **named: P.kwargs) -> T:
            try:
                return command(*arguments, **named)
            except DelegateError as error:
                raise CommandFailedError(error, code) from error

        return run

    return decorate
