"""The root of every error tree in the project.

Each package derives one small tree of its own from `DelegateError` and translates third-party errors into it at the
edge. The attributes are what a result, a problem document and a log line need, so that one place can turn any of them
into words: what happened (`message`), where (`file`, `line`, `object`), and what to do about it (`hint`).
"""

import enum
from typing import ClassVar


class Category(enum.StrEnum):
    """What kind of fault it was, as a result's `error.category` names it."""

    INPUT = "input"
    PERMISSION = "permission"
    CONFLICT = "conflict"
    DEPENDENCY = "dependency"
    TRANSIENT = "transient"
    TIMEOUT = "timeout"
    POLICY = "policy"
    INTERNAL = "internal"


class DelegateError(Exception):
    """A fault that a person or a program may have to act on.

    Subclasses set `default_code` (`area.fault`, stable, for programs), `category` and `default_retryable`; an instance
    may be more exact. `retry_after` is the least number of seconds that the other side asked us to wait.
    """

    default_code: ClassVar[str] = "internal.unexpected"
    category: ClassVar[Category] = Category.INTERNAL
    default_retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        code: str | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        file: str = "",
        line: int | None = None,
        object: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code or self.default_code
        self.retryable = self.default_retryable if retryable is None else retryable
        self.retry_after = retry_after
        self.file = file
        self.line = line
        self.object = object

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file and self.line else f"{self.file}: " if self.file else ""
        return f"{place}{self.message}"


class ErrorGroup(DelegateError):
    """Several faults of one set, reported together; never empty. The first one speaks for all."""

    def __init__(self, errors: "list[DelegateError]") -> None:
        first = errors[0]
        super().__init__(
            first.message,
            hint=first.hint,
            code=first.code,
            retryable=all(error.retryable for error in errors),
            file=first.file,
            line=first.line,
            object=first.object,
        )
        self.errors = tuple(errors)
        self.category = first.category  # type: ignore[misc]  # the group speaks with its first member's voice


def flatten(error: DelegateError) -> tuple[DelegateError, ...]:
    """The single faults behind an error, in order."""
    return error.errors if isinstance(error, ErrorGroup) else (error,)
