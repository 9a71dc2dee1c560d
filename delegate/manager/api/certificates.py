"""Certificates: renewed by delegates; listed, revoked and put under another authority by operators."""

import msgspec

from delegate.foundation.quantities import parse_duration
from delegate.manager.api.calls import Access, Call, Nothing, Operation
from delegate.manager.authorities import choose_signer
from delegate.manager.clocks import to_rfc3339
from delegate.manager.credential_views import (
    AuthorityList,
    AuthorityView,
    CertificateList,
    CertificateView,
    RevocationList,
    RevocationView,
)
from delegate.manager.errors import CertificateRefusedError, InvalidError
from delegate.manager.store import certificates
from delegate.manager.store.certificates import KINDS
from delegate.manager.store.sessions import find_delegate
from delegate.manager.store.transactions import Row, Transaction
from delegate.protocol import routes
from delegate.protocol.certificates import AuthoritiesAnswer, RenewAnswer, RenewRequest
from delegate.protocol.pki.certificates import Certificate, read_certificates
from delegate.protocol.pki.errors import PkiError
from delegate.protocol.pki.proofs import is_proved
from delegate.protocol.pki.requests import read_request

CERTIFICATES = "/api/v1/certificates"
REVOCATIONS = "/api/v1/revocations"
AUTHORITIES = "/api/v1/authorities"
DEFAULT_NOTICE = "48h"
_LONGEST_NOTICE = 365 * 86400.0


class CertificatesQuery(msgspec.Struct, frozen=True):
    delegate: str = ""


class RevokeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly one of the first three: a serial number, or a SHA-256 fingerprint of a key or a certificate; hexadecimal."""

    serial: str = ""
    key: str = ""
    certificate: str = ""
    reason: str = ""


class AnnounceRequest(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """`signsAfter`: give every delegate the time for one renewal, so that it believes the new authority before that signs anything."""

    signs_after: str = DEFAULT_NOTICE


async def renew(call: Call[RenewRequest, Nothing]) -> RenewAnswer:
    """A certificate for the key of the request; by the one that the connection shows, by the proof of an earlier one, or the first."""
    request, services = call.body, call.services
    delegate_id, authority, shown = call.principal.delegate_id, call.services.authority, call.certificate
    if request.delegate_id != delegate_id:
        raise InvalidError("delegateId is not the one of the session token", hint="enrol again")
    signing = read_request(request.csr)
    proved = _proved(request, signing.digest)
    now = authority.now()
    life = authority.rules.life(request.life_seconds)

    def work(transaction: Transaction) -> str:
        row = find_delegate(transaction, delegate_id)
        if shown is not None:
            certificates.check(transaction, shown, delegate_id, authority.signers(), authority.rules, at=now)
        elif proved is not None:
            certificates.check_proved(transaction, proved, delegate_id, authority.rules, at=now)
        elif row.bound_at is not None and call.encrypted:
            raise CertificateRefusedError(
                "this delegate has a certificate; the renewal came neither over it nor with a proof of it", hint="enrol again"
            )
        return certificates.issue(transaction, delegate_id, signing, authority.signer(), authority.rules, at=now, life=life)

    chain = await services.database.write(work)
    return RenewAnswer(
        request_id=request.request_id, server_time=call.server_time(), certificate=chain, authorities=authority.bundle().to_pem()
    )


def _proved(request: RenewRequest, digest: str) -> Certificate | None:
    """The earlier certificate, if the renewal comes with the proof that its key is there."""
    if not request.certificate:
        return None
    try:
        earlier = read_certificates(request.certificate)[0]
    except PkiError as error:
        raise InvalidError(f"certificate: {error}") from error
    return earlier if is_proved(earlier, request.proof, digest) else None


async def tell_authorities(call: Call[Nothing, Nothing]) -> AuthoritiesAnswer:
    """By whom the manager's certificates may be signed. Whoever gets this unverified has to compare fingerprints."""
    return AuthoritiesAnswer(
        request_id=call.request_id, server_time=call.server_time(), authorities=call.services.authority.bundle().to_pem()
    )


async def list_certificates(call: Call[Nothing, CertificatesQuery]) -> CertificateList:
    """Certificates of delegates, the newest first; of one delegate where its id is given."""
    now = call.services.authority.now()

    def read(transaction: Transaction) -> CertificateList:
        rows = certificates.list_certificates(transaction, call.query.delegate)
        return CertificateList(items=tuple(_view(row, now, revoked=certificates.is_revoked(transaction, row)) for row in rows))

    return await call.services.database.read(read)


async def revoke(call: Call[RevokeRequest, Nothing]) -> RevocationView:
    """Ends certificates for good, also those of outside issuers; open calls that came with one are cut."""
    given = {kind: getattr(call.body, kind) for kind in KINDS if getattr(call.body, kind)}
    if len(given) != 1:
        raise InvalidError(f"name exactly one of {', '.join(KINDS)}")
    ((kind, value),) = given.items()
    row = await call.services.database.write(
        lambda transaction: certificates.revoke(transaction, kind, value, call.principal.name, call.body.reason)
    )
    return _view_revocation(row)


