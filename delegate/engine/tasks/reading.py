"""Sources, read as often as their hosts need: what may be better in a moment is tried again, within the attempt."""

import asyncio
from collections.abc import Sequence

import structlog

from delegate.engine.sources.manifests import Sources
from delegate.engine.sources.renders import Rendered, ResolvedRevision
from delegate.engine.sources.targets import Target
from delegate.foundation.lifecycle.retrying import RetryDetails, Retrying, retrying
from delegate.model.sources import Source

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_LONGEST_RESOLVE_SECONDS = 60.0
"""Of one try: a listing is small, so a host that gives none for so long is asked again."""
_LEAST_SECONDS = 0.1


class TriedSources:
    """The sources of one attempt, until its deadline (of the running loop)."""

    def __init__(self, sources: Sources, policy: Retrying, deadline: float) -> None:
        self._sources = sources
        self._policy = policy
        self._deadline = deadline

    async def resolve(self, wanted: Sequence[Source]) -> tuple[ResolvedRevision, ...]:
        """Raises what `Sources.resolve` does, the last one."""

        async def resolve() -> tuple[ResolvedRevision, ...]:
            return await self._sources.resolve_all(wanted, timeout=min(self._left(), _LONGEST_RESOLVE_SECONDS))

        return await retrying(resolve, self._policy, deadline=self._deadline, on_retry=_log)

    async def render(self, wanted: Sequence[Source], revisions: Sequence[ResolvedRevision], target: Target) -> Rendered:
        """Raises what `Sources.render` does, the last one."""

        async def render() -> Rendered:
            return await self._sources.render_all(wanted, revisions, timeout=self._left(), target=target)

        return await retrying(render, self._policy, deadline=self._deadline, on_retry=_log)

    def _left(self) -> float:
        return max(_LEAST_SECONDS, self._deadline - asyncio.get_running_loop().time())


def _log(details: RetryDetails) -> None:
    error = details.error
    log.info("source.retried", code=error.code, error=error.message, attempt=details.attempt, delay_seconds=round(details.wait_seconds, 3))
