"""Who calls: an operator, or the session of a delegate."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from delegate.manager.clocks import Clock
from delegate.manager.errors import AuthenticationError, ForbiddenError
from delegate.manager.identifiers import hash_secret
from delegate.manager.scopes import is_admin
from delegate.manager.store.database import Database
from delegate.manager.store.sessions import check_credential
from delegate.manager.store.tokens import check_token
from delegate.manager.store.transactions import Transaction

_CACHED = 10_000
_MAX_TOKEN = 512


_Find = Callable[[Transaction, str], "Principal"]


class Principal(msgspec.Struct, frozen=True):
    """`name` is what the history calls an operator; `delegate_id` is set for a delegate."""

    name: str = ""
    delegate_id: str = ""
    expires_at: float | None = None


class Authenticator:
    """Checks tokens against the store, and remembers for `memory_seconds` whom they belong to.

    What this process revokes is forgotten at once (`forget_all`); the short memory bounds what another manager revoked.
    """

    def __init__(self, database: Database, clock: Clock, memory_seconds: float = 2.0) -> None:
        self._database = database
        self._clock = clock
        self._memory_seconds = memory_seconds
        self._known: OrderedDict[str, tuple[Principal, float]] = OrderedDict()

    async def delegate(self, secret: str) -> Principal:
        """The delegate of a session token. Raises AuthenticationError, TokenExpiredError, ForbiddenError or RevokedError."""
        if secret.startswith(("dga_", "dgt_")):
            raise ForbiddenError(
                "this is for the sessions of delegates; missing: a session token", hint="enrol with the token, and use what that gives"
            )
        return await self._look_up(secret, _find_delegate)

    async def operator(self, secret: str) -> Principal:
        """The operator of an admin token. Raises the same."""
        if secret.startswith(("dgs_", "dgr_", "dgx_")):
            raise ForbiddenError(
                "a delegate's token is for its own calls; missing: admin", hint="use an operator's token (DELEGATE_API_TOKEN)"
            )
        return await self._look_up(secret, _find_operator)

    async def _look_up(self, secret: str, find: _Find) -> Principal:
        if not secret or len(secret) > _MAX_TOKEN or not secret.isascii():
            raise AuthenticationError("no token was given", hint="send `Authorization: Bearer <token>` (DELEGATE_API_TOKEN)")
        digest = hash_secret(secret)
        now = asyncio.get_running_loop().time()
        known = self._known.get(digest)
        if known is not None and known[1] > now and (known[0].expires_at is None or known[0].expires_at > self._clock()):
            return known[0]
        principal = await self._database.read(lambda transaction: find(transaction, secret))
        self._known[digest] = (principal, now + self._memory_seconds)
        self._known.move_to_end(digest)
        while len(self._known) > _CACHED:
            self._known.popitem(last=False)
        return principal

    def forget_all(self) -> None:
        self._known.clear()


def _find_delegate(transaction: Transaction, secret: str) -> Principal:
    credential = check_credential(transaction, secret, "session")
    return Principal(delegate_id=credential.delegate_id, expires_at=credential.expires_at)


def _find_operator(transaction: Transaction, secret: str) -> Principal:
    token = check_token(transaction, secret)
    if not is_admin(token.scopes.split(",")):
        raise ForbiddenError(
            f"the token {token.name!r} has the scope {token.scopes.replace(',', ', ')}; missing: admin",
            hint="use an operator's token (DELEGATE_API_TOKEN)",
        )
    return Principal(name=token.name, expires_at=token.expires_at)
