"""The work lane: acquire (long poll), results, release, and progress events.

Acquire asks for at most as many tasks as slots were reserved before; an answer never exceeds them. A retry with the same
`requestId` gets the same batch. Results go as an array and each gets a verdict of its own; an attempt's result is
idempotent by attempt and fence. A result is authorized by its attempt token even when the session has ended meanwhile.
"""

import enum

import msgspec

from delegate.model.resources import JsonObject
from delegate.protocol.blobs import BlobReference
from delegate.protocol.messages import Answer, Message, Request


class AcquireRequest(Request, frozen=True, kw_only=True):
    """`running` are the attempts that the delegate holds: a batch that it never saw is handed out again, uncounted."""

    epoch: int
    free_slots: int
    wait_seconds: float
    running: tuple[str, ...] = ()


class LeasedTask(Message, frozen=True, kw_only=True):
    """One hand-out of a task. `document` is the task document, opaque here; the delegate reads it item by item.

    `deadline_seconds` counts from the answer: the rest of the task's timeout. `lease_seconds`: until when the attempt is
    this delegate's unless a heartbeat renews it. `fence` grows with each hand-out of the task.
    """

    task_id: str
    attempt_id: str
    attempt_number: int = 1
    fence: int
    kind: str
    application: str = ""
    cluster_uid: str = ""
    document: JsonObject
    lease_seconds: float
    deadline_seconds: float
    attempt_token: str


class AcquireAnswer(Answer, frozen=True, kw_only=True):
    """`tasks` are decoded one by one (`codec.decode_tasks`), so that one bad task never spoils the batch."""

    tasks: tuple[msgspec.Raw, ...] = ()
    after_seconds: float = 0.0


class ResultItem(Message, frozen=True, kw_only=True):
    """`digest` is the SHA-256 of the result's canonical bytes (`codec.result_digest`).

    With a `blob`, these bytes went ahead by themselves (`protocol.blobs`), and `result` is the short form.
    """

    attempt_id: str
    task_id: str
    fence: int
    attempt_token: str
    digest: str
    result: JsonObject
    blob: BlobReference | None = None


class ResultsRequest(Request, frozen=True, kw_only=True):
    epoch: int
    results: tuple[ResultItem, ...]


class ResultVerdict(enum.StrEnum):
    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"  # the same digest was accepted before
    LEASE_LOST = "lease_lost"  # another attempt has the authority, or the task is final
    CONFLICT = "conflict"  # this attempt already sent another result
    INVALID = "invalid"  # can't be read; never will
    RETRY = "retry"  # not now; also what an unknown word means


FINAL_VERDICTS = frozenset(ResultVerdict) - {ResultVerdict.RETRY}


class ResultDecision(Message, frozen=True, kw_only=True):
    attempt_id: str
    verdict: str
    message: str = ""


class ResultsAnswer(Answer, frozen=True, kw_only=True):
    results: tuple[ResultDecision, ...]


class ReleaseReason(enum.StrEnum):
    DRAINING = "draining"
    UNSUPPORTED = "unsupported"  # a kind or a document that this delegate can't read: give it to another
    BUSY = "busy"  # the application is held by another task here
    INTERRUPTED = "interrupted"


class ReleaseItem(Message, frozen=True, kw_only=True):
    """An attempt given back before it began; it doesn't count against the task's attempts."""

    attempt_id: str
    fence: int
    reason: str
    message: str = ""


class ReleaseRequest(Request, frozen=True, kw_only=True):
    epoch: int
    attempts: tuple[ReleaseItem, ...]


class ReleaseAnswer(Answer, frozen=True, kw_only=True):
    attempts: tuple[ResultDecision, ...] = ()  # accepted, or lease_lost


class ProgressEvent(Message, frozen=True, kw_only=True):
    """A step of a running attempt for people to watch; `sequence` counts from 1 within the attempt."""

    attempt_id: str
    fence: int
    sequence: int
    event: str
    data: JsonObject = {}
    ago_seconds: float = 0.0


class EventsRequest(Request, frozen=True, kw_only=True):
    epoch: int
    events: tuple[ProgressEvent, ...]


class EventsAnswer(Answer, frozen=True, kw_only=True):
    """How many were kept; events of attempts that are no longer the delegate's are dropped in silence."""

    kept: int = 0
