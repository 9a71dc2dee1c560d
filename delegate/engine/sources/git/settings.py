"""What a delegate is told about its repositories: credentials by URL, host keys, whether http will do."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from delegate.engine.sources.git.urls import RepositoryUrl
from delegate.foundation.secrets import Secret
from delegate.foundation.settings.proxies import ProxyRules


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
    """How to present ourselves to one repository, and whom to take it for. Certificates and keys are PEM texts.

    `authority` takes the place of the system's authorities, `known_hosts` (a text) that of the settings' file. `proxies` are
    the repository's own; None means those of this process. `tunnel` are those that ssh goes through. A renewable login is got anew
    where it is refused.
    """

    username: str = ""
    password: Secret | None = None
    bearer_token: Secret | None = None
    ssh_key: Path | None = None
    ssh_private_key: Secret | None = None
    tls_certificate: Secret | None = None
    tls_key: Secret | None = None
    authority: str = ""
    known_hosts: str = ""
    ignore_host_key: bool = False
    insecure: bool = False
    proxies: ProxyRules | None = None
    tunnel: ProxyRules | None = None
    renewable: bool = False

    @property
    def is_anonymous(self) -> bool:
        given = (self.password, self.bearer_token, self.ssh_key, self.ssh_private_key, self.tls_certificate)
        return all(each is None for each in given)

    @property
    def files(self) -> dict[str, str]:
        """What git and ssh take from files only."""
        texts = {
            "ssh_key": self.ssh_private_key.reveal() if self.ssh_private_key is not None else "",
            "certificate": self.tls_certificate.reveal() if self.tls_certificate is not None else "",
            "key": self.tls_key.reveal() if self.tls_key is not None else "",
            "authority": self.authority,
            "known_hosts": self.known_hosts,
        }
        return {name: text for name, text in texts.items() if text}


def given_login(url: RepositoryUrl, credentials: Sequence[GitCredentials]) -> Login | None:
    """The credentials of the address itself, else those of the longest prefix of the settings that covers it."""
    if url.password is not None:
        return Login(url.username, url.password)
    covering = sorted((each for each in credentials if each.covers(url.address)), key=lambda each: len(each.url_prefix))
    if not covering:
        return None
    best = covering[-1]
    return Login(best.username or url.username or "git", best.password, ssh_key=best.ssh_key)
