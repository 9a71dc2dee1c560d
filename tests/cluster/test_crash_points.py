"""Whenever a sync dies between its writes, the next attempt finds everything, and the dead one can't write any more.

A small sync (lease, inventory intended, creates, prunes, inventory confirmed, lease given back) runs through a network that
dies at its n-th write: before the write takes effect, or after it and before its answer.
"""

import asyncio
import contextlib
from collections.abc import Iterable

import pytest
from aiohttp import web

from delegate.engine.clusters import errors as cluster_errors
from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.errors import LateWriterError, LeaseLostError
from delegate.engine.records.guarding import apply_guarded
from delegate.engine.records.inventories import InventoryStore, StoredInventory
from delegate.engine.records.leases import WriteLease, hold_lease
from delegate.model.applied import label_member
from delegate.model.inventory import InventoryState, application_applyset_id, confirmed, entry_of, inventory_name, to_prune
from delegate.model.inventory import intended as intended_inventory
from delegate.model.resource_types import CONFIG_MAPS
from delegate.model.resources import JsonObject, Manifest, ResourceKey
from tests.cluster.servers import config_map, eventually
from tests.fakes.flaky_api import FlakyApi, answer_lost, reset

APPLICATION = "shop"
FIRST, SECOND = ("a", "b", "c"), ("b", "c", "d")
WRITES = ["take the lease", "intended", "create a", "create b", "create c", "confirmed", "give the lease back"]


class Attempt:
    """One attempt's small sync. Holds on to what a revived process would still have in its memory."""

    def __init__(self, client: ApiClient, namespace: str, name: str, lease_seconds: int = 15) -> None:
        self.client = client
        self.lease_seconds = lease_seconds
        self.namespace = namespace
        self.name = name
        self.store = InventoryStore(client, APPLICATION, namespace)
        self.lease: WriteLease | None = None
        self.stored: StoredInventory = StoredInventory()
        self.live: dict[str, JsonObject] = {}

    async def sync(self, names: Iterable[str]) -> None:
        manifests = [Manifest(self._member(name)) for name in names]
        self.stored = await self.store.read()
        floor = self.stored.inventory.fence
        async with hold_lease(
            self.client, APPLICATION, self.namespace, holder=self.name, fence_floor=floor, seconds=self.lease_seconds
        ) as self.lease:
            self.stored = previous = await self.store.read()
            wanted = [entry_of(manifest) for manifest in manifests]
            intended = intended_inventory(previous.inventory, wanted, fence=self.lease.fence, revision="r")
            self.stored = await self.store.write(self.stored, intended)
            applied = []
            for manifest in manifests:
                self.lease.check()
                self.live[manifest.name] = made = await self.client.apply(CONFIG_MAPS, manifest.body)
                applied.append(entry_of(manifest, uid=made["metadata"]["uid"]))
            gone = [await self._prune(entry.key) for entry in to_prune(previous.inventory, applied)]
            self.stored = await self.store.write(self.stored, confirmed(intended, applied, gone))

    async def _prune(self, key: ResourceKey) -> ResourceKey:
        with contextlib.suppress(cluster_errors.NotFoundError):
            live = await self.client.get_metadata(CONFIG_MAPS, key.namespace, key.name)
            await self.client.delete(CONFIG_MAPS, key.namespace, key.name, uid=live["metadata"]["uid"])
        return key

    def _member(self, name: str) -> JsonObject:
        return label_member(config_map(self.namespace, name, {"by": self.name}), application_applyset_id(APPLICATION, self.namespace))


async def members(cluster: Cluster, namespace: str) -> set[str]:
    label = f"applyset.kubernetes.io/part-of={application_applyset_id(APPLICATION, namespace)}"
    return {item["metadata"]["name"] for item in (await cluster.client.list(CONFIG_MAPS, namespace, labels=label)).items}


async def remembered(cluster: Cluster, namespace: str) -> set[str]:
    stored = await InventoryStore(cluster.client, APPLICATION, namespace).read()
    return {entry.name for entry in stored.inventory.entries}


