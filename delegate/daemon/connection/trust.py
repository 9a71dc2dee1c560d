"""Whom to believe that they are the manager: the system's authorities and those of `SSL_CERT_FILE`, side by side."""

import os
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from delegate.daemon.connection.errors import TransportError, UntrustedError
from delegate.foundation.errors import Category, DelegateError

_HOSTNAME_MISMATCH, _ADDRESS_MISMATCH = 62, 64
_UNKNOWN_AUTHORITY = (18, 19, 20, 21)
_EXPIRED, _NOT_YET_VALID = 10, 9


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
        try:
            context.load_verify_locations(cafile=authorities)
        except (OSError, ssl.SSLError) as error:
            raise AuthoritiesError(
                f"SSL_CERT_FILE names {authorities}, which holds no readable certificates: {error.strerror or error}",
                hint="point it to a PEM file with the certificates of the authorities to trust",
                file=str(authorities),
            ) from error
    return context


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
