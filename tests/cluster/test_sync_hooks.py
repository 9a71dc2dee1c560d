"""Hooks around a sync: order, failure, cleaning up, and going on after a crash."""

import asyncio

import pytest

from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.inventories import InventoryStore
from delegate.engine.tasks.stopping import StopSignal, StopVerdict
from delegate.model.hooks import FINALIZER
from delegate.model.inventory import InventoryState
from delegate.model.resource_types import CONFIG_MAPS, JOBS
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, TaskResult
from tests.cluster.servers import eventually
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


def generated(prefix: str, phase: str = "PreSync", **options: str) -> JsonObject:
    hook = job("x", phase, **options)
    del hook["metadata"]["name"]
    hook["metadata"]["generateName"] = prefix
    return hook


async def exists(cluster: Cluster, syncer: Syncer, name: str) -> bool:
    try:
        await cluster.client.get_metadata(JOBS, syncer.namespace, name)
    except NotFoundError:
        return False
    return True


async def is_gone(cluster: Cluster, syncer: Syncer, name: str) -> bool:
    return not await exists(cluster, syncer, name)


async def held(cluster: Cluster, syncer: Syncer, name: str) -> bool:
    return FINALIZER in ((await cluster.client.get_metadata(JOBS, syncer.namespace, name))["metadata"].get("finalizers") or ())


async def hook_of(cluster: Cluster, syncer: Syncer) -> str:
    """The name of the one Job that there is."""
    await eventually(lambda: _jobs(cluster, syncer))
    (name,) = await _jobs(cluster, syncer)
    return name


async def _jobs(cluster: Cluster, syncer: Syncer) -> list[str]:
    return [item["metadata"]["name"] for item in (await cluster.client.list(JOBS, syncer.namespace)).items]


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
    assert not await exists(cluster, syncer, "swift")
    await eventually(lambda: is_gone(cluster, syncer, "fleeting"))


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


STUCK = "registry.example/broken:broken"


async def test_names_as_long_as_a_job_may_have_them(syncer: Syncer, cluster: Cluster) -> None:
    """Neither the digest of a generated name nor the name that a hook is checked under is one character too many."""
    plain = job("c" * 63, "PreSync")
    del plain["metadata"]["annotations"]
    dotted = settings_map(f"{'d' * 39}.{'d' * 30}", annotations={HOOK: "PreSync"})
    syncer.write([job("a" * 63, "PreSync"), generated("b" * 60 + "-"), dotted, plain, generated("e" * 60 + "-", "PostSync")])

    result = await syncer.sync()
    plain["metadata"]["annotations"] = {"delegate.gitops/sync-options": "Replace=true"}
    plain["spec"]["template"]["spec"]["containers"][0]["image"] = "tool:2"
    syncer.write([plain])
    anew = await syncer.sync()

    assert result.outcome is Outcome.SUCCEEDED, result
    assert all(len(each.name) <= 63 for each in result.resources if each.kind == "Job")
    assert anew.outcome is Outcome.SUCCEEDED, anew
    assert actions(anew) == {f"Job/{'c' * 63}": "configured"}


async def test_hooks_with_one_generated_name_each_run(syncer: Syncer) -> None:
    """Also where they come from the very same line."""
    syncer.write([settings_map(), {"apiVersion": "v1", "kind": "List", "items": [generated("migrate-"), generated("migrate-")]}])

    result = await syncer.sync()

    names = [each.name for each in result.resources if each.kind == "Job"]
    assert len(set(names)) == 2
    assert all(name.startswith("migrate-") for name in names)


async def test_a_hook_that_does_not_end_says_why_and_is_let_go(syncer: Syncer, cluster: Cluster) -> None:
    """The pod's own reason is in the error (sync case 21.3), and nothing of ours keeps the hook from being deleted (21.5)."""
    syncer.write([settings_map(), job("before", "PreSync", image=STUCK)])

    result = await syncer.sync(timeout="4s")

    assert result.error is not None
    assert result.error.code == "timeout.hook"
    assert STUCK in result.error.message
    assert not await held(cluster, syncer, "before")
    with pytest.raises(NotFoundError):
        await cluster.client.get(CONFIG_MAPS, syncer.namespace, "settings")


