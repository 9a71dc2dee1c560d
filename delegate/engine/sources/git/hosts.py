"""The hosts of repositories as Git LFS asks them: over HTTPS as whoever we are to the repository, over SSH by a command."""

from collections.abc import Mapping

from delegate.engine.sources.errors import LargeFileError
from delegate.engine.sources.fetching import WebAccess, rules_from, system_authority
from delegate.engine.sources.git import faults
from delegate.engine.sources.git.logins import Logins
from delegate.engine.sources.git.mirrors import Mirror
from delegate.engine.sources.git.urls import RepositoryUrl

_NO_PROGRAM = 127


class LargeFileHost:
    """The host of one repository. `outside` is our own environment."""

    def __init__(self, mirror: Mirror, logins: Logins, outside: Mapping[str, str]) -> None:
        self._mirror = mirror
        self._logins = logins
        self._outside = outside

    async def access(self, url: RepositoryUrl, *, rejected: bool) -> WebAccess:
        """Raises AccessError, and the faults of getting a token."""
        login = await self._logins.login_for(url, rejected=rejected)
        return WebAccess(
            username=login.username,
            password=login.password,
            token=login.bearer_token,
            authority=login.authority or await system_authority(self._outside),
            certificate=login.tls_certificate,
            key=login.tls_key,
            proxies=login.proxies or rules_from(self._outside),
            insecure=login.insecure,
            plain_http=self._logins.settings.allow_http,
        )

    async def stranger(self, url: str) -> WebAccess:
        """Raises AccessError."""
        authority = await self._logins.authority_for(url) or await system_authority(self._outside)
        return WebAccess(authority=authority, proxies=rules_from(self._outside), plain_http=self._logins.settings.allow_http)

    async def authenticate(self) -> bytes:
        """Raises LargeFileError where the host knows no such command, and the faults of reaching it."""
        url = self._mirror.url
        _, path = url.ssh_destination
        completed, login = await self._mirror.ask_host("git-lfs-authenticate", path, "download")
        if completed.exit_code == 0:
            return completed.stdout
        if completed.exit_code == _NO_PROGRAM:
            raise LargeFileError(
                f"{url.shown}: its host knows no git-lfs-authenticate", hint="reach the repository by https, or set lfs.url"
            )
        raise faults.classify(completed.stderr, url, login, str(self._mirror.path))
