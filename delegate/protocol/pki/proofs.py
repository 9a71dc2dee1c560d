"""Proof that somebody has the key of a certificate, where no handshake can show it: the certificate has expired, or TLS ends before
the manager. It is bound to the new request, so that whoever overhears it gets a certificate for a key that he does not have.
"""

import binascii
from base64 import b64decode, b64encode

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from delegate.protocol.pki.certificates import Certificate
from delegate.protocol.pki.errors import UnacceptableKeyError
from delegate.protocol.pki.keys import PrivateKey

_CONTEXT = b"delegate certificate renewal 1\n"


def prove(key: PrivateKey, request_digest: str) -> str:
    """The proof for a renewal that asks with the request of this digest. Raises UnacceptableKeyError."""
    private = key.reveal()
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise UnacceptableKeyError("only ECDSA keys prove a renewal")
    return b64encode(private.sign(_CONTEXT + request_digest.encode(), ec.ECDSA(hashes.SHA256()))).decode()


def is_proved(certificate: Certificate, proof: str, request_digest: str) -> bool:
    """Whether the key of the certificate made this proof for this request."""
    key = certificate.load().public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        return False
    try:
        key.verify(b64decode(proof, validate=True), _CONTEXT + request_digest.encode(), ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True
