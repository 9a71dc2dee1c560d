"""Sync from end to end: create, leave alone, put right, prune, refuse."""

from pathlib import Path

import pytest

from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.inventories import InventoryStore
from delegate.model.applied import APPLIED_ANNOTATION, PART_OF_LABEL
from delegate.model.inventory import InventoryState
from delegate.model.resource_types import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, SECRETS
from delegate.model.results import Outcome, SyncStatus
from tests.cluster.conftest import Server
from tests.cluster.servers import drop_namespace
from tests.cluster.syncing import Syncer, actions, deployment, resource, settings_map, syncer_for


async def test_creates_a_set_and_waits_until_it_is_healthy(syncer: Syncer, cluster: Cluster) -> None:
    """A first sync creates everything, marked and labelled, and ends once the workload is up."""
    syncer.write([settings_map(), deployment()])

    result = await syncer.sync()

    assert (result.outcome, result.sync, result.health) == ("succeeded", "Synced", "Healthy"), result
    assert actions(result) == {"ConfigMap/settings": "created", "Deployment/web": "created"}
    live = await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web")
    assert live["status"]["availableReplicas"] == 2
    assert APPLIED_ANNOTATION in live["metadata"]["annotations"]
    assert PART_OF_LABEL in live["metadata"]["labels"]
    assert live["metadata"]["managedFields"][0]["manager"] == "delegate"


async def test_a_second_sync_of_an_unchanged_set_writes_nothing(syncer: Syncer) -> None:
    """Metadata alone proves the set synced: no write, no dry run."""
    syncer.write([settings_map(), deployment()])
    await syncer.sync()

    again = await syncer.sync()

    assert (again.outcome, again.requests.writes, again.requests.dry_runs) == (Outcome.SUCCEEDED, 0, 0)
    assert set(actions(again).values()) == {"unchanged"}


async def test_puts_right_what_somebody_changed_by_hand(syncer: Syncer, cluster: Cluster) -> None:
    """A foreign change of a field that we applied is shown leaf by leaf and taken back; what others added stays."""
    syncer.write([settings_map(data={"level": "info"}), deployment()])
    await syncer.sync()
    patch = {"data": {"level": "debug", "theirs": "1"}}
    await cluster.client.patch(CONFIG_MAPS, syncer.namespace, "settings", patch, manager="somebody")

    seen = await syncer.diff()
    result = await syncer.sync()

    assert (seen.sync, seen.requests.writes) == (SyncStatus.OUT_OF_SYNC, 0)
    changes = [(change.path, change.before, change.after) for change in resource(result, "ConfigMap", "settings").changes]
    assert changes == [("/data/level", "debug", "info")]
    assert any("somebody" in notice for notice in result.notices)
    live = await cluster.client.get(CONFIG_MAPS, syncer.namespace, "settings")
    assert live["data"] == {"level": "info", "theirs": "1"}


async def test_recreates_what_somebody_deleted(syncer: Syncer, cluster: Cluster) -> None:
    """An object that vanished is created again."""
    syncer.write([settings_map()])
    await syncer.sync()
    live = await cluster.client.get(CONFIG_MAPS, syncer.namespace, "settings")
    await cluster.client.delete(CONFIG_MAPS, syncer.namespace, "settings", uid=live["metadata"]["uid"])

    result = await syncer.sync()

    assert actions(result) == {"ConfigMap/settings": "created"}


async def test_what_is_no_longer_wanted_is_kept_without_prune(syncer: Syncer, cluster: Cluster) -> None:
    """Prune is off unless asked; the leftover makes the Application OutOfSync and stays in the inventory."""
    syncer.write([settings_map("one"), settings_map("two")])
    await syncer.sync()
    syncer.write([settings_map("one")])

    result = await syncer.sync()

    assert (result.outcome, result.sync) == (Outcome.SUCCEEDED, SyncStatus.OUT_OF_SYNC)
    assert await cluster.client.get(CONFIG_MAPS, syncer.namespace, "two")
    stored = await InventoryStore(cluster.client, "shop", syncer.namespace).read()
    assert {entry.name for entry in stored.inventory.entries} == {"one", "two"}


