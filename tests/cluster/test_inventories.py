"""The inventory in its ConfigMap: written ahead, and never overwritten by somebody who is late."""

import asyncio

import pytest

from delegate.engine.clusters import errors as cluster_errors
from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.errors import InventoryChangedError, LateWriterError
from delegate.engine.records.inventories import InventoryStore
from delegate.model.errors import CorruptInventoryError, ForeignInventoryError
from delegate.model.inventory import APPLYSET_ID_LABEL, Inventory, InventoryEntry, InventoryState, application_applyset_id
from delegate.model.resource_types import CONFIG_MAPS
from tests.cluster.servers import config_map
from tests.fakes.flaky_api import FlakyApi, answer_lost, reset

NAME = "delegate-shop"


def inventory(*names: str, fence: int = 1, state: InventoryState = InventoryState.INTENDED) -> Inventory:
    entries = tuple(InventoryEntry("", "ConfigMap", "demo", name, "v1") for name in sorted(names))
    return Inventory(entries, fence=fence, state=state, revision="abc")


def store_of(cluster: Cluster | ApiClient, namespace: str) -> InventoryStore:
    return InventoryStore(cluster.client if isinstance(cluster, Cluster) else cluster, "shop", namespace)


async def test_an_application_without_one(cluster: Cluster, namespace: str) -> None:
    """Nothing stored, or not even a namespace: an empty inventory."""
    assert not (await store_of(cluster, namespace).read()).exists
    assert (await store_of(cluster, "no-such-namespace-here").read()).inventory == Inventory()


async def test_what_is_written_is_read(cluster: Cluster, namespace: str) -> None:
    """Intended, then confirmed; the ConfigMap is an ApplySet parent of ours."""
    store = store_of(cluster, namespace)

    written = await store.write(await store.read(), inventory("a", "b"))
    confirmed = await store.write(written, inventory("a", "b", state=InventoryState.CONFIRMED))
    read = await store.read()

    assert read.inventory == inventory("a", "b", state=InventoryState.CONFIRMED)
    assert read.config_map == confirmed.config_map
    assert read.config_map["metadata"]["labels"][APPLYSET_ID_LABEL] == application_applyset_id("shop", namespace)


async def test_a_namespace_that_is_missing(cluster: Cluster) -> None:
    """It can't be written before its namespace exists; the error names that."""
    store = store_of(cluster, "no-such-namespace-here")

    with pytest.raises(cluster_errors.NamespaceNotFoundError):
        await store.write(await store.read(), inventory("a"))


async def test_a_late_writer_is_refused(cluster: Cluster, namespace: str) -> None:
    """An attempt that read before a newer one wrote can't write any more, nor after reading again."""
    store = store_of(cluster, namespace)
    first = await store.write(await store.read(), inventory("a", fence=1))
    newer = await store.write(await store.read(), inventory("a", "b", fence=2))

    with pytest.raises(LateWriterError, match=r"fence 2, ours is 1"):
        await store.write(first, inventory("a", fence=1, state=InventoryState.CONFIRMED))
    with pytest.raises(LateWriterError):
        await store.write(await store.read(), inventory("a", fence=1))

    assert (await store.read()).inventory == newer.inventory


async def test_two_who_create_at_once(cluster: Cluster, namespace: str) -> None:
    """Of two first writers one succeeds; the other learns that somebody was there."""
    store = store_of(cluster, namespace)
    nothing = await store.read()

    outcomes = await asyncio.gather(
        store.write(nothing, inventory("a", fence=1)), store.write(nothing, inventory("b", fence=1)), return_exceptions=True
    )

    assert [type(outcome) for outcome in outcomes if isinstance(outcome, Exception)] == [InventoryChangedError]


async def test_an_older_write_that_came_in_between(cluster: Cluster, namespace: str) -> None:
    """With the newer fence but an old reading, what the older attempt wrote must not be lost: read again."""
    store = store_of(cluster, namespace)
    seen = await store.write(await store.read(), inventory("a", fence=1))
    await store.write(seen, inventory("a", "created-late", fence=1))

    with pytest.raises(InventoryChangedError) as caught:
        await store.write(seen, inventory("a", "b", fence=2))

    assert caught.value.retryable
    assert "created-late" in {entry.name for entry in (await store.read()).inventory.entries}


