"""What a session is, and what is said and heard when one is opened: values and hooks of the session keeper."""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from delegate.daemon.connection.errors import OutdatedError
from delegate.foundation.errors import DelegateError
from delegate.foundation.secrets import Secret
from delegate.protocol.enrolment import AttemptDecision, AttemptReport, BuildInfo, ClusterName, LinkSettings


def new_request_id() -> str:
    return str(uuid.uuid4())


@dataclass(frozen=True, kw_only=True)
class Introduction:
    """What a process says of itself. `incarnation` is new with each process."""

    name: str
    instance: str
    incarnation: str
    boot_count: int
    capacity: int
    labels: dict[str, str]
    kinds: tuple[str, ...]
    build: BuildInfo


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """What proves the identity. Both are empty before the first enrolment."""

    delegate_id: str = ""
    refresh_token: Secret = field(default_factory=lambda: Secret(""))

    @property
    def enrolled(self) -> bool:
        return bool(self.delegate_id and self.refresh_token)


@dataclass(frozen=True, kw_only=True)
class Session:
    """An open session; frozen, so that any thread may hold it. `opening` counts the openings of this process."""

    delegate_id: str
    token: Secret
    epoch: int
    settings: LinkSettings
    features: frozenset[str]
    opening: int = 1
    manager_version: str = ""


@dataclass(frozen=True, kw_only=True)
class SessionHooks:
    """Called in the keeper's thread; none may block.

    `account_token` (of the service account, where there is one) is tried before `bootstrap_token`, which raises DelegateError where
    there is none. `on_enrolled` stores; it may raise DelegateError. `on_ended` and `on_certificate_refused` are called in whichever
    thread was told. `prepare` comes before the first call of each opening, and may fail as a call does. `signing_request` asks for a
    certificate and its life with each enrolment (empty: for none); `on_certificate` is given chain and authorities before anything else
    is called, and may raise DelegateError. `on_token_used` hears of the token that an enrolment went by, just before `on_enrolled`;
    `has_another_token` says whether there is another one by now, so that a delegate that was revoked may ask once more when it starts.
    `on_cut` hears of every connection that was cut, in whichever thread: a certificate that is refused in the handshake may look like that.
    """

    bootstrap_token: Callable[[], Secret]
    clusters: Callable[[], Sequence[ClusterName]]
    attempts: Callable[[], Sequence[AttemptReport]]
    on_enrolled: Callable[[str, Secret], object]
    on_opened: Callable[[Session, Sequence[AttemptReport], Sequence[AttemptDecision]], None]
    on_token_expiry: Callable[[float | None], None]
    on_ended: Callable[[DelegateError], None]
    on_outdated: Callable[[OutdatedError], None]
    prepare: Callable[[], Awaitable[None]] | None = None
    account_token: Callable[[], Secret | None] = lambda: None
    signing_request: Callable[[], tuple[str, float | None]] = lambda: ("", None)
    on_certificate: Callable[[str, str], Awaitable[None]] | None = None
    on_certificate_refused: Callable[[str], None] = lambda words: None
    on_token_used: Callable[[Secret], None] = lambda token: None
    has_another_token: Callable[[], bool] = lambda: False
    on_cut: Callable[[], None] = lambda: None
