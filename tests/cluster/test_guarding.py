"""A late write hits nothing but the object that was planned for, in the state it was planned from."""

from collections.abc import Awaitable

import pytest

from delegate.engine.clusters import errors
from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.guarding import apply_guarded, apply_new
from delegate.model.resource_types import CONFIG_MAPS
from delegate.model.resources import JsonObject
from tests.cluster.servers import config_map


def planned(cluster: Cluster, live: JsonObject, data: dict[str, str], *, dry_run: bool = False) -> Awaitable[JsonObject]:
    """An apply that was planned when the object looked as `live`."""
    metadata = live["metadata"]
    body = config_map(metadata["namespace"], metadata["name"], data)
    return apply_guarded(
        cluster.client, CONFIG_MAPS, body, uid=metadata["uid"], resource_version=metadata["resourceVersion"], dry_run=dry_run
    )


async def data_of(cluster: Cluster, namespace: str) -> dict[str, str]:
    found: dict[str, str] = (await cluster.client.get(CONFIG_MAPS, namespace, "a"))["data"]
    return found


async def test_the_object_as_planned(cluster: Cluster, namespace: str) -> None:
    """What hasn't changed since is written; its answer plans the next write."""
    live = await cluster.client.apply(CONFIG_MAPS, config_map(namespace))

    one = await planned(cluster, live, {"k": "1"})
    await planned(cluster, one, {"k": "2"})

    assert await data_of(cluster, namespace) == {"k": "2"}


@pytest.mark.parametrize("dry_run", [False, True])
async def test_an_object_that_changed_since(dry_run: bool, cluster: Cluster, namespace: str) -> None:
    """A late apply answers 409 and puts no old revision back."""
    live = await cluster.client.apply(CONFIG_MAPS, config_map(namespace, data={"k": "old"}))
    await cluster.client.apply(CONFIG_MAPS, config_map(namespace, data={"k": "new"}))

    with pytest.raises(errors.StaleObjectError) as caught:
        await planned(cluster, live, {"k": "old"}, dry_run=dry_run)

    assert caught.value.code == "conflict.resource_version"
    assert await data_of(cluster, namespace) == {"k": "new"}


async def test_an_object_that_was_recreated_since(cluster: Cluster, namespace: str) -> None:
    """Another object by the name isn't ours to write."""
    live = await cluster.client.apply(CONFIG_MAPS, config_map(namespace))
    await cluster.client.delete(CONFIG_MAPS, namespace, "a", uid=live["metadata"]["uid"])
    await cluster.client.apply(CONFIG_MAPS, config_map(namespace, data={"k": "theirs"}), manager="somebody")

    with pytest.raises(errors.RecreatedObjectError, match="deleted and created again") as caught:
        await planned(cluster, live, {"k": "ours"})

    assert caught.value.code == "conflict.uid"
    assert await data_of(cluster, namespace) == {"k": "theirs"}


async def test_a_conflict_that_arose_since(cluster: Cluster, namespace: str) -> None:
    """A server finds the conflict first; it is a change since the plan all the same. One that was planned with stays a conflict."""
    live = await cluster.client.apply(CONFIG_MAPS, config_map(namespace))
    await cluster.client.apply(CONFIG_MAPS, config_map(namespace, data={"k": "theirs"}), manager="somebody", force=True)
    with pytest.raises(errors.StaleObjectError, match="changed since it was planned"):
        await planned(cluster, live, {"k": "ours"})
    seen = await cluster.client.get(CONFIG_MAPS, namespace, "a")

    with pytest.raises(errors.FieldManagerConflictError):
        await planned(cluster, seen, {"k": "ours"})


async def test_an_object_that_was_deleted_since(cluster: Cluster, namespace: str) -> None:
    """What somebody deleted isn't created again by a late apply."""
    live = await cluster.client.apply(CONFIG_MAPS, config_map(namespace))
    await cluster.client.delete(CONFIG_MAPS, namespace, "a", uid=live["metadata"]["uid"])

    with pytest.raises(errors.RecreatedObjectError):
        await planned(cluster, live, {"k": "ours"})

    with pytest.raises(errors.NotFoundError):
        await cluster.client.get(CONFIG_MAPS, namespace, "a")


async def test_a_creation_that_comes_late(cluster: Cluster, namespace: str) -> None:
    """An object that was planned as new is created once; one that exists by then is left alone."""
    await apply_new(cluster.client, CONFIG_MAPS, config_map(namespace, data={"k": "first"}))

    with pytest.raises(errors.StaleObjectError):
        await apply_new(cluster.client, CONFIG_MAPS, config_map(namespace, data={"k": "late"}), force=True)

    assert await data_of(cluster, namespace) == {"k": "first"}