async def list_revocations(call: Call[Nothing, Nothing]) -> RevocationList:
    """What was revoked by serial, key or certificate, the newest first."""
    rows = await call.services.database.read(certificates.list_revocations)
    return RevocationList(items=tuple(_view_revocation(row) for row in rows))


async def list_authorities(call: Call[Nothing, Nothing]) -> AuthorityList:
    """The authorities that delegates believe."""
    return _view_authorities(call)


async def announce_authority(call: Call[AnnounceRequest, Nothing]) -> AuthorityList:
    """Makes the next authority: told to delegates with each renewal at once, signing only later."""
    try:
        notice = parse_duration(call.body.signs_after)
    except ValueError as error:
        raise InvalidError(f"signsAfter: {error}") from error
    if not 0 <= notice <= _LONGEST_NOTICE:
        raise InvalidError("signsAfter: at most a year")
    await call.services.authority.announce(after_seconds=notice, actor=call.principal.name)
    return _view_authorities(call)


def _view(row: Row, now: float, *, revoked: bool) -> CertificateView:
    if revoked:
        state = "revoked"
    elif row.not_after <= now:
        state = "expired"
    elif row.superseded_at is not None:
        state = "replaced"
    else:
        state = "current" if row.first_used_at is not None else "issued"
    return CertificateView(
        serial=row.serial,
        delegate=row.delegate_id,
        state=state,
        fingerprint=row.fingerprint,
        key_fingerprint=row.key_fingerprint,
        issued_at=to_rfc3339(row.issued_at),
        begins_at=to_rfc3339(row.not_before),
        ends_at=to_rfc3339(row.not_after),
        first_used_at=to_rfc3339(row.first_used_at),
    )


def _view_revocation(row: Row) -> RevocationView:
    return RevocationView(kind=row.kind, value=row.value, revoked_at=to_rfc3339(row.at), revoked_by=row.actor, reason=row.reason)


def _view_authorities(call: Call[object, object]) -> AuthorityList:
    authority, now = call.services.authority, call.services.authority.now()
    signing = choose_signer(authority.known, now).certificate.fingerprint
    items = []
    for each in authority.known:
        certificate = each.signer.certificate
        state = "signing" if certificate.fingerprint == signing else "announced" if each.signs_from > now else "earlier"
        items.append(
            AuthorityView(
                id=each.id,
                state=state,
                fingerprint=certificate.fingerprint,
                certificate=certificate.to_pem(),
                signs_from=to_rfc3339(each.signs_from) if each.signs_from else "",
                ends_at=to_rfc3339(certificate.not_after.timestamp()),
            )
        )
    return AuthorityList(items=tuple(items))


OPERATIONS = (
    Operation(
        method="POST",
        path=routes.RENEW_CERTIFICATE,
        name="renewCertificate",
        summary="Gives a new certificate",
        access=Access.RENEWAL,
        handler=renew,
        body=RenewRequest,
        body_limit=64 * 2**10,
        answer=RenewAnswer,
        tag="delegate",
    ),
    Operation(
        method="GET",
        path=routes.AUTHORITIES,
        name="tellAuthorities",
        summary="Tells which authorities the manager's certificates may be signed by",
        access=Access.ANYBODY,
        handler=tell_authorities,
        answer=AuthoritiesAnswer,
        tag="delegate",
    ),
    Operation(
        method="GET",
        path=CERTIFICATES,
        name="listCertificates",
        summary="Lists certificates of delegates",
        access=Access.ADMIN,
        handler=list_certificates,
        query=CertificatesQuery,
        answer=CertificateList,
        tag="certificates",
    ),
    Operation(
        method="POST",
        path=REVOCATIONS,
        name="revokeCertificate",
        summary="Revokes certificates by serial, key or fingerprint",
        access=Access.ADMIN,
        handler=revoke,
        body=RevokeRequest,
        body_limit=64 * 2**10,
        answer=RevocationView,
        tag="certificates",
    ),
    Operation(
        method="GET",
        path=REVOCATIONS,
        name="listRevocations",
        summary="Lists what was revoked",
        access=Access.ADMIN,
        handler=list_revocations,
        answer=RevocationList,
        tag="certificates",
    ),
    Operation(
        method="GET",
        path=AUTHORITIES,
        name="listAuthorities",
        summary="Lists the authorities that sign certificates",
        access=Access.ADMIN,
        handler=list_authorities,
        answer=AuthorityList,
        tag="certificates",
    ),
    Operation(
        method="POST",
        path=AUTHORITIES,
        name="announceAuthority",
        summary="Makes the next authority, believed at once and signing later",
        access=Access.ADMIN,
        handler=announce_authority,
        body=AnnounceRequest,
        body_limit=64 * 2**10,
        answer=AuthorityList,
        status=201,
        tag="certificates",
    ),
)