async def test_prunes_what_is_no_longer_wanted(syncer: Syncer, cluster: Cluster) -> None:
    """With prune, what an Application owned and no longer wants is deleted and forgotten; nothing else is touched."""
    syncer.write([settings_map("one"), settings_map("two")])
    await syncer.sync()
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "foreign", "namespace": syncer.namespace}}
    await cluster.client.create(CONFIG_MAPS, foreign)
    syncer.write([settings_map("one")])

    result = await syncer.sync(prune=True)

    assert actions(result) == {"ConfigMap/one": "unchanged", "ConfigMap/two": "pruned"}
    with pytest.raises(NotFoundError):
        await cluster.client.get(CONFIG_MAPS, syncer.namespace, "two")
    assert await cluster.client.get(CONFIG_MAPS, syncer.namespace, "foreign")
    stored = await InventoryStore(cluster.client, "shop", syncer.namespace).read()
    assert {entry.name for entry in stored.inventory.entries} == {"one"}


async def test_an_object_that_was_made_anew_by_somebody_else_is_not_pruned(syncer: Syncer, cluster: Cluster) -> None:
    """Somebody else's object under the name of one of ours is left alone (sync case 19.5)."""
    syncer.write([settings_map("one"), settings_map("two")])
    await syncer.sync()
    live = await cluster.client.get(CONFIG_MAPS, syncer.namespace, "two")
    await cluster.client.delete(CONFIG_MAPS, syncer.namespace, "two", uid=live["metadata"]["uid"])
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "two", "namespace": syncer.namespace}}
    await cluster.client.create(CONFIG_MAPS, theirs)
    syncer.write([settings_map("one")])

    result = await syncer.sync(prune=True)

    assert "ConfigMap/two" not in actions(result)
    assert any("left alone" in notice for notice in result.notices)
    assert await cluster.client.get(CONFIG_MAPS, syncer.namespace, "two")


async def test_an_empty_set_does_not_prune_everything(syncer: Syncer, cluster: Cluster) -> None:
    """A source that renders nothing but comments takes nothing away without being told so on purpose."""
    syncer.write([settings_map("one")])
    await syncer.sync()
    syncer.write("# nothing left\n")

    seen = await syncer.run("diff", prune=True)
    result = await syncer.sync(prune=True)

    assert actions(seen) == {"ConfigMap/one": "pruned"}  # to be looked at, and approved
    assert result.outcome is Outcome.REFUSED
    assert result.error is not None
    assert seen.plan_hash in result.error.hint
    assert await cluster.client.get(CONFIG_MAPS, syncer.namespace, "one")


async def test_a_survivor_of_a_prune_is_reported_and_tried_again(syncer: Syncer, cluster: Cluster) -> None:
    """An object that its finalizer holds is reported with it, stays in the inventory, and goes when it is let go (case 19)."""
    syncer.write([settings_map("keep"), settings_map("held", finalizers=["example.test/hold"]), settings_map("loose")])
    await syncer.sync()
    syncer.write([settings_map("keep")])

    result = await syncer.sync(prune=True, timeout="3s")

    assert result.outcome is Outcome.FAILED
    assert actions(result) == {"ConfigMap/keep": "unchanged", "ConfigMap/held": "failed", "ConfigMap/loose": "pruned"}
    assert result.error is not None
    assert "example.test/hold" in result.error.message
    stored = await InventoryStore(cluster.client, "shop", syncer.namespace).read()
    assert {entry.name for entry in stored.inventory.entries} == {"keep", "held"}

    await cluster.client.patch(CONFIG_MAPS, syncer.namespace, "held", {"metadata": {"finalizers": None}})
    again = await syncer.sync(prune=True)

    assert again.outcome is Outcome.SUCCEEDED
    stored = await InventoryStore(cluster.client, "shop", syncer.namespace).read()
    assert {entry.name for entry in stored.inventory.entries} == {"keep"}


async def test_one_bad_object_means_that_nothing_is_applied(syncer: Syncer, cluster: Cluster) -> None:
    """The dry run of the whole set finds the fault before the first write (case 19.1), with file, line and object."""
    syncer.write([settings_map("keep")])
    await syncer.sync()
    broken = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "broken"}, "spec": {"ports": []}}
    syncer.write([settings_map("keep"), settings_map("new"), broken])

    result = await syncer.sync(prune=True)

    assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0)
    assert result.error is not None
    assert result.error.file == "set.yaml"
    assert "Service" in result.error.object
    assert actions(result) == {"ConfigMap/keep": "unchanged", "ConfigMap/new": "skipped", "Service/broken": "failed"}
    with pytest.raises(NotFoundError):
        await cluster.client.get(CONFIG_MAPS, syncer.namespace, "new")


