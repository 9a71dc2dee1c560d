"""Certificates as values, and the decisions about one: when to renew it, whether it is over, how bad its age is."""

import binascii
import datetime as dt
import enum
import hashlib
import textwrap
from base64 import b64encode
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from delegate.protocol.pki.errors import UnacceptableKeyError, UnreadablePemError
from delegate.protocol.pki.keys import MAX_PEM_BYTES, fingerprint_of

HALF_LIFE, AGEING, DEGRADED = 1 / 2, 2 / 3, 9 / 10
"""Shares of a certificate's life: from when on it is renewed, people are warned, and health is not good any more."""
RENEWAL_SPREAD = 0.1
"""A renewal is up to that share of the life earlier or later, so that delegates of one age don't come together."""
_MOST_CERTIFICATES = 32


class CertificateHealth(enum.StrEnum):
    """What its age says of a certificate."""

    GOOD = "good"
    AGEING = "ageing"  # two thirds of its life are over: somebody should look why it was not renewed
    DEGRADED = "degraded"  # nine tenths
    EXPIRED = "expired"


@dataclass(frozen=True)
class Certificate:
    """What is to be known of one. `serial` and the fingerprints are lower-case hex; `names` are its subject alternative names.

    `fingerprint` is the SHA-256 of the certificate, `key_fingerprint` that of the key it is for.
    """

    serial: str
    subject: str
    issuer: str
    not_before: dt.datetime
    not_after: dt.datetime
    fingerprint: str
    key_fingerprint: str
    is_authority: bool
    names: tuple[str, ...]
    der: bytes = field(repr=False)

    @property
    def life(self) -> dt.timedelta:
        return self.not_after - self.not_before

    def to_pem(self) -> str:
        body = "\n".join(textwrap.wrap(b64encode(self.der).decode(), 64))
        return f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"

    def load(self) -> x509.Certificate:
        """The library's own object."""
        return x509.load_der_x509_certificate(self.der)


def describe_certificate(certificate: x509.Certificate) -> Certificate:
    """The value of a certificate of the library's. Raises UnacceptableKeyError, UnreadablePemError."""
    key = certificate.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey):
        raise UnacceptableKeyError(f"a certificate for a key of the kind {type(key).__name__} is not used here")
    der = certificate.public_bytes(Encoding.DER)
    try:
        return Certificate(
            serial=f"{certificate.serial_number:x}",
            subject=_name(certificate.subject),
            issuer=_name(certificate.issuer),
            not_before=certificate.not_valid_before_utc,
            not_after=certificate.not_valid_after_utc,
            fingerprint=hashlib.sha256(der).hexdigest(),
            key_fingerprint=fingerprint_of(key),
            is_authority=_is_authority(certificate),
            names=_alternative_names(certificate),
            der=der,
        )
    except ValueError as error:
        raise UnreadablePemError(f"a certificate that can't be read: {error}") from error


def read_certificates(pem: str | bytes) -> tuple[Certificate, ...]:
    """Every certificate of a text, in order; at least one. Raises UnreadablePemError, UnacceptableKeyError."""
    raw = pem.encode() if isinstance(pem, str) else pem
    if len(raw) > MAX_PEM_BYTES:
        raise UnreadablePemError(f"{len(raw)} bytes of certificates are more than the {MAX_PEM_BYTES} that are read")
    try:
        found = x509.load_pem_x509_certificates(raw)
    except (ValueError, binascii.Error) as error:
        raise UnreadablePemError("there is no certificate in PEM form", hint="a PEM file has -----BEGIN CERTIFICATE----- in it") from error
    if len(found) > _MOST_CERTIFICATES:
        raise UnreadablePemError(f"{len(found)} certificates are more than the {_MOST_CERTIFICATES} that are read")
    return tuple(describe_certificate(each) for each in found)


def read_der(der: bytes) -> Certificate:
    """One certificate as it was shown in a handshake. Raises UnreadablePemError, UnacceptableKeyError."""
    try:
        return describe_certificate(x509.load_der_x509_certificate(der))
    except ValueError as error:
        raise UnreadablePemError("a certificate that can't be read") from error


def share_of_life(certificate: Certificate, now: dt.datetime) -> float:
    """How much of its life is over: 0 at its beginning, 1 at its end; less or more outside of it."""
    return (now - certificate.not_before) / certificate.life if certificate.life else 1.0


def renew_at(certificate: Certificate, jitter: float) -> dt.datetime:
    """When to renew it: at half of its life, up to a tenth of the life earlier or later. `jitter` goes from -1 to 1."""
    return certificate.not_before + certificate.life * (HALF_LIFE + RENEWAL_SPREAD * jitter)


def is_expired(certificate: Certificate, now: dt.datetime) -> bool:
    return now >= certificate.not_after


def health_of(certificate: Certificate, now: dt.datetime) -> CertificateHealth:
    """What its age says. One that is not valid yet is good: some clock is not."""
    share = share_of_life(certificate, now)
    if is_expired(certificate, now):
        return CertificateHealth.EXPIRED
    if share >= DEGRADED:
        return CertificateHealth.DEGRADED
    return CertificateHealth.AGEING if share >= AGEING else CertificateHealth.GOOD


def _name(name: x509.Name) -> str:
    """The common name where there is one, else the whole in the form of RFC 4514."""
    common = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(common[0].value) if common else name.rfc4514_string()


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return bool(certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except x509.ExtensionNotFound:
        return False


def _alternative_names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(each.value) for each in names if isinstance(each, x509.DNSName | x509.UniformResourceIdentifier | x509.IPAddress))
