"""Charts that a chart needs, and who brings them."""

from collections.abc import Awaitable, Callable

import msgspec

from delegate.engine.sources.loader.files import SourceFile


class Dependency(msgspec.Struct, frozen=True):
    """A chart that another one needs. `version` is a range, or with a lock file the version that was chosen.

    `line` is where the chart's file says so.
    """

    name: str
    version: str = ""
    repository: str = ""
    alias: str = ""
    line: int = 0


FetchChart = Callable[[Dependency], Awaitable[SourceFile | None]]
"""Brings a dependency as a packed chart, or None where its repository is none of those that are configured."""


async def fetch_nothing(dependency: Dependency) -> SourceFile | None:
    """Where no repository is configured."""
    del dependency
    return None
