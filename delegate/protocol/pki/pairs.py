"""A private key and the chain of certificates that belongs to it; and both with the authorities that came along."""

import datetime as dt
from dataclasses import dataclass, field

from delegate.protocol.pki.bundles import Bundle
from delegate.protocol.pki.certificates import Certificate, is_expired, read_certificates
from delegate.protocol.pki.errors import KeyMismatchError, OutOfDateError
from delegate.protocol.pki.keys import PrivateKey, read_key

CLOCK_TOLERANCE = dt.timedelta(minutes=5)
"""A certificate that becomes valid within that time is taken: the clock that signed it may be ahead of ours."""


@dataclass(frozen=True)
class Pair:
    """A key and its chain, the leaf first; made by `check_pair` or `read_pair` alone, so they always belong together."""

    key: PrivateKey
    chain: tuple[Certificate, ...]

    @property
    def certificate(self) -> Certificate:
        """The leaf."""
        return self.chain[0]

    def chain_pem(self) -> str:
        return "".join(each.to_pem() for each in self.chain)


@dataclass(frozen=True)
class Material:
    """What a delegate proves itself with, and whom it believes: a pair, and authorities (none where the issuer named none)."""

    pair: Pair
    authorities: Bundle = field(default_factory=Bundle)

    @property
    def certificate(self) -> Certificate:
        return self.pair.certificate


def check_pair(key: PrivateKey, chain: tuple[Certificate, ...]) -> Pair:
    """The pair, if the first certificate is for the key. Raises KeyMismatchError."""
    if not chain:
        raise KeyMismatchError("there is a key, and no certificate for it")
    if chain[0].key_fingerprint != key.fingerprint:
        raise KeyMismatchError(
            f"the key ({key.fingerprint[:16]}...) is not the one of the certificate {chain[0].serial} ({chain[0].key_fingerprint[:16]}...)",
            hint="one of the two files is older than the other: whoever writes them has to replace both",
        )
    return Pair(key, chain)


def read_pair(key_pem: bytes, chain_pem: str | bytes) -> Pair:
    """Raises UnreadablePemError, UnacceptableKeyError, KeyMismatchError."""
    return check_pair(read_key(key_pem), read_certificates(chain_pem))


def check_dates(certificate: Certificate, now: dt.datetime) -> None:
    """Raises OutOfDateError for one that is over, or that no clock could be wrong enough to have begun."""
    if is_expired(certificate, now):
        raise OutOfDateError(f"the certificate {certificate.serial} ended at {certificate.not_after.isoformat()}")
    if certificate.not_before > now + CLOCK_TOLERANCE:
        raise OutOfDateError(
            f"the certificate {certificate.serial} begins at {certificate.not_before.isoformat()}, and here it is {now.isoformat()}",
            hint="check this machine's clock, and the issuer's",
        )
