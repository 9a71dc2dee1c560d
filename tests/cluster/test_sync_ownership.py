"""Fields that somebody else drives: left alone where that is said, named where it isn't, and never fought over."""

import pytest

from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.inventories import InventoryStore
from delegate.model.health.verdicts import HealthStatus
from delegate.model.resource_types import CONFIG_MAPS, DEPLOYMENTS
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, SyncStatus
from tests.cluster.syncing import Syncer, actions, deployment, resource, settings_map


async def somebody_sets(cluster: Cluster, syncer: Syncer, data: JsonObject, manager: str = "somebody") -> None:
    await cluster.client.patch(CONFIG_MAPS, syncer.namespace, "settings", {"data": data}, manager=manager)


async def data_of(cluster: Cluster, syncer: Syncer) -> JsonObject:
    live: JsonObject = (await cluster.client.get(CONFIG_MAPS, syncer.namespace, "settings"))["data"]
    return live


async def test_an_ignored_field_keeps_what_somebody_set(syncer: Syncer, cluster: Cluster) -> None:
    """Also when another field of the object changes: the rest is applied, the ignored field isn't even for a moment (case 17)."""
    syncer.spec = {"ignoreDifferences": [{"group": "apps", "kind": "Deployment", "jsonPointers": ["/spec/replicas"]}]}
    syncer.write([deployment(replicas=2)])
    await syncer.sync()
    await cluster.client.patch(DEPLOYMENTS, syncer.namespace, "web", {"spec": {"replicas": 3}}, manager="operator")

    unchanged = await syncer.sync()
    syncer.write([deployment(replicas=2, image="nginx:2.0")])
    result = await syncer.sync()
    again = await syncer.sync()

    assert (unchanged.outcome, unchanged.sync) == (Outcome.SUCCEEDED, SyncStatus.SYNCED)
    live = await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web")
    assert live["spec"]["replicas"] == 3
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2.0"
    assert [change.path for change in resource(result, "Deployment", "web").changes] == ["/spec/template/spec/containers/0/image"]
    assert again.requests.writes == 0


async def test_an_ignored_field_that_is_ours_alone_is_not_reset(syncer: Syncer, cluster: Cluster) -> None:
    """The rule comes after the first sync: what we own and no longer state would be taken away or fall back to its default."""
    syncer.write([deployment(replicas=3)])
    await syncer.sync()
    syncer.spec = {"ignoreDifferences": [{"kind": "Deployment", "jsonPointers": ["/spec/replicas"]}]}
    syncer.write([deployment(replicas=1, image="nginx:2.0")])

    await syncer.sync()

    assert (await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web"))["spec"]["replicas"] == 3


async def test_an_ignored_field_is_applied_when_the_object_is_created(syncer: Syncer, cluster: Cluster) -> None:
    """There is nothing to leave alone yet."""
    syncer.spec = {"ignoreDifferences": [{"kind": "ConfigMap", "jsonPointers": ["/data/level"]}]}
    syncer.write([settings_map(data={"level": "info"})])
    await syncer.sync()
    assert await data_of(cluster, syncer) == {"level": "info"}


async def test_fields_are_ignored_by_their_manager(syncer: Syncer, cluster: Cluster) -> None:
    """What the named manager owns stays; another's change is put right."""
    syncer.spec = {"ignoreDifferences": [{"kind": "ConfigMap", "managedFieldsManagers": ["tuner"]}]}
    syncer.write([settings_map(data={"level": "info", "size": "1"})])
    await syncer.sync()
    await somebody_sets(cluster, syncer, {"level": "debug"}, "tuner")
    await somebody_sets(cluster, syncer, {"size": "2"}, "somebody")

    await syncer.sync()

    assert await data_of(cluster, syncer) == {"level": "debug", "size": "1"}


async def test_fields_are_ignored_by_a_jq_expression(syncer: Syncer, cluster: Cluster) -> None:
    """One container's image, found by the container's name."""
    expression = '.spec.template.spec.containers[] | select(.name == "main") | .image'
    syncer.spec = {"ignoreDifferences": [{"kind": "Deployment", "jqPathExpressions": [expression]}]}
    syncer.write([deployment(image="nginx:1.0")])
    await syncer.sync()
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:9"}]}}}}
    await cluster.client.patch(DEPLOYMENTS, syncer.namespace, "web", patch, kind="strategic", manager="updater")

    result = await syncer.sync()

    live = await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web")
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:9"
    assert result.sync is SyncStatus.SYNCED


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("last(range(1e12))", "took more than they may"),
        ("def f: [.,.] | f; f", "took more than they may"),
        (".spec[", "jqPathExpressions"),
        ("1 + 1", "jqPathExpressions"),
        ("env", "jqPathExpressions"),
    ],
)
async def test_an_expression_that_names_no_fields_is_refused(syncer: Syncer, expression: str, words: str) -> None:
    """One that never ends, takes all memory or isn't one: nothing is written, and the daemon goes on."""
    syncer.write([settings_map()])
    await syncer.sync()
    syncer.spec = {"ignoreDifferences": [{"kind": "ConfigMap", "jqPathExpressions": [expression]}]}
    syncer.write([settings_map(data={"level": "debug"})])

    result = await syncer.sync()

    assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0)
    assert result.error is not None
    assert result.error.code == "input.query"
    assert words in result.error.message


