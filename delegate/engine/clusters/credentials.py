"""What it takes to speak to one API server, as a value, and the seam through which it is read again and again.

Tokens and keys live here only as `Secret` or bytes that no repr shows, and are registered for redaction when they're read.
"""

import hashlib
import os
import ssl
import tempfile
from pathlib import Path
from typing import Protocol

import msgspec

from delegate.engine.clusters.errors import CredentialError
from delegate.foundation.redaction import KNOWN_SECRETS
from delegate.foundation.secrets import HIDDEN, Secret, SecretUrl

LARGEST_FILE_BYTES = 16 * 1024 * 1024
"""Of a kubeconfig, certificate or token file."""


class ClientCertificate:
    """A PEM chain and its PEM key; the key is shown nowhere."""

    __slots__ = ("chain", "key")

    def __init__(self, chain: bytes, key: bytes) -> None:
        self.chain = chain
        self.key = key
        KNOWN_SECRETS.add(key.decode(errors="replace"))

    def __repr__(self) -> str:
        return f"ClientCertificate(key={HIDDEN})"


class Credentials(msgspec.Struct, frozen=True):
    """`authorization` is the whole header; `ca` PEM bytes, None for the system's; times are epoch seconds."""

    server: str
    authorization: Secret | None = None
    ca: bytes | None = None
    verify: bool = True
    certificate: ClientCertificate | None = None
    server_name: str = ""
    proxy: SecretUrl | None = None
    expires_at: float | None = None

    @property
    def tls_fingerprint(self) -> str:
        """Changes when a connection has to be made anew for these credentials."""
        digest = hashlib.sha256()
        certificate = self.certificate
        parts = (
            self.server.encode(),
            self.ca or b"",
            b"verify" if self.verify else b"",
            certificate.chain if certificate else b"",
            certificate.key if certificate else b"",
            self.server_name.encode(),
            self.proxy.reveal().encode() if self.proxy else b"",
        )
        for part in parts:
            digest.update(len(part).to_bytes(8, "big") + part)
        return digest.hexdigest()

    @property
    def fingerprint(self) -> str:
        """Changes when the server may think otherwise of them."""
        authorization = self.authorization.reveal() if self.authorization is not None else ""
        return hashlib.sha256(f"{self.tls_fingerprint} {authorization}".encode()).hexdigest()


class CredentialSource(Protocol):
    """Where the credentials of one cluster come from."""

    @property
    def description(self) -> str:
        """What messages call it: `context "prod" of /home/ops/.kube/config`."""

    async def load(self, *, rejected: bool = False) -> Credentials:
        """Reads them anew. `rejected`: the server answered 401 to the last ones, so nothing kept may be used.

        Raises KubeconfigError or CredentialError.
        """


def bearer(token: str) -> Secret:
    KNOWN_SECRETS.add(token)
    return Secret(f"Bearer {token}")


def read_bounded(path: Path) -> bytes:
    """The file, refused where it is larger than any credential can be. Raises OSError, or CredentialError for the size."""
    with path.open("rb") as file:
        content = file.read(LARGEST_FILE_BYTES + 1)
    if len(content) > LARGEST_FILE_BYTES:
        raise CredentialError(f"{path} is larger than {LARGEST_FILE_BYTES} bytes", file=str(path))
    return content


def build_ssl_context(credentials: Credentials, directory: Path | None) -> ssl.SSLContext | None:
    """None for plain http. `directory` is where the client key lies for the moment that OpenSSL reads it.

    Blocking: call it in a thread. Raises CredentialError that says which part isn't usable.
    """
    if not credentials.server.startswith("https://"):
        return None
    ca = credentials.ca
    try:
        context = ssl.create_default_context(cadata=ca.decode("ascii", "replace") if ca else None)
    except ssl.SSLError as error:
        raise CredentialError(
            f"the certificate authority for {credentials.server} is no PEM certificate: {error.reason or error}",
            hint="correct certificate-authority or certificate-authority-data of this cluster",
        ) from error
    # Clusters' own CAs often lack the key usage that OpenSSL's strict mode (on from Python 3.13) asks for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not credentials.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if credentials.certificate is not None:
        _load_certificate(context, credentials.certificate, credentials.server, directory)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: ClientCertificate, server: str, directory: Path | None) -> None:
    if directory is not None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(prefix="client-", suffix=".pem", dir=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate.chain.rstrip() + b"\n" + certificate.key)
        context.load_cert_chain(name)
    except (ssl.SSLError, OSError) as error:
        raise CredentialError(
            f"the client certificate for {server} and its key can't be used: {getattr(error, 'reason', None) or error}",
            hint="client-certificate and client-key have to be PEM and belong together",
        ) from error
    finally:
        os.unlink(name)
