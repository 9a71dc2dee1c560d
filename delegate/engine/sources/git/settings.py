"""What a delegate is told about its repositories: credentials by URL, host keys, whether http will do."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from delegate.engine.sources.git.urls import RepositoryUrl
from delegate.foundation.secrets import Secret


class GitCredentials(msgspec.Struct, frozen=True):
    """Credentials for every repository whose address begins with `url_prefix`, up to a `/`; the longest prefix wins.

    `password` (a password or token) goes with https, `ssh_key` (a file with mode 0600) with ssh.
    """

    url_prefix: str
    username: str = ""
    password: Secret | None = None
    ssh_key: Path | None = None

    def covers(self, address: str) -> bool:
        prefix = self.url_prefix.rstrip("/")
        return bool(prefix) and (address == prefix or address.startswith((prefix + "/", prefix + ":")))


class GitSettings(msgspec.Struct, frozen=True):
    """`known_hosts` is the file of accepted host keys; without it, ssh's own files are used. Unknown keys are refused."""

    credentials: tuple[GitCredentials, ...] = ()
    known_hosts: Path | None = None
    allow_http: bool = False


class Login(msgspec.Struct, frozen=True):
    """How to present ourselves to one repository."""

    username: str = ""
    password: Secret | None = None
    ssh_key: Path | None = None

    @property
    def is_anonymous(self) -> bool:
        return self.password is None and self.ssh_key is None


def login_for(url: RepositoryUrl, credentials: Sequence[GitCredentials]) -> Login:
    """The credentials of the address itself, else those of the longest prefix that covers it."""
    if url.password is not None:
        return Login(url.username, url.password)
    covering = sorted((each for each in credentials if each.covers(url.address)), key=lambda each: len(each.url_prefix))
    if not covering:
        return Login(url.username)
    best = covering[-1]
    return Login(best.username or url.username or "git", best.password, best.ssh_key)
