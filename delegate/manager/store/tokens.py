"""Tokens that people hand out: for delegates to enrol with, and for operators. Only their hashes are kept."""

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from delegate.manager.clocks import to_rfc3339
from delegate.manager.errors import AuthenticationError, ConflictError, InvalidError, NotFoundError, RevokedError, TokenExpiredError
from delegate.manager.identifiers import hash_secret, new_id, new_secret
from delegate.manager.scopes import is_admin
from delegate.manager.selectors import read_labels, write_labels
from delegate.manager.store.histories import Entry, record
from delegate.manager.store.tables import delegates, tokens
from delegate.manager.store.transactions import Row, Transaction
from delegate.manager.views import TokenView

_INSERT = sa.insert(tokens)
_LIVE_NAME = sa.select(tokens.c.id).where(tokens.c.name == sa.bindparam("name"), tokens.c.revoked_at.is_(None))
_BY_HASH = sa.select(tokens).where(tokens.c.hash == sa.bindparam("hash"))
_LIST = sa.select(tokens).order_by(tokens.c.created_at, tokens.c.id)
_FIND = (
    sa.select(tokens)
    .where(sa.or_(tokens.c.id == sa.bindparam("name"), tokens.c.name == sa.bindparam("name")))
    .order_by(tokens.c.revoked_at.is_not(None), tokens.c.created_at.desc())
    .limit(1)
)
_REVOKE = sa.update(tokens).where(tokens.c.id == sa.bindparam("token")).values(revoked_at=sa.bindparam("at"))
_USE = (
    sa.update(tokens)
    .where(tokens.c.id == sa.bindparam("token"))
    .values(uses=tokens.c.uses + sa.bindparam("count"), last_used_at=sa.bindparam("at"))
)
_DELEGATES_OF = sa.select(delegates.c.id).where(delegates.c.token_id == sa.bindparam("token"), delegates.c.revoked_at.is_(None))
_REVOKE_DELEGATES = (
    sa.update(delegates).where(delegates.c.id.in_(sa.bindparam("ids", expanding=True))).values(revoked_at=sa.bindparam("at"))
)
_LIVE_ADMINS = sa.select(sa.func.count()).where(
    tokens.c.scopes == "admin",
    tokens.c.revoked_at.is_(None),
    sa.or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > sa.bindparam("now")),
)


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """`life_seconds` None: it never expires."""

    name: str
    scopes: tuple[str, ...]
    life_seconds: float | None
    labels: dict[str, str] = {}
    description: str = ""
    max_uses: int | None = None


def create_token(transaction: Transaction, wanted: NewToken, actor: str, secret: str = "") -> tuple[Row, str]:
    """The token as it is kept, and the secret, which nobody can read again. Raises ConflictError for a name in use.

    `secret` is one that was made, and put where it belongs, before.
    """
    if transaction.row(_LIVE_NAME, name=wanted.name) is not None:
        raise ConflictError(f"there is a token named {wanted.name!r} already", hint="revoke it, or choose another name")
    if is_admin(wanted.scopes) and (wanted.labels or wanted.max_uses is not None):
        raise InvalidError("labels and a number of uses are for delegates' tokens", hint="leave them out")
    secret = secret or new_secret("admin" if is_admin(wanted.scopes) else "delegate")
    token_id = new_id()
    transaction.execute(
        _INSERT,
        id=token_id,
        name=wanted.name,
        scopes=",".join(wanted.scopes),
        labels=write_labels(wanted.labels),
        description=wanted.description,
        hash=hash_secret(secret),
        created_by=actor,
        created_at=transaction.now,
        expires_at=None if wanted.life_seconds is None else transaction.now + wanted.life_seconds,
        max_uses=wanted.max_uses,
        uses=0,
    )
    record(transaction, Entry(actor, "token_created", detail={"token": wanted.name, "id": token_id, "scopes": list(wanted.scopes)}))
    return find_token(transaction, token_id), secret


def find_token(transaction: Transaction, name: str) -> Row:
    """By name (a living one first) or id. Raises NotFoundError."""
    token = transaction.row(_FIND, name=name)
    if token is None:
        raise NotFoundError(f"there is no token {name!r}", hint="delegate token list shows the tokens")
    return token


def list_tokens(transaction: Transaction) -> Sequence[Row]:
    return transaction.rows(_LIST)


def revoke_token(transaction: Transaction, name: str, actor: str) -> Row:
    """Ends a token and, for good, every delegate that was enrolled with it. Doing it again changes nothing."""
    token = find_token(transaction, name)
    if token.revoked_at is not None:
        return token
    transaction.execute(_REVOKE, token=token.id, at=transaction.now)
    transaction.effects.tokens_ended = True
    ids = [row.id for row in transaction.rows(_DELEGATES_OF, token=token.id)]
    record(transaction, Entry(actor, "token_revoked", detail={"token": token.name, "id": token.id, "delegates": ids}))
    revoke_delegates(transaction, ids, actor)
    return find_token(transaction, token.id)


def revoke_delegates(transaction: Transaction, ids: list[str], actor: str) -> None:
    """Cuts delegates off: their tokens are forgotten, their open polls end. Their attempts go back when the leases run out."""
    if not ids:
        return
    transaction.execute(_REVOKE_DELEGATES, ids=ids, at=transaction.now)
    record(transaction, *(Entry(actor, "delegate_revoked", detail={"delegate": each}) for each in ids))
    transaction.effects.tokens_ended = True
    transaction.effects.sessions_of |= set(ids)


def check_token(transaction: Transaction, secret: str) -> Row:
    """The living token behind a secret. Raises AuthenticationError, TokenExpiredError or RevokedError."""
    token = transaction.row(_BY_HASH, hash=hash_secret(secret))
    if token is None:
        raise AuthenticationError("the token is unknown here", hint="create one with `delegate token create`, and give it whole")
    if token.revoked_at is not None:
        raise RevokedError(f"the token {token.name!r} was revoked", hint="ask for a new one")
    if token.expires_at is not None and token.expires_at <= transaction.now:
        raise TokenExpiredError(f"the token {token.name!r} has expired", hint="create a new one with `delegate token create`")
    return token


def use_token(transaction: Transaction, token: Row) -> None:
    """Counts an enrolment. Raises AuthenticationError where the token has no use left."""
    if token.max_uses is not None and token.uses >= token.max_uses:
        raise AuthenticationError(f"the token {token.name!r} was used {token.uses} times, as often as it may be", hint="create a new one")
    transaction.execute(_USE, token=token.id, count=1, at=transaction.now)


def has_living_admin(transaction: Transaction) -> bool:
    return bool(transaction.scalar(_LIVE_ADMINS, now=transaction.now))


def view_token(row: Row, now: float) -> TokenView:
    state = "active"
    if row.revoked_at is not None:
        state = "revoked"
    elif row.expires_at is not None and row.expires_at <= now:
        state = "expired"
    elif row.max_uses is not None and row.uses >= row.max_uses:
        state = "used_up"
    return TokenView(
        id=row.id,
        name=row.name,
        state=state,
        scopes=tuple(row.scopes.split(",")),
        labels=read_labels(row.labels),
        description=row.description,
        created_by=row.created_by,
        created_at=to_rfc3339(row.created_at),
        expires_at=to_rfc3339(row.expires_at),
        revoked_at=to_rfc3339(row.revoked_at),
        uses=row.uses,
        max_uses=row.max_uses,
        last_used_at=to_rfc3339(row.last_used_at),
    )
