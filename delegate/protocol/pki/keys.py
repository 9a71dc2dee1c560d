"""Private keys. Ours are ECDSA on P-256; those of outside issuers may be of other kinds."""

import hashlib
from typing import NoReturn

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from delegate.foundation.secrets import HIDDEN
from delegate.protocol.pki.errors import UnacceptableKeyError, UnreadablePemError

AnyPrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
AnyPublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey
MAX_PEM_BYTES = 256 * 2**10
_LEAST_RSA_BITS = 2048


class PrivateKey:
    """A key whose only way out is `to_pem()`. `fingerprint` names it: SHA-256 of its public half, as lower-case hex."""

    __slots__ = ("_key", "fingerprint")

    def __init__(self, key: AnyPrivateKey) -> None:
        self._key = key
        self.fingerprint = fingerprint_of(key.public_key())

    def to_pem(self) -> bytes:
        """PKCS #8 without encryption: for a file that its owner alone can read."""
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def reveal(self) -> AnyPrivateKey:
        """The key itself, for signing."""
        return self._key

    def __repr__(self) -> str:
        return f"PrivateKey({HIDDEN}, fingerprint={self.fingerprint[:16]})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not pickled")


def make_key() -> PrivateKey:
    """A new key on P-256."""
    return PrivateKey(ec.generate_private_key(ec.SECP256R1()))


def read_key(pem: bytes) -> PrivateKey:
    """The first private key in the text. Raises UnreadablePemError, UnacceptableKeyError."""
    if len(pem) > MAX_PEM_BYTES:
        raise UnreadablePemError(f"a key of {len(pem)} bytes is none")
    try:
        key = load_pem_private_key(_key_block(pem), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        # The library's words may repeat what it read.
        raise UnreadablePemError("no private key in PEM form without a password", hint="write it as PKCS #8, PEM, unencrypted") from error
    if not isinstance(key, AnyPrivateKey):
        raise UnacceptableKeyError(f"a key of the kind {type(key).__name__} is not used here", hint="use ECDSA, RSA or Ed25519")
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size < _LEAST_RSA_BITS:
        raise UnacceptableKeyError(f"an RSA key of {key.key_size} bits is too weak", hint=f"use at least {_LEAST_RSA_BITS} bits, or ECDSA")
    return PrivateKey(key)


def fingerprint_of(key: AnyPublicKey) -> str:
    """SHA-256 of a public key (its SubjectPublicKeyInfo), as lower-case hex."""
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def _key_block(pem: bytes) -> bytes:
    """Only the key of a text that may hold certificates beside it."""
    begin = pem.find(b"-----BEGIN")
    while begin >= 0:
        head_end = pem.find(b"-----", begin + 10)
        label = pem[begin + 10 : head_end]
        end = pem.find(b"-----END", head_end)
        if b"PRIVATE KEY" in label and end >= 0:
            stop = pem.find(b"-----", end + 8)
            return pem[begin : stop + 5 if stop >= 0 else len(pem)]
        begin = pem.find(b"-----BEGIN", max(end, begin) + 8)
    raise UnreadablePemError("there is no private key", hint="write it as PKCS #8, PEM, unencrypted")