def die_at(flaky: FlakyApi, number: int, *, after: bool) -> asyncio.Event:
    """From its n-th write on (from 0), the process has no network any more; that write takes effect or not."""
    died = asyncio.Event()
    written = 0

    async def fate(api: FlakyApi, request: web.Request, body: bytes) -> web.StreamResponse:
        nonlocal written
        if died.is_set():
            return await reset(api, request, body)
        if request.method == "GET":
            return await api.forward(request, body)
        written += 1
        if written <= number:
            return await api.forward(request, body)
        died.set()
        return await (answer_lost if after else reset)(api, request, body)

    flaky.add(fate, times=10**9)
    return died


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(len(WRITES)), ids=[name.replace(" ", "_") for name in WRITES])
async def test_a_crash_at_each_write(
    number: int, after: bool, through_flaky: tuple[FlakyApi, ApiClient], cluster: Cluster, namespace: str
) -> None:
    """Nothing exists that the inventory doesn't know; the next attempt ends with exactly what it wants; the dead one is late."""
    flaky, client = through_flaky
    died = die_at(flaky, number, after=after)
    dead = Attempt(client, namespace, "attempt-1", lease_seconds=2)
    dying = asyncio.create_task(dead.sync(FIRST))
    await eventually(died.is_set)
    dying.cancel()
    await asyncio.gather(dying, return_exceptions=True)

    assert await members(cluster, namespace) <= await remembered(cluster, namespace)

    successor = Attempt(cluster.client, namespace, "attempt-2")
    await successor.sync(SECOND)

    assert await members(cluster, namespace) == set(SECOND)
    stored = await successor.store.read()
    assert {entry.name for entry in stored.inventory.entries} == set(SECOND)
    assert stored.inventory.state is InventoryState.CONFIRMED
    assert all(entry.uid for entry in stored.inventory.entries)
    flaky.forget()
    await _nothing_works_any_more(dead, successor)
    assert await members(cluster, namespace) == set(SECOND)
    assert (await successor.store.read()).inventory == stored.inventory


async def _nothing_works_any_more(dead: Attempt, successor: Attempt) -> None:
    """The first attempt wakes up with its network back, and tries to go on with what it remembers."""
    assert successor.lease is not None
    if dead.lease is not None:
        assert dead.lease.fence < successor.lease.fence
        with pytest.raises(LeaseLostError):
            dead.lease.check()
        inventory = confirmed(dead.stored.inventory, (), ()) if dead.stored.exists else None
        if inventory is not None and inventory.fence == dead.lease.fence:
            with pytest.raises(LateWriterError):
                await dead.store.write(dead.stored, inventory)
    for name, live in dead.live.items():
        body = config_map(dead.namespace, name, {"by": "the dead"})
        metadata = live["metadata"]
        with pytest.raises((cluster_errors.StaleObjectError, cluster_errors.RecreatedObjectError)):
            await apply_guarded(dead.client, CONFIG_MAPS, body, uid=metadata["uid"], resource_version=metadata["resourceVersion"])


async def test_every_write_was_met(through_flaky: tuple[FlakyApi, ApiClient], cluster: Cluster, namespace: str) -> None:
    """The list of crash points above is that of the writes a whole sync does, in their order."""
    flaky, client = through_flaky
    await Attempt(client, namespace, "attempt-1").sync(FIRST)

    writes = [(request.method, request.path.rpartition("/")[2]) for request in flaky.seen if request.method != "GET"]
    record = inventory_name(APPLICATION)
    assert writes == [
        ("POST", "leases"),
        ("POST", "configmaps"),
        ("PATCH", "a"),
        ("PATCH", "b"),
        ("PATCH", "c"),
        ("PUT", record),
        ("PUT", record),
    ]
    assert len(writes) == len(WRITES)
    assert await members(cluster, namespace) == set(FIRST)


async def test_two_attempts_at_once(cluster: Cluster, namespace: str) -> None:
    """Two attempts that overlap end with one set, whole: the second waits for the first."""
    first, second = Attempt(cluster.client, namespace, "attempt-1"), Attempt(cluster.client, namespace, "attempt-2")

    await asyncio.gather(first.sync(FIRST), second.sync(FIRST))

    assert first.lease is not None
    assert second.lease is not None
    assert {first.lease.fence, second.lease.fence} == {1, 2}
    last = first if first.lease.fence == 2 else second
    found = await cluster.client.list(CONFIG_MAPS, namespace, labels="applyset.kubernetes.io/part-of")
    assert {item["data"]["by"] for item in found.items} == {last.name}
