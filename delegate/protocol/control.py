"""The control lane: heartbeats up, verdicts and commands down. Its own connections, its own thread.

`POST /heartbeat` renews the leases of all attempts that it names and answers a verdict for each. `POST /commands` is a long
poll that is always open, also with a full pool: what it carries reaches the delegate at once. Each command is repeated
until its id is acknowledged, in the next poll or heartbeat.
"""

import enum

from delegate.model.resources import JsonObject
from delegate.protocol.messages import Answer, Message, Request


class PauseReport(Message, frozen=True, kw_only=True):
    """`number` is what a resumption names. `left_seconds` is null where it lasts until somebody says so; a pause that is `held` waits
    for a decision, and `reason` says why."""

    number: int
    step: int
    ago_seconds: float
    left_seconds: float | None = None
    held: bool = False
    reason: str = ""


class HeldAttempt(Message, frozen=True, kw_only=True):
    """`pause`: what it stands at, null while it is on its way."""

    attempt_id: str
    fence: int
    state: str = "running"  # running, parked, cancelling, finished (its result is in the outbox)
    pause: PauseReport | None = None


class HeartbeatRequest(Request, frozen=True, kw_only=True):
    """`stalled`: the main loop has been stuck past its limit, so nothing here vouches for the attempts. `blocked` says why no further task
    is asked for, as a full disk; empty while they are."""

    epoch: int
    sequence: int
    attempts: tuple[HeldAttempt, ...] = ()
    capacity: int = 0
    free_slots: int = 0
    outbox_entries: int = 0
    outbox_bytes: int = 0
    loop_lag_seconds: float = 0.0
    stalled: bool = False
    draining: bool = False
    blocked: str = ""
    certificate_expires_in_seconds: float | None = None
    acknowledged: tuple[str, ...] = ()


class LeaseVerdict(enum.StrEnum):
    OK = "ok"  # renewed; also what an unknown word means
    CANCEL = "cancel"
    SUPERSEDED = "superseded"
    LOST = "lost"
    DEADLINE = "deadline"


class LeaseDecision(Message, frozen=True, kw_only=True):
    attempt_id: str
    verdict: str
    reason: str = ""


class CommandKind(enum.StrEnum):
    CANCEL = "cancel"  # data: attemptId, verdict (a LeaseVerdict: cancel, superseded, lost, deadline), reason
    RESUME = "resume"  # data: attemptId, pause (its number; 0 or none: whichever it stands at); what it pauses for is over
    DRAIN = "drain"
    REVOKE = "revoke"
    UNSUPPORTED = "unsupported"  # what an unknown word is taken for: counted, acknowledged, ignored


class Command(Message, frozen=True, kw_only=True):
    id: str
    kind: str
    data: JsonObject = {}


class HeartbeatAnswer(Answer, frozen=True, kw_only=True):
    """`come_back_seconds`: over how long all delegates shall come back when the manager was away, by how many they are; 0 where it does
    not know yet."""

    attempts: tuple[LeaseDecision, ...] = ()
    commands: tuple[Command, ...] = ()
    lease_seconds: float = 45.0
    heartbeat_seconds: float = 10.0
    come_back_seconds: float = 0.0


class CommandsRequest(Request, frozen=True, kw_only=True):
    epoch: int
    wait_seconds: float
    acknowledged: tuple[str, ...] = ()


class CommandsAnswer(Answer, frozen=True, kw_only=True):
    commands: tuple[Command, ...] = ()
