"""Certificates of delegates: given, used, replaced, revoked.

A delegate's older certificate stays good until the newer one is used, and a little longer, so that an answer that got lost locks nobody out
and connections can drain. Certificates of outside issuers are not kept here; they are checked against what was revoked. Times of
certificates are those of the machine's clock (`at`), as handshakes are judged by it.
"""

from collections.abc import Sequence

import sqlalchemy as sa

from delegate.manager.authorities import CertificateRules, moment
from delegate.manager.errors import CertificateRefusedError, InvalidError
from delegate.manager.store.histories import Entry, record
from delegate.manager.store.tables import certificates, delegates, revocations
from delegate.manager.store.transactions import Row, Transaction
from delegate.protocol.pki.certificates import Certificate
from delegate.protocol.pki.issuing import DELEGATE_NAME, Signer
from delegate.protocol.pki.requests import SigningRequest

_BY_FINGERPRINT = sa.select(certificates).where(certificates.c.fingerprint == sa.bindparam("fingerprint"))
_OF_REQUEST = (
    sa.select(certificates)
    .where(
        certificates.c.delegate_id == sa.bindparam("delegate"),
        certificates.c.request_digest == sa.bindparam("digest"),
        certificates.c.superseded_at.is_(None),
    )
    .order_by(certificates.c.issued_at.desc())
    .limit(1)
)
_INSERT = sa.insert(certificates)
_USE = (
    sa.update(certificates)
    .where(certificates.c.fingerprint == sa.bindparam("used"), certificates.c.first_used_at.is_(None))
    .values(first_used_at=sa.bindparam("at"))
)
_SUPERSEDE = (
    sa.update(certificates)
    .where(
        certificates.c.delegate_id == sa.bindparam("delegate"),
        certificates.c.fingerprint != sa.bindparam("used"),
        certificates.c.issued_at <= sa.bindparam("issued"),
        certificates.c.superseded_at.is_(None),
    )
    .values(superseded_at=sa.bindparam("until"))
)
_BIND = (
    sa.update(delegates)
    .where(delegates.c.id == sa.bindparam("delegate"), delegates.c.bound_at.is_(None))
    .values(bound_at=sa.bindparam("at"))
)
_RELEASE = sa.update(delegates).where(delegates.c.id == sa.bindparam("delegate")).values(bound_at=None)
_REVOKED = sa.select(revocations).where(
    sa.or_(
        sa.and_(revocations.c.kind == "serial", revocations.c.value == sa.bindparam("serial")),
        sa.and_(revocations.c.kind == "key", revocations.c.value == sa.bindparam("key")),
        sa.and_(revocations.c.kind == "certificate", revocations.c.value == sa.bindparam("certificate")),
    )
)
_FIND_REVOCATION = sa.select(revocations).where(revocations.c.kind == sa.bindparam("kind"), revocations.c.value == sa.bindparam("value"))
_REVOKE = sa.insert(revocations)
_LIST_REVOCATIONS = sa.select(revocations).order_by(revocations.c.at.desc()).limit(sa.bindparam("limit"))
_LIST = sa.select(certificates).order_by(certificates.c.issued_at.desc()).limit(sa.bindparam("limit"))
_LIST_OF = _LIST.where(certificates.c.delegate_id == sa.bindparam("delegate"))
_OLD = (
    sa.select(certificates.c.fingerprint)
    .where(certificates.c.delegate_id == sa.bindparam("delegate"))
    .order_by(certificates.c.issued_at.desc(), certificates.c.not_after.desc())
    .offset(64)
)
_FORGET = sa.delete(certificates).where(certificates.c.fingerprint.in_(sa.bindparam("fingerprints", expanding=True)))
_FORGET_ENDED = sa.delete(certificates).where(certificates.c.not_after < sa.bindparam("before"))
_COLUMNS = {"serial": certificates.c.serial, "key": certificates.c.key_fingerprint, "certificate": certificates.c.fingerprint}
KINDS = tuple(_COLUMNS)
"""By what certificates are revoked; keys and certificates by their SHA-256 fingerprints."""
_MOST_HEX = 64


