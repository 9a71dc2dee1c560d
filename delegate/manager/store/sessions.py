"""Delegates: enrolment, tokens of their own, sessions and epochs."""

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.accounts import looks_like_account_token
from delegate.manager.attempts import AttemptState
from delegate.manager.errors import (
    AuthenticationError,
    ForbiddenError,
    OutdatedError,
    RevokedError,
    SessionSupersededError,
    SessionUnknownError,
    TokenExpiredError,
)
from delegate.manager.identifiers import hash_secret, new_id, new_secret
from delegate.manager.scopes import allowed_kinds, is_admin
from delegate.manager.selectors import read_labels, write_labels
from delegate.manager.store.cluster_keys import find_account
from delegate.manager.store.destinations import resolve_waiting
from delegate.manager.store.histories import Entry, record
from delegate.manager.store.leases import Renewal, renew_leases
from delegate.manager.store.losses import Loss, lose_attempts, take_back_attempts
from delegate.manager.store.queueing import hold_tasks, promote
from delegate.manager.store.standings import find_active, find_attempts
from delegate.manager.store.submissions import supersede_older
from delegate.manager.store.tables import clusters, credentials, delegates, tokens
from delegate.manager.store.tokens import check_token, use_token
from delegate.manager.store.transactions import Row, Transaction
from delegate.protocol.enrolment import AttemptDecision, AttemptReport, AttemptVerdict, EnrolRequest, SessionRequest
from delegate.protocol.enrolment import AttemptState as ReportedState
from delegate.protocol.messages import known
from delegate.protocol.versions import FEATURES, ProtocolRange, negotiate

_DELEGATE = sa.select(delegates).where(delegates.c.id == sa.bindparam("id")).with_for_update()
_BY_INSTANCE = (
    sa.select(delegates, tokens.c.name.label("token_name"))
    .outerjoin(tokens, tokens.c.id == delegates.c.token_id)
    .where(delegates.c.instance == sa.bindparam("instance"))
    .with_for_update(of=delegates)
)
_INSERT = sa.insert(delegates)
_UPDATE = sa.update(delegates).where(delegates.c.id == sa.bindparam("delegate"))
_REENROL = _UPDATE.values(
    token_id=sa.bindparam("to_token"),
    token_labels=sa.bindparam("to_token_labels"),
    scopes=sa.bindparam("to_scopes"),
    kinds=sa.bindparam("to_kinds"),
    revoked_at=None,
)
_OPEN = _UPDATE.values(
    name=sa.bindparam("to_name"),
    labels=sa.bindparam("to_labels"),
    kinds=sa.bindparam("to_kinds"),
    capacity=sa.bindparam("to_capacity"),
    version=sa.bindparam("to_version"),
    python=sa.bindparam("to_python"),
    protocol=sa.bindparam("to_protocol"),
    features=sa.bindparam("to_features"),
    epoch=sa.bindparam("to_epoch"),
    incarnation=sa.bindparam("to_incarnation"),
    incarnations=sa.bindparam("to_incarnations"),
    boot_count=sa.bindparam("to_boot_count"),
    session_at=sa.bindparam("at"),
    heartbeat_at=sa.bindparam("at"),
    heartbeat_sequence=0,
    stalled=False,
    draining=False,
    left_at=None,
    left_reason="",
)
_LEAVE = _UPDATE.values(left_at=sa.bindparam("at"), left_reason=sa.bindparam("to_reason"), free_slots=0)
_TOKEN_END = sa.select(tokens.c.expires_at).where(tokens.c.id == sa.bindparam("token"))
_FORGET_CLUSTERS = sa.delete(clusters).where(clusters.c.delegate_id == sa.bindparam("delegate"))
_INSERT_CLUSTER = sa.insert(clusters)
_CREDENTIAL = (
    sa.select(credentials, delegates.c.revoked_at, delegates.c.bound_at, delegates.c.name)
    .join(delegates, delegates.c.id == credentials.c.delegate_id)
    .where(credentials.c.hash == sa.bindparam("hash"))
)
_CREDENTIALS_OF = (
    sa.select(credentials.c.hash, credentials.c.number)
    .where(credentials.c.delegate_id == sa.bindparam("delegate"), credentials.c.kind == sa.bindparam("kind"))
    .order_by(credentials.c.number.desc())
)
_DROP_CREDENTIALS = sa.delete(credentials).where(credentials.c.hash.in_(sa.bindparam("hashes", expanding=True)))
_INSERT_CREDENTIAL = sa.insert(credentials)
_EXTEND = sa.update(credentials).where(credentials.c.hash == sa.bindparam("secret")).values(expires_at=sa.bindparam("until"))
_LIVE_CREDENTIALS = 2
_REMEMBERED_INCARNATIONS = 12


