"""Keeps an Application's inventory in its ConfigMap, so that two writers can't overwrite each other unseen.

Order of writes: *intended* (all that was owned and all that is wanted) before the first create, *confirmed* after the last
write. Whenever the process dies in between, the next attempt reads at least everything that exists. Each write names the
resourceVersion that was read and carries the writer's fence: a late writer is refused by the server, and, should it have
read just now, by the fence.
"""

import msgspec
import structlog

from delegate.engine.clusters import errors as cluster_errors
from delegate.engine.clusters.client import ApiClient
from delegate.engine.records.errors import InventoryChangedError, LateWriterError
from delegate.model.inventory import Inventory, inventory_config_map, inventory_name, read_inventory
from delegate.model.resource_types import CONFIG_MAPS
from delegate.model.resources import JsonObject

log = structlog.get_logger()

_MOST_TRIES = 4


class StoredInventory(msgspec.Struct, frozen=True):
    """An inventory as it was read or written, and the ConfigMap around it (empty where there is none yet)."""

    inventory: Inventory = Inventory()
    config_map: JsonObject = {}

    @property
    def exists(self) -> bool:
        return bool(self.config_map)


class InventoryStore:
    """The inventory of one Application, in the namespace that holds its records."""

    def __init__(self, client: ApiClient, application: str, namespace: str) -> None:
        self._client = client
        self._application = application
        self._namespace = namespace
        self._name = inventory_name(application)

    async def read(self) -> StoredInventory:
        """What is stored; an empty inventory where there is none (or no namespace).

        Raises ForeignInventoryError, CorruptInventoryError, ClusterError.
        """
        try:
            config_map = await self._client.get(CONFIG_MAPS, self._namespace, self._name)
        except cluster_errors.NotFoundError:
            return StoredInventory()
        return StoredInventory(read_inventory(config_map), config_map)

    async def write(self, stored: StoredInventory, inventory: Inventory) -> StoredInventory:
        """Replaces what was read or written before (`stored`) and returns what is stored now.

        Raises LateWriterError where a newer fence has written, InventoryChangedError where anybody else has; in both cases
        nothing was changed. Raises InventoryTooLargeError, ClusterError.
        """
        for _ in range(_MOST_TRIES):
            self._refuse_late(stored.inventory, inventory)
            try:
                return StoredInventory(inventory, await self._put(stored, inventory))
            except (
                cluster_errors.StaleObjectError,
                cluster_errors.RecreatedObjectError,
                cluster_errors.AlreadyExistsError,
                cluster_errors.NotFoundError,
            ) as error:
                current = await self.read()
                if current.exists and current.inventory == inventory:
                    return current  # our own write, whose answer was lost
                self._refuse_late(current.inventory, inventory)
                if current.inventory != stored.inventory:
                    raise InventoryChangedError(
                        f"{self._place} was changed by somebody else since it was read", hint="plan again", object=self._place
                    ) from error
                # Only its labels, annotations or other data changed, or it was deleted: what was read still holds.
                log.info("inventory.rewritten", application=self._application, exists=current.exists)
                stored = current
        raise InventoryChangedError(f"{self._place} changes faster than it can be written", object=self._place)

    async def remove(self, stored: StoredInventory) -> None:
        """Deletes the record of an Application that owns nothing any more; only the very one that was read or written."""
        metadata = stored.config_map.get("metadata") or {}
        if not stored.exists:
            return
        try:
            await self._client.delete(
                CONFIG_MAPS, self._namespace, self._name, uid=metadata["uid"], resource_version=metadata["resourceVersion"]
            )
        except cluster_errors.NotFoundError:
            return
        except (cluster_errors.StaleObjectError, cluster_errors.RecreatedObjectError) as error:
            raise InventoryChangedError(f"{self._place} was changed by somebody else since it was read", object=self._place) from error

    @property
    def _place(self) -> str:
        return f"ConfigMap {self._namespace}/{self._name}"

    def _refuse_late(self, current: Inventory, inventory: Inventory) -> None:
        if current.fence > inventory.fence:
            raise LateWriterError(
                f"{self._place} was written by a newer attempt (fence {current.fence}, ours is {inventory.fence})",
                hint="nothing to do: the newer attempt goes on",
                object=self._place,
            )

    async def _put(self, stored: StoredInventory, inventory: Inventory) -> JsonObject:
        wanted = inventory_config_map(self._application, self._namespace, inventory)
        if not stored.exists:
            return await self._client.create(CONFIG_MAPS, wanted)
        return await self._client.replace(CONFIG_MAPS, _merged(stored.config_map, wanted))


def _merged(live: JsonObject, wanted: JsonObject) -> JsonObject:
    """The live ConfigMap with our parts in it: what others wrote into its labels and annotations stays."""
    metadata = dict(live.get("metadata") or {})
    for field in ("labels", "annotations"):
        metadata[field] = {**(metadata.get(field) or {}), **wanted["metadata"][field]}
    metadata.pop("managedFields", None)
    return {**live, "metadata": metadata, "data": wanted["data"], "binaryData": wanted["binaryData"]}
