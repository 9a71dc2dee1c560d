"""What a connection has shown of the caller: the certificate of its handshake, where TLS ends here."""

import ssl
from functools import lru_cache

import msgspec
from aiohttp import web

from delegate.protocol.pki.certificates import Certificate, read_der
from delegate.protocol.pki.errors import PkiError


class Peer(msgspec.Struct, frozen=True):
    """`encrypted` says that TLS ends here; behind a proxy nothing is known of the caller's certificate."""

    encrypted: bool = False
    certificate: Certificate | None = None


def peer_of(request: web.Request) -> Peer:
    transport = request.transport
    secured = transport.get_extra_info("ssl_object") if transport is not None else None
    if not isinstance(secured, ssl.SSLObject | ssl.SSLSocket):
        return Peer()
    der = secured.getpeercert(binary_form=True)
    return Peer(encrypted=True, certificate=_read(der) if der else None)


@lru_cache(maxsize=10_000)
def _read(der: bytes) -> Certificate | None:
    """The handshake has verified it; one of a kind that is not used here counts as none."""
    try:
        return read_der(der)
    except PkiError:
        return None
