"""Secrets, ConfigMaps and projects of Argo CD that stand in a namespace of our own cluster, read again every few seconds."""

import asyncio
from collections.abc import Sequence

import structlog

from delegate.engine.clusters.errors import ClusterError, NotFoundError, UnknownKindError
from delegate.engine.clusters.registry import Cluster, ClusterRegistry
from delegate.engine.sources.access.entries import ALLOWED_SIGNERS, GPG_KEYS, KNOWN_HOSTS, SECRET_TYPE, TLS_CERTIFICATES
from delegate.foundation.clocks import SYSTEM_CLOCK, Clock
from delegate.model.resource_types import CONFIG_MAPS, SECRETS
from delegate.model.resources import GroupKind, JsonObject
from delegate.model.tasks import Destination

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_MAX_AGE_SECONDS = 10.0
_PROJECTS = GroupKind("argoproj.io", "AppProject")
_SELECTOR = f"{SECRET_TYPE} in (repository,repo-creds)"


class RepositorySecrets:
    """What is said of repositories in a namespace. What was read last holds while the API server is away."""

    def __init__(self, clusters: ClusterRegistry, namespace: str, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clusters = clusters
        self._namespace = namespace
        self._clock = clock
        self._lock = asyncio.Lock()
        self._read_at = 0.0
        self._known: tuple[JsonObject, ...] | None = None

    async def read(self) -> Sequence[JsonObject]:
        """Raises ClusterError where it could never be read."""
        async with self._lock:
            if self._known is not None and self._clock.monotonic() - self._read_at < _MAX_AGE_SECONDS:
                return self._known
            try:
                self._known = await self._ask()
            except ClusterError as error:
                if self._known is None:
                    raise
                log.warning("repositories.unreadable", namespace=self._namespace, error=str(error))
            self._read_at = self._clock.monotonic()
            return self._known

    async def _ask(self) -> tuple[JsonObject, ...]:
        cluster = await self._clusters.open(Destination())
        secrets = await cluster.client.list(SECRETS, self._namespace, labels=_SELECTOR)
        names = (TLS_CERTIFICATES, KNOWN_HOSTS, GPG_KEYS, ALLOWED_SIGNERS)
        maps = await asyncio.gather(*(self._config_map(cluster, name) for name in names))
        return (*secrets.items, *(body for body in maps if body is not None), *await self._projects(cluster))

    async def _config_map(self, cluster: Cluster, name: str) -> JsonObject | None:
        try:
            return await cluster.client.get(CONFIG_MAPS, self._namespace, name)
        except NotFoundError:
            return None

    async def _projects(self, cluster: Cluster) -> Sequence[JsonObject]:
        """They may want signatures, so who may not read them is told, and nothing is taken for unsigned."""
        try:
            found = await cluster.discovery.resource_for(_PROJECTS)
        except UnknownKindError:
            return ()
        return (await cluster.client.list(found, self._namespace)).items
