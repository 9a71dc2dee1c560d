"""What a commit says of its submodules: which repository each is, and whether that may be fetched. Pure.

Their commits' ids stand in trees, their addresses in `.gitmodules`: what whoever may write into a repository says there must
reach neither this machine nor take credentials elsewhere.
"""

from collections.abc import Mapping

import msgspec

from delegate.engine.sources.errors import LocalSourceError, RepositoryUrlError, SubmoduleError
from delegate.engine.sources.git.urls import RepositoryUrl, Transport, parse_url
from delegate.foundation.secrets import hide_credentials
from delegate.foundation.settings.urls import is_loopback

FILE = ".gitmodules"
_RELATIVE = ("./", "../")
_HINT = "an address begins with https:// or ssh://, or is relative: ../other.git"


def addresses_of(settings: Mapping[str, str]) -> dict[str, str]:
    """The addresses of submodules by their paths. `settings` are those of a `.gitmodules`: `submodule.NAME.path`, `.url`."""
    paths = {
        name.removesuffix(".path"): value for name, value in settings.items() if name.startswith("submodule.") and name.endswith(".path")
    }
    return {path.strip("/"): settings.get(f"{section}.url", "") for section, path in paths.items()}


def submodule_of(superproject: RepositoryUrl, path: str, address: str, *, allow_http: bool = False) -> RepositoryUrl:
    """The repository that a submodule at `path` is. Raises SubmoduleError for one that is not to be fetched from (see `related_to`)."""
    try:
        return related_to(superproject, address, allow_http=allow_http)
    except (RepositoryUrlError, LocalSourceError) as error:
        raise SubmoduleError(f"submodule {path} is not fetched: {error.message}", hint=_HINT, file=FILE) from error


def related_to(superproject: RepositoryUrl, address: str, *, allow_http: bool = False) -> RepositoryUrl:
    """The repository at an address that another repository names, which may be relative to its own.

    Raises RepositoryUrlError and LocalSourceError for a path of this machine, another protocol than https and ssh, and for plain http
    and hosts of this machine where the one that names them is reached otherwise.
    """
    shown = hide_credentials(address)
    text = _join(superproject, address) if address.startswith(_RELATIVE) else address
    url = parse_url(text, allow_http=allow_http and superproject.transport is Transport.HTTP)
    if url.transport is Transport.HTTP and superproject.transport is not Transport.HTTP:
        raise RepositoryUrlError(f"{shown} is plain http, and {superproject.shown}, which names it, is not")
    if is_loopback(url.host) and not is_loopback(superproject.host):
        raise RepositoryUrlError(f"{shown} is on this machine, and {superproject.shown}, which names it, is not")
    return msgspec.structs.replace(url, superproject=superproject)


def _join(superproject: RepositoryUrl, relative: str) -> str:
    """As git resolves a relative address: from the superproject's own, each `../` one part up, and never above its host."""
    if superproject.transport is Transport.FILE:
        raise RepositoryUrlError(f"{relative} is relative to a path of this machine")
    host, separator, path = _split(superproject.address)
    parts = path.strip("/").split("/")
    rest = relative
    while rest.startswith(_RELATIVE):
        up, _, rest = rest.partition("/")
        if up == "..":
            if not parts:
                raise RepositoryUrlError(f"{relative} leads above the host of {superproject.shown}")
            parts.pop()
    lead = "/" if path.startswith("/") else ""
    return f"{host}{separator}{lead}{'/'.join([*parts, rest])}"


def _split(address: str) -> tuple[str, str, str]:
    """Host, what parts it from the path (nothing, or the `:` of `user@host:path`), and the path."""
    if "://" in address:
        scheme, _, rest = address.partition("://")
        authority, slash, path = rest.partition("/")
        return f"{scheme}://{authority}", "", slash + path
    return address.partition(":")
