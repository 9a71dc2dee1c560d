"""The authorities that are believed. While one takes over from another, both are in the bundle."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature

from delegate.protocol.pki.certificates import Certificate, is_expired, read_certificates
from delegate.protocol.pki.errors import UntrustedChainError


@dataclass(frozen=True)
class Bundle:
    """Certificates of authorities, each once, in the order in which they came."""

    certificates: tuple[Certificate, ...] = ()

    @property
    def fingerprints(self) -> tuple[str, ...]:
        return tuple(each.fingerprint for each in self.certificates)

    def to_pem(self) -> str:
        return "".join(each.to_pem() for each in self.certificates)

    def merged(self, others: Iterable[Certificate]) -> "Bundle":
        """With these behind, as far as they are not in it yet."""
        known = {each.fingerprint: each for each in (*self.certificates, *others)}
        return Bundle(tuple(known.values()))

    def living(self, now: dt.datetime) -> "Bundle":
        """Without those that are over."""
        return Bundle(tuple(each for each in self.certificates if not is_expired(each, now)))


def read_bundle(pem: str | bytes) -> Bundle:
    """The authorities of a text; an empty text has none. Raises UnreadablePemError, UnacceptableKeyError."""
    if not pem.strip():
        return Bundle()
    return Bundle().merged(read_certificates(pem))


def check_chain(chain: tuple[Certificate, ...], bundle: Bundle) -> None:
    """Whether the chain (the leaf first) was signed by an authority of the bundle. Raises UntrustedChainError.

    Dates, names and purposes are the handshake's to check.
    """
    anchors = {each.fingerprint for each in bundle.certificates}
    link = chain[0]
    for following in (*chain[1:], None):
        if link.fingerprint in anchors or any(is_signed(link, anchor) for anchor in bundle.certificates):
            return
        if following is None or not (following.is_authority and is_signed(link, following)):
            break
        link = following
    raise UntrustedChainError(
        f"the certificate {chain[0].serial} was signed by {chain[0].issuer!r}, which is not among the authorities that came with it"
    )


def is_signed(certificate: Certificate, by: Certificate) -> bool:
    """Whether the key of the other one has signed it."""
    try:
        certificate.load().verify_directly_issued_by(by.load())
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True
