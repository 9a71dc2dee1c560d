"""Keeps what the canaries of a group know of each other, in a ConfigMap beside their journals. Every delegate writes it; nobody owns it."""

from collections.abc import Callable

from delegate.engine.clusters import errors as cluster_errors
from delegate.engine.clusters.client import ApiClient
from delegate.engine.records.errors import JournalChangedError
from delegate.model.resource_types import CONFIG_MAPS
from delegate.model.rollouts.storms import Group, group_config_map, group_name, read_group

_MOST_TRIES = 20
_RACES = (
    cluster_errors.StaleObjectError,
    cluster_errors.RecreatedObjectError,
    cluster_errors.AlreadyExistsError,
    cluster_errors.NotFoundError,
)


class GroupStore:
    """One group, in one namespace."""

    def __init__(self, client: ApiClient, namespace: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name

    @property
    def place(self) -> str:
        return f"ConfigMap {self._namespace}/{group_name(self._name)}"

    async def read(self) -> Group:
        """Raises CorruptJournalError, ClusterError."""
        try:
            return read_group(await self._client.get(CONFIG_MAPS, self._namespace, group_name(self._name)))
        except cluster_errors.NotFoundError:
            return Group()

    async def change(self, decide: Callable[[Group], Group]) -> Group:
        """What is stored in the end. `decide` may be asked again, of what others have written meanwhile.

        Raises JournalChangedError where it changes faster than it can be written, CorruptJournalError, ClusterError.
        """
        for _ in range(_MOST_TRIES):
            try:
                live = await self._client.get(CONFIG_MAPS, self._namespace, group_name(self._name))
            except cluster_errors.NotFoundError:
                live = None
            before = read_group(live) if live is not None else Group()
            after = decide(before)
            if after == before:
                return before
            wanted = group_config_map(self._namespace, self._name, after)
            try:
                if live is None:
                    await self._client.create(CONFIG_MAPS, wanted)
                else:
                    await self._client.replace(CONFIG_MAPS, {**live, "data": wanted["data"]})
            except _RACES:
                continue
            return after
        raise JournalChangedError(f"{self.place} changes faster than it can be written", object=self.place)
