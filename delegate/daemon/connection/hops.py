"""Which hop of the way to the manager failed, in words: name, TCP, proxy, CONNECT, TLS; and what to do about it.

Behind a proxy the library's errors are about whichever host it was connecting to, so they are told apart by host and port.
"""

import enum
import errno
import os
import socket
import ssl
from urllib.parse import urlsplit

import aiohttp

from delegate.daemon.connection.errors import CertificateRejectedError, TransportError, UntrustedError

_HOSTNAME_MISMATCH, _ADDRESS_MISMATCH = 62, 64
_UNKNOWN_AUTHORITY = (18, 19, 20, 21)
_EXPIRED, _NOT_YET_VALID = 10, 9
_ALERTS = ("UNKNOWN_CA", "CERTIFICATE_EXPIRED", "BAD_CERTIFICATE", "CERTIFICATE_REVOKED", "CERTIFICATE_UNKNOWN", "CERTIFICATE_REQUIRED")
_PORTS = {"http": 80, "https": 443}


class Hop(enum.StrEnum):
    """Where on the way; `facts["hop"]` of a TransportError."""

    NAME = "name"
    TCP = "tcp"
    TLS = "tls"
    PROXY_NAME = "proxy name"
    PROXY_TCP = "proxy tcp"
    PROXY_TLS = "proxy tls"
    PROXY_CONNECT = "proxy connect"
    ANSWER = "answer"


def place_of(url: str) -> str:
    """Host and port as written, without credentials."""
    return urlsplit(url).netloc.rpartition("@")[2]


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
        f"{place_of(url)} does not take the certificate of this delegate: {words}",
        hint="see that the manager, or the proxy before it, knows the authority that signed it; `delegate certs show` shows it",
    )


