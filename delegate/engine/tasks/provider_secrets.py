"""Credentials of providers from Secrets of the cluster that the delegate runs in."""

from delegate.engine.clusters.registry import ClusterRegistry
from delegate.model.resource_types import SECRETS
from delegate.model.resources import JsonObject
from delegate.model.tasks import Destination


class ProviderSecrets:
    """Reads single Secrets by their names, so that the right to get those is enough."""

    def __init__(self, clusters: ClusterRegistry) -> None:
        self._clusters = clusters

    async def read(self, namespace: str, name: str) -> JsonObject:
        """Raises ClusterError."""
        cluster = await self._clusters.open(Destination())
        return await cluster.client.get(SECRETS, namespace, name)