class Enrolled(msgspec.Struct, frozen=True):
    delegate_id: str
    session_token: str
    refresh_token: str
    protocol: int
    token_expires_in_seconds: float | None


class Opened(msgspec.Struct, frozen=True):
    epoch: int
    protocol: int
    features: tuple[str, ...]
    attempts: tuple[AttemptDecision, ...]
    token_expires_in_seconds: float | None = None


def enrol(transaction: Transaction, secret: str, request: EnrolRequest) -> Enrolled:
    """Makes a delegate known, or known again: the same instance stays the same delegate.

    Raises AuthenticationError, ForbiddenError (the token is for other things), RevokedError, OutdatedError.
    """
    token, expires_at = _find_bootstrap(transaction, secret)
    protocol = settle_protocol(request.protocol)
    scopes = tuple(token.scopes.split(","))
    kinds = _kinds(scopes, request.kinds, token.name)
    token_labels = read_labels(token.labels)
    labels = _labels(token_labels, request.labels)
    row = transaction.row(_BY_INSTANCE, instance=request.instance)
    if row is None:
        delegate_id = _insert(transaction, token, request, kinds=kinds, labels=labels, protocol=protocol)
        use_token(transaction, token)
    else:
        delegate_id = row.id
        if row.revoked_at is not None and token.created_at <= row.revoked_at:
            raise RevokedError(f"delegate {row.name} was revoked", hint="enrol it with a token that was made after that")
        if row.token_id != token.id:
            use_token(transaction, token)
            record(transaction, Entry(f"token {token.name}", "delegate_enrolled", detail={"delegate": delegate_id, "again": True}))
        transaction.execute(
            _REENROL,
            delegate=delegate_id,
            to_token=token.id,
            to_token_labels=token.labels,
            to_scopes=token.scopes,
            to_kinds=",".join(kinds),
        )
        transaction.effects.sessions_of.add(delegate_id)
    return Enrolled(
        delegate_id,
        _new_credential(transaction, "session", delegate_id, transaction.rhythm.session_token_seconds),
        _new_credential(transaction, "refresh", delegate_id, transaction.rhythm.refresh_token_seconds),
        protocol,
        None if expires_at is None else expires_at - transaction.now,
    )


def _find_bootstrap(transaction: Transaction, secret: str) -> tuple[Row, float | None]:
    """The token that an enrolment goes by, and the end of what was shown: that token itself, or one of a cluster's service account."""
    if looks_like_account_token(secret):
        token, account = find_account(transaction, secret)
        return token, account.expires_at
    token = check_token(transaction, secret)
    return token, token.expires_at


def _insert(
    transaction: Transaction, token: Row, request: EnrolRequest, *, kinds: tuple[str, ...], labels: dict[str, str], protocol: int
) -> str:
    delegate_id = new_id()
    transaction.execute(
        _INSERT,
        id=delegate_id,
        instance=request.instance,
        name=request.name,
        token_id=token.id,
        token_labels=token.labels,
        scopes=token.scopes,
        labels=write_labels(labels),
        kinds=",".join(kinds),
        capacity=0,
        free_slots=0,
        version=request.build.version,
        python=request.build.python,
        protocol=protocol,
        features="",
        epoch=0,
        incarnation="",
        incarnations="[]",
        boot_count=0,
        enrolled_at=transaction.now,
        heartbeat_sequence=0,
        heartbeat="{}",
        stalled=False,
        draining=False,
        left_reason="",
    )
    record(
        transaction,
        Entry(f"token {token.name}", "delegate_enrolled", detail={"delegate": delegate_id, "name": request.name}),
    )
    return delegate_id


def settle_protocol(theirs: ProtocolRange) -> int:
    """The protocol version in common. Raises OutdatedError that says who has to be brought up to date."""
    ours = ProtocolRange()
    common = negotiate(ours, theirs)
    if common is None:
        older = "delegate" if theirs.max < ours.min else "manager"
        raise OutdatedError(
            f"the manager speaks protocol {ours.min} to {ours.max}, the delegate {theirs.min} to {theirs.max}",
            hint=f"bring the {older} up to date",
        )
    return common


def _kinds(scopes: tuple[str, ...], wanted: tuple[str, ...], token: str) -> tuple[str, ...]:
    if is_admin(scopes):
        raise ForbiddenError(
            f"the token {token!r} has the scope admin, which enrols no delegate; missing: GITOPS, or a task kind",
            hint="create one with `delegate token create --scope GITOPS`",
        )
    kinds = allowed_kinds(scopes, wanted)
    if not kinds:
        raise ForbiddenError(
            f"the token {token!r} has the scope {', '.join(scopes)}; missing: GITOPS, or one of {', '.join(wanted)}",
            hint="create one with the scope that the delegate's work needs",
        )
    return kinds


