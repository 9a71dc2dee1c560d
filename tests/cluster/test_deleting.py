"""The end of an Application."""

from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.inventories import InventoryStore
from delegate.engine.records.releases import ReleaseStore
from delegate.model.applied import APPLIED_ANNOTATION, PART_OF_LABEL
from delegate.model.resource_types import CONFIG_MAPS, DEPLOYMENTS, LEASES
from delegate.model.resources import JsonObject, ResourceType
from delegate.model.results import Outcome
from tests.cluster.servers import eventually
from tests.cluster.syncing import Syncer, actions, deployment, settings_map


def hook(name: str, phase: str, image: str = "complete:1") -> JsonObject:
    annotations = {"argocd.argoproj.io/hook": phase}
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": image}]}
    spec = {"backoffLimit": 0, "template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "annotations": annotations}, "spec": spec}


async def exists(cluster: Cluster, resource_type: ResourceType, namespace: str, name: str) -> bool:
    try:
        await cluster.client.get_metadata(resource_type, namespace, name)
    except NotFoundError:
        return False
    return True


async def test_an_application_goes_with_all_that_it_owns(syncer: Syncer, cluster: Cluster) -> None:
    """And with its records; what it does not own stays."""
    syncer.write([settings_map(), deployment()])
    await syncer.sync()
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "foreign", "namespace": syncer.namespace}}
    await cluster.client.create(CONFIG_MAPS, foreign)

    seen = await syncer.run("sync", delete="cascade", dryRun=True)
    result = await syncer.sync(delete="cascade")

    assert seen.requests.writes == 0
    assert actions(seen) == actions(result) == {"ConfigMap/settings": "pruned", "Deployment/web": "pruned"}
    assert result.outcome is Outcome.SUCCEEDED
    assert not await exists(cluster, DEPLOYMENTS, syncer.namespace, "web")
    assert await exists(cluster, CONFIG_MAPS, syncer.namespace, "foreign")
    assert not (await InventoryStore(cluster.client, "shop", syncer.namespace).read()).exists
    assert await ReleaseStore(cluster.client, "shop", syncer.namespace).known() == []
    assert not await exists(cluster, LEASES, syncer.namespace, "delegate-shop")


async def test_an_application_goes_without_its_source(syncer: Syncer, cluster: Cluster) -> None:
    """The repository may be gone long since."""
    syncer.write([settings_map()])
    await syncer.sync()
    (syncer.directory / "set.yaml").unlink()
    syncer.directory.rmdir()
    assert (await syncer.sync(delete="cascade")).outcome is Outcome.SUCCEEDED
    assert not await exists(cluster, CONFIG_MAPS, syncer.namespace, "settings")