async def test_a_rule_that_matches_no_field_is_named(syncer: Syncer) -> None:
    """A slip in a pointer must not look like a field well ignored."""
    syncer.write([settings_map()])
    await syncer.sync()
    syncer.spec = {"ignoreDifferences": [{"kind": "ConfigMap", "jsonPointers": ["/data/levle"]}]}
    syncer.write([settings_map(data={"level": "debug"})])

    result = await syncer.sync()

    assert any("/data/levle" in notice and "matches no field" in notice for notice in result.notices)


async def test_merge_leaves_what_others_changed(syncer: Syncer, cluster: Cluster) -> None:
    """By an annotation of the object; a value that only we set is still ours to change."""
    syncer.write([settings_map(data={"level": "info", "size": "1"}, annotations={"delegate.gitops/ownership": "merge"})])
    await syncer.sync()
    await somebody_sets(cluster, syncer, {"level": "debug"})
    syncer.write([settings_map(data={"level": "info", "size": "2"}, annotations={"delegate.gitops/ownership": "merge"})])

    result = await syncer.sync()

    assert await data_of(cluster, syncer) == {"level": "debug", "size": "2"}
    assert any("left to somebody" in notice for notice in result.notices)
    assert (await syncer.sync()).requests.writes == 0


async def test_merge_adopts_what_exists_without_taking_it(syncer: Syncer, cluster: Cluster) -> None:
    """An object that others made, and that differs: no conflict, and nothing of theirs changes."""
    existing = settings_map(data={"level": "debug"})
    existing["metadata"]["namespace"] = syncer.namespace
    await cluster.client.create(CONFIG_MAPS, existing)
    syncer.spec = {"ownership": [{"kind": "ConfigMap", "mode": "merge"}]}
    syncer.write([settings_map(data={"level": "info", "size": "1"})])

    result = await syncer.sync()

    assert result.outcome is Outcome.SUCCEEDED, result
    assert await data_of(cluster, syncer) == {"level": "debug", "size": "1"}


async def test_create_only_leaves_an_object_alone_once_it_exists(syncer: Syncer, cluster: Cluster) -> None:
    """Whoever changed it, and whatever the manifest says by now; it is still wanted, so it is never pruned."""
    only = {"delegate.gitops/ownership": "create-only"}
    syncer.write([settings_map(data={"level": "info"}, annotations=only)])
    await syncer.sync()
    await somebody_sets(cluster, syncer, {"level": "debug"})
    syncer.write([settings_map(data={"level": "warn"}, annotations=only)])

    result = await syncer.sync(prune=True)

    assert (result.outcome, actions(result)) == (Outcome.SUCCEEDED, {"ConfigMap/settings": "unchanged"})
    assert await data_of(cluster, syncer) == {"level": "debug"}


async def test_an_ignored_object_is_never_applied(syncer: Syncer, cluster: Cluster) -> None:
    """It is named as skipped."""
    syncer.spec = {"ownership": [{"kind": "ConfigMap", "name": "settings", "mode": "ignore"}]}
    syncer.write([settings_map(), settings_map("other")])

    result = await syncer.sync()

    assert actions(result) == {"ConfigMap/settings": "skipped", "ConfigMap/other": "created"}
    assert (await syncer.sync()).requests.writes == 0


