"""Who may look at the pages: a cookie that says which operator's token it was made with, and until when.

The cookie is no token: it opens the pages alone, for half a day, and ends with its token.
"""

import hmac
import secrets
import time
from collections.abc import Callable

from delegate.manager.errors import AuthenticationError, RevokedError
from delegate.manager.scopes import is_admin
from delegate.manager.store.database import Database
from delegate.manager.store.tokens import check_token, find_token
from delegate.manager.store.transactions import Transaction

COOKIE = "delegate_session"
LIFE_SECONDS = 12 * 3600.0
_CODE_SECONDS = 600.0
_MAX_CODES = 16


class Logins:
    """Makes and checks cookies; hands out codes that log in once, for a person who started the manager."""

    def __init__(self, database: Database, key: bytes, clock: Callable[[], float]) -> None:
        self._database = database
        self._key = hmac.digest(key, b"pages", "sha256")
        self._clock = clock
        self._codes: dict[str, float] = {}

    def make_code(self) -> str:
        """A code for a URL: it logs in once, within ten minutes."""
        while len(self._codes) >= _MAX_CODES:
            del self._codes[next(iter(self._codes))]
        code = secrets.token_urlsafe(24)
        self._codes[code] = time.monotonic() + _CODE_SECONDS
        return code

    async def redeem_code(self, code: str) -> str | None:
        """A cookie for a code that was not used before."""
        until = self._codes.pop(code, None)
        if until is None or until < time.monotonic():
            return None
        return self._make("")

    async def log_in(self, token: str) -> str | None:
        """A cookie for an operator's token; None for any other."""

        def work(transaction: Transaction) -> str | None:
            row = check_token(transaction, token)
            return str(row.id) if is_admin(row.scopes.split(",")) else None

        try:
            token_id = await self._database.read(work)
        except (AuthenticationError, RevokedError):
            return None
        return None if token_id is None else self._make(token_id)

    def _make(self, token_id: str) -> str:
        claim = f"{token_id}.{int(self._clock() + LIFE_SECONDS)}"
        return f"{claim}.{self._sign(claim)}"

    def _sign(self, claim: str) -> str:
        return hmac.digest(self._key, claim.encode(), "sha256").hex()

    async def is_logged_in(self, cookie: str) -> bool:
        """Whether a cookie is one of ours, not over, and its token still alive."""
        claim, _, signature = cookie.rpartition(".")
        token_id, _, until = claim.partition(".")
        if not hmac.compare_digest(self._sign(claim).encode(), signature.encode()):
            return False
        if int(until) <= self._clock():
            return False
        return not token_id or await self._database.read(lambda transaction: _is_living(transaction, token_id))


def _is_living(transaction: Transaction, token_id: str) -> bool:
    row = find_token(transaction, token_id)
    return row.revoked_at is None and (row.expires_at is None or row.expires_at > transaction.now)
