"""What git's complaints mean: one place turns its standard error into an error that names thing and remedy. Pure.

git is run with LC_ALL=C.UTF-8, so its words are the untranslated ones; the patterns are from git 2.30 to 2.50 with libcurl
(OpenSSL and GnuTLS) and OpenSSH. The text that is shown is cut short and has its secrets masked.
"""

import re

from delegate.engine.sources.errors import (
    AuthenticationError,
    CacheDirectoryError,
    CertificateError,
    CorruptRepositoryError,
    GitError,
    HostKeyError,
    HostUnreachableError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    TransferError,
    UnexpectedGitError,
)
from delegate.engine.sources.git.settings import Login
from delegate.engine.sources.git.urls import RepositoryUrl, Transport
from delegate.foundation.errors import DelegateError
from delegate.foundation.passwd import INSTALL
from delegate.foundation.redaction import redact

_SHOWN_CHARACTERS = 300


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_FULL_DISK = _any_of("No space left on device", "Disk quota exceeded", "disk is full")
_UNWRITABLE = _any_of(
    "Read-only file system",
    r"(?:could not|unable to|cannot) (?:create|write|open|lock|mkdir)[^\n]*: Permission denied",
    "insufficient permission for adding an object",
)
_CORRUPT = _any_of(
    r"loose object .* is corrupt",
    r"object file .* is empty",
    r"packfile .* (?:cannot be accessed|is far too short|does not match index)",
    r"pack .* is corrupt",
    r"index file .* is too small",
    r"bad object ",
    r"not a git repository: '",
    r"bad config (?:line|file)",
    r"shallow file",
)
_BAD_OBJECTS = _any_of("fsck error", "did not receive expected object", "unresolved deltas", "missing necessary objects")
_HOST_KEY = _any_of(
    "Host key verification failed", "REMOTE HOST IDENTIFICATION HAS CHANGED", r"No \S+ host key is known", "host key is not known"
)
_CERTIFICATE = _any_of(
    "SSL certificate",
    "server certificate verification",
    "certificate (?:verify failed|has expired|subject name)",
    "gnutls_handshake",
    "SSL_connect",
    "unable to get local issuer",
    "error setting certificate",
    "TLS (?:connect error|connection was non-properly)",
    "SSL routines",
)
_PROXY = _any_of(
    "Could not resolve proxy", r"Received HTTP code \d+ from proxy", "proxy CONNECT aborted", "CONNECT tunnel failed", "Proxy CONNECT"
)
_UNREACHABLE = _any_of(
    "Could not resolve host",
    "Couldn't connect to server",
    "Failed to connect",
    "Connection (?:refused|timed out|reset)",
    "No route to host",
    "Network is unreachable",
    "Operation timed out",
    "Operation too slow",
    "Resolving timed out",
    "ssh: connect to host",
    "Name or service not known",
    "Temporary failure in name resolution",
)
_AUTHENTICATION = _any_of(
    "Authentication failed",
    "could not read (?:Username|Password)",
    r"Permission denied \(",
    "Permission denied, please try again",
    "requested URL returned error: 40[13]",
    "HTTP Basic: Access denied",
    "Invalid (?:username|credentials)",
    "access denied or repository not exported",
    'Load key "',
    "Too many authentication failures",
)
_NOT_FOUND = _any_of(
    "repository '[^']*' (?:not found|does not exist)",
    "Repository not found",
    "does not appear to be a git repository",
    "requested URL returned error: 404",
    "project you were looking for could not be found",
    "no such repository",
)
_NO_REPOSITORY = _any_of("not valid: is this a git repository", "invalid server response", "protocol error: bad line length")
_NO_REVISION = _any_of("not our ref", "Server does not allow request for unadvertised", "couldn't find remote ref", "no such remote ref")
_BUSY = re.compile(r"requested URL returned error: (429|5\d\d)")
_BROKEN_OFF = _any_of(
    "early EOF",
    "remote end hung up",
    "RPC failed",
    "Empty reply",
    "transfer closed",
    "Recv failure",
    "unexpected disconnect",
    "broken pipe",
    "index-pack failed",
)
_SHALLOW = _any_of("does not support (?:shallow|--depth)", "dumb http transport")


def refuses_shallow(stderr: str) -> bool:
    """Whether the server can't cut a history short, so that all of it has to be asked for."""
    return _SHALLOW.search(stderr) is not None