async def test_foreign_labels_survive_and_disturb_nobody(cluster: Cluster, namespace: str) -> None:
    """Somebody who labels the ConfigMap makes no writer late, and keeps the label."""
    store = store_of(cluster, namespace)
    stored = await store.write(await store.read(), inventory("a"))
    await cluster.client.patch(CONFIG_MAPS, namespace, NAME, {"metadata": {"labels": {"team": "x"}, "annotations": {"n": "1"}}})

    await store.write(stored, inventory("a", "b"))

    read = await store.read()
    assert read.inventory == inventory("a", "b")
    assert read.config_map["metadata"]["labels"]["team"] == "x"
    assert read.config_map["metadata"]["annotations"]["n"] == "1"


async def test_a_record_that_was_deleted_meanwhile(cluster: Cluster, namespace: str) -> None:
    """Nothing is written over what isn't there as it was read."""
    store = store_of(cluster, namespace)
    stored = await store.write(await store.read(), inventory("a"))
    await store.remove(stored)

    with pytest.raises(InventoryChangedError):
        await store.write(stored, inventory("a", "b"))


async def test_removing_hits_only_what_was_read(cluster: Cluster, namespace: str) -> None:
    """A record that somebody wrote since stays; one that is gone is gone."""
    store = store_of(cluster, namespace)
    first = await store.write(await store.read(), inventory("a"))
    second = await store.write(first, inventory("b"))

    with pytest.raises(InventoryChangedError):
        await store.remove(first)
    await store.remove(second)
    await store.remove(second)
    await store.remove(await store.read())

    assert not (await store.read()).exists


async def test_another_tools_record_is_left_alone(cluster: Cluster, namespace: str) -> None:
    """A ConfigMap of that name that isn't ours is neither read nor written."""
    theirs = config_map(namespace, NAME, annotations={"applyset.kubernetes.io/tooling": "kubectl/v1.27"})
    await cluster.client.apply(CONFIG_MAPS, theirs, manager="kubectl")

    with pytest.raises(ForeignInventoryError, match="kubectl"):
        await store_of(cluster, namespace).read()


async def test_a_broken_record_is_named(cluster: Cluster, namespace: str) -> None:
    """What can't be read stops the sync, rather than to be taken for nothing owned."""
    store = store_of(cluster, namespace)
    await store.write(await store.read(), inventory("a"))
    await cluster.client.patch(CONFIG_MAPS, namespace, NAME, {"binaryData": {"inventory.json.gz": "AAAA"}})

    with pytest.raises(CorruptInventoryError) as caught:
        await store.read()

    assert caught.value.object == f"ConfigMap {namespace}/{NAME}"


@pytest.mark.parametrize("fault", [reset, answer_lost], ids=["before", "after"])
async def test_a_write_whose_answer_is_lost(
    fault: object, through_flaky: tuple[FlakyApi, ApiClient], cluster: Cluster, namespace: str
) -> None:
    """Whether or not the write arrived before the connection broke, it is there once and the writer goes on."""
    flaky, client = through_flaky
    store = store_of(client, namespace)
    stored = await store.write(await store.read(), inventory("a"))
    flaky.add(fault, method="PUT", times=2)  # type: ignore[arg-type]

    stored = await store.write(stored, inventory("a", "b"))
    stored = await store.write(stored, inventory("a", "b", "c"))

    assert (await store_of(cluster, namespace).read()).inventory == inventory("a", "b", "c")


async def test_a_create_whose_answer_is_lost(through_flaky: tuple[FlakyApi, ApiClient], cluster: Cluster, namespace: str) -> None:
    """The caller is told, since a create isn't repeated by itself; its next write finds its own."""
    flaky, client = through_flaky
    store = store_of(client, namespace)
    nothing = await store.read()
    flaky.add(answer_lost, method="POST")

    with pytest.raises(cluster_errors.UnreachableError):
        await store.write(nothing, inventory("a"))
    again = await store.write(nothing, inventory("a"))

    assert again.inventory == inventory("a")
    assert (await store_of(cluster, namespace).read()).inventory == inventory("a")
