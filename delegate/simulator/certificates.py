"""A certificate of the simulated cluster's own: an authority that lives as long as the process, and one leaf by it."""

import datetime as dt
import ipaddress
import os
import ssl
import tempfile
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE = dt.timedelta(days=30)
_SKEW = dt.timedelta(hours=1)


class ServerCertificate(NamedTuple):
    """`authority` is PEM, for the kubeconfig; `context` is for the server."""

    context: ssl.SSLContext
    authority: bytes


def make_certificate(address: str) -> ServerCertificate:
    """A certificate for one IP address and no name."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "simulated-cluster-ca")])
    authority = _builder(issuer, issuer, authority_key.public_key()).add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
    signed_authority = authority.sign(authority_key, hashes.SHA256())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    leaf = (
        _builder(subject, issuer, key.public_key())
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), False)
        .sign(authority_key, hashes.SHA256())
    )
    return ServerCertificate(_context(leaf, key), signed_authority.public_bytes(serialization.Encoding.PEM))


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key, serial_number=x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFE)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)
    )


def _context(leaf: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    descriptor, name = tempfile.mkstemp(prefix="simulator-", suffix=".pem")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(private + leaf.public_bytes(serialization.Encoding.PEM))
        context.load_cert_chain(name)
    finally:
        Path(name).unlink()
    return context
