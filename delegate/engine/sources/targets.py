"""What rendering may know of where it goes: an Application's name, its namespace, what the cluster there serves and holds."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

import msgspec


class ServedKind(NamedTuple):
    """A kind as a cluster serves it; `api_version` as manifests write it."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool


class Capabilities(msgspec.Struct, frozen=True):
    """What a chart's templates see as `.Capabilities`: the version (`v1.37.1`), and the kinds that are served."""

    kube_version: str = ""
    kinds: tuple[ServedKind, ...] = ()

    @property
    def api_versions(self) -> tuple[str, ...]:
        """`apps/v1`, and `apps/v1/Deployment` for each kind."""
        return tuple(sorted({each.api_version for each in self.kinds} | {f"{each.api_version}/{each.kind}" for each in self.kinds}))


class Looked(msgspec.Struct, frozen=True):
    """The API server's answer to a GET, as JSON."""

    status: int
    body: bytes


Look = Callable[[str], Awaitable[Looked]]
"""Reads a path of the target's API server (`/api/v1/namespaces/shop/secrets/web`); asked with nothing but paths of
objects and of lists."""


async def _default() -> Capabilities:
    return Capabilities()


@dataclass(frozen=True)
class Target:
    """`capabilities` is asked only when a chart is rendered, `look` only for charts that ask the cluster.

    `project` is that of the Application. Without values of its own, Helm's defaults hold; without `look`, such charts find nothing.
    """

    application: str = ""
    namespace: str = ""
    capabilities: Callable[[], Awaitable[Capabilities]] = _default
    look: Look | None = None
    project: str = ""
