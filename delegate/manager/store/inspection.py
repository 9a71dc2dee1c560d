"""What a token of a delegate's is worth, told to whoever holds it; nothing is used up, and nothing changes."""

import sqlalchemy as sa

from delegate.manager.errors import RefusedError
from delegate.manager.scopes import is_admin, scoped_kinds
from delegate.manager.store.sessions import check_credential
from delegate.manager.store.tables import delegates
from delegate.manager.store.tokens import check_token
from delegate.manager.store.transactions import Transaction
from delegate.protocol.enrolment import TokenFacts

_DELEGATE = sa.select(delegates).where(delegates.c.id == sa.bindparam("id"))


def inspect_secret(transaction: Transaction, secret: str) -> TokenFacts:
    """The facts of a delegate token or a refresh token, or what is wrong with it."""
    kind = "refresh" if secret.startswith("dgr_") else "delegate"
    try:
        return _of_delegate_token(transaction, secret) if kind == "delegate" else _of_refresh_token(transaction, secret)
    except RefusedError as error:
        return TokenFacts(kind=kind, problem=str(error), hint=error.hint)


def _of_delegate_token(transaction: Transaction, secret: str) -> TokenFacts:
    token = check_token(transaction, secret)
    scopes = tuple(token.scopes.split(","))
    left = None if token.expires_at is None else token.expires_at - transaction.now
    problem = hint = ""
    if is_admin(scopes):
        problem, hint = "it is an operator's token, which enrols no delegate; missing: scope GITOPS", "use one with the scope GITOPS"
    elif token.max_uses is not None and token.uses >= token.max_uses:
        problem = f"it was used {token.uses} times, as often as it may be; it still enrols whoever has enrolled with it"
    return TokenFacts(
        kind="delegate", name=token.name, scopes=scopes, kinds=scoped_kinds(scopes), expires_in_seconds=left, problem=problem, hint=hint
    )


def _of_refresh_token(transaction: Transaction, secret: str) -> TokenFacts:
    credential = check_credential(transaction, secret, "refresh")
    delegate = transaction.row(_DELEGATE, id=credential.delegate_id)
    return TokenFacts(
        kind="refresh",
        name=credential.name,
        kinds=() if delegate is None else tuple(filter(None, delegate.kinds.split(","))),
        expires_in_seconds=credential.expires_at - transaction.now,
        delegate_id=credential.delegate_id,
        open_session=delegate is not None and bool(delegate.epoch) and delegate.left_at is None,
    )
