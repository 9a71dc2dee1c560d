"""The manager's authority at work: found or made at the start, followed when another manager changes it, and the manager's own TLS.

What is known of the authorities is one frozen value, replaced as a whole, so that operations of the store, which run in threads of their
own, always see one state.
"""

import asyncio
import datetime as dt
import secrets
import socket
import ssl
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from delegate.foundation.errors import DelegateError
from delegate.manager.authorities import (
    CertificateRules,
    StoredAuthority,
    choose_bundle,
    choose_signer,
    moment,
    new_authority,
)
from delegate.manager.clocks import Clock
from delegate.manager.errors import ManagerStartError
from delegate.manager.store import authorities, certificates
from delegate.manager.store.database import Database
from delegate.protocol.pki.bundles import Bundle, read_bundle
from delegate.protocol.pki.certificates import Certificate, is_expired, renew_at
from delegate.protocol.pki.errors import PkiError
from delegate.protocol.pki.issuing import Signer
from delegate.protocol.pki.keys import make_key

log = structlog.get_logger(__name__)
AUTHORITIES_FILE = "authorities.pem"
_FOLLOW_SECONDS = 30.0
_SERVER_BACKDATED = dt.timedelta(hours=1)


class Authority:
    """Signs for this manager. `now` is the machine's clock, as handshakes are judged by it. `on_change` is told of another authority."""

    def __init__(self, database: Database, now: Clock, rules: CertificateRules, known: Sequence[StoredAuthority]) -> None:
        self.rules = rules
        self.now = now
        self._database = database
        self._known = tuple(known)
        self.on_change: Callable[[], None] = lambda: None

    @classmethod
    async def open(cls, database: Database, now: Clock, rules: CertificateRules) -> "Authority":
        known = await database.write(lambda transaction: authorities.find_or_make(transaction, lambda: new_authority(now(), rules)))
        return cls(database, now, rules, known)

    @property
    def known(self) -> tuple[StoredAuthority, ...]:
        return self._known

    def signer(self) -> Signer:
        """Who signs now."""
        return choose_signer(self._known, self.now())

    def signers(self) -> tuple[Signer, ...]:
        """All that may have signed something that is still good."""
        return tuple(each.signer for each in self._known)

    def bundle(self) -> Bundle:
        """Whom delegates shall believe."""
        return choose_bundle(self._known, self.now())

    async def announce(self, *, after_seconds: float, actor: str) -> str:
        """Makes the next authority, believed at once and signing later; its id."""
        now = self.now()
        new = new_authority(now, self.rules)
        authority_id = await self._database.write(
            lambda transaction: authorities.add(transaction, new, signs_from=now + after_seconds, actor=actor)
        )
        await self.follow()
        return authority_id

    async def follow(self) -> None:
        """Takes over what another manager may have announced."""
        known = tuple(await self._database.read(authorities.list_authorities))
        changed = [each.id for each in known] != [each.id for each in self._known]
        self._known = known
        if changed:
            self.on_change()

    async def tidy(self) -> None:
        """Forgets certificates that are good for nothing any more."""
        await self._database.write(lambda transaction: certificates.forget_ended(transaction, self.rules, at=self.now()))


