"""The result of a task: one frozen document, the same for every kind (design: result schema)."""

import enum

import msgspec

from delegate.foundation.errors import Category, DelegateError, flatten
from delegate.model.health.verdicts import Health, HealthStatus
from delegate.model.verification.records import VerificationRecord


class Outcome(enum.StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"  # nothing was touched
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    INTERRUPTED = "interrupted"  # by the delegate's own stop: the task goes to another attempt
    ABORTED = "aborted"  # a canary that was taken back


class SyncStatus(enum.StrEnum):
    SYNCED = "Synced"
    OUT_OF_SYNC = "OutOfSync"
    UNKNOWN = "Unknown"


class Action(enum.StrEnum):
    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    PRUNED = "pruned"
    FAILED = "failed"
    SKIPPED = "skipped"  # not reached, or kept on purpose; the message of its error says why


class ErrorDetail(msgspec.Struct, frozen=True):
    code: str
    category: str
    message: str
    hint: str = ""
    retryable: bool = False
    file: str = ""
    line: int | None = None
    object: str = ""


def describe_error(error: DelegateError) -> tuple[ErrorDetail, ...]:
    """Every single fault behind an error, as a result carries it."""
    return tuple(
        ErrorDetail(
            code=each.code,
            category=each.category.value,
            message=each.message,
            hint=each.hint,
            retryable=each.retryable,
            file=each.file,
            line=each.line,
            object=each.object,
        )
        for each in flatten(error)
    )


class Change(msgspec.Struct, frozen=True, rename={"before": "from", "after": "to"}):
    """One leaf that differs, by JSON pointer. A side that doesn't exist is left out; a masked one reads `(hidden)`."""

    path: str
    before: object = msgspec.UNSET
    after: object = msgspec.UNSET


class ResourceResult(msgspec.Struct, frozen=True):
    """`unified` is the difference as text; only of what is shown and not done."""

    group: str
    kind: str
    namespace: str
    name: str
    action: Action
    phase: str = "Sync"
    wave: int = 0
    health: Health = Health(HealthStatus.UNKNOWN)
    changes: tuple[Change, ...] = ()
    origin: str = ""
    unified: str = ""
    error: ErrorDetail | None = None


class Summary(msgspec.Struct, frozen=True):
    created: int = 0
    configured: int = 0
    unchanged: int = 0
    pruned: int = 0
    failed: int = 0
    skipped: int = 0


class RequestCounts(msgspec.Struct, frozen=True, rename="camel"):
    """Requests that the task sent to the cluster's API server."""

    reads: int = 0
    writes: int = 0
    dry_runs: int = 0


class TaskResult(msgspec.Struct, frozen=True, rename="camel"):
    """`release` is the number of the release that a sync has recorded, 0 where it changed nothing.

    `verification`: what was asked, answered and decided; left out where nothing was verified.
    """

    task: str
    attempt: str
    kind: str
    application: str
    outcome: Outcome
    revision: str = ""
    sync: SyncStatus = SyncStatus.UNKNOWN
    health: HealthStatus = HealthStatus.UNKNOWN
    message: str = ""
    plan_hash: str = ""
    error: ErrorDetail | None = None
    errors: tuple[ErrorDetail, ...] = ()
    summary: Summary = Summary()
    resources: tuple[ResourceResult, ...] = ()
    requests: RequestCounts = RequestCounts()
    seconds: dict[str, float] = {}
    notices: tuple[str, ...] = ()
    cluster: str = ""
    release: int = 0
    verification: VerificationRecord | msgspec.UnsetType = msgspec.UNSET


def failed_result(
    *, task: str, attempt: str, kind: str, application: str, error: DelegateError, outcome: Outcome | None = None
) -> TaskResult:
    """A result that holds nothing but a fault; refused where the fault is one of input or policy."""
    errors = describe_error(error)
    if outcome is None:
        refused = error.category in (Category.INPUT, Category.POLICY)
        outcome = Outcome.TIMED_OUT if error.category is Category.TIMEOUT else Outcome.REFUSED if refused else Outcome.FAILED
    return TaskResult(
        task=task,
        attempt=attempt,
        kind=kind,
        application=application,
        outcome=outcome,
        message=error.message,
        error=errors[0],
        errors=errors,
    )