async def test_an_object_of_another_application_is_refused(server: Server, namespace: str, tmp_path: Path) -> None:
    """Two Applications can't own one object; the refusal names the owner (case 26.5)."""
    first = syncer_for(server.kubeconfig, tmp_path, namespace, "first")
    second = syncer_for(server.kubeconfig, tmp_path, namespace, "second")
    first.write([settings_map("shared")])
    second.write([settings_map("shared")])
    await first.sync()

    result = await second.sync()
    await first.engine.close()
    await second.engine.close()

    assert result.outcome is Outcome.REFUSED
    assert result.error is not None
    assert (result.error.code, "'first'" in result.error.message) == ("conflict.owned_elsewhere", True)


@pytest.mark.parametrize("way", ["adopt", "ignore"])
async def test_an_object_of_another_application_is_adopted_or_left_where_that_is_said(
    server: Server, cluster: Cluster, namespace: str, tmp_path: Path, way: str
) -> None:
    """By syncPolicy.shared (case 26.5): the last that says adopt has it; who ignores it neither writes it nor waits for it."""
    first = syncer_for(server.kubeconfig, tmp_path, namespace, "first")
    second = syncer_for(server.kubeconfig, tmp_path, namespace, "second")
    first.write([deployment("shared", image="nginx:1.0")])
    second.write([deployment("shared", image="nginx:2.0"), settings_map()])
    await first.sync()
    second.spec = {"syncPolicy": {"shared": way}}

    result = await second.sync()
    again = await second.sync()
    before = await first.sync()
    second.write([settings_map()])
    pruned = await second.sync(prune=True)
    await first.engine.close()
    await second.engine.close()

    assert result.outcome is Outcome.SUCCEEDED, result
    assert actions(result)["Deployment/shared"] == ("configured" if way == "adopt" else "skipped")
    assert again.requests.writes == 0
    assert (before.outcome is Outcome.SUCCEEDED) is (way == "ignore")
    assert ("Deployment/shared" in actions(pruned)) is (way == "adopt")


async def test_fields_that_others_own_on_a_foreign_object_are_a_conflict(syncer: Syncer, cluster: Cluster) -> None:
    """An object that is not ours yet is not taken over by force; with force it is."""
    theirs = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": syncer.namespace},
        "data": {"level": "debug"},
    }
    await cluster.client.create(CONFIG_MAPS, theirs, manager="somebody")
    syncer.write([settings_map(data={"level": "info"})])

    refused = await syncer.sync()
    forced = await syncer.sync(force=True)

    assert refused.error is not None
    assert (refused.outcome, refused.error.code) == (Outcome.REFUSED, "conflict.field_manager")
    assert "somebody" in refused.error.hint
    assert forced.outcome is Outcome.SUCCEEDED


