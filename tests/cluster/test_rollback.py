"""Back to a release, or a workload back to its own revision: never a success that changed nothing."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.releases import ReleaseStore
from delegate.model.releases import ReleaseOutcome
from delegate.model.resource_types import CONFIG_MAPS, DEPLOYMENTS, PODS, STATEFUL_SETS, WORKLOADS
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, SyncStatus
from tests.cluster.servers import eventually
from tests.cluster.syncing import Syncer, actions, deployment, resource, settings_map
from tests.verification.prometheus import running_prometheus


def image_of(live: JsonObject) -> str:
    return str(live["spec"]["template"]["spec"]["containers"][0]["image"])


async def two_releases(syncer: Syncer) -> None:
    syncer.write([settings_map(data={"level": "info"}), deployment(image="nginx:1.0", replicas=1)])
    assert (await syncer.sync()).outcome is Outcome.SUCCEEDED
    syncer.write([settings_map(data={"level": "debug"}), deployment(image="nginx:2.0", replicas=1), settings_map("extra")])
    assert (await syncer.sync()).outcome is Outcome.SUCCEEDED


async def test_an_application_goes_back_whole(syncer: Syncer, cluster: Cluster) -> None:
    """Template and configuration; what the release did not have is gone. That is a release of its own."""
    await two_releases(syncer)

    result = await syncer.roll_back()

    assert (result.outcome, result.sync, result.release) == (Outcome.SUCCEEDED, SyncStatus.SYNCED, 3), result
    assert actions(result) == {"ConfigMap/settings": "configured", "Deployment/web": "configured", "ConfigMap/extra": "pruned"}
    assert image_of(await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web")) == "nginx:1.0"
    assert (await cluster.client.get(CONFIG_MAPS, syncer.namespace, "settings"))["data"] == {"level": "info"}
    with pytest.raises(NotFoundError):
        await cluster.client.get(CONFIG_MAPS, syncer.namespace, "extra")
    newest, left, _ = await ReleaseStore(cluster.client, "shop", syncer.namespace).known()
    assert (newest.restores, left.bad) == (1, True)


async def test_the_source_may_be_gone(syncer: Syncer) -> None:
    """The release is all that is needed."""
    await two_releases(syncer)
    (syncer.directory / "set.yaml").unlink()
    assert (await syncer.roll_back()).outcome is Outcome.SUCCEEDED


async def test_a_dry_run_shows_what_would_change(syncer: Syncer) -> None:
    """And writes nothing."""
    await two_releases(syncer)
    result = await syncer.roll_back(options={"dryRun": True})
    assert (result.outcome, result.sync, result.requests.writes) == (Outcome.SUCCEEDED, SyncStatus.OUT_OF_SYNC, 0)
    assert "/spec/template/spec/containers/0/image" in [change.path for change in resource(result, "Deployment", "web").changes]


@pytest.mark.parametrize("to", [2, "2", "current"])
async def test_a_rollback_that_would_change_nothing_fails(syncer: Syncer, to: object) -> None:
    """Somebody waits for an effect: success would be a lie."""
    await two_releases(syncer)
    wanted = (await syncer.sync()).revision if to == "current" else to
    result = await syncer.roll_back(to=wanted)
    assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0)
    assert result.error is not None
    assert result.error.code == "policy.nothing_to_roll_back"


async def test_what_was_rolled_back_from_is_not_synced_again(syncer: Syncer, cluster: Cluster) -> None:
    """Until the source has something else, or somebody insists."""
    await two_releases(syncer)
    await syncer.roll_back()

    refused = await syncer.sync()
    assert (refused.outcome, refused.requests.writes) == (Outcome.REFUSED, 0)
    assert refused.error is not None
    assert refused.error.code == "policy.known_bad"
    assert image_of(await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web")) == "nginx:1.0"

    syncer.write([settings_map(data={"level": "debug"}), deployment(image="nginx:2.1", replicas=1)])
    assert (await syncer.sync()).outcome is Outcome.SUCCEEDED


async def test_no_sync_undoes_a_rollback_that_failed(syncer: Syncer) -> None:
    """What somebody wants to be rid of is refused from before the first write on, however the rollback ends."""
    syncer.write([deployment(image="registry.example/broken:broken", replicas=1)])
    await syncer.sync(wait=False)
    syncer.write([deployment(image="nginx:2.0", replicas=1)])
    assert (await syncer.sync()).outcome is Outcome.SUCCEEDED
    assert (await syncer.roll_back(to=1, options={"failFastAfter": "1s"})).outcome is Outcome.FAILED

    refused = await syncer.sync()

    assert (refused.outcome, refused.requests.writes) == (Outcome.REFUSED, 0)
    assert refused.error is not None
    assert refused.error.code == "policy.known_bad"


async def test_who_insists_gets_what_was_rolled_back_from(syncer: Syncer) -> None:
    """By force."""
    await two_releases(syncer)
    await syncer.roll_back()
    assert (await syncer.sync(force=True)).outcome is Outcome.SUCCEEDED


async def test_the_last_good_release_is_not_the_last_one(syncer: Syncer, cluster: Cluster) -> None:
    """A release that failed is passed over, and so is one that nobody saw healthy."""
    await two_releases(syncer)
    syncer.write([deployment(image="nginx:3.0", replicas=1)])
    await syncer.sync(wait=False)
    syncer.write([deployment(image="registry.example/broken:broken", replicas=1)])
    assert (await syncer.sync(failFastAfter="1s")).outcome is Outcome.FAILED

    result = await syncer.roll_back()

    assert result.outcome is Outcome.SUCCEEDED, result
    assert image_of(await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web")) == "nginx:2.0"
    assert any("no release was verified" in notice for notice in result.notices)


async def test_a_rollback_whose_end_was_not_written_down_is_ended(syncer: Syncer, cluster: Cluster) -> None:
    """Killed between the last write and the word on it: what was left is marked, and nothing older is put in its place."""
    syncer.write([deployment(image="nginx:0.9", replicas=1)])
    await syncer.sync()
    await two_releases(syncer)
    await syncer.roll_back()
    store = ReleaseStore(cluster.client, "shop", syncer.namespace)
    newest, left, *_ = await store.known()
    await store.finish(msgspec.structs.replace(newest, outcome=ReleaseOutcome.APPLYING))
    await store.finish(msgspec.structs.replace(left, bad=False))

    result = await syncer.roll_back()

    assert (result.outcome, result.release) == (Outcome.SUCCEEDED, 4), result
    assert image_of(await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web")) == "nginx:1.0"
    newest, left, *_ = await store.known()
    assert (newest.number, newest.outcome, left.number, left.bad) == (4, ReleaseOutcome.HEALTHY, 3, True)
    again = await syncer.roll_back()
    assert again.error is not None
    assert again.error.code == "policy.rolled_back_already"


async def test_nothing_is_recorded(syncer: Syncer) -> None:
    """Said so, and nothing done."""
    result = await syncer.roll_back()
    assert result.outcome is Outcome.REFUSED
    assert result.error is not None
    assert result.error.code == "input.no_release"


async def test_a_migration_between_the_releases_is_pointed_out(syncer: Syncer) -> None:
    """Its hook is not run again, nor taken back; that the release which had it is not the one that is left changes nothing."""
    annotations = {"argocd.argoproj.io/hook": "PreSync"}
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "complete:1"}]}
    job: JsonObject = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "migrate", "annotations": annotations},
        "spec": {"template": {"spec": pod}},
    }
    syncer.write([settings_map(data={"level": "info"})])
    await syncer.sync()
    syncer.write([settings_map(data={"level": "debug"}), job])
    await syncer.sync()
    syncer.write([settings_map(data={"level": "trace"})])
    await syncer.sync()

    result = await syncer.roll_back(to=1)

    assert result.outcome is Outcome.SUCCEEDED
    assert any("Job" in notice and "hook of release 2: what it did stays done" in notice for notice in result.notices)
    assert not [each for each in result.resources if each.kind == "Job"]


async def deployed(cluster: Cluster, syncer: Syncer, **changes: object) -> None:
    """A Deployment that nobody owns, rolled out twice."""
    body = deployment(image="nginx:1.0", replicas=1)
    body["metadata"]["namespace"] = syncer.namespace
    body["spec"].update(changes)
    await cluster.client.create(DEPLOYMENTS, body, manager="somebody")
    await until_rolled_out(cluster, syncer)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "nginx:2.0"}]}}}}
    await cluster.client.patch(DEPLOYMENTS, syncer.namespace, "web", patch, kind="strategic", manager="somebody")
    await until_rolled_out(cluster, syncer)


async def until_rolled_out(cluster: Cluster, syncer: Syncer) -> None:
    async with asyncio.timeout(30):
        while True:
            live = await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web")
            status = live.get("status") or {}
            counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
            if status.get("observedGeneration") == live["metadata"]["generation"] and counts == [1, 1, 1]:
                return
            await asyncio.sleep(0.1)


async def test_a_dry_run_of_an_undo_asks_no_checks(syncer: Syncer, cluster: Cluster) -> None:
    """They are about what was restored, and nothing was."""
    await deployed(cluster, syncer)
    unreachable = {"name": "up", "type": "http", "url": "http://127.0.0.1:9/", "unit": "count", "threshold": "== 200 count"}

    result = await syncer.roll_back(workload={"name": "web"}, options={"dryRun": True}, verification=[unreachable])

    assert (result.outcome, result.sync, result.requests.writes) == (Outcome.SUCCEEDED, SyncStatus.OUT_OF_SYNC, 0), result


async def test_a_deployment_goes_back_to_the_revision_before(syncer: Syncer, cluster: Cluster) -> None:
    """Ready, and not only accepted; once more is there and back again, by number as well."""
    await deployed(cluster, syncer)

    result = await syncer.roll_back(workload={"kind": "Deployment", "name": "web"})
    assert result.outcome is Outcome.SUCCEEDED, result
    assert "back at revision 1" in result.message
    live = await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web")
    assert image_of(live) == "nginx:1.0"
    assert "pod-template-hash" not in live["spec"]["template"]["metadata"]["labels"]

    same = await syncer.roll_back(workload={"kind": "Deployment", "name": "web", "revision": 3})
    assert same.outcome is Outcome.REFUSED
    forward = await syncer.roll_back(workload={"kind": "Deployment", "name": "web", "revision": 2})
    assert forward.outcome is Outcome.SUCCEEDED
    assert image_of(await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web")) == "nginx:2.0"


async def test_without_history_there_is_no_way_back(syncer: Syncer, cluster: Cluster) -> None:
    """Said so, with the reason (case 15)."""
    await deployed(cluster, syncer, revisionHistoryLimit=0)
    result = await syncer.roll_back(workload={"kind": "Deployment", "name": "web"})
    assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0)
    assert result.error is not None
    assert "revisionHistoryLimit is 0" in result.error.hint


async def test_a_workload_of_somebodys_declaration_is_not_undone(syncer: Syncer, cluster: Cluster) -> None:
    """It would be set back within seconds; the refusal names whose it is (case 20)."""
    syncer.write([deployment(image="nginx:1.0", replicas=1)])
    await syncer.sync()
    syncer.write([deployment(image="nginx:2.0", replicas=1)])
    await syncer.sync()
    ours = await syncer.roll_back(workload={"name": "web"})
    assert ours.outcome is Outcome.REFUSED
    assert "an Application of ours" in ours.message

    forced = await syncer.roll_back(workload={"name": "web"}, options={"force": True})
    assert forced.outcome is Outcome.SUCCEEDED
    assert (await syncer.diff()).sync is SyncStatus.OUT_OF_SYNC


async def test_a_paused_deployment_is_refused(syncer: Syncer, cluster: Cluster) -> None:
    """Nothing would be rolled out."""
    await deployed(cluster, syncer)
    await cluster.client.patch(DEPLOYMENTS, syncer.namespace, "web", {"spec": {"paused": True}}, manager="somebody")
    result = await syncer.roll_back(workload={"name": "web"})
    assert result.outcome is Outcome.REFUSED
    assert "paused" in result.message


async def test_a_set_with_an_order_is_freed_of_its_broken_pod(syncer: Syncer, cluster: Cluster) -> None:
    """It would wait for that pod for ever, though it is to be replaced; the pods that serve are let be."""
    body = deployment("db", "nginx:1.0", 2, namespace=syncer.namespace)
    body |= {"kind": "StatefulSet", "spec": {**body["spec"], "serviceName": "db"}}
    await cluster.client.create(STATEFUL_SETS, body, manager="somebody")
    await eventually(lambda: ready_pods(cluster, syncer, 2), within=30)
    first = (await cluster.client.get(PODS, syncer.namespace, "db-0"))["metadata"]["uid"]
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "registry.example/broken:broken"}]}}}}
    await cluster.client.patch(STATEFUL_SETS, syncer.namespace, "db", patch, kind="strategic", manager="somebody")
    await eventually(lambda: is_broken(cluster, syncer, "db-1"), within=30)

    result = await syncer.roll_back(workload={"kind": "StatefulSet", "name": "db"})

    assert result.outcome is Outcome.SUCCEEDED, result
    assert any("pod db-1 of the version that was left was not ready" in notice for notice in result.notices)
    assert await ready_pods(cluster, syncer, 2)
    assert (await cluster.client.get(PODS, syncer.namespace, "db-0"))["metadata"]["uid"] == first


async def is_broken(cluster: Cluster, syncer: Syncer, name: str) -> bool:
    """Whether the pod is there, of the broken version."""
    pods = {pod["metadata"]["name"]: pod for pod in (await cluster.client.list(PODS, syncer.namespace)).items}
    return name in pods and "broken" in pods[name]["spec"]["containers"][0]["image"]


async def ready_pods(cluster: Cluster, syncer: Syncer, count: int) -> bool:
    live = await cluster.client.get(STATEFUL_SETS, syncer.namespace, "db")
    status = live.get("status") or {}
    return bool(status.get("observedGeneration") == live["metadata"]["generation"] and status.get("readyReplicas", 0) == count)


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
async def test_a_set_that_moves_only_by_hand_is_refused(syncer: Syncer, cluster: Cluster, kind: str) -> None:
    """OnDelete: the template would go back, and no pod with it."""
    body = deployment("db", "nginx:1.0", 1, namespace=syncer.namespace)
    del body["spec"]["replicas"]
    body |= {"kind": kind, "spec": {**body["spec"], "updateStrategy": {"type": "OnDelete"}}}
    await cluster.client.create(WORKLOADS[kind], body, manager="somebody")
    result = await syncer.roll_back(workload={"kind": kind, "name": "db"})
    assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0), result
    assert "OnDelete" in result.message


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_prometheus(tmp_path_factory.mktemp("prometheus")) as url:
        yield url


def check(url: str, query: str) -> JsonObject:
    what: JsonObject = {"name": "error-ratio", "type": "prometheus", "url": url, "query": query, "unit": "ratio", "threshold": "<= 1%"}
    return what | {"every": "200ms", "for": "400ms", "timeout": "5s", "deadline": "20s"}


async def test_checks_have_to_pass_again(syncer: Syncer, cluster: Cluster, prometheus: str) -> None:
    """What was restored stays, and is a success only with evidence; a release that passed is verified, and gone back to first."""
    await two_releases(syncer)
    store = ReleaseStore(cluster.client, "shop", syncer.namespace)

    failed = await syncer.roll_back(verification=[check(prometheus, "vector(0.5)")])
    assert failed.outcome is Outcome.FAILED
    assert failed.error is not None
    assert failed.error.code == "dependency.check_failed"
    assert image_of(await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web")) == "nginx:1.0"
    assert not any(release.verified for release in await store.known())

    passed = await syncer.roll_back(to=2, options={"force": True}, verification=[check(prometheus, "vector(0)")])
    assert passed.outcome is Outcome.SUCCEEDED, passed
    newest = (await store.known())[0]
    assert (newest.number, newest.restores, newest.verified) == (4, 2, True)


async def test_a_verified_release_is_gone_back_to_first(syncer: Syncer, cluster: Cluster, prometheus: str) -> None:
    """A verify task that passed marks what runs; releases after it were healthy, and nobody had evidence."""
    await two_releases(syncer)
    store = ReleaseStore(cluster.client, "shop", syncer.namespace)
    assert (await syncer.verify(check(prometheus, "vector(0.5)"))).outcome is Outcome.FAILED
    assert not any(release.verified for release in await store.known())
    passed = await syncer.verify(check(prometheus, "vector(0)"))
    assert any("release 2 is verified" in notice for notice in passed.notices)
    for image in ("nginx:3.0", "nginx:4.0"):
        syncer.write([deployment(image=image, replicas=1)])
        await syncer.sync()

    result = await syncer.roll_back()

    assert result.outcome is Outcome.SUCCEEDED, result
    assert image_of(await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web")) == "nginx:2.0"


async def test_nobody_goes_further_back_by_itself(syncer: Syncer, cluster: Cluster, prometheus: str) -> None:
    """Where the old version fails the checks too, it is not the release: a second rollback has to be asked for by number."""
    await two_releases(syncer)
    syncer.write([deployment(image="nginx:3.0", replicas=1)])
    await syncer.sync()
    failed = await syncer.roll_back(verification=[check(prometheus, "vector(0.5)")])
    assert failed.outcome is Outcome.FAILED
    assert any("release 2 fails the checks as well: release 3 is not what makes them fail" in notice for notice in failed.notices)

    again = await syncer.roll_back(verification=[check(prometheus, "vector(0.5)")])

    assert (again.outcome, again.requests.writes) == (Outcome.REFUSED, 0)
    assert again.error is not None
    assert again.error.code == "policy.rolled_back_already"
    assert image_of(await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web")) == "nginx:2.0"
    assert (await syncer.roll_back(to=1)).outcome is Outcome.SUCCEEDED


def git(directory: Path, *arguments: str) -> str:
    who = ("-c", "user.name=dev", "-c", "user.email=dev@example.com")
    return subprocess.run(["git", "-C", str(directory), *who, *arguments], check=True, capture_output=True, text=True).stdout.strip()


async def test_the_commit_is_taken_back_in_the_source(syncer: Syncer, cluster: Cluster, tmp_path: Path) -> None:
    """After the cluster; then what the source has is what runs, and a sync has nothing to do (case 20)."""
    work, origin = syncer.directory, tmp_path / "origin.git"
    syncer.write([settings_map(data={"level": "info"})])
    git(work, "init", "--quiet", "--initial-branch", "main")
    for level in ("info", "debug"):
        syncer.write([settings_map(data={"level": level})])
        git(work, "add", ".")
        git(work, "commit", "--quiet", "--message", level)
    git(tmp_path, "clone", "--quiet", "--bare", str(work), str(origin))
    source = {"repoURL": origin.as_uri(), "targetRevision": "main", "path": "."}
    syncer.spec = {"source": {**source, "targetRevision": git(work, "rev-parse", "HEAD~1")}}
    assert (await syncer.sync()).outcome is Outcome.SUCCEEDED
    syncer.spec = {"source": source}
    assert (await syncer.sync()).outcome is Outcome.SUCCEEDED
    bad = git(work, "rev-parse", "HEAD")

    result = await syncer.roll_back(git={"mode": "revert", "commit": bad, "repoURL": origin.as_uri(), "branch": "main"})

    assert result.outcome is Outcome.SUCCEEDED, result
    assert any("is taken back" in notice for notice in result.notices)
    assert git(origin, "log", "-1", "--format=%s", "main").startswith("Revert")
    assert (await cluster.client.get(CONFIG_MAPS, syncer.namespace, "settings"))["data"] == {"level": "info"}
    after = await syncer.sync()
    assert (after.outcome, after.summary.configured) == (Outcome.SUCCEEDED, 0)