@pytest.mark.parametrize(
    ("verdict", "stays_held"), [(StopVerdict.CANCEL, False), (StopVerdict.SUPERSEDED, False), (StopVerdict.INTERRUPTED, True)]
)
async def test_a_hook_whose_sync_is_stopped_is_held_only_for_who_goes_on(
    syncer: Syncer, cluster: Cluster, verdict: StopVerdict, stays_held: bool
) -> None:
    """A delegate that restarts finds its outcome; where nobody will ask, nothing keeps it."""
    syncer.write([settings_map(), job("before", "PreSync", image=STUCK)])
    stop = StopSignal()
    running = asyncio.create_task(syncer.run(stop=stop))
    await hook_of(cluster, syncer)
    stop.request(verdict)

    await running

    assert await held(cluster, syncer, "before") is stays_held


@pytest.mark.parametrize("way", ["sync", "cascade", "orphan"])
async def test_a_hook_that_a_dead_attempt_left_is_let_go_by_what_comes_next(syncer: Syncer, cluster: Cluster, way: str) -> None:
    """Another set has another name for it, and the end of the Application none: it must not stay for ever (sync case 21.5)."""
    syncer.write([settings_map(), generated("migrate-", image=STUCK)])
    stop = StopSignal()
    running = asyncio.create_task(syncer.run(stop=stop))
    name = await hook_of(cluster, syncer)
    stop.request(StopVerdict.INTERRUPTED)
    await running
    assert await held(cluster, syncer, name)

    syncer.write([settings_map()])
    result = await (syncer.sync() if way == "sync" else syncer.sync(delete=way))

    assert result.outcome is Outcome.SUCCEEDED, result
    if way == "cascade":
        await eventually(lambda: is_gone(cluster, syncer, name))
    else:
        assert not await held(cluster, syncer, name)


async def test_a_hook_that_somebody_deletes_is_lost_and_not_waited_for(syncer: Syncer, cluster: Cluster) -> None:
    """Our finalizer keeps it to be read, and nobody ends it any more (sync case 21.1)."""
    syncer.write([settings_map(), job("before", "PreSync", image=STUCK)])
    running = asyncio.create_task(syncer.sync(timeout="60s"))
    await hook_of(cluster, syncer)
    live = await cluster.client.get_metadata(JOBS, syncer.namespace, "before")
    await cluster.client.delete(JOBS, syncer.namespace, "before", uid=live["metadata"]["uid"], propagation="Foreground")

    async with asyncio.timeout(20):
        result = await running

    assert result.error is not None
    assert result.error.code == "dependency.hook_failed"
    assert "it was lost" in result.error.message
    await eventually(lambda: is_gone(cluster, syncer, "before"))


async def test_a_hook_whose_policy_came_too_late_is_deleted_by_the_next_sync(syncer: Syncer, cluster: Cluster) -> None:
    """It has succeeded and only HookSucceeded is said of it: the attempt died before it could be deleted."""
    once = job("once", "PreSync", **{POLICY: "HookSucceeded"})
    left = {**once, "metadata": {"name": "once", "namespace": syncer.namespace}}
    await cluster.client.create(JOBS, left)
    await eventually(lambda: _has_succeeded(cluster, syncer, "once"))
    syncer.write([settings_map(), once])

    result = await syncer.sync()

    assert result.outcome is Outcome.SUCCEEDED, result
    assert not await exists(cluster, syncer, "once")


async def _has_succeeded(cluster: Cluster, syncer: Syncer, name: str) -> bool:
    conditions = ((await cluster.client.get(JOBS, syncer.namespace, name)).get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)


async def test_a_failing_fail_hook_does_not_hide_why_the_sync_failed(syncer: Syncer) -> None:
    """The error is that of the sync; the fail hook's own is a notice."""
    syncer.write([settings_map(), job("before", "PreSync", image="tool:fail"), job("cleanup", "SyncFail", image="tool:fail")])

    result = await syncer.sync()

    assert result.error is not None
    assert "the PreSync hook" in result.error.message
    assert any("the SyncFail hook" in notice and "failed" in notice for notice in result.notices)


@pytest.mark.parametrize("option", [{}, {"delete": "cascade"}], ids=["sync", "delete"])
async def test_an_approval_is_of_the_hooks_too(syncer: Syncer, option: JsonObject) -> None:
    """What runs beside the objects is as much of the plan: another image of a hook needs another approval."""
    hashes = []
    for image in ("tool:1", "tool:1", "tool:2"):
        syncer.write(
            [settings_map(data={"level": image} if option else None), job("before", "PreDelete" if option else "PreSync", image=image)]
        )
        if option:
            await syncer.sync()
        hashes.append((await syncer.run("diff", **option)).plan_hash)

    assert hashes[0] == hashes[1]
    assert hashes[1] != hashes[2]