class ServerTls:
    """The TLS context of the manager: its own certificate, and whose certificates of delegates it takes.

    Certificates of delegates are asked for and not demanded here: people and new delegates have none. A change of the authority, of the
    files, or of the certificate that it signed itself reaches the same context, and so every new connection.
    """

    def __init__(
        self,
        authority: Authority,
        *,
        directory: Path,
        context: ssl.SSLContext | None = None,
        files: tuple[Path, Path] | None = None,
        names: Sequence[str] = (),
        outside: Path | None = None,
    ) -> None:
        """With a `context` or `files` (chain, key) it shows that certificate; otherwise one for these `names` that the authority signs.

        `outside` has the authorities of outside issuers of delegates' certificates. `directory` is private. Raises ManagerStartError.
        """
        self._authority = authority
        self._directory = directory
        self._files = files
        self._names = names
        self._signs_itself = context is None and files is None
        self._believed: set[str] = set()
        self._shown: Certificate | None = None
        self._jitter = secrets.SystemRandom().uniform(-1, 1)
        self.context = context or ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.verify_mode = ssl.CERT_OPTIONAL
        if files is not None:
            self._stamps = _stamps(files)
            _load_files(self.context, *files)
        if outside is not None:
            self._believe(_read_outside(outside).certificates)
        self.refresh()

    def refresh(self) -> None:
        """Follows what changed."""
        self._believe(self._authority.bundle().certificates)
        if self._signs_itself:
            self._renew()
        elif self._files is not None and _stamps(self._files) != self._stamps:
            self._reload(self._files)

    def _believe(self, authorities: Sequence[Certificate]) -> None:
        new = [each for each in authorities if each.fingerprint not in self._believed]
        if new:
            self.context.load_verify_locations(cadata="".join(each.to_pem() for each in new))
            self._believed.update(each.fingerprint for each in new)

    def _renew(self) -> None:
        now = moment(self._authority.now())
        if self._shown is not None and now < renew_at(self._shown, self._jitter) and not is_expired(self._shown, now):
            return
        key = make_key()
        ends = now + dt.timedelta(seconds=self._authority.rules.server_life)
        pair = self._authority.signer().issue_for_server(key, self._names, begins=now - _SERVER_BACKDATED, ends=ends)
        with tempfile.NamedTemporaryFile(prefix=".tls-", dir=self._directory) as file:  # OpenSSL takes keys from files alone
            file.write(key.to_pem() + pair.chain_pem().encode())
            file.flush()
            self.context.load_cert_chain(file.name)
        self._shown = pair.certificate
        log.info("manager.certificate_signed", names=list(self._names), serial=pair.certificate.serial, ends_at=ends.isoformat())

    def _reload(self, files: tuple[Path, Path]) -> None:
        """New files that fit each other; others are tried again when they change."""
        self._stamps = _stamps(files)
        try:
            _load_files(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), *files)
            _load_files(self.context, *files)
        except ManagerStartError as error:
            log.warning("manager.certificate_not_reloaded", error=str(error), hint=error.hint)
        else:
            log.info("manager.certificate_reloaded", file=str(files[0]))


async def keep_authority(authority: Authority, tls: ServerTls | None) -> None:
    """Follows changes until cancelled. A database that is away for a while is no reason to end."""
    while True:
        await asyncio.sleep(_FOLLOW_SECONDS)
        try:
            await authority.follow()
            await authority.tidy()
        except DelegateError as error:
            log.warning("authority.not_followed", error=str(error))
        if tls is not None:
            tls.refresh()


def own_names(listen_host: str, given: Sequence[str]) -> tuple[str, ...]:
    """Names and addresses by which this manager may be called: the given ones first, then what is known of the machine."""
    bound = [listen_host] if listen_host not in ("", "0.0.0.0", "::") else []  # noqa: S104 - compared, not listened on
    return tuple(dict.fromkeys([*given, *bound, socket.gethostname(), "localhost", "127.0.0.1", "::1"]))


def write_authorities(directory: Path, bundle: Bundle) -> Path:
    """Puts the authorities where an administrator finds them, for delegates that shall believe this manager."""
    path = directory / AUTHORITIES_FILE
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    temporary.write_text(bundle.to_pem())
    temporary.replace(path)
    return path


def _load_files(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ManagerStartError(
            f"the certificate {certificate} and the key {key} can't be used: {error}", hint="both are PEM, and belong to each other"
        ) from error


def _read_outside(path: Path) -> Bundle:
    try:
        return read_bundle(path.read_bytes())
    except (OSError, PkiError) as error:
        raise ManagerStartError(
            f"{path} holds no authorities: {error}", hint="point DELEGATE_MANAGER_CLIENT_CA_FILE to a PEM file of them"
        ) from error


def _stamps(files: tuple[Path, Path]) -> tuple[tuple[int, int] | None, ...]:
    found: list[tuple[int, int] | None] = []
    for path in files:
        try:
            facts = path.stat()
        except OSError:
            found.append(None)
        else:
            found.append((facts.st_ino, facts.st_mtime_ns))
    return tuple(found)
