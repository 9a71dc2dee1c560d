"""Where a repository is at its forge: host, owner and name, and the address of the interface. Pure."""

import enum
import re
from collections.abc import Iterable
from urllib.parse import quote, urlsplit

import msgspec

from delegate.engine.forges.errors import UnknownForgeError
from delegate.foundation.secrets import hide_credentials


class ForgeKind(enum.StrEnum):
    GITLAB = "gitlab"
    GITHUB = "github"
    GITEE = "gitee"
    GITEA = "gitea"
    BITBUCKET = "bitbucket"
    BITBUCKET_SERVER = "bitbucket-server"


class Place(msgspec.Struct, frozen=True):
    """A repository at a forge. `api` is the beginning of every address of its interface, without a slash at the end."""

    kind: ForgeKind
    api: str
    owner: str
    name: str

    @property
    def path(self) -> str:
        """Owner and name, as part of an address."""
        return f"{quote(self.owner, safe='/~')}/{quote(self.name, safe='')}"

    @property
    def quoted_path(self) -> str:
        """Owner and name as one segment."""
        return quote(f"{self.owner}/{self.name}", safe="")


class KnownForge(msgspec.Struct, frozen=True):
    """What an operator says of a host: its kind, and the interface's address where that is not the usual one."""

    host: str
    kind: ForgeKind
    api: str = ""


_PUBLIC = {
    "github.com": (ForgeKind.GITHUB, "https://api.github.com"),
    "gitlab.com": (ForgeKind.GITLAB, "https://gitlab.com/api/v4"),
    "gitee.com": (ForgeKind.GITEE, "https://gitee.com/api/v5"),
    "codeberg.org": (ForgeKind.GITEA, "https://codeberg.org/api/v1"),
    "bitbucket.org": (ForgeKind.BITBUCKET, "https://api.bitbucket.org/2.0"),
}
_BELOW = {
    ForgeKind.GITHUB: "/api/v3",
    ForgeKind.GITLAB: "/api/v4",
    ForgeKind.GITEE: "/api/v5",
    ForgeKind.GITEA: "/api/v1",
    ForgeKind.BITBUCKET: "/2.0",
    ForgeKind.BITBUCKET_SERVER: "/rest",
}
_SCP_LIKE = re.compile(r"(?:[^@/:\s]*@)?([^:/\s]+):(?!//)(.+)")
_ENTRY = re.compile(r"([^=@\s]+)=([a-z-]+)(?:@(https?://\S+))?")


def read_forges(entries: Iterable[str]) -> tuple[KnownForge, ...]:
    """From settings: `git.example=gitlab`, or with an interface of its own `git.example=gitea@https://api.example/v1`.

    Raises UnknownForgeError.
    """
    known = []
    for entry in entries:
        found = _ENTRY.fullmatch(entry.strip())
        kinds = ", ".join(ForgeKind)
        if found is None or found[2] not in ForgeKind.__members__.values():
            words = f"DELEGATE_FORGES: {hide_credentials(entry)!r} is no forge"
            raise UnknownForgeError(words, hint=f"write host=kind or host=kind@https://...; kinds are {kinds}")
        known.append(KnownForge(found[1].lower(), ForgeKind(found[2]), (found[3] or "").rstrip("/")))
    return tuple(known)


def place_of(address: str, known: Iterable[KnownForge] = ()) -> Place:
    """Where a repository is, by its address over https or ssh. Raises UnknownForgeError."""
    web, host, path = _split(address)
    entry = next((each for each in known if each.host in (host, web.partition("://")[2])), None)
    kind, api = (entry.kind, entry.api) if entry is not None else _PUBLIC.get(host, (None, ""))
    if kind is None:
        kind = next((each for each in (ForgeKind.GITLAB, ForgeKind.GITEA, ForgeKind.GITEE, ForgeKind.GITHUB) if each.value in host), None)
    if kind is None:
        hint = f"set DELEGATE_FORGES to {host or 'HOST'}=KIND, with one of {', '.join(ForgeKind)}"
        raise UnknownForgeError(f"{hide_credentials(address)}: it is not known which kind of forge this is", hint=hint)
    if not api and host in _PUBLIC:
        api = _PUBLIC[host][1]
    context = ""
    if kind is ForgeKind.BITBUCKET_SERVER:
        context, _, path = path.rpartition("scm/") if "scm/" in path else ("", "", path)
    parts = [part for part in path.removesuffix(".git").split("/") if part]
    if len(parts) < 2:
        raise UnknownForgeError(f"{hide_credentials(address)} has no owner and name", hint="write https://host/owner/name")
    below = f"/{context.strip('/')}" if context.strip("/") else ""
    return Place(kind, api or f"{web}{below}{_BELOW[kind]}", "/".join(parts[:-1]), parts[-1])


def _split(address: str) -> tuple[str, str, str]:
    """The host's own address, its name, and the path on it."""
    scp_like = _SCP_LIKE.fullmatch(address)
    if scp_like is not None and "://" not in address:
        host = scp_like[1].lower()
        return f"https://{host}", host, scp_like[2].strip("/")
    parts = urlsplit(address)
    host = (parts.hostname or "").lower()
    if parts.scheme == "ssh":
        return f"https://{host}", host, parts.path.strip("/")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}", host, parts.path.strip("/")
