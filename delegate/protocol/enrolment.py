"""Enrolment and sessions: from a bootstrap token to an identity, and from an identity to a process that may work.

`POST /enroll` (bearer: the bootstrap token) makes a delegate known and gives it a session token and a refresh token; it is
idempotent by `instance`. `POST /token/refresh` (bearer: the refresh token) gives a new session token; two live at most.
`POST /session` (bearer: the session token) is said once at the start of each process: what its outbox still holds and what
it still runs, answered by one verdict each. A newer session of the same identity supersedes the older one: calls with the
old epoch are answered 409 `session_superseded`.
"""

import enum

from delegate.protocol.messages import Answer, Message, Request
from delegate.protocol.versions import FEATURES, ProtocolRange


class BuildInfo(Message, frozen=True, kw_only=True):
    version: str = ""
    python: str = ""


class ClusterName(Message, frozen=True, kw_only=True):
    """A cluster that the delegate reaches: the uid says which it is, the name is what it is called here."""

    name: str
    uid: str


class EnrolRequest(Request, frozen=True, kw_only=True):
    """`name` is the deployment's, `instance` the identity in the state directory (a UUID, or the pod's uid).

    `csr` (PKCS #10, PEM) asks for a certificate for its key, `certificate_seconds` for that life; see `certificates`.
    """

    name: str
    instance: str
    labels: dict[str, str] = {}
    kinds: tuple[str, ...] = ()
    protocol: ProtocolRange = ProtocolRange()
    features: tuple[str, ...] = tuple(sorted(FEATURES))
    build: BuildInfo = BuildInfo()
    csr: str = ""
    certificate_seconds: float | None = None


class EnrolAnswer(Answer, frozen=True, kw_only=True):
    delegate_id: str
    session_token: str
    session_token_seconds: float
    refresh_token: str
    protocol: int
    features: tuple[str, ...] = ()
    token_expires_in_seconds: float | None = None  # of the bootstrap token, for a metric
    certificate: str = ""  # the chain, where one was asked for; PEM
    authorities: str = ""  # whom to believe from now on; PEM


class RefreshRequest(Request, frozen=True, kw_only=True):
    delegate_id: str


class RefreshAnswer(Answer, frozen=True, kw_only=True):
    session_token: str
    session_token_seconds: float


class AttemptState(enum.StrEnum):
    """What the delegate knows of an attempt when its process starts."""

    RUNNING = "running"  # the same process reconnects and still runs it
    FINISHED = "finished"  # its result is in the outbox
    LOST = "lost"  # the journal shows that it began; the process that ran it is gone


class AttemptReport(Message, frozen=True, kw_only=True):
    attempt_id: str
    task_id: str = ""
    fence: int = 0
    state: str = AttemptState.RUNNING


class AttemptVerdict(enum.StrEnum):
    KEEP = "keep"  # go on running it
    SEND = "send"  # send the result
    DROP = "drop"  # stop it and forget it: no longer this delegate's. Default for unknown words: keep


class AttemptDecision(Message, frozen=True, kw_only=True):
    attempt_id: str
    verdict: str


class SessionRequest(Request, frozen=True, kw_only=True):
    """`incarnation` is a UUID that each process makes for itself; `boot_count` grows with each start of this identity."""

    delegate_id: str
    incarnation: str
    boot_count: int = 0
    name: str = ""
    labels: dict[str, str] = {}
    kinds: tuple[str, ...] = ()
    capacity: int = 0
    clusters: tuple[ClusterName, ...] = ()
    attempts: tuple[AttemptReport, ...] = ()
    protocol: ProtocolRange = ProtocolRange()
    features: tuple[str, ...] = tuple(sorted(FEATURES))
    build: BuildInfo = BuildInfo()


class LinkSettings(Message, frozen=True, kw_only=True):
    """Rhythms that the manager asks for, in seconds."""

    lease_seconds: float = 45.0
    heartbeat_seconds: float = 10.0
    poll_seconds: float = 45.0


class SessionAnswer(Answer, frozen=True, kw_only=True):
    epoch: int
    protocol: int
    features: tuple[str, ...] = ()
    attempts: tuple[AttemptDecision, ...] = ()
    settings: LinkSettings = LinkSettings()
    version: str = ""  # of the manager
    token_expires_in_seconds: float | None = None  # of the bootstrap token that the delegate enrolled with


class ByeRequest(Request, frozen=True, kw_only=True):
    """A clean leave after draining: the manager shows the delegate as gone at once."""

    epoch: int
    reason: str = ""


class ByeAnswer(Answer, frozen=True, kw_only=True):
    pass


class TokenFacts(Message, frozen=True, kw_only=True):
    """What the token that a ping carried is worth. `problem` says what is wrong with it, `hint` what to do; empty when it is good."""

    kind: str = ""  # delegate, or refresh
    name: str = ""
    problem: str = ""
    hint: str = ""
    scopes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    expires_in_seconds: float | None = None
    delegate_id: str = ""
    open_session: bool = False


class PingAnswer(Answer, frozen=True, kw_only=True):
    """What the manager saw of the caller, for `delegate doctor`. Needs no authorization.

    With a delegate token or a refresh token as bearer it says what that is worth; then it also waits as long as `waitSeconds` of the
    query says (60 at most) before it answers, to show whether the way bears such silence.
    """

    client_address: str = ""
    scheme: str = ""
    via: str = ""
    version: str = ""
    client_certificate: str = ""  # serial of the one that was shown to the manager itself
    token: TokenFacts | None = None
    waited_seconds: float = 0.0