async def test_objects_that_are_let_go_keep_everything(syncer: Syncer, cluster: Cluster) -> None:
    """They are nobody's, with every field they had, and may be adopted again."""
    syncer.write([settings_map(data={"level": "info"}), deployment(replicas=2)])
    await syncer.sync()

    result = await syncer.sync(delete="orphan")

    live = await cluster.client.get(CONFIG_MAPS, syncer.namespace, "settings")
    assert result.outcome is Outcome.SUCCEEDED
    assert live["data"] == {"level": "info"}
    assert PART_OF_LABEL not in (live["metadata"].get("labels") or {})
    assert APPLIED_ANNOTATION not in (live["metadata"].get("annotations") or {})
    assert not any(
        entry["manager"] == "delegate" and entry["operation"] == "Apply" for entry in live["metadata"].get("managedFields") or ()
    )
    assert (await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web"))["spec"]["replicas"] == 2
    assert not (await InventoryStore(cluster.client, "shop", syncer.namespace).read()).exists
    assert (await syncer.sync()).outcome is Outcome.SUCCEEDED


async def test_what_is_annotated_to_stay_is_let_go(syncer: Syncer, cluster: Cluster) -> None:
    """Delete=false always; Delete=confirm until somebody says so."""
    stays = settings_map("stays", annotations={"argocd.argoproj.io/sync-options": "Delete=false"})
    asks = settings_map("asks", annotations={"argocd.argoproj.io/sync-options": "Delete=confirm"})
    syncer.write([stays, asks, settings_map()])
    await syncer.sync()

    result = await syncer.sync(delete="cascade", confirm=True)

    assert actions(result) == {"ConfigMap/asks": "pruned", "ConfigMap/settings": "pruned"}
    live = await cluster.client.get_metadata(CONFIG_MAPS, syncer.namespace, "stays")
    assert PART_OF_LABEL not in (live["metadata"].get("labels") or {})


async def test_hooks_run_around_the_deletion(syncer: Syncer, cluster: Cluster) -> None:
    """PreDelete before anything goes, PostDelete once all is gone; from the last release, in their phases."""
    syncer.write([settings_map(), hook("before", "PreDelete"), hook("after", "PostDelete")])
    await syncer.sync()

    result = await syncer.sync(delete="cascade")

    assert result.outcome is Outcome.SUCCEEDED, result
    assert [(each.name, each.phase, each.action.value) for each in result.resources if each.kind == "Job"] == [
        ("before", "PreDelete", "created"),
        ("after", "PostDelete", "created"),
    ]


async def test_hooks_of_earlier_syncs_go_too(syncer: Syncer, cluster: Cluster) -> None:
    """They are kept to be looked at, and nobody's once their Application is no more; orphaned objects keep theirs."""
    jobs = ResourceType(group="batch", version="v1", kind="Job", plural="jobs", namespaced=True)
    syncer.write([settings_map(), hook("migrate", "PreSync")])
    await syncer.sync()
    assert await exists(cluster, jobs, syncer.namespace, "migrate")
    syncer.write([settings_map(data={"level": "debug"})])  # its last release has no hook any more
    await syncer.sync()
    await syncer.sync(delete="cascade")
    await eventually(lambda: _is_gone(cluster, jobs, syncer.namespace, "migrate"))


async def _is_gone(cluster: Cluster, resource_type: ResourceType, namespace: str, name: str) -> bool:
    return not await exists(cluster, resource_type, namespace, name)


async def test_a_failing_predelete_hook_keeps_everything(syncer: Syncer, cluster: Cluster) -> None:
    """A backup that failed is no reason to go on."""
    syncer.write([settings_map(), hook("backup", "PreDelete", image="registry.example/fail:fail")])
    await syncer.sync()

    result = await syncer.sync(delete="cascade")

    assert result.outcome is Outcome.FAILED
    assert await exists(cluster, CONFIG_MAPS, syncer.namespace, "settings")
    stored = await InventoryStore(cluster.client, "shop", syncer.namespace).read()
    assert {entry.name for entry in stored.inventory.entries} == {"settings"}


async def test_what_can_not_be_removed_is_not_forgotten(syncer: Syncer, cluster: Cluster) -> None:
    """A finalizer holds one object: the rest goes, the record stays, and the next attempt ends it."""
    syncer.write([settings_map("held", finalizers=["example.test/hold"]), settings_map()])
    await syncer.sync()

    first = await syncer.sync(delete="cascade", timeout="4s")
    stored = await InventoryStore(cluster.client, "shop", syncer.namespace).read()
    await cluster.client.patch(CONFIG_MAPS, syncer.namespace, "held", {"metadata": {"finalizers": None}})
    second = await syncer.sync(delete="cascade")

    assert first.outcome in (Outcome.FAILED, Outcome.TIMED_OUT)
    assert "example.test/hold" in first.message
    assert {entry.name for entry in stored.inventory.entries} == {"held"}
    assert second.outcome is Outcome.SUCCEEDED
    assert not await exists(cluster, CONFIG_MAPS, syncer.namespace, "held")


async def test_an_application_that_owns_nothing_is_already_gone(syncer: Syncer) -> None:
    """Ending it twice is no fault."""
    result = await syncer.sync(delete="cascade")
    assert (result.outcome, result.requests.writes) == (Outcome.SUCCEEDED, 0)
    assert "owns nothing" in result.message
