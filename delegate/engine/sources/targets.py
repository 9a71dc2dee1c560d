"""What rendering may know of where it goes: an Application's name, its namespace, what the cluster there serves."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec


class Capabilities(msgspec.Struct, frozen=True):
    """What a chart's templates see as `.Capabilities`: `v1.37.1`; `apps/v1` and `apps/v1/Deployment` for each kind."""

    kube_version: str = ""
    api_versions: tuple[str, ...] = ()


async def _default() -> Capabilities:
    return Capabilities()


@dataclass(frozen=True)
class Target:
    """`capabilities` is asked only when a chart is rendered. Without values of its own, Helm's defaults hold."""

    application: str = ""
    namespace: str = ""
    capabilities: Callable[[], Awaitable[Capabilities]] = _default
