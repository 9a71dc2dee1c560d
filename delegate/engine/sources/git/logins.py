"""Who we are to a repository right now: by its address, by the settings, by what is written of repositories elsewhere."""

from collections.abc import Mapping

import msgspec
import structlog

from delegate.engine.sources.access.books import AccessBook
from delegate.engine.sources.access.entries import Access, Entry, GithubApp, Kind
from delegate.engine.sources.access.github import GithubTokens
from delegate.engine.sources.errors import AccessError
from delegate.engine.sources.fetching import WebAccess, proxies_of, rules_from
from delegate.engine.sources.git.settings import GitSettings, Login, given_login
from delegate.engine.sources.git.signatures import Keyring
from delegate.engine.sources.git.tunnel import SCHEMES
from delegate.engine.sources.git.urls import RepositoryUrl, Transport
from delegate.foundation.redaction import KNOWN_SECRETS
from delegate.foundation.secrets import Secret
from delegate.foundation.settings.proxies import ProxyRules
from delegate.model.sources import SignaturePolicy

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_APP_USER = "x-access-token"


class Logins:
    """One for a process. Nothing is kept but tokens that say how long they live."""

    def __init__(self, settings: GitSettings, book: AccessBook, outside: Mapping[str, str], *, tokens: GithubTokens | None = None) -> None:
        self.settings = settings
        self._book = book
        self._rules = rules_from(outside)
        self._tokens = tokens or GithubTokens()
        self._warned: set[str] = set()

    async def keyring(self) -> Keyring:
        """Who may have signed. Raises AccessError."""
        access = await self._book.current()
        return Keyring(tuple(access.gpg_keys.values()), access.allowed_signers)

    async def policy_of(self, project: str) -> SignaturePolicy | None:
        """The signature that a project wants; None where it wants none. Raises AccessError."""
        keys = (await self._book.current()).projects.get(project, ())
        return SignaturePolicy(keys=keys) if keys else None

    async def login_for(self, url: RepositoryUrl, *, rejected: bool = False) -> Login:
        """How to present ourselves to a repository. `rejected`: it refused the last login, and that was renewable.

        Raises AccessError, and the faults of getting a token.
        """
        given = given_login(url, self.settings.credentials)
        if given is not None:
            KNOWN_SECRETS.add(given.password)
        if url.transport is Transport.FILE:
            return given or Login()
        access = await self._book.current()
        entry = None if given is not None else await self._book.find(url.address, (Kind.GIT,))
        if given is None and entry is None and url.superproject is not None and url.superproject.origin == url.origin:
            return await self.login_for(url.superproject, rejected=rejected)
        trusted = given or (Login(url.username) if entry is None else await self._login_of(entry, url, access, rejected=rejected))
        return _with_trust(trusted, url, access)

    async def wants_lfs(self, url: RepositoryUrl) -> bool:
        """Whether what is written of a repository has its Git LFS files fetched. Raises AccessError."""
        entry = await self._book.find(url.address, (Kind.GIT,))
        return entry is not None and entry.enable_lfs

    async def authority_for(self, url: str) -> str:
        """The authorities that a host's certificate has to come from; empty: those of the system. Raises AccessError."""
        return (await self._book.current()).authority_for(url)

    async def _login_of(self, entry: Entry, url: RepositoryUrl, access: Access, *, rejected: bool) -> Login:
        if entry.unsupported:
            hint = "use a token, an SSH key, a client certificate or a GitHub App"
            raise AccessError(f"{url.shown}: {', '.join(entry.unsupported)} is not supported", hint=hint, file=entry.origin)
        if (entry.insecure or entry.ignore_host_key) and entry.url not in self._warned:
            self._warned.add(entry.url)
            log.warning("repositories.unverified", repository=url.shown, file=entry.origin)
        proxies = proxies_of(entry.proxy, entry.no_proxy, self._rules)
        login = Login(
            username=entry.username or url.username,
            password=entry.password,
            bearer_token=entry.bearer_token,
            ssh_private_key=entry.ssh_private_key,
            tls_certificate=entry.tls_certificate,
            tls_key=entry.tls_key,
            ignore_host_key=entry.ignore_host_key,
            insecure=entry.insecure,
            proxies=proxies,
            tunnel=_tunnel(entry, proxies) if url.transport is Transport.SSH else None,
        )
        if entry.github_app is None or url.transport is Transport.SSH:
            return login
        token = await self._token(entry.github_app, url, access, proxies, rejected=rejected)
        return Login(_APP_USER, token, insecure=entry.insecure, proxies=proxies, renewable=True)

    async def _token(self, app: GithubApp, url: RepositoryUrl, access: Access, proxies: ProxyRules, *, rejected: bool) -> Secret:
        web = WebAccess(authority=access.authority_for(app.url), proxies=proxies)
        return await self._tokens.token_for(app, url.address, web, rejected=rejected)


def _tunnel(entry: Entry, proxies: ProxyRules) -> ProxyRules | None:
    """The repository's own proxy: those of this process are for HTTP. Raises AccessError for one that ssh can't be sent through."""
    if entry.proxy is None:
        return None
    if entry.proxy.reveal().partition("://")[0].lower() not in SCHEMES:
        raise AccessError(
            f"the proxy {entry.proxy.shown} is none that ssh goes through", hint=f"use {', '.join(SCHEMES)}", file=entry.origin
        )
    return proxies


def _with_trust(login: Login, url: RepositoryUrl, access: Access) -> Login:
    if url.transport is Transport.SSH:
        return msgspec.structs.replace(login, known_hosts=access.known_hosts)
    return msgspec.structs.replace(login, authority=access.authority_for(url.address))