def explain_connect_fault(error: aiohttp.ClientError, url: str, proxy: str | None = None) -> TransportError:
    """Why no connection came about, named with the hop, the address and the remedy. `proxy` is the one that the way goes through."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return _explain_connect_status(error.status, url, proxy)
    if proxy is not None and _is_about(error, proxy):
        return _explain_proxy(error, url, proxy)
    place = place_of(url)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _explain_certificate(error.certificate_error, urlsplit(url).hostname or "", f"at {place}", Hop.TLS)
    words = _words(error)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        hint = "check the port, and whether DELEGATE_MANAGER_URL should begin with http:// there"
        return _fault(f"{place} does not speak TLS as expected: {words}", hint, Hop.TLS, "connection.tls")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        hint = "check DELEGATE_MANAGER_URL and the resolver of this machine"
        return _fault(f"the name {urlsplit(url).hostname} can't be resolved: {words}", hint, Hop.NAME, "connection.unresolved")
    if isinstance(error, aiohttp.ClientConnectorError) and proxy is not None:
        return explain_lost_tunnel(error, url, proxy)
    if isinstance(error, aiohttp.ClientConnectorError):
        hint = "check that the manager runs there and that a firewall lets the connection out"
        return _fault(f"nothing answers at {place}: {words}", hint, Hop.TCP, "connection.unreachable")
    return TransportError(f"no answer from {place}: {words}", hint="check the way to the manager; this is tried again")


def explain_lost_tunnel(error: aiohttp.ClientError, url: str, proxy: str) -> TransportError:
    """The connection was lost before the request was on it, though the proxy had been reached."""
    inside = _tls_fault_behind(error)  # asyncio of Python 3.11 stumbles over a TLS fault inside of TLS, and so hides it
    if isinstance(inside, ssl.SSLCertVerificationError):
        return _explain_certificate(inside, urlsplit(url).hostname or "", f"at {place_of(url)}", Hop.TLS)
    hint = "check the proxy's log; it may forbid the port, or lose its own way to the manager"
    words = f"the proxy {place_of(proxy)} closed the way to {place_of(url)} before anything was sent"
    return _fault(words, hint, Hop.PROXY_CONNECT, "connection.proxy")


def _tls_fault_behind(error: BaseException | None) -> BaseException | None:
    while error is not None and (isinstance(error, aiohttp.ClientError) or not isinstance(error, ssl.SSLError)):
        error = error.__cause__ or error.__context__
    return error


def _is_about(error: aiohttp.ClientError, proxy: str) -> bool:
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return True
    host, port = getattr(error, "host", None), getattr(error, "port", None)
    parts = urlsplit(proxy)
    return (host, port) == (parts.hostname, parts.port or _PORTS.get(parts.scheme))


def _explain_proxy(error: aiohttp.ClientError, url: str, proxy: str) -> TransportError:
    place, behind, words = place_of(proxy), place_of(url), _words(error)
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _explain_certificate(error.certificate_error, urlsplit(proxy).hostname or "", f"of the proxy {place}", Hop.PROXY_TLS)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        hint = "check the port, and whether HTTPS_PROXY should begin with http:// there"
        return _fault(f"the proxy {place} does not speak TLS as expected: {words}", hint, Hop.PROXY_TLS, "connection.proxy")
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        hint = "check HTTP_PROXY, HTTPS_PROXY and the resolver of this machine"
        return _fault(f"the name of the proxy {place} for {behind} can't be resolved: {words}", hint, Hop.PROXY_NAME, "connection.proxy")
    hint = "check HTTP_PROXY, HTTPS_PROXY and NO_PROXY"
    return _fault(f"the proxy for {behind} can't be reached at {place}: {words}", hint, Hop.PROXY_TCP, "connection.proxy")


def _explain_connect_status(status: int, url: str, proxy: str | None) -> TransportError:
    place = place_of(url)
    who = f"the proxy {place_of(proxy)}" if proxy else "the proxy"
    if status == 407:
        words, hint = (
            f"{who} wants credentials, or others, for the way to {place} (407)",
            "write them into HTTPS_PROXY as http://user:password@host:port, special characters percent-encoded",
        )
    elif status in (502, 503, 504):
        words, hint = (
            f"{who} can't reach {place} itself ({status})",
            "check that the proxy resolves and reaches the manager's name and port",
        )
    else:
        words, hint = (
            f"{who} refused the way to {place} with status {status}",
            "have the manager's host and port allowed there, or name the host in NO_PROXY",
        )
    fault = _fault(words, hint, Hop.PROXY_CONNECT, "connection.proxy")
    fault.facts["status"] = status
    return fault


def _explain_certificate(fault: Exception, host: str, where: str, hop: Hop) -> UntrustedError:
    code = fault.verify_code if isinstance(fault, ssl.SSLCertVerificationError) else 0
    words = fault.verify_message if isinstance(fault, ssl.SSLCertVerificationError) else str(fault)
    setting = "HTTPS_PROXY" if hop is Hop.PROXY_TLS else "DELEGATE_MANAGER_URL"
    if code in (_HOSTNAME_MISMATCH, _ADDRESS_MISMATCH):
        said = f"the certificate {where} is not for the name {host}: {words}"
        hint = f"use a name in {setting} that the certificate there holds, or add this one to the certificate"
    elif code in _UNKNOWN_AUTHORITY:
        said = f"nobody trusted here signed the certificate {where}: {words}"
        hint = "set SSL_CERT_FILE to a PEM file with the authority that signed it (the manager's own, or an intercepting proxy's)"
    elif code in (_EXPIRED, _NOT_YET_VALID):
        said, hint = f"the certificate {where}: {words}", "renew the certificate there, and check this machine's clock"
    else:
        said, hint = f"the certificate {where} is not accepted: {words}", "check the certificate there"
    return UntrustedError(said, hint=hint, facts={"hop": hop.value})


def _fault(words: str, hint: str, hop: Hop, code: str) -> TransportError:
    return TransportError(words, hint=hint, facts={"hop": hop.value}, code=code)


def _words(error: Exception) -> str:
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(cause, OSError) and cause.strerror:
        # What asyncio makes of a refusal names the call that failed, and not why.
        plain = not isinstance(cause, socket.gaierror | ssl.SSLError) and cause.errno in errno.errorcode
        return os.strerror(cause.errno) if plain and cause.errno is not None else cause.strerror
    return str(cause) or type(cause).__name__
