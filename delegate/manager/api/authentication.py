"""Who calls: an operator, or the session of a delegate, with the certificate of its connection."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from delegate.manager.api.peers import Peer
from delegate.manager.authority import Authority
from delegate.manager.clocks import Clock
from delegate.manager.errors import AuthenticationError, CertificateRefusedError, ForbiddenError
from delegate.manager.identifiers import hash_secret
from delegate.manager.scopes import is_admin
from delegate.manager.store import certificates
from delegate.manager.store.database import Database
from delegate.manager.store.sessions import check_credential
from delegate.manager.store.tokens import check_token
from delegate.manager.store.transactions import Transaction
from delegate.protocol.pki.certificates import Certificate

_CACHED = 10_000
_MAX_TOKEN = 512


_Find = Callable[[Transaction, str], "Principal"]


class Principal(msgspec.Struct, frozen=True):
    """`name` is what the history calls an operator; `delegate_id` is set for a delegate.

    A `bound` delegate has shown a certificate before; `certificate` is the one that this call came with.
    """

    name: str = ""
    delegate_id: str = ""
    expires_at: float | None = None
    bound: bool = False
    certificate: Certificate | None = None


class Authenticator:
    """Checks tokens against the store, and remembers for `memory_seconds` whom they belong to.

    What this process revokes is forgotten at once (`forget_all`); the short memory bounds what another manager revoked.
    """

    def __init__(self, database: Database, clock: Clock, authority: Authority, memory_seconds: float = 2.0) -> None:
        self._database = database
        self._authority = authority
        self._clock = clock
        self._memory_seconds = memory_seconds
        self._known: OrderedDict[str, tuple[Principal, float]] = OrderedDict()
        self._shown: OrderedDict[tuple[str, str], float] = OrderedDict()

    async def delegate(self, secret: str, peer: Peer) -> Principal:
        """The delegate of a session token, whose certificate, if it has shown one before, has to be on the connection.

        Raises AuthenticationError, TokenExpiredError, ForbiddenError, RevokedError or CertificateRefusedError.
        """
        if secret.startswith(("dga_", "dgt_")):
            raise ForbiddenError(
                "this is for the sessions of delegates; missing: a session token", hint="enrol with the token, and use what that gives"
            )
        principal = await self._look_up(secret, _find_delegate)
        if peer.certificate is not None:
            await self._check_certificate(peer.certificate, principal)
            return msgspec.structs.replace(principal, certificate=peer.certificate)
        if peer.encrypted and principal.bound:
            raise CertificateRefusedError(
                "the calls of this delegate come with its certificate, and this one came without", hint="connect with the certificate"
            )
        return principal

    async def check_unrevoked(self, peer: Peer) -> None:
        """For calls that are authorized otherwise: a revoked certificate is refused all the same. Raises CertificateRefusedError."""
        certificate = peer.certificate
        if certificate is not None and not self._is_known((certificate.fingerprint, "")):
            await self._database.read(lambda transaction: certificates.check_unrevoked(transaction, certificate))
            self._remember_shown((certificate.fingerprint, ""))

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

    async def _check_certificate(self, certificate: Certificate, principal: Principal) -> None:
        key = (certificate.fingerprint, principal.delegate_id)
        now = self._authority.now()
        rules, signers = self._authority.rules, self._authority.signers()
        if self._is_known(key) and now < certificate.not_after.timestamp() + rules.overlap:
            return
        used = await self._database.read(
            lambda transaction: certificates.check(transaction, certificate, principal.delegate_id, signers, rules, at=now)
        )
        if not (used and principal.bound):
            await self._database.write(lambda transaction: certificates.use(transaction, certificate, principal.delegate_id, rules, at=now))
            self._known.clear()
        self._remember_shown(key)

    def _is_known(self, key: tuple[str, str]) -> bool:
        return self._shown.get(key, 0.0) > asyncio.get_running_loop().time()

    def _remember_shown(self, key: tuple[str, str]) -> None:
        self._shown[key] = asyncio.get_running_loop().time() + self._memory_seconds
        self._shown.move_to_end(key)
        while len(self._shown) > _CACHED:
            self._shown.popitem(last=False)

    def forget_all(self) -> None:
        self._known.clear()
        self._shown.clear()


def _find_delegate(transaction: Transaction, secret: str) -> Principal:
    credential = check_credential(transaction, secret, "session")
    return Principal(delegate_id=credential.delegate_id, expires_at=credential.expires_at, bound=credential.bound_at is not None)


def _find_operator(transaction: Transaction, secret: str) -> Principal:
    token = check_token(transaction, secret)
    if not is_admin(token.scopes.split(",")):
        raise ForbiddenError(
            f"the token {token.name!r} has the scope {token.scopes.replace(',', ', ')}; missing: admin",
            hint="use an operator's token (DELEGATE_API_TOKEN)",
        )
    return Principal(name=token.name, expires_at=token.expires_at)