def is_corrupt(stderr: str) -> bool:
    """Whether our own mirror is at fault, not the repository at the other end."""
    return any(_CORRUPT.search(line) for line in stderr.splitlines() if not line.startswith("remote:"))


def is_refused(stderr: str) -> bool:
    """Whether it was the credentials that the server didn't take."""
    return _AUTHENTICATION.search(stderr) is not None


def is_unknown_object(stderr: str) -> bool:
    """Whether the server doesn't have, or doesn't give, what was asked for by its id or name."""
    return _NO_REVISION.search(stderr) is not None


def excerpt(stderr: str) -> str:
    """The lines of git's standard error that say something, short and without secrets."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "ssh:")) and len(line) > len("remote: ")]
    text = redact("; ".join(telling or lines))
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def lacks_user(stderr: str) -> bool:
    """Whether a program of OpenSSH found no passwd entry of its user."""
    return "No user exists for uid" in stderr


def classify(stderr: str, url: RepositoryUrl, login: Login, cache: str) -> DelegateError:
    """The error that a failed git call means."""
    words = excerpt(stderr)
    if _FULL_DISK.search(stderr):
        return CacheDirectoryError(f"{cache}: no space left for the mirror of {url.shown}", hint="make room, or move the state directory")
    if _UNWRITABLE.search(stderr):
        return CacheDirectoryError(
            f"{cache}: the mirror of {url.shown} can't be written: {words}", hint="make the state directory writable"
        )
    if lacks_user(stderr):
        return UnexpectedGitError(f"{url.shown}: ssh refuses to work for a user without a passwd entry", hint=INSTALL)
    if _HOST_KEY.search(stderr):
        hint = "add the host's key to the known_hosts file, after checking that it's the right one"
        return HostKeyError(f"{url.host}: its SSH host key is not the one that is known", hint=hint)
    if _CERTIFICATE.search(stderr):
        hint = "give the authority's certificate by SSL_CERT_FILE, or check the address and the clock"
        return CertificateError(f"{url.host}: its TLS certificate is not trusted: {words}", hint=hint)
    return _classify_answer(stderr, words, url, login)


def _classify_answer(stderr: str, words: str, url: RepositoryUrl, login: Login) -> GitError:
    if _PROXY.search(stderr):
        return HostUnreachableError(f"{url.host} can't be reached through the proxy: {words}", hint="check HTTPS_PROXY and NO_PROXY")
    if _UNREACHABLE.search(stderr):
        return HostUnreachableError(f"{url.host or url.shown} can't be reached: {words}", hint="check name, port, network and proxy")
    if _AUTHENTICATION.search(stderr):
        return _refused_login(words, url, login)
    if _NOT_FOUND.search(stderr):
        hint = "check the address, and what the credentials may read"
        if login.is_anonymous:
            hint = "check the address; some hosts say this also where credentials are missing"
        return RepositoryNotFoundError(f"{url.shown}: there is no such repository", hint=hint)
    if _NO_REPOSITORY.search(stderr):
        return RepositoryNotFoundError(f"{url.shown} answers, but not as a Git repository: {words}", hint="check host, port and path")
    if is_unknown_object(stderr):
        return RevisionNotFoundError(f"{url.shown}: {words}")
    busy = _BUSY.search(stderr)
    if busy:
        return TransferError(f"{url.host} answered {busy[1]}", hint="it should pass; if not, ask whoever runs the host")
    if _CORRUPT.search(stderr) or _BAD_OBJECTS.search(stderr):
        return CorruptRepositoryError(
            f"{url.shown}: what was received fails git's checks: {words}", hint="run `git fsck` on the repository"
        )
    if _BROKEN_OFF.search(stderr):
        return TransferError(f"{url.shown}: the transfer broke off: {words}")
    return UnexpectedGitError(f"{url.shown}: git failed: {words or 'it said nothing'}")


def _refused_login(words: str, url: RepositoryUrl, login: Login) -> AuthenticationError:
    if login.is_anonymous:
        what = "an SSH key that it accepts" if url.transport is Transport.SSH else "a username and a token"
        return AuthenticationError(f"{url.shown} wants credentials, and none are set for it", hint=f"set {what} for {url.host}")
    who = f" of {login.username}" if login.username else ""
    hint = "check that they are right, not expired, and may read this repository"
    return AuthenticationError(f"{url.shown} refuses the credentials{who}: {words}", hint=hint)
