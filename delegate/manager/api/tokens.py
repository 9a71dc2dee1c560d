"""Tokens: create, list, revoke."""

import re

import msgspec

from delegate.foundation.quantities import parse_duration
from delegate.foundation.settings.kinds import parse_labels
from delegate.manager.api.calls import Access, Call, Nothing, Operation
from delegate.manager.errors import InvalidError
from delegate.manager.scopes import parse_scopes
from delegate.manager.store import tokens
from delegate.manager.store.transactions import Transaction
from delegate.manager.views import NewTokenView, TokenList, TokenView

TOKENS = "/api/v1/tokens"
DEFAULT_LIFE = "2160h"
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LONGEST_LIFE = 10 * 365 * 86400.0


class CreateTokenRequest(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """`scope`: GITOPS, single task kinds separated by commas, or admin. `labels` are stamped on every delegate that enrols
    with the token; one that claims other values for them is refused. `maxUses` counts enrolments of new delegates."""

    name: str
    scope: str
    expires_in: str = DEFAULT_LIFE
    labels: dict[str, str] = {}
    description: str = ""
    max_uses: int | None = None


async def create(call: Call[CreateTokenRequest, Nothing]) -> NewTokenView:
    """A new token; its secret is shown this once."""
    wanted = _checked(call.body)

    def work(transaction: Transaction) -> NewTokenView:
        row, secret = tokens.create_token(transaction, wanted, call.principal.name)
        return NewTokenView(token=tokens.view_token(row, transaction.now), secret=secret)

    return await call.services.database.write(work)


def _checked(body: CreateTokenRequest) -> tokens.NewToken:
    if not _NAME.fullmatch(body.name):
        raise InvalidError(f"name: {body.name!r} is no name; use up to 63 letters, digits, '-', '_' and '.'")
    try:
        scopes = parse_scopes([body.scope])
    except ValueError as error:
        raise InvalidError(f"scope: {error}") from error
    try:
        life = parse_duration(body.expires_in)
    except ValueError as error:
        raise InvalidError(f"expiresIn: {error}") from error
    if not 0 < life <= _LONGEST_LIFE:
        raise InvalidError("expiresIn: a token lives longer than nothing, and at most ten years")
    try:
        labels = parse_labels(",".join(f"{key}={value}" for key, value in body.labels.items()))
    except ValueError as error:
        raise InvalidError(f"labels: {error}") from error
    if body.max_uses is not None and body.max_uses < 1:
        raise InvalidError("maxUses: a token that can't be used is of no use")
    if len(body.description) > 1000:
        raise InvalidError("description: at most 1000 characters")
    return tokens.NewToken(
        name=body.name, scopes=scopes, life_seconds=life, labels=labels, description=body.description, max_uses=body.max_uses
    )


async def list_tokens(call: Call[Nothing, Nothing]) -> TokenList:
    """All tokens, without their secrets."""
    return await call.services.database.read(
        lambda tx: TokenList(items=tuple(tokens.view_token(row, tx.now) for row in tokens.list_tokens(tx)))
    )


async def revoke(call: Call[Nothing, Nothing]) -> TokenView:
    """Ends a token and, for good, the delegates that were enrolled with it."""
    return await call.services.database.write(
        lambda tx: tokens.view_token(tokens.revoke_token(tx, call.path["token"], call.principal.name), tx.now)
    )


OPERATIONS = (
    Operation(
        method="POST",
        path=TOKENS,
        name="createToken",
        summary="Creates a token; its secret is in the answer and nowhere else",
        access=Access.ADMIN,
        handler=create,
        body=CreateTokenRequest,
        body_limit=64 * 2**10,
        answer=NewTokenView,
        status=201,
        refusals=(409,),
        tag="tokens",
    ),
    Operation(
        method="GET",
        path=TOKENS,
        name="listTokens",
        summary="Lists tokens",
        access=Access.ADMIN,
        handler=list_tokens,
        answer=TokenList,
        tag="tokens",
    ),
    Operation(
        method="DELETE",
        path=TOKENS + "/{token}",
        name="revokeToken",
        summary="Revokes a token and the delegates that were enrolled with it",
        access=Access.ADMIN,
        handler=revoke,
        answer=TokenView,
        refusals=(404,),
        tag="tokens",
    ),
)