def issue(
    transaction: Transaction, delegate_id: str, request: SigningRequest, signer: Signer, rules: CertificateRules, *, at: float, life: float
) -> str:
    """The chain for the key of a request, PEM. The same request gets the same one while most of its life is left.

    Raises CertificateRefusedError for a key that was revoked.
    """
    _refuse_revoked(transaction, key=request.key_fingerprint)
    known = transaction.row(_OF_REQUEST, delegate=delegate_id, digest=request.digest)
    if known is not None and at < known.not_before + (known.not_after - known.not_before) / 3 and not is_revoked(transaction, known):
        return str(known.chain)
    # Whole seconds are what a certificate can say: rounded so that it is never shorter than asked for.
    begins, ends = int(at) - int(min(30.0, life / 20)), -int(-(at + life) // 1)
    issued = signer.issue_for_delegate(request, delegate_id, begins=moment(begins), ends=moment(ends))
    chain = issued.to_pem()
    transaction.execute(
        _INSERT,
        fingerprint=issued.fingerprint,
        serial=issued.serial,
        key_fingerprint=issued.key_fingerprint,
        delegate_id=delegate_id,
        request_digest=request.digest,
        chain=chain,
        not_before=issued.not_before.timestamp(),
        not_after=issued.not_after.timestamp(),
        issued_at=at,
    )
    old = [row.fingerprint for row in transaction.rows(_OLD, delegate=delegate_id)]
    if old:
        transaction.execute(_FORGET, fingerprints=old)
    record(transaction, Entry(delegate_id, "certificate_issued", detail={"serial": issued.serial, "ends_at": issued.not_after.timestamp()}))
    return chain


def check(
    transaction: Transaction,
    certificate: Certificate,
    delegate_id: str,
    authorities: Sequence[Signer],
    rules: CertificateRules,
    *,
    at: float,
) -> bool:
    """Raises CertificateRefusedError for a certificate that this delegate may not show, though the handshake has accepted it.

    Otherwise whether it is known to have been shown before. A connection that was opened while it was good may be used a little longer.
    """
    check_unrevoked(transaction, certificate)
    if certificate.not_after.timestamp() + rules.overlap <= at:
        raise CertificateRefusedError(f"the certificate {certificate.serial} has ended", hint="connect with the newer one")
    row = transaction.row(_BY_FINGERPRINT, fingerprint=certificate.fingerprint)
    if row is None:
        _check_name(certificate, delegate_id, authorities)
        return False
    if row.delegate_id != delegate_id:
        raise CertificateRefusedError(
            f"the certificate {certificate.serial} is another delegate's", hint="two delegates must not share a state directory"
        )
    if row.superseded_at is not None and row.superseded_at <= at:
        raise CertificateRefusedError(
            f"the certificate {certificate.serial} was replaced by a newer one, which is in use", hint="connect with the newer one"
        )
    return row.first_used_at is not None


def check_unrevoked(transaction: Transaction, certificate: Certificate) -> None:
    """Raises CertificateRefusedError."""
    _refuse_revoked(transaction, serial=certificate.serial, key=certificate.key_fingerprint, certificate=certificate.fingerprint)


def check_proved(transaction: Transaction, certificate: Certificate, delegate_id: str, rules: CertificateRules, *, at: float) -> None:
    """Whether a certificate, whose key was proved, may be renewed by that alone: one of ours, maybe ended not too long ago.

    Raises CertificateRefusedError.
    """
    check_unrevoked(transaction, certificate)
    row = transaction.row(_BY_FINGERPRINT, fingerprint=certificate.fingerprint)
    if row is None or row.delegate_id != delegate_id:
        raise CertificateRefusedError(f"the certificate {certificate.serial} was not given to this delegate", hint="enrol again")
    if row.superseded_at is not None and row.superseded_at <= at:
        raise CertificateRefusedError(
            f"the certificate {certificate.serial} was replaced by a newer one, which is in use", hint="enrol again"
        )
    if at > row.not_after + rules.renewal_grace:
        raise CertificateRefusedError(
            f"the certificate {certificate.serial} ended more than {rules.renewal_grace / 86400:g} days ago", hint="enrol again"
        )


def use(transaction: Transaction, certificate: Certificate, delegate_id: str, rules: CertificateRules, *, at: float) -> None:
    """The delegate has shown it: older ones end soon, and from now on its calls come with a certificate."""
    row = transaction.row(_BY_FINGERPRINT, fingerprint=certificate.fingerprint)
    if row is not None and row.first_used_at is None:
        transaction.execute(_USE, used=certificate.fingerprint, at=at)
        transaction.execute(_SUPERSEDE, delegate=delegate_id, used=certificate.fingerprint, issued=row.issued_at, until=at + rules.overlap)
    transaction.execute(_BIND, delegate=delegate_id, at=at)


def release(transaction: Transaction, delegate_id: str) -> None:
    """The delegate enrolled without asking for a certificate: it need not show one."""
    transaction.execute(_RELEASE, delegate=delegate_id)


def revoke(transaction: Transaction, kind: str, value: str, actor: str, reason: str) -> Row:
    """Ends certificates by serial, key or fingerprint for good; open calls that came with one are cut. Doing it again changes nothing.

    Raises InvalidError.
    """
    wanted = value.strip().lower().replace(":", "")
    if kind not in KINDS:
        raise InvalidError(f"{kind!r} is nothing to revoke by; use one of {', '.join(KINDS)}")
    if not wanted or len(wanted) > _MOST_HEX or any(letter not in "0123456789abcdef" for letter in wanted):
        raise InvalidError(f"{value!r} is no {kind}; it is written in hexadecimal digits")
    wanted = wanted.lstrip("0") if kind == "serial" else wanted
    known = transaction.row(_FIND_REVOCATION, kind=kind, value=wanted)
    if known is not None:
        return known
    transaction.execute(_REVOKE, kind=kind, value=wanted, at=transaction.now, actor=actor, reason=reason[:500])
    affected = transaction.rows(sa.select(certificates.c.delegate_id).where(_COLUMNS[kind] == wanted).distinct())
    record(
        transaction,
        Entry(
            actor, "certificate_revoked", detail={kind: wanted, "reason": reason[:500], "delegates": [row.delegate_id for row in affected]}
        ),
    )
    transaction.effects.tokens_ended = True
    transaction.effects.certificates_ended = True
    return revoke(transaction, kind, wanted, actor, reason)


def list_certificates(transaction: Transaction, delegate_id: str = "") -> Sequence[Row]:
    """The newest first."""
    limit = transaction.limits.page_size
    return transaction.rows(_LIST_OF, delegate=delegate_id, limit=limit) if delegate_id else transaction.rows(_LIST, limit=limit)


def list_revocations(transaction: Transaction) -> Sequence[Row]:
    return transaction.rows(_LIST_REVOCATIONS, limit=transaction.limits.page_size)


def forget_ended(transaction: Transaction, rules: CertificateRules, *, at: float) -> int:
    """Certificates that can't even prove a renewal any more; how many."""
    return transaction.execute(_FORGET_ENDED, before=at - rules.renewal_grace)


def is_revoked(transaction: Transaction, row: Row) -> bool:
    """Whether a certificate that is kept here was revoked."""
    return transaction.row(_REVOKED, serial=row.serial, key=row.key_fingerprint, certificate=row.fingerprint) is not None


def _refuse_revoked(transaction: Transaction, *, serial: str = "", key: str = "", certificate: str = "") -> None:
    row = transaction.row(_REVOKED, serial=serial, key=key, certificate=certificate)
    if row is not None:
        because = f": {row.reason}" if row.reason else ""
        what = "the key" if row.kind == "key" else "the certificate"
        raise CertificateRefusedError(f"{what} was revoked{because}", hint="enrol again with a new key and a token that lives")


def _check_name(certificate: Certificate, delegate_id: str, authorities: Sequence[Signer]) -> None:
    """A certificate that is not kept here: an outside issuer's, or one of ours that a restored backup doesn't know."""
    names = [name.removeprefix(DELEGATE_NAME) for name in certificate.names if name.startswith(DELEGATE_NAME)]
    if not names:
        return
    if names != [delegate_id] or not any(each.has_signed(certificate) for each in authorities):
        raise CertificateRefusedError(f"the certificate {certificate.serial} names another delegate", hint="enrol again")
