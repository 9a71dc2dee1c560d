"""Hooks around a sync: order, failure, cleaning up, and going on after a crash."""

import pytest

from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.inventories import InventoryStore
from delegate.model.hooks import FINALIZER
from delegate.model.inventory import InventoryState
from delegate.model.resource_types import CONFIG_MAPS, JOBS
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, TaskResult
from tests.cluster.syncing import Syncer, actions, deployment, settings_map

HOOK = "argocd.argoproj.io/hook"
POLICY = "argocd.argoproj.io/hook-delete-policy"


def job(name: str, phase: str, *, image: str = "tool:1", **annotations: str) -> JsonObject:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": image}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "annotations": {HOOK: phase, **annotations}},
        "spec": {"backoffLimit": 0, "template": template},
    }


def phases(result: TaskResult) -> dict[str, str]:
    return {f"{each.kind}/{each.name}": each.phase for each in result.resources}


async def test_hooks_run_in_their_phases_and_are_no_members(syncer: Syncer, cluster: Cluster) -> None:
    """PreSync before, PostSync after; none of them is in the inventory, and none makes the next sync write."""
    syncer.write([job("after", "PostSync"), settings_map(), job("before", "PreSync"), job("never", "Skip")])

    result = await syncer.sync()
    again = await syncer.sync()

    assert result.outcome is Outcome.SUCCEEDED, result
    assert phases(result) == {"ConfigMap/settings": "Sync", "Job/before": "PreSync", "Job/after": "PostSync"}
    created = {}
    for name in ("before", "after"):
        live = await cluster.client.get(JOBS, syncer.namespace, name)
        assert FINALIZER not in (live["metadata"].get("finalizers") or ())
        created[name] = int(live["metadata"]["resourceVersion"])
    stored = await InventoryStore(cluster.client, "shop", syncer.namespace).read()
    assert [entry.name for entry in stored.inventory.entries] == ["settings"]
    assert (again.requests.writes, actions(again)) == (0, {"ConfigMap/settings": "unchanged"})


async def test_a_failed_presync_hook_stops_the_sync_before_anything_is_applied(syncer: Syncer, cluster: Cluster) -> None:
    """Nothing of the set is written when what has to run before it fails; the fail hook runs; the error has file and line."""
    syncer.write([settings_map(), job("before", "PreSync", image="tool:fail"), job("cleanup", "SyncFail")])

    result = await syncer.sync()

    assert result.outcome is Outcome.FAILED, result
    assert result.error is not None
    assert (result.error.code, result.error.file) == ("dependency.hook_failed", "set.yaml")
    assert actions(result)["ConfigMap/settings"] == "skipped"
    assert phases(result)["Job/cleanup"] == "SyncFail"
    with pytest.raises(NotFoundError):
        await cluster.client.get(CONFIG_MAPS, syncer.namespace, "settings")


async def test_a_failed_hook_runs_again_with_the_next_sync(syncer: Syncer) -> None:
    """A fixed hook replaces the failed one of the same name."""
    syncer.write([settings_map(), job("before", "PreSync", image="tool:fail")])
    await syncer.sync()
    syncer.write([settings_map(), job("before", "PreSync")])

    result = await syncer.sync()

    assert result.outcome is Outcome.SUCCEEDED, result


async def test_delete_policies_are_kept(syncer: Syncer, cluster: Cluster) -> None:
    """HookSucceeded takes a hook away once it has succeeded, also one that its own time to live has taken."""
    swift = job("swift", "PreSync", **{POLICY: "HookSucceeded"})
    fleeting = job("fleeting", "PreSync")
    fleeting["spec"]["ttlSecondsAfterFinished"] = 0
    syncer.write([settings_map(), swift, fleeting])

    result = await syncer.sync()

    assert result.outcome is Outcome.SUCCEEDED, result
    for name in ("swift",):
        with pytest.raises(NotFoundError):
            await cluster.client.get(JOBS, syncer.namespace, name)


async def test_sync_hooks_run_with_their_wave(syncer: Syncer) -> None:
    """A Sync hook of wave 1 runs after wave 0 and before wave 2; a failed one stops what comes later."""
    wave = "argocd.argoproj.io/sync-wave"
    first, last = settings_map("first"), settings_map("last", annotations={wave: "2"})
    syncer.write([last, first, job("between", "Sync", image="tool:fail", **{wave: "1"})])

    result = await syncer.sync()

    assert result.outcome is Outcome.FAILED
    assert actions(result) == {"ConfigMap/first": "created", "ConfigMap/last": "skipped", "Job/between": "failed"}


async def test_the_next_attempt_does_not_repeat_what_has_run(syncer: Syncer, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that dies between apply and PostSync leaves an unconfirmed record; the next one goes on with the same operation."""
    syncer.write([settings_map(), deployment(), job("before", "PreSync"), job("after", "PostSync", image="tool:fail")])
    await syncer.sync()
    before = await cluster.client.get(JOBS, syncer.namespace, "before")
    stored = await InventoryStore(cluster.client, "shop", syncer.namespace).read()
    assert stored.inventory.state is InventoryState.INTENDED

    again = await syncer.sync()

    assert again.outcome is Outcome.FAILED
    same = await cluster.client.get(JOBS, syncer.namespace, "before")
    assert same["metadata"]["uid"] == before["metadata"]["uid"]


async def test_a_bad_hook_is_found_before_anything_is_written(syncer: Syncer) -> None:
    """Hooks are dry-run with the rest of the set."""
    broken = job("before", "PreSync")
    broken["spec"]["templte"] = {}
    syncer.write([settings_map(), broken])

    result = await syncer.sync()

    assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0), result
    assert result.error is not None
    assert "templte" in result.error.message


async def test_a_generated_hook_name_is_the_same_within_an_operation(syncer: Syncer) -> None:
    """A hook with generateName gets a name of its operation and runs once."""
    hook = job("x", "PreSync")
    hook["metadata"] = {"generateName": "migrate-", "annotations": {HOOK: "PreSync"}}
    syncer.write([settings_map(), hook])

    result = await syncer.sync()

    assert result.outcome is Outcome.SUCCEEDED, result
    assert [each.name.startswith("migrate-") for each in result.resources if each.kind == "Job"] == [True]
