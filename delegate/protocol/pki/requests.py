"""Requests for a certificate (PKCS #10), made by the one who has the key, and read with the proof that he has it."""

import hashlib
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from delegate.protocol.pki.errors import UnacceptableKeyError, UnreadablePemError
from delegate.protocol.pki.keys import PrivateKey, fingerprint_of

MAX_REQUEST_BYTES = 16 * 2**10
_CURVES = ("secp256r1", "secp384r1")
_LONGEST_NAME = 64


@dataclass(frozen=True)
class SigningRequest:
    """A request whose signature is right. `digest` tells two of them apart: the same one is answered with the same certificate.

    What it says of its subject is not believed: who asks decides what it is for.
    """

    digest: str
    key_fingerprint: str
    public_key: ec.EllipticCurvePublicKey = field(repr=False)


def make_request(key: PrivateKey, name: str) -> str:
    """The PEM of a request for this key. Raises UnacceptableKeyError for a key that is none of ours."""
    private = key.reveal()
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise UnacceptableKeyError("a request is made for an ECDSA key")
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_LONGEST_NAME] or "delegate")])
    request = x509.CertificateSigningRequestBuilder(subject).sign(private, hashes.SHA256())
    return request.public_bytes(Encoding.PEM).decode()


def read_request(pem: str) -> SigningRequest:
    """Raises UnreadablePemError, UnacceptableKeyError."""
    if len(pem) > MAX_REQUEST_BYTES:
        raise UnreadablePemError(f"a certificate request of {len(pem)} characters is none")
    try:
        request = x509.load_pem_x509_csr(pem.encode())
        key = request.public_key()
        proved = request.is_signature_valid
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise UnreadablePemError("no certificate request (PKCS #10) in PEM form") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in _CURVES:
        raise UnacceptableKeyError("certificates are given for ECDSA keys on P-256 or P-384", hint="make the key with one of these curves")
    if not proved:
        raise UnacceptableKeyError("the request is not signed by the key that it is for")
    return SigningRequest(
        digest=hashlib.sha256(request.public_bytes(Encoding.DER)).hexdigest(), key_fingerprint=fingerprint_of(key), public_key=key
    )