async def test_replicas_that_an_autoscaler_set_stay(syncer: Syncer, cluster: Cluster) -> None:
    """Without any rule: the sync of a new image leaves them, and an autoscaler in the same set is pointed out (case 17)."""
    scaler: JsonObject = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "minReplicas": 2, "maxReplicas": 9},
    }
    syncer.write([deployment(replicas=2), scaler])
    first = await syncer.sync(wait=False)
    await _scale(cluster, syncer, 4)

    syncer.write([deployment(replicas=2, image="nginx:2.0"), scaler])
    result = await syncer.sync(wait=False)

    assert any("also driven by autoscaling/HorizontalPodAutoscaler" in notice for notice in first.notices)
    live = await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web")
    assert live["spec"]["replicas"] == 4
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2.0"
    assert any("left to kube-controller-manager" in notice for notice in result.notices)


async def _scale(cluster: Cluster, syncer: Syncer, replicas: int) -> None:
    """As the autoscaler's controller does it: by the scale subresource, under its name."""
    await cluster.client.patch(
        DEPLOYMENTS, syncer.namespace, "web", {"spec": {"replicas": replicas}}, manager="kube-controller-manager", subresource="scale"
    )


async def test_a_field_that_somebody_keeps_setting_is_not_fought_over(syncer: Syncer, cluster: Cluster) -> None:
    """Put right three times, then left alone and named: the Application is OutOfSync, and says with whom (case 27)."""
    syncer.write([settings_map(data={"level": "info"})])
    await syncer.sync()
    for _ in range(3):
        await somebody_sets(cluster, syncer, {"level": "debug"}, "fighter")
        assert (await syncer.sync()).requests.writes > 0
        assert await data_of(cluster, syncer) == {"level": "info"}
    await somebody_sets(cluster, syncer, {"level": "debug"}, "fighter")

    result = await syncer.sync()

    assert (result.outcome, result.sync, result.requests.writes) == (Outcome.SUCCEEDED, SyncStatus.OUT_OF_SYNC, 0)
    assert any("fighter keeps setting .data.level" in notice for notice in result.notices)
    assert await data_of(cluster, syncer) == {"level": "debug"}
    stored = await InventoryStore(cluster.client, "shop", syncer.namespace).read()
    assert [(contest.name, contest.managers, contest.count) for contest in stored.inventory.contests] == [("settings", ("fighter",), 3)]


async def test_a_new_version_of_an_object_ends_the_truce(syncer: Syncer, cluster: Cluster) -> None:
    """Somebody may have settled it in the source; and force takes the field at once."""
    syncer.write([settings_map(data={"level": "info"})])
    await syncer.sync()
    for _ in range(3):
        await somebody_sets(cluster, syncer, {"level": "debug"}, "fighter")
        await syncer.sync()
    await somebody_sets(cluster, syncer, {"level": "debug"}, "fighter")

    syncer.write([settings_map(data={"level": "warn"})])
    await syncer.sync()
    renewed = await data_of(cluster, syncer)
    await somebody_sets(cluster, syncer, {"level": "debug"}, "fighter")
    await syncer.sync(force=True)

    assert renewed == {"level": "warn"}
    assert await data_of(cluster, syncer) == {"level": "warn"}


