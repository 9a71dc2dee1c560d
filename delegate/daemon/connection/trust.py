"""Whom to believe that they are the manager: the system's authorities and those of `SSL_CERT_FILE`, side by side; for the manager alone
also those of `DELEGATE_MANAGER_CA_FILE`, and those that it has told of itself.
"""

import os
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from delegate.daemon.connection.errors import CertificateRejectedError, TransportError, UntrustedError
from delegate.foundation.errors import Category, DelegateError

_HOSTNAME_MISMATCH, _ADDRESS_MISMATCH = 62, 64
_UNKNOWN_AUTHORITY = (18, 19, 20, 21)
_EXPIRED, _NOT_YET_VALID = 10, 9
_ALERTS = ("UNKNOWN_CA", "CERTIFICATE_EXPIRED", "BAD_CERTIFICATE", "CERTIFICATE_REVOKED", "CERTIFICATE_UNKNOWN", "CERTIFICATE_REQUIRED")


class AuthoritiesError(DelegateError):
    """The file of authorities can't be read."""

    default_code = "input.authorities"
    category = Category.INPUT


def tls_context(authorities: Path | None) -> ssl.SSLContext:
    """Verifies name and chain. Raises AuthoritiesError that names the file."""
    context = ssl.create_default_context()
    compiled_in = ssl.get_default_verify_paths()
    # The library looks at SSL_CERT_FILE instead of its own places; a private authority shall not take the public ones away.
    file, directory = Path(compiled_in.openssl_cafile), Path(compiled_in.openssl_capath)
    if file.is_file() and os.access(file, os.R_OK):
        context.load_verify_locations(cafile=file)
    if directory.is_dir():
        context.load_verify_locations(capath=directory)
    if authorities is not None:
        believe(context, authorities, "SSL_CERT_FILE")
    return context


def believe(context: ssl.SSLContext, authorities: Path, variable: str) -> None:
    """Adds the authorities of a file that a setting names. Raises AuthoritiesError."""
    try:
        context.load_verify_locations(cafile=authorities)
    except (OSError, ssl.SSLError) as error:
        raise AuthoritiesError(
            f"{variable} names {authorities}, which holds no readable certificates: {error.strerror or error}",
            hint="point it to a PEM file with the certificates of the authorities to trust",
            file=str(authorities),
        ) from error


def explain_rejection(error: BaseException | None, url: str) -> CertificateRejectedError | None:
    """Whether the other side ended the connection over our certificate; it says so only after the handshake."""
    # The HTTP library's own errors are SSLErrors by inheritance alone, and have no reason.
    while error is not None and (isinstance(error, aiohttp.ClientConnectorError) or not isinstance(error, ssl.SSLError)):
        error = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error.__cause__ or error.__context__
    reason = (error.reason or "") if isinstance(error, ssl.SSLError) else ""
    if "ALERT" not in reason or not reason.endswith(_ALERTS):
        return None
    words = reason.rpartition("ALERT_")[2].replace("_", " ").lower()
    return CertificateRejectedError(
        f"{urlsplit(url).netloc.rpartition('@')[2]} does not take the certificate of this delegate: {words}",
        hint="see that the manager, or the proxy before it, knows the authority that signed it; `delegate certs show` shows it",
    )


def explain_connect_fault(error: aiohttp.ClientError, url: str) -> TransportError:
    """Why no connection came about, named with the address and the remedy."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _explain_certificate(error.certificate_error, parts.hostname or "", place)
    words = _words(error)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        hint = "check the port, and whether DELEGATE_MANAGER_URL should begin with http:// there"
        return TransportError(f"{place} does not speak TLS as expected: {words}", hint=hint)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return TransportError(f"the proxy for {place} can't be reached: {words}", hint="check HTTP_PROXY, HTTPS_PROXY and NO_PROXY")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        hint = "check the proxy's rules, and its credentials in HTTPS_PROXY"
        return TransportError(f"the proxy refused the way to {place} with status {error.status}", hint=hint)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        hint = "check DELEGATE_MANAGER_URL and the resolver of this machine"
        return TransportError(f"the name {parts.hostname} can't be resolved: {words}", hint=hint)
    if isinstance(error, aiohttp.ClientConnectorError):
        hint = "check that the manager runs there and that a firewall lets the connection out"
        return TransportError(f"nothing answers at {place}: {words}", hint=hint)
    return TransportError(f"no answer from {place}: {words}", hint="check the way to the manager; this is tried again")


def _explain_certificate(fault: Exception, host: str, place: str) -> UntrustedError:
    code = fault.verify_code if isinstance(fault, ssl.SSLCertVerificationError) else 0
    words = fault.verify_message if isinstance(fault, ssl.SSLCertVerificationError) else str(fault)
    if code in (_HOSTNAME_MISMATCH, _ADDRESS_MISMATCH):
        return UntrustedError(
            f"the certificate at {place} is not for the name {host}: {words}",
            hint="use a name in DELEGATE_MANAGER_URL that the manager's certificate holds, or add this one to the certificate",
        )
    if code in _UNKNOWN_AUTHORITY:
        return UntrustedError(
            f"nobody trusted here signed the certificate at {place}: {words}",
            hint="set SSL_CERT_FILE to a PEM file with the authority that signed it (the manager's own, or an intercepting proxy's)",
        )
    if code in (_EXPIRED, _NOT_YET_VALID):
        return UntrustedError(
            f"the certificate at {place}: {words}", hint="renew the manager's certificate, and check this machine's clock"
        )
    return UntrustedError(f"the certificate at {place} is not accepted: {words}", hint="check the manager's certificate")


def _words(error: Exception) -> str:
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause) or type(cause).__name__
