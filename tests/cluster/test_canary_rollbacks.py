"""Rollbacks and syncs that find a canary at work (case 28): it is taken back, or left alone, and nobody ends it behind its back."""

import asyncio
from pathlib import Path

from delegate.engine.clusters.registry import Cluster
from delegate.engine.tasks.stopping import StopSignal, StopVerdict
from delegate.model.resource_types import DEPLOYMENTS
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, SyncStatus, TaskResult
from delegate.model.rollouts.states import Phase
from tests.cluster.canaries import NEW, OLD, Canarist, image_of, journal_of, replicas_of, stable_stands
from tests.cluster.servers import eventually
from tests.cluster.syncing import Syncer, actions, deployment, settings_map

BEFORE = "registry.example/web:0.9"


async def with_history(cluster: Cluster, canarist: Canarist) -> None:
    """A stable version with one before it."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    for image in (BEFORE, OLD):
        patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}
        await cluster.client.patch(DEPLOYMENTS, canarist.namespace, "web", patch, kind="strategic")

        async def is_seen() -> bool:
            live = await cluster.client.get(DEPLOYMENTS, canarist.namespace, "web")
            return bool(live["status"].get("observedGeneration") == live["metadata"]["generation"])

        await eventually(is_seen, within=20)


async def superseded_at_its_pause(cluster: Cluster, canarist: Canarist, task: str = "task-1") -> TaskResult:
    """A canary that a more urgent task has stopped: its pods and its journal stand."""
    stop = StopSignal()
    running = asyncio.create_task(canarist.run({"setWeight": 33}, {"pause": {}}, stop=stop, task=task))

    async def at_pause() -> bool:
        return await replicas_of(cluster.client, canarist.namespace) > 0 and bool(
            (await journal_of(cluster.client, canarist.namespace)).since
        )

    await eventually(at_pause, within=20)
    stop.request(StopVerdict.SUPERSEDED)
    return await running


async def roll_back(canarist: Canarist, task: str, revision: int = 0, **options: object) -> TaskResult:
    workload: JsonObject = {"kind": "Deployment", "name": "web", "revision": revision}
    return await canarist.attempt(kind="rollback", task=task, spec={"workload": workload, "watch": "0s"}, options=options)


async def test_an_urgent_rollback_takes_the_canary_back_and_goes_no_further(canarist: Canarist, cluster: Cluster) -> None:
    """The old version is live: the one before it is not what anybody asked for. A second rollback a moment later is the same."""
    await with_history(cluster, canarist)
    before = (await cluster.client.get(DEPLOYMENTS, canarist.namespace, "web"))["spec"]
    canary = await superseded_at_its_pause(cluster, canarist)

    first = await roll_back(canarist, "task-d")
    second = await roll_back(canarist, "task-e")

    assert canary.outcome is Outcome.SUPERSEDED
    assert (first.outcome, second.outcome) == (Outcome.SUCCEEDED, Outcome.SUCCEEDED), (first, second)
    assert "the canary of task task-1 was taken back" in first.message
    assert "task task-d has just taken a canary back" in second.message
    assert second.requests.writes == 0
    assert (await cluster.client.get(DEPLOYMENTS, canarist.namespace, "web"))["spec"] == before
    assert await replicas_of(cluster.client, canarist.namespace) == -1
    assert (await journal_of(cluster.client, canarist.namespace)).phase is Phase.RESTORED


async def test_who_names_a_revision_gets_it(canarist: Canarist, cluster: Cluster) -> None:
    """After the canary is out of the way."""
    await with_history(cluster, canarist)
    await superseded_at_its_pause(cluster, canarist)

    result = await roll_back(canarist, "task-d", revision=2)

    assert result.outcome is Outcome.SUCCEEDED, result
    assert await image_of(cluster.client, canarist.namespace) == BEFORE
    assert await replicas_of(cluster.client, canarist.namespace) == -1


async def test_a_dry_run_takes_nothing_back(canarist: Canarist, cluster: Cluster) -> None:
    """It says what would be first."""
    await with_history(cluster, canarist)
    await superseded_at_its_pause(cluster, canarist)

    result = await roll_back(canarist, "task-d", dryRun=True)

    assert result.requests.writes == 0
    assert any("the canary of task task-1 is at work" in words for words in result.notices)
    assert await image_of(cluster.client, canarist.namespace, "web-canary") == NEW


async def test_the_canary_of_another_application_is_not_taken_back(canarist: Canarist, cluster: Cluster) -> None:
    """The refusal names its task."""
    await with_history(cluster, canarist)
    await superseded_at_its_pause(cluster, canarist)
    canarist.application = "other"

    result = await roll_back(canarist, "task-d")

    assert result.outcome is Outcome.REFUSED, result
    assert "task task-1 of shop" in result.message
    assert await image_of(cluster.client, canarist.namespace, "web-canary") == NEW


async def test_a_sync_leaves_out_what_a_canary_is_at_work_on(canarist: Canarist, cluster: Cluster, tmp_path: Path) -> None:
    """Also where the canary's delegate has died and its Lease is free: the rest is applied, and the result says what is not (case 28)."""
    syncer = Syncer(canarist.engine, tmp_path / "source", canarist.namespace)
    body = deployment("web", OLD, 2)
    body["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    syncer.write([settings_map(data={"pool": "40"}), settings_map("other", data={"a": "1"}), body])
    assert (await syncer.sync()).outcome is Outcome.SUCCEEDED
    await superseded_at_its_pause(cluster, canarist, task="task-a")
    newer = deployment("web", NEW, 4)
    newer["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    syncer.write([settings_map(data={"pool": "400"}), settings_map("other", data={"a": "2"}), newer])

    result = await syncer.sync()
    canary = await canarist.run({"setWeight": 33}, {"pause": {}}, task="task-a", stop=cancelled())
    again = await syncer.sync()

    assert result.outcome is Outcome.SUCCEEDED, result
    assert [words for words in result.notices if "the canary of task task-a of shop is at work on it" in words] == [
        f"apps/Deployment {canarist.namespace}/web is left as it is: the canary of task task-a of shop is at work on it",
        f"ConfigMap {canarist.namespace}/settings is left as it is: the canary of task task-a of shop is at work on it",
    ]
    assert result.sync is SyncStatus.UNKNOWN
    assert actions(result) == {"ConfigMap/other": "configured"}
    assert canary.outcome is Outcome.CANCELLED, canary
    assert again.outcome is Outcome.SUCCEEDED, again
    assert await image_of(cluster.client, canarist.namespace) == NEW


def cancelled() -> StopSignal:
    stop = StopSignal()
    stop.request(StopVerdict.CANCEL)
    return stop