@pytest.mark.parametrize("manager", ["argocd-controller", "helm"])
async def test_an_application_is_taken_over_from_the_tool_it_comes_from(syncer: Syncer, cluster: Cluster, manager: str) -> None:
    """Once named, its fields become ours as those of client-side apply do, with those that the manifest no longer has (case 16.2)."""
    theirs = settings_map(data={"level": "debug", "drop": "1"}, namespace=syncer.namespace, finalizers=["example.test/hold"])
    theirs["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    await cluster.client.create(CONFIG_MAPS, theirs, manager=manager)
    await somebody_sets(cluster, syncer, {"tuned": "9"}, "tuner")
    syncer.write([settings_map(data={"level": "info"})])

    refused = await syncer.sync()
    syncer.spec = {"syncPolicy": {"takeOverFrom": [manager]}}
    seen = await syncer.diff()
    result = await syncer.sync()
    again = await syncer.sync()

    assert refused.error is not None
    assert f"takeOverFrom: [{manager}]" in refused.error.hint
    for each in (seen, result):
        assert {change.path for change in resource(each, "ConfigMap", "settings").changes} >= {"/data/drop", "/data/level"}
    live = await cluster.client.get(CONFIG_MAPS, syncer.namespace, "settings")
    assert live["data"] == {"level": "info", "tuned": "9"}
    assert "kubectl.kubernetes.io/last-applied-configuration" not in live["metadata"]["annotations"]
    assert live["metadata"]["finalizers"] == ["example.test/hold"]
    assert (again.requests.writes, again.requests.dry_runs) == (0, 0)
    await cluster.client.patch(CONFIG_MAPS, syncer.namespace, "settings", {"metadata": {"finalizers": None}})


async def test_what_was_adopted_before_is_taken_over_when_its_tool_is_named(syncer: Syncer, cluster: Cluster) -> None:
    """The object is ours and in sync already; a field that only the other tool has still goes."""
    theirs = settings_map(data={"level": "info", "drop": "1"}, namespace=syncer.namespace)
    await cluster.client.create(CONFIG_MAPS, theirs, manager="argocd-controller")
    syncer.write([settings_map(data={"level": "info"})])
    await syncer.sync()
    kept = await data_of(cluster, syncer)
    syncer.spec = {"syncPolicy": {"takeOverFrom": ["argocd-controller"]}}

    await syncer.sync()

    assert kept == {"level": "info", "drop": "1"}
    assert await data_of(cluster, syncer) == {"level": "info"}
    assert (await syncer.sync()).requests.writes == 0


@pytest.mark.parametrize("exists", [False, True])
async def test_an_ignored_workload_is_not_waited_for(syncer: Syncer, cluster: Cluster, exists: bool) -> None:
    """Whether it is there and how it is doing is somebody else's business."""
    broken = deployment(image="registry.example/broken:broken", annotations={"delegate.gitops/ownership": "ignore"})
    if exists:
        theirs = {**broken, "metadata": {"name": "web", "namespace": syncer.namespace}}
        await cluster.client.create(DEPLOYMENTS, theirs)
    syncer.write([settings_map(), broken])

    result = await syncer.sync(failFastAfter="1s")

    assert result.outcome is Outcome.SUCCEEDED, result
    assert actions(result) == {"ConfigMap/settings": "created", "Deployment/web": "skipped"}


async def test_a_workload_that_is_only_ever_created_is_waited_for_as_it_is(syncer: Syncer, cluster: Cluster) -> None:
    """It was there before and is nobody's: it has no label of ours to be found by, and is looked at all the same."""
    only = deployment(annotations={"delegate.gitops/ownership": "create-only"})
    await cluster.client.create(DEPLOYMENTS, {**only, "metadata": {"name": "web", "namespace": syncer.namespace}})
    syncer.write([settings_map(), only])

    result = await syncer.sync()
    again = await syncer.sync()

    assert (result.outcome, result.health) == (Outcome.SUCCEEDED, HealthStatus.HEALTHY), result
    assert actions(result)["Deployment/web"] == "unchanged"
    assert (again.outcome, again.requests.writes) == (Outcome.SUCCEEDED, 0)


async def test_a_truce_with_one_writer_shields_no_other(syncer: Syncer, cluster: Cluster) -> None:
    """What is fought over is left alone; what somebody else changes meanwhile is put right, and the truce goes on (case 27)."""
    syncer.write([settings_map(data={"level": "info", "size": "1"})])
    await syncer.sync()
    for _ in range(3):
        await somebody_sets(cluster, syncer, {"level": "debug"}, "fighter")
        await syncer.sync()
    await somebody_sets(cluster, syncer, {"level": "debug"}, "fighter")
    await somebody_sets(cluster, syncer, {"size": "2"}, "somebody")

    result = await syncer.sync()
    again = await syncer.sync()

    assert await data_of(cluster, syncer) == {"level": "debug", "size": "1"}
    assert (result.outcome, result.sync) == (Outcome.SUCCEEDED, SyncStatus.OUT_OF_SYNC)
    assert any("fighter keeps setting .data.level, 3 times by now" in notice for notice in result.notices)
    assert (again.sync, again.requests.writes) == (SyncStatus.OUT_OF_SYNC, 0)