async def test_a_secret_value_is_in_no_result(syncer: Syncer, cluster: Cluster) -> None:
    """A changed Secret is shown as changed, and nothing of its value with it."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"password": "hunter2-first"}}
    syncer.write([secret])
    await syncer.sync()
    syncer.write([secret | {"stringData": {"password": "hunter2-second"}}])

    result = await syncer.sync()

    shown = repr(result)
    assert resource(result, "Secret", "key").changes[0].path == "/data/password"
    assert "hunter2" not in shown
    assert "aHVudGVyMi" not in shown
    live = await cluster.client.get(SECRETS, syncer.namespace, "key")
    assert set(live["data"]) == {"password"}


async def test_creates_the_destination_namespace_when_asked(server: Server, cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """CreateNamespace makes the namespace, which the Application does not own; without it the one missing thing is named once."""
    syncer = syncer_for(server.kubeconfig, tmp_path, f"{namespace}-made")
    syncer.write([settings_map("one"), settings_map("two")])

    refused = await syncer.sync()
    syncer.sync_options = ["CreateNamespace=true"]
    result = await syncer.sync()
    await syncer.engine.close()

    assert (refused.outcome, len(refused.errors)) == (Outcome.REFUSED, 1)
    assert result.outcome is Outcome.SUCCEEDED, result
    made = await cluster.client.get(NAMESPACES, "", syncer.namespace)
    assert PART_OF_LABEL not in (made["metadata"].get("labels") or {})
    await drop_namespace(cluster.client, made)


async def test_a_namespace_that_was_created_keeps_what_the_application_says_of_it(
    server: Server, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """Labels that come later or that somebody changed are set, as Argo CD does; a diff says so, and then nothing is left to do."""
    syncer = syncer_for(server.kubeconfig, tmp_path, f"{namespace}-kept")
    syncer.write([settings_map()])

    def managed(**labels: str) -> None:
        syncer.spec = {"syncPolicy": {"syncOptions": ["CreateNamespace=true"], "managedNamespaceMetadata": {"labels": labels}}}

    managed(team="a")
    await syncer.sync()
    managed(team="b", tier="1")
    seen = await syncer.diff()
    await syncer.sync()
    again = await syncer.sync()
    made = await cluster.client.get(NAMESPACES, "", syncer.namespace)
    await syncer.engine.close()
    await drop_namespace(cluster.client, made)

    assert (seen.sync, seen.requests.writes) == (SyncStatus.OUT_OF_SYNC, 0)
    assert any("gets the labels team, tier" in notice for notice in seen.notices)
    assert {"team": "b", "tier": "1"}.items() <= made["metadata"]["labels"].items()
    assert (again.sync, again.requests.writes) == (SyncStatus.SYNCED, 0)


async def test_a_namespace_of_the_set_comes_before_its_objects(server: Server, cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """The destination namespace may be in the set: it is made first, and owned (case 26.4)."""
    syncer = syncer_for(server.kubeconfig, tmp_path, f"{namespace}-own")
    own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": syncer.namespace}}
    syncer.write([settings_map(), deployment(), own])

    result = await syncer.sync()
    again = await syncer.sync()
    await syncer.engine.close()

    assert result.outcome is Outcome.SUCCEEDED, result
    assert set(actions(result).values()) == {"created"}
    assert (again.requests.writes, set(actions(again).values())) == (0, {"unchanged"})
    made = await cluster.client.get(NAMESPACES, "", syncer.namespace)
    assert PART_OF_LABEL in made["metadata"]["labels"]
    await drop_namespace(cluster.client, made)


async def test_the_inventory_is_confirmed_after_a_sync(syncer: Syncer, cluster: Cluster) -> None:
    """The record in the cluster holds every object with its uid."""
    syncer.write([settings_map("one"), settings_map("two")])
    await syncer.sync()

    stored = await InventoryStore(cluster.client, "shop", syncer.namespace).read()

    assert stored.inventory.state is InventoryState.CONFIRMED
    live = await cluster.client.get(CONFIG_MAPS, syncer.namespace, "one")
    assert {entry.name: entry.uid for entry in stored.inventory.entries}["one"] == live["metadata"]["uid"]


async def test_a_user_without_permission_is_told_the_rule_to_add(server: Server, namespace: str, tmp_path: Path) -> None:
    """A sync without rights touches nothing and names verb, resource and namespace."""
    syncer = syncer_for(server.limited_kubeconfig, tmp_path, namespace)
    syncer.write([settings_map()])

    result = await syncer.sync()
    await syncer.engine.close()

    assert result.error is not None
    assert (result.outcome, result.error.code, result.requests.writes) == (Outcome.REFUSED, "permission.rbac", 0)
    assert "configmaps" in result.error.hint
    assert namespace in result.error.hint


async def test_takes_over_from_client_side_apply_once(syncer: Syncer, cluster: Cluster) -> None:
    """What kubectl applied and the set no longer has goes, with its last-applied annotation; nobody has to force (cases 15.2, 16)."""
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "theirs": "1"}
    theirs = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": syncer.namespace, "annotations": annotations},
        "data": {"level": "debug", "old": "1"},
    }
    await cluster.client.create(CONFIG_MAPS, theirs, manager="kubectl-client-side-apply")
    await cluster.client.patch(CONFIG_MAPS, syncer.namespace, "settings", {"data": {"other": "1"}}, manager="somebody")
    syncer.write([settings_map(data={"level": "info"})])

    result = await syncer.sync()
    again = await syncer.sync()

    assert result.outcome is Outcome.SUCCEEDED, result
    changes = {(change.path, change.before) for change in resource(result, "ConfigMap", "settings").changes}
    assert {("/data/level", "debug"), ("/data/old", "1"), ("/metadata/annotations/theirs", "1")} <= changes
    live = await cluster.client.get(CONFIG_MAPS, syncer.namespace, "settings")
    assert live["data"] == {"level": "info", "other": "1"}
    assert set(live["metadata"]["annotations"]) == {APPLIED_ANNOTATION}
    assert (again.requests.writes, again.requests.dry_runs) == (0, 0)
