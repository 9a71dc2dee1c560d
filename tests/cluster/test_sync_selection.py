"""Selective sync, and the guards of prune."""

import pytest

from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.inventories import InventoryStore
from delegate.model.resource_types import CONFIG_MAPS
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, SyncStatus
from tests.cluster.syncing import Syncer, actions, settings_map


def maps(*names: str) -> list[JsonObject]:
    return [settings_map(name) for name in names]


async def exists(cluster: Cluster, syncer: Syncer, name: str) -> bool:
    try:
        await cluster.client.get_metadata(CONFIG_MAPS, syncer.namespace, name)
    except NotFoundError:
        return False
    return True


async def test_only_what_was_asked_for_is_synced(syncer: Syncer, cluster: Cluster) -> None:
    """The others are neither looked at nor written, and what can't be known isn't claimed."""
    syncer.write(maps("one", "two"))

    result = await syncer.sync(resources=[":ConfigMap:one"])

    assert (result.outcome, result.sync, actions(result)) == (Outcome.SUCCEEDED, SyncStatus.UNKNOWN, {"ConfigMap/one": "created"})
    assert not await exists(cluster, syncer, "two")
    assert any("1 of 2 objects are synced" in notice for notice in result.notices)
    assert result.release == 0


async def test_what_was_not_asked_for_is_not_pruned(syncer: Syncer, cluster: Cluster) -> None:
    """Neither what is wanted and was left out, nor what is no longer wanted and was left out."""
    syncer.write(maps("one", "two", "old"))
    await syncer.sync()
    syncer.write(maps("one", "two"))

    await syncer.sync(prune=True, resources=[":ConfigMap:one"])
    assert await exists(cluster, syncer, "two")
    assert await exists(cluster, syncer, "old")

    result = await syncer.sync(prune=True, resources=[":ConfigMap:old"])
    assert actions(result) == {"ConfigMap/old": "pruned"}
    assert not await exists(cluster, syncer, "old")
    assert (await syncer.sync()).sync is SyncStatus.SYNCED


async def test_a_pattern_that_matches_nothing_is_named(syncer: Syncer) -> None:
    """A slip must not look like a sync."""
    syncer.write(maps("one"))
    result = await syncer.sync(resources=[":ConfigMap:won"])
    assert any("no object is ConfigMap won" in notice for notice in result.notices)


async def test_a_large_prune_wants_to_be_confirmed(syncer: Syncer, cluster: Cluster) -> None:
    """More than half of what is owned, and no handful: refused before anything is written (case 20)."""
    names = [f"map-{number}" for number in range(14)]
    syncer.write(maps(*names))
    await syncer.sync()
    syncer.write(maps(*names[:2]))

    refused = await syncer.sync(prune=True)

    assert (refused.outcome, refused.requests.writes) == (Outcome.REFUSED, 0)
    assert refused.error is not None
    assert refused.error.code == "policy.prune_guard"
    assert "12 of 14 objects" in refused.error.message
    assert refused.plan_hash in refused.error.hint
    assert await exists(cluster, syncer, "map-13")

    confirmed = await syncer.sync(prune=True, confirm=True)
    assert confirmed.summary.pruned == 12


async def test_the_guard_is_the_applications_to_set(syncer: Syncer) -> None:
    """Two of three are many for one, and none to speak of for another."""
    syncer.write(maps("one", "two", "three"))
    await syncer.sync()
    syncer.write(maps("one"))
    syncer.spec = {"syncPolicy": {"pruneGuard": {"share": 50, "count": 2}}}
    assert (await syncer.sync(prune=True)).outcome is Outcome.REFUSED
    syncer.spec = {"syncPolicy": {"pruneGuard": {"share": 100, "count": 2}}}
    assert (await syncer.sync(prune=True)).summary.pruned == 2


@pytest.mark.parametrize(("option", "goes_with_confirm"), [("Prune=false", False), ("Prune=confirm", True)])
async def test_an_object_says_whether_it_may_be_pruned(syncer: Syncer, cluster: Cluster, option: str, goes_with_confirm: bool) -> None:
    """Never, or once somebody has said so; kept, it makes the Application OutOfSync and is not forgotten."""
    guarded = settings_map("guarded", annotations={"argocd.argoproj.io/sync-options": option})
    syncer.write([*maps("one"), guarded])
    await syncer.sync()
    syncer.write(maps("one"))

    kept = await syncer.sync(prune=True)
    assert await exists(cluster, syncer, "guarded")
    assert any("ConfigMap" in notice and option in notice for notice in kept.notices)
    stored = await InventoryStore(cluster.client, "shop", syncer.namespace).read()
    assert "guarded" in {entry.name for entry in stored.inventory.entries}

    await syncer.sync(prune=True, confirm=True)
    assert await exists(cluster, syncer, "guarded") is not goes_with_confirm


async def test_an_extraneous_object_may_say_that_it_is_no_difference(syncer: Syncer) -> None:
    """Without prune it stays and the Application is Synced; any other one makes it OutOfSync."""
    ignored = settings_map("ignored", annotations={"argocd.argoproj.io/compare-options": "IgnoreExtraneous"})
    syncer.write([*maps("one", "two"), ignored])
    await syncer.sync()
    syncer.write(maps("one", "two"))
    assert (await syncer.sync()).sync is SyncStatus.SYNCED
    syncer.write(maps("one"))
    assert (await syncer.sync()).sync is SyncStatus.OUT_OF_SYNC
