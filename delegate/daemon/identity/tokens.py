"""The tokens that this delegate enrols with, followed while it runs.

A delegate token that was replaced in its file is enrolled with at once: the same delegate, with another token behind it, so that the
old one can be revoked and nothing stops meanwhile. A service account's token is replaced by the kubelet, and read where it is needed;
its end is told as it is now.
"""

import asyncio
import binascii
import hashlib
from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec
import structlog

from delegate.daemon.identity.errors import RenewalRefusedError, UnsupportedError
from delegate.foundation.errors import DelegateError
from delegate.foundation.lifecycle import backoff
from delegate.foundation.secrets import Secret

log = structlog.get_logger(__name__)
_LOOK_SECONDS = 5.0
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_MARK_DIGITS = 32


class _Claims(msgspec.Struct, frozen=True):
    exp: float


def mark_of(token: Secret) -> str:
    """Tells one token from another, and nothing else."""
    return hashlib.sha256(b"delegate token\n" + token.reveal().encode()).hexdigest()[:_MARK_DIGITS]


def is_account_token(token: Secret) -> bool:
    """Whether it is a service account's (a JSON Web Token), and no delegate token."""
    return token.reveal().startswith("eyJ") and token.reveal().count(".") == 2


def end_of(token: Secret) -> float | None:
    """When a service account's token says that it ends, in Unix time; None where it says nothing."""
    body = token.reveal().split(".")[1] if is_account_token(token) else ""
    try:
        return msgspec.json.decode(urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=_Claims).exp
    except (msgspec.DecodeError, UnicodeDecodeError, binascii.Error, ValueError):
        return None


@dataclass(frozen=True, kw_only=True)
class TokenHooks:
    """`delegate_token` and `account_token` read what there is now. `enrolled_with` is the mark of the delegate token that the last
    enrolment went by; empty for none. `enrol` enrols with a token, and raises DelegateErrors. `on_end` is told Unix time."""

    delegate_token: Callable[[], Secret | None]
    account_token: Callable[[], Secret | None]
    enrolled_with: Callable[[], str]
    is_enrolled: Callable[[], bool]
    enrol: Callable[[Secret], Awaitable[None]]
    on_end: Callable[[float], None]


class TokenFollower:
    """`run` beside other parts until cancelled."""

    def __init__(self, hooks: TokenHooks) -> None:
        self._hooks = hooks
        self._refused = ""

    def has_another(self) -> bool:
        """Whether there is a token that this delegate has not enrolled with, or a service account's. Blocking."""
        token = self._hooks.delegate_token()
        return (token is not None and mark_of(token) != self._hooks.enrolled_with()) or self._hooks.account_token() is not None

    async def run(self) -> None:
        waits = backoff(_FIRST_WAIT, _LONGEST_WAIT)
        while True:
            wait = _LOOK_SECONDS
            try:
                await self.look()
            except DelegateError as error:
                wait = next(waits)
                log.warning("identity.token_not_followed", error=str(error), hint=error.hint, retry_in_seconds=round(wait, 2))
            else:
                waits = backoff(_FIRST_WAIT, _LONGEST_WAIT)
            await asyncio.sleep(wait)

    async def look(self) -> None:
        """Tells the end of the service account's token, and enrols with a delegate token that is new. Raises DelegateErrors."""
        hooks = self._hooks
        known = hooks.enrolled_with()
        if not known:
            account = await asyncio.to_thread(hooks.account_token)
            end = None if account is None else end_of(account)
            if end is not None:
                hooks.on_end(end)
            return
        token = await asyncio.to_thread(hooks.delegate_token)
        mark = "" if token is None else mark_of(token)
        if token is None or mark in (known, self._refused) or not hooks.is_enrolled():
            return
        try:
            await hooks.enrol(token)
        except (RenewalRefusedError, UnsupportedError) as error:
            self._refused = mark
            log.error("identity.token_not_taken", error=str(error), hint=error.hint)
        else:
            log.info("identity.token_replaced")