def _labels(stamped: dict[str, str], claimed: dict[str, str]) -> dict[str, str]:
    """The labels of a delegate: those of its token, and its own where they contradict none of these."""
    for key, value in stamped.items():
        if claimed.get(key, value) != value:
            raise ForbiddenError(
                f"the token is for delegates with {key}={value}, this one calls itself {key}={claimed[key]}; missing: {key}={claimed[key]}",
                hint="use a token for these labels, or change the delegate's",
            )
    return claimed | stamped


def _new_credential(transaction: Transaction, kind: str, delegate_id: str, life_seconds: float) -> str:
    """A new token; of the older ones the newest stays alive, so that calls under way are not cut."""
    secret = new_secret(kind)
    older = transaction.rows(_CREDENTIALS_OF, delegate=delegate_id, kind=kind)
    stale = [row.hash for row in older][_LIVE_CREDENTIALS - 1 :]
    if stale:
        transaction.execute(_DROP_CREDENTIALS, hashes=stale)
        transaction.effects.tokens_ended = True
    transaction.execute(
        _INSERT_CREDENTIAL,
        hash=hash_secret(secret),
        kind=kind,
        delegate_id=delegate_id,
        number=older[0].number + 1 if older else 1,
        created_at=transaction.now,
        expires_at=transaction.now + life_seconds,
    )
    return secret


def refresh_session_token(transaction: Transaction, secret: str, delegate_id: str) -> str:
    """A new session token for a living refresh token."""
    credential = check_credential(transaction, secret, "refresh")
    if credential.delegate_id != delegate_id:
        raise AuthenticationError("the refresh token is another delegate's")
    transaction.execute(_EXTEND, secret=credential.hash, until=transaction.now + transaction.rhythm.refresh_token_seconds)
    return _new_credential(transaction, "session", delegate_id, transaction.rhythm.session_token_seconds)


def check_credential(transaction: Transaction, secret: str, kind: str) -> Row:
    """The living session or refresh token behind a secret. Raises AuthenticationError, TokenExpiredError, RevokedError."""
    credential = transaction.row(_CREDENTIAL, hash=hash_secret(secret))
    if credential is None or credential.kind != kind:
        raise AuthenticationError(f"the {kind} token is unknown here", hint="enrol again")
    if credential.revoked_at is not None:
        raise RevokedError(f"delegate {credential.name} was revoked", hint="enrol it with a new token if that was not meant")
    if credential.expires_at <= transaction.now:
        raise TokenExpiredError(f"the {kind} token has expired", hint="refresh it" if kind == "session" else "enrol again")
    return credential


def find_delegate(transaction: Transaction, delegate_id: str) -> Row:
    """A delegate that is not revoked. Raises AuthenticationError, RevokedError."""
    row = transaction.row(_DELEGATE, id=delegate_id)
    if row is None:
        raise AuthenticationError("the delegate is unknown here", hint="enrol again")
    if row.revoked_at is not None:
        raise RevokedError(f"delegate {row.name} was revoked", hint="enrol it with a new token if that was not meant")
    return row


def check_session(transaction: Transaction, delegate_id: str, epoch: int) -> Row:
    """The delegate of a call, whose epoch must be the current one. Raises Session... errors and those of `find_delegate`."""
    row = find_delegate(transaction, delegate_id)
    if epoch < row.epoch:
        raise SessionSupersededError(
            f"a newer process of delegate {row.name} has opened a session (epoch {row.epoch}; this one has {epoch})",
            hint="two processes must not share one state directory",
        )
    if epoch > row.epoch or row.left_at is not None:
        raise SessionUnknownError(f"delegate {row.name} has no session with epoch {epoch}", hint="open a session")
    return row


