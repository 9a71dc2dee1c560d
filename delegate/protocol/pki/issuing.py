"""Signing certificates: an authority of one's own, and what it gives to delegates and to the manager itself."""

import datetime as dt
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from delegate.protocol.pki.bundles import is_signed
from delegate.protocol.pki.certificates import Certificate, describe_certificate
from delegate.protocol.pki.errors import UnacceptableKeyError
from delegate.protocol.pki.keys import PrivateKey, make_key
from delegate.protocol.pki.pairs import Pair, check_pair
from delegate.protocol.pki.requests import SigningRequest

DELEGATE_NAME = "urn:delegate:"
"""What the name of a delegate in its certificate begins with; its id follows."""
_LONGEST_NAME = 64


@dataclass(frozen=True)
class Signer:
    """An authority that can sign."""

    key: PrivateKey
    certificate: Certificate

    def issue_for_delegate(self, request: SigningRequest, delegate_id: str, *, begins: dt.datetime, ends: dt.datetime) -> Certificate:
        """A client's certificate for the key of the request, in the name of the delegate, whatever the request calls itself."""
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(DELEGATE_NAME + delegate_id)])
        return self._issue(
            request.public_key, delegate_id, alternatives=names, purpose=ExtendedKeyUsageOID.CLIENT_AUTH, begins=begins, ends=ends
        )

    def issue_for_server(self, key: PrivateKey, names: Iterable[str], *, begins: dt.datetime, ends: dt.datetime) -> Pair:
        """A server's chain for these host names and addresses; the authority is in it, so that its fingerprint can be checked."""
        private = _ecdsa(key)
        hosts = [_host_name(name) for name in dict.fromkeys(names)]
        issued = self._issue(
            private.public_key(),
            str(hosts[0].value),
            alternatives=x509.SubjectAlternativeName(hosts),
            purpose=ExtendedKeyUsageOID.SERVER_AUTH,
            begins=begins,
            ends=ends,
        )
        return check_pair(key, (issued, self.certificate))

    def has_signed(self, certificate: Certificate) -> bool:
        """Whether this authority has signed it."""
        return is_signed(certificate, self.certificate)

    def _issue(
        self,
        key: ec.EllipticCurvePublicKey,
        name: str,
        *,
        alternatives: x509.SubjectAlternativeName,
        purpose: x509.ObjectIdentifier,
        begins: dt.datetime,
        ends: dt.datetime,
    ) -> Certificate:
        signing = _ecdsa(self.key)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_common_name(name))
            .issuer_name(self.certificate.load().subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(min(ends, self.certificate.not_after))
            .add_extension(alternatives, False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
            .add_extension(_key_usage(signs_certificates=False), True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), False)
        )
        return describe_certificate(builder.sign(signing, hashes.SHA256()))


def make_authority(name: str, *, begins: dt.datetime, ends: dt.datetime) -> Signer:
    """A new authority that signs itself."""
    key = make_key()
    signing = _ecdsa(key)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_common_name(name))
        .issuer_name(_common_name(name))
        .public_key(signing.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .add_extension(_key_usage(signs_certificates=True), True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(signing.public_key()), False)
    )
    return Signer(key, describe_certificate(builder.sign(signing, hashes.SHA256())))


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_LONGEST_NAME])])


def _host_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _ecdsa(key: PrivateKey) -> ec.EllipticCurvePrivateKey:
    private = key.reveal()
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise UnacceptableKeyError("certificates are signed with ECDSA keys here")
    return private
