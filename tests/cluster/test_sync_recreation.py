"""Objects whose change the server refuses for good: made anew only where that was asked for, and would work."""

import pytest

from delegate.engine.clusters.registry import Cluster
from delegate.model.resource_types import CONFIG_MAPS, JOBS, PODS, SERVICES, STATEFUL_SETS
from delegate.model.resources import JsonObject, ResourceType
from delegate.model.results import Outcome
from tests.cluster.syncing import Syncer, actions, resource, settings_map

REPLACE = {"argocd.argoproj.io/sync-options": "Replace=true"}


def job(image: str = "complete:1", **metadata: object) -> JsonObject:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": image}]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate", **metadata}, "spec": {"template": {"spec": pod}}}


def stateful_set(size: str = "1Gi", **metadata: object) -> JsonObject:
    labels = {"app": "db"}
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", **metadata},
        "spec": {
            "replicas": 1,
            "serviceName": "db",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "db:1"}]}},
            "volumeClaimTemplates": [claim],
        },
    }


def service(port: object = 80, cluster_ip: str = "") -> JsonObject:
    spec: JsonObject = {"selector": {"app": "web"}, "ports": [{"port": port}]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": spec | ({"clusterIP": cluster_ip} if cluster_ip else {}),
    }


async def uid_of(cluster: Cluster, syncer: Syncer, resource_type: ResourceType, name: str) -> str:
    return str((await cluster.client.get_metadata(resource_type, syncer.namespace, name))["metadata"]["uid"])


async def test_an_immutable_change_is_found_before_anything_is_written(syncer: Syncer, cluster: Cluster) -> None:
    """Without leave to replace, the whole set is left as it is, and the refusal says how to give it (case 13)."""
    syncer.write([settings_map(), job()])
    await syncer.sync(wait=False)
    syncer.write([settings_map(data={"level": "debug"}), job("complete:2")])

    result = await syncer.sync(wait=False)

    assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0)
    assert result.error is not None
    assert result.error.code == "input.immutable_field"
    assert "Replace=true" in result.error.hint
    assert (await cluster.client.get(CONFIG_MAPS, syncer.namespace, "settings"))["data"] == {"level": "info"}


@pytest.mark.parametrize("way", ["annotation", "application", "task"])
async def test_a_job_is_made_anew_where_that_is_allowed(syncer: Syncer, cluster: Cluster, way: str) -> None:
    """By the object, its Application or the task; the plan shows what changes, and says that it is deleted."""
    metadata: JsonObject = {"annotations": REPLACE} if way == "annotation" else {}
    syncer.write([job(**metadata)])
    await syncer.sync(wait=False)
    before = await uid_of(cluster, syncer, JOBS, "migrate")
    syncer.write([job("complete:2", **metadata)])
    syncer.sync_options = ["Replace=true"] if way == "application" else []

    seen = await syncer.run("sync", dryRun=True, replace=way == "task")
    result = await syncer.sync(wait=False, replace=way == "task")
    again = await syncer.sync(wait=False, replace=way == "task")

    assert await uid_of(cluster, syncer, JOBS, "migrate") != before
    assert actions(result) == {"Job/migrate": "configured"}
    assert "/spec/template/spec/containers/0/image" in [change.path for change in resource(seen, "Job", "migrate").changes]
    assert not [change.path for change in resource(seen, "Job", "migrate").changes if "controller-uid" in change.path]
    assert any("is deleted and made anew" in notice for notice in seen.notices)
    assert (again.outcome, again.requests.writes) == (Outcome.SUCCEEDED, 0)


async def test_a_stateful_set_is_made_anew_around_its_pods(syncer: Syncer, cluster: Cluster) -> None:
    """Its pods and claims stay where they are (case 12)."""
    syncer.write([stateful_set()])
    await syncer.sync()
    before = await uid_of(cluster, syncer, STATEFUL_SETS, "db")
    pod = await uid_of(cluster, syncer, PODS, "db-0")
    syncer.write([stateful_set("2Gi", annotations=REPLACE)])

    result = await syncer.sync()

    assert result.outcome is Outcome.SUCCEEDED, result
    assert await uid_of(cluster, syncer, STATEFUL_SETS, "db") != before
    assert await uid_of(cluster, syncer, PODS, "db-0") == pod


async def test_defaults_in_a_claim_template_are_no_drift(syncer: Syncer) -> None:
    """The server fills in an atomic list; the second sync finds nothing to do (case 12)."""
    syncer.write([stateful_set()])
    await syncer.sync()
    assert (await syncer.sync()).requests.writes == 0


async def test_a_merely_invalid_change_deletes_nothing(syncer: Syncer, cluster: Cluster) -> None:
    """With leave to replace, too: the refusal is no proof that a new object would be accepted (case 14)."""
    syncer.write([service()])
    await syncer.sync()
    before = await uid_of(cluster, syncer, SERVICES, "web")
    syncer.write([service(port=99999)])

    result = await syncer.sync(replace=True, force=True)

    assert result.outcome is Outcome.REFUSED
    assert await uid_of(cluster, syncer, SERVICES, "web") == before


async def test_nothing_is_deleted_where_the_new_object_would_be_refused(syncer: Syncer, cluster: Cluster) -> None:
    """The change is immutable and the new object invalid as well: the old one stays (case 14)."""
    syncer.write([job(annotations=REPLACE)])
    await syncer.sync(wait=False)
    before = await uid_of(cluster, syncer, JOBS, "migrate")
    broken = job("complete:2", annotations=REPLACE)
    broken["spec"]["backoffLimit"] = -1
    syncer.write([broken])

    result = await syncer.sync(wait=False)

    assert result.outcome is Outcome.REFUSED
    assert await uid_of(cluster, syncer, JOBS, "migrate") == before


async def test_a_claim_is_never_made_anew(syncer: Syncer, cluster: Cluster) -> None:
    """Its data would go with it, whatever options say."""
    claims = ResourceType(group="", version="v1", kind="PersistentVolumeClaim", plural="persistentvolumeclaims", namespaced=True)

    def claim(mode: str) -> JsonObject:
        spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none"}
        metadata = {"name": "data", "annotations": REPLACE}
        return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}

    syncer.write([claim("ReadWriteOnce")])
    await syncer.sync(wait=False)
    before = await uid_of(cluster, syncer, claims, "data")
    syncer.write([claim("ReadWriteMany")])

    result = await syncer.sync(wait=False, replace=True, force=True)

    assert result.outcome is Outcome.REFUSED
    assert result.error is not None
    assert "never deleted" in result.error.hint
    assert await uid_of(cluster, syncer, claims, "data") == before