def open_session(transaction: Transaction, delegate_id: str, request: SessionRequest) -> Opened:
    """A process of a delegate begins to work; what older processes of it held is settled at once.

    Said again by the same process, it gets the same epoch.
    """
    row = find_delegate(transaction, delegate_id)
    protocol = settle_protocol(request.protocol)
    same = row.incarnation == request.incarnation and row.left_at is None
    epoch = row.epoch if same else row.epoch + 1
    features = tuple(sorted(FEATURES & set(request.features)))
    transaction.execute(
        _OPEN,
        delegate=delegate_id,
        to_name=request.name or row.name,
        to_labels=write_labels(_labels(read_labels(row.token_labels), request.labels)),
        to_kinds=",".join(_kinds(tuple(row.scopes.split(",")), request.kinds, row.token_id)),
        to_capacity=request.capacity,
        to_version=request.build.version,
        to_python=request.build.python,
        to_protocol=protocol,
        to_features=",".join(features),
        to_epoch=epoch,
        to_incarnation=request.incarnation,
        to_incarnations=_remember(row, request.incarnation, transaction.now) if not same else row.incarnations,
        to_boot_count=request.boot_count,
        at=transaction.now,
    )
    if not same:
        record(transaction, Entry(delegate_id, "delegate_session", detail={"epoch": epoch, "incarnation": request.incarnation}))
    transaction.execute(_FORGET_CLUSTERS, delegate=delegate_id)
    names = {cluster.name: cluster.uid for cluster in request.clusters}
    transaction.execute_many(_INSERT_CLUSTER, [{"delegate_id": delegate_id, "name": name, "uid": uid} for name, uid in names.items()])
    decisions = _settle(transaction, delegate_id, request.attempts, same)
    for task_id in resolve_waiting(transaction, names):
        supersede_older(transaction, task_id)
        promote(transaction, [task_id])
    transaction.effects.sessions_of.add(delegate_id)
    token = transaction.row(_TOKEN_END, token=row.token_id)
    expires_at = None if token is None else token.expires_at
    return Opened(epoch, protocol, features, decisions, None if expires_at is None else expires_at - transaction.now)


def _remember(row: Row, incarnation: str, now: float) -> str:
    seen = msgspec.json.decode(row.incarnations, type=list[tuple[str, float]])
    return msgspec.json.encode([*seen, (incarnation, now)][-_REMEMBERED_INCARNATIONS:]).decode()


def alternates(incarnations: str, now: float, within_seconds: float = 300.0, times: int = 3) -> bool:
    """Whether processes with one identity keep taking it from each other: an old one came back more than `times` times."""
    seen: set[str] = set()
    returns = 0
    for incarnation, at in msgspec.json.decode(incarnations, type=list[tuple[str, float]]):
        returns += incarnation in seen and at > now - within_seconds
        seen.add(incarnation)
    return returns > times


def _settle(transaction: Transaction, delegate_id: str, reports: Sequence[AttemptReport], same: bool) -> tuple[AttemptDecision, ...]:
    states = {report.attempt_id: known(ReportedState, report.state, ReportedState.RUNNING) for report in reports}
    rows = find_attempts(transaction, states)
    hold_tasks(transaction, {row.task_id for row in (*rows.values(), *find_active(transaction, delegate_id))})
    dead = [row for row in rows.values() if states[row.id] is ReportedState.LOST and row.delegate_id == delegate_id]
    losses = [Loss(row.id, "the delegate's process ended while it ran") for row in dead]
    lose_attempts(transaction, losses, AttemptState.LOST)
    living = {
        report.attempt_id: Renewal(report.fence, report.state) for report in reports if states[report.attempt_id] is not ReportedState.LOST
    }
    verdicts = renew_leases(transaction, delegate_id, living, vouched=True)
    if not same:
        gone = [row for row in find_active(transaction, delegate_id) if row.id not in living]
        why = "the process that it was handed to is gone, and had not begun it"
        take_back_attempts(transaction, [Loss(row.id, why) for row in gone], AttemptState.LOST)
    decisions = []
    for report in reports:
        row = rows.get(report.attempt_id)
        known_here = row is not None and row.delegate_id == delegate_id and row.fence == report.fence
        if states[report.attempt_id] is ReportedState.FINISHED:
            verdict = AttemptVerdict.SEND if known_here else AttemptVerdict.DROP
        elif states[report.attempt_id] is ReportedState.RUNNING and verdicts[report.attempt_id][0] != "lost" and row is not None:
            verdict = AttemptVerdict.KEEP if row.state != AttemptState.FINISHED else AttemptVerdict.DROP
        else:
            verdict = AttemptVerdict.DROP
        decisions.append(AttemptDecision(attempt_id=report.attempt_id, verdict=verdict.value))
    return tuple(decisions)


def leave(transaction: Transaction, delegate_id: str, epoch: int, reason: str) -> None:
    """A clean end of a session; what it still holds goes back when the leases run out."""
    check_session(transaction, delegate_id, epoch)
    transaction.execute(_LEAVE, delegate=delegate_id, at=transaction.now, to_reason=reason[:500])
    record(transaction, Entry(delegate_id, "delegate_left", detail={"reason": reason[:500]}))
    transaction.effects.sessions_of.add(delegate_id)
