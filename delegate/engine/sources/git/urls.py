"""Addresses of repositories: what is allowed, what may be shown, and which of them mean the same repository."""

import enum
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from delegate.engine.sources.errors import LocalSourceError, RepositoryUrlError
from delegate.foundation.secrets import Secret, hide_credentials

_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
_SCP_LIKE = re.compile(r"(?:([^@/:\s]*)@)?(\[[^\]\s]*\]|[^:/\s]+):(?!//)(.+)", re.DOTALL)
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\]")
_PORTS = {"https": 443, "http": 80, "ssh": 22}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HINT = "write https://host/path, ssh://user@host/path or user@host:path"


class Transport(enum.StrEnum):
    """The protocols as GIT_ALLOW_PROTOCOL names them."""

    HTTPS = "https"
    HTTP = "http"
    SSH = "ssh"
    FILE = "file"


class RepositoryUrl(msgspec.Struct, frozen=True):
    """A repository's address, read.

    `address` carries no password and may stand in an argument list; `key` is the same for each way to write it; `shown`
    is for people. The credentials that a URL carried are kept beside it. A submodule knows its superproject, whose login is
    good for it too where both are on one host.
    """

    transport: Transport
    host: str
    address: str
    key: str
    shown: str
    username: str = ""
    password: Secret | None = None
    superproject: "RepositoryUrl | None" = None

    @property
    def ssh_destination(self) -> tuple[tuple[str, ...], str]:
        """For an address of SSH: ssh's arguments that say where to, and the path there."""
        user = ("-l", self.username) if self.username else ()
        scp_like = None if "://" in self.address else _SCP_LIKE.fullmatch(self.address)
        if scp_like is not None:
            return (*user, "--", self.host), str(scp_like[3])
        parts = urlsplit(self.address)
        port = ("-p", str(parts.port)) if parts.port else ()
        return (*user, *port, "--", self.host), parts.path

    @property
    def origin(self) -> tuple[Transport, str, str]:
        """Protocol, host and port: what credentials are for."""
        authority = self.key.partition("://")[2].partition("/")[0].rpartition("@")[2]
        port = authority.rpartition(":")[2]
        return self.transport, self.host, port if port.isdigit() else str(_PORTS.get(self.transport, ""))


def parse_url(text: str, *, allow_local: bool = False, allow_http: bool = False) -> RepositoryUrl:
    """Reads an address. Raises RepositoryUrlError, or LocalSourceError for a path of this machine where none is allowed."""
    shown = hide_credentials(text)
    if _FORBIDDEN.search(text) or text.startswith("-") or not text:
        raise RepositoryUrlError(f"{shown!r} is no address of a repository", hint=_HINT)
    if "://" in text:
        return _parse_with_scheme(text, shown, allow_local, allow_http)
    scp_like = _SCP_LIKE.fullmatch(text)
    if scp_like is not None:
        user, host, path = scp_like.groups()
        _check_ssh(user, host, path, shown)
        # A path that doesn't begin with a slash is relative to the user's home, so it is another repository.
        place = f":22{_trimmed(path)}" if path.startswith("/") else f":{_trimmed(path)}"
        key = f"ssh://{user or ''}@{host.lower()}{place}"
        return RepositoryUrl(Transport.SSH, host.strip("[]").lower(), text, key, shown, username=user or "")
    return _local(Path(text), shown, allow_local)


def _parse_with_scheme(text: str, shown: str, allow_local: bool, allow_http: bool) -> RepositoryUrl:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise RepositoryUrlError(f"{shown} is no address of a repository: {error}", hint=_HINT) from error
    scheme = parts.scheme.lower().removeprefix("git+")
    if scheme == "file":
        if parts.netloc not in ("", "localhost"):
            raise RepositoryUrlError(f"{shown} names a host, which file:// has none", hint=_HINT)
        return _local(Path(unquote(parts.path)), shown, allow_local)
    if scheme not in _PORTS:
        raise RepositoryUrlError(f"{shown}: repositories are not fetched by {scheme}", hint=_HINT)
    host = (parts.hostname or "").lower()
    bracketed = f"[{host}]" if ":" in host else host
    if not _HOST.fullmatch(bracketed) or parts.query or parts.fragment:
        raise RepositoryUrlError(f"{shown} is no address of a repository", hint=_HINT)
    path = parts.path
    if not path.strip("/"):
        raise RepositoryUrlError(f"{shown} names a host but no repository", hint=_HINT)
    place = f"{bracketed}:{port}" if port and port != _PORTS[scheme] else bracketed
    key_place = f"{bracketed}:{port or _PORTS[scheme]}"
    user = unquote(parts.username or "")
    if scheme == "ssh":
        _check_ssh(user, bracketed, path, shown)
        login = f"{user}@" if user else ""
        return RepositoryUrl(
            Transport.SSH, host, f"ssh://{login}{place}{path}", f"ssh://{user}@{key_place}{_trimmed(path)}", shown, username=user
        )
    if scheme == "http" and not allow_http and host not in _LOOPBACK:
        raise RepositoryUrlError(f"{shown}: http is neither secret nor sure", hint="use https, or allow http for this delegate")
    password = Secret(unquote(parts.password)) if parts.password else None
    if user and password is None:
        # A token may stand alone in front of the @.
        user, password = "x-access-token", Secret(user)
    address, key = f"{scheme}://{place}{path}", f"{scheme}://{key_place}{_trimmed(path)}"
    return RepositoryUrl(Transport(scheme), host, address, key, shown, username=user, password=password)


def _local(path: Path, shown: str, allow_local: bool) -> RepositoryUrl:
    if not allow_local:
        raise LocalSourceError(f"{shown} is a path of this machine, which only local commands read", hint=_HINT)
    absolute = str(path.expanduser().absolute())
    return RepositoryUrl(Transport.FILE, "", f"file://{absolute}", f"file://{absolute}", shown)


def _check_ssh(user: str | None, host: str, path: str, shown: str) -> None:
    """Nothing that ssh or the shell at the other end could read as an option."""
    if not _HOST.fullmatch(host) or (user and not _USER.fullmatch(user)) or path.startswith(("-", ":")):
        raise RepositoryUrlError(f"{shown} is no address of a repository", hint=_HINT)


def _trimmed(path: str) -> str:
    return path.rstrip("/")
