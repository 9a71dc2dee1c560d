"""The forge of a repository, by its address."""

from collections.abc import Callable, Iterable

from delegate.engine.forges.bitbucket import Bitbucket
from delegate.engine.forges.bitbucket_server import BitbucketServer
from delegate.engine.forges.calls import ForgeAccess
from delegate.engine.forges.gitea import Gitea
from delegate.engine.forges.gitee import Gitee
from delegate.engine.forges.github import Github
from delegate.engine.forges.gitlab import Gitlab
from delegate.engine.forges.places import ForgeKind, KnownForge, Place, place_of
from delegate.engine.forges.requests import Forge

_FORGES: dict[ForgeKind, Callable[[Place, ForgeAccess], Forge]] = {
    ForgeKind.GITLAB: Gitlab,
    ForgeKind.GITHUB: Github,
    ForgeKind.GITEE: Gitee,
    ForgeKind.GITEA: Gitea,
    ForgeKind.BITBUCKET: Bitbucket,
    ForgeKind.BITBUCKET_SERVER: BitbucketServer,
}


def forge_for(address: str, access: ForgeAccess, known: Iterable[KnownForge] = ()) -> Forge:
    """Raises UnknownForgeError, and ForgeAccessError where there are no credentials for it."""
    place = place_of(address, known)
    return _FORGES[place.kind](place, access)
