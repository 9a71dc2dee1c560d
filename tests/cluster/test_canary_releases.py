"""Canaries beside others: a newer release, a second task, an autoscaler, a foreign hand; and canaries of configuration."""

import asyncio
import base64
from pathlib import Path

import msgspec

from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.journals import JournalStore
from delegate.engine.tasks.stopping import StopSignal, StopVerdict
from delegate.model.resource_types import CONFIG_MAPS, DEPLOYMENTS, SECRETS
from delegate.model.resources import JsonObject, ResourceType
from delegate.model.results import Outcome
from delegate.model.rollouts.states import Phase
from delegate.model.rollouts.versions import images_of
from tests.cluster.canaries import NEW, OLD, Canarist, image_of, journal_of, replicas_of, stable_stands
from tests.cluster.servers import eventually
from tests.cluster.syncing import Syncer, deployment, settings_map

AUTOSCALERS = ResourceType(
    group="autoscaling", version="v2", kind="HorizontalPodAutoscaler", plural="horizontalpodautoscalers", namespaced=True
)


async def at_pause(cluster: Cluster, canarist: Canarist) -> bool:
    if await replicas_of(cluster.client, canarist.namespace) < 0:
        return False
    journal = await journal_of(cluster.client, canarist.namespace)
    return journal.step == 1 and bool(journal.since)


async def test_a_newer_release_begins_when_the_older_one_is_taken_back(canarist: Canarist, cluster: Cluster) -> None:
    """It starts at its first step, beside the last good version."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    stop = StopSignal()
    older = asyncio.create_task(canarist.run({"setWeight": 33}, {"pause": {}}, stop=stop, image="registry.example/web:r2"))
    await eventually(lambda: at_pause(cluster, canarist), within=20)
    stop.request(StopVerdict.SUPERSEDED)
    superseded = await older

    result = await canarist.run({"setWeight": 33}, task="task-2")

    assert superseded.outcome is Outcome.SUPERSEDED
    assert result.outcome is Outcome.SUCCEEDED, result
    assert any("before:" in words and "a newer release takes its place" in words for words in result.notices)
    assert await image_of(cluster.client, canarist.namespace) == NEW


async def test_a_newer_release_that_is_the_stable_one_only_takes_back(canarist: Canarist, cluster: Cluster) -> None:
    """Back to the old version: an abort of what was under way, and nothing more."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    stop = StopSignal()
    older = asyncio.create_task(canarist.run({"setWeight": 33}, {"pause": {}}, stop=stop))
    await eventually(lambda: at_pause(cluster, canarist), within=20)
    stop.request(StopVerdict.SUPERSEDED)
    await older

    result = await canarist.run({"setWeight": 33}, task="task-2", image=OLD)

    assert result.outcome is Outcome.SUCCEEDED, result
    assert "already the good version" in result.message
    assert (await journal_of(cluster.client, canarist.namespace)).phase is Phase.RESTORED


async def test_another_application_is_kept_off_the_workload(canarist: Canarist, cluster: Cluster) -> None:
    """The open journal is the workload's lock; the refusal names who has it."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    stop = StopSignal()
    first = asyncio.create_task(canarist.run({"setWeight": 33}, {"pause": {}}, stop=stop))
    await eventually(lambda: at_pause(cluster, canarist), within=20)
    canarist.application = "other"

    refused = await canarist.run({"setWeight": 33}, task="task-2", image="registry.example/web:r3")

    stop.request(StopVerdict.CANCEL)
    await first
    assert refused.outcome is Outcome.REFUSED, refused
    assert "task-1 of shop" in refused.message


async def test_the_new_set_follows_an_autoscaler_and_never_writes_its_count(canarist: Canarist, cluster: Cluster) -> None:
    """From 4 to 10 old pods at 25 %: from 1 to 3 new ones."""
    await stable_stands(cluster.client, canarist.namespace, replicas=4, track="stable")
    await cluster.client.create(AUTOSCALERS, autoscaler(canarist.namespace))
    stop = StopSignal()
    running = asyncio.create_task(canarist.run({"setWeight": 25}, {"pause": {}}, stop=stop))
    await eventually(lambda: at_pause(cluster, canarist), within=20)
    assert await replicas_of(cluster.client, canarist.namespace) == 1

    await cluster.client.patch(DEPLOYMENTS, canarist.namespace, "web", {"spec": {"replicas": 10}})

    async def follows() -> bool:
        return await replicas_of(cluster.client, canarist.namespace) == 3

    await eventually(follows, within=20)
    stop.request(StopVerdict.CANCEL)
    await running
    assert await replicas_of(cluster.client, canarist.namespace, "web") == 10


async def test_an_autoscaler_that_would_count_the_new_pods_is_no_ground(canarist: Canarist, cluster: Cluster) -> None:
    """The stable selector matches both versions: refused before any write."""
    await stable_stands(cluster.client, canarist.namespace, replicas=4)
    await cluster.client.create(AUTOSCALERS, autoscaler(canarist.namespace))

    result = await canarist.run({"setWeight": 25})

    assert result.outcome is Outcome.REFUSED, result
    assert "would count the new pods" in result.message
    assert result.requests.writes == 0


async def test_a_foreign_hand_on_the_new_set_is_not_written_over(canarist: Canarist, cluster: Cluster) -> None:
    """Somebody scales it: the canary holds, and has its share again once it is resumed."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    running = asyncio.create_task(canarist.run({"setWeight": 33}, {"pause": {"duration": "60s"}}))
    await eventually(lambda: at_pause(cluster, canarist), within=20)
    await cluster.client.patch(DEPLOYMENTS, canarist.namespace, "web-canary", {"spec": {"replicas": 2}})

    async def holds() -> bool:
        return (await journal_of(cluster.client, canarist.namespace)).phase is Phase.HELD

    await eventually(holds, within=20)
    left_alone = await replicas_of(cluster.client, canarist.namespace)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert left_alone == 2


async def test_a_late_writer_is_refused_by_the_journal(canarist: Canarist, cluster: Cluster) -> None:
    """A newer attempt has written it: what the older one holds is worth nothing any more."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    running = asyncio.create_task(canarist.run({"setWeight": 33}, {"pause": {}}))
    await eventually(lambda: at_pause(cluster, canarist), within=20)
    store = JournalStore(cluster.client, canarist.namespace, "Deployment", "web")
    stored = await store.read()
    assert stored.journal is not None
    await store.write(stored, msgspec.structs.replace(stored.journal, attempt="newer", fence=stored.journal.fence + 1))

    canarist.resume.request()
    late = await running

    assert late.outcome is Outcome.FAILED, late
    assert late.error is not None
    assert late.error.code == "conflict.late_writer"
    assert await image_of(cluster.client, canarist.namespace) == OLD


async def config_stands(cluster: Cluster, canarist: Canarist, directory: Path) -> JsonObject:
    """A synced version that reads a ConfigMap, and its source, in which nothing but that has changed since."""
    syncer = Syncer(canarist.engine, directory, canarist.namespace)
    body = deployment("web", OLD, 2)
    body["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    syncer.write([settings_map(data={"pool": "40"}), body])
    synced = await syncer.sync()
    assert synced.outcome is Outcome.SUCCEEDED, synced
    syncer.write([settings_map(data={"pool": "400"}), body])
    return {"source": {"path": str(directory)}, "images": {}}


async def test_changed_configuration_is_a_new_version_with_its_own_copy(canarist: Canarist, cluster: Cluster, tmp_path: Path) -> None:
    """While it is tried, the stable pods keep what they read; promotion changes that and makes them anew."""
    spec = await config_stands(cluster, canarist, tmp_path / "source")
    running = asyncio.create_task(canarist.run({"setWeight": 33}, {"pause": {}}, **spec))
    await eventually(lambda: at_pause(cluster, canarist), within=20)
    canary = await cluster.client.get(DEPLOYMENTS, canarist.namespace, "web-canary")
    copied = canary["spec"]["template"]["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"]
    assert (await cluster.client.get(CONFIG_MAPS, canarist.namespace, copied))["data"] == {"pool": "400"}
    assert (await cluster.client.get(CONFIG_MAPS, canarist.namespace, "settings"))["data"] == {"pool": "40"}

    canarist.resume.request()
    result = await running

    assert result.outcome is Outcome.SUCCEEDED, result
    assert (await cluster.client.get(CONFIG_MAPS, canarist.namespace, "settings"))["data"] == {"pool": "400"}
    names = {each["metadata"]["name"] for each in (await cluster.client.list(CONFIG_MAPS, canarist.namespace)).items}
    assert not any(name.startswith("settings-") for name in names)
    live = await cluster.client.get(DEPLOYMENTS, canarist.namespace, "web")
    assert "delegate.gitops/config" in live["spec"]["template"]["metadata"]["annotations"]


async def test_changed_configuration_that_is_taken_back_leaves_no_copy(canarist: Canarist, cluster: Cluster, tmp_path: Path) -> None:
    """The stable configuration was never written."""
    spec = await config_stands(cluster, canarist, tmp_path / "source")
    before = await cluster.client.get(CONFIG_MAPS, canarist.namespace, "settings")
    stop = StopSignal()
    running = asyncio.create_task(canarist.run({"setWeight": 33}, {"pause": {}}, stop=stop, **spec))
    await eventually(lambda: at_pause(cluster, canarist), within=20)

    stop.request(StopVerdict.CANCEL)
    await running

    assert await cluster.client.get(CONFIG_MAPS, canarist.namespace, "settings") == before
    names = {each["metadata"]["name"] for each in (await cluster.client.list(CONFIG_MAPS, canarist.namespace)).items}
    assert not any(name.startswith("settings-") for name in names)


async def test_a_secret_is_part_of_the_version_and_its_values_are_in_no_record(
    canarist: Canarist, cluster: Cluster, tmp_path: Path
) -> None:
    """Case 05: the new pods read a copy; neither the journal, nor an event, nor the result holds what is in it."""
    syncer = Syncer(canarist.engine, tmp_path / "source", canarist.namespace)
    body = deployment("web", OLD, 2)
    body["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"secretRef": {"name": "login"}}]
    syncer.write([secret("hunter2-of-old"), body])
    assert (await syncer.sync()).outcome is Outcome.SUCCEEDED
    syncer.write([secret("hunter2-of-new"), body])
    told: list[str] = []
    canarist.on_event = lambda event, data: told.append(f"{event} {data}")
    running = asyncio.create_task(
        canarist.run({"setWeight": 33}, {"pause": {}}, source={"path": str(tmp_path / "source")}, images={}, task="task-2")
    )
    await eventually(lambda: at_pause(cluster, canarist), within=20)
    canary = await cluster.client.get(DEPLOYMENTS, canarist.namespace, "web-canary")
    copied = canary["spec"]["template"]["spec"]["containers"][0]["envFrom"][0]["secretRef"]["name"]
    read = [(await cluster.client.get(SECRETS, canarist.namespace, name))["data"] for name in (copied, "login")]
    journal = msgspec.json.encode(await journal_of(cluster.client, canarist.namespace)).decode()

    canarist.resume.request()
    result = await running

    assert [base64.b64decode(data["password"]) for data in read] == [b"hunter2-of-new", b"hunter2-of-old"]
    assert result.outcome is Outcome.SUCCEEDED, result
    shown = f"{journal} {told} {msgspec.json.encode(result).decode()}"
    for value in ("hunter2", base64.b64encode(b"hunter2-of-new").decode(), base64.b64encode(b"hunter2-of-old").decode()):
        assert value not in shown
    names = {each["metadata"]["name"] for each in (await cluster.client.list(SECRETS, canarist.namespace)).items}
    assert "login" in names
    assert not any(name.startswith("login-") for name in names)


def secret(password: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"password": password}}


async def test_a_source_that_changes_nothing_of_the_workload_is_synced_and_nothing_is_verified(
    canarist: Canarist, cluster: Cluster, tmp_path: Path
) -> None:
    """Case 05: a map that no pod refers to needs no canary, and the outcome doesn't say verified."""
    syncer = Syncer(canarist.engine, tmp_path / "source", canarist.namespace)
    body = deployment("web", OLD, 2)
    syncer.write([settings_map(data={"pool": "40"}), body])
    assert (await syncer.sync()).outcome is Outcome.SUCCEEDED
    syncer.write([settings_map(data={"pool": "400"}), body])

    result = await canarist.run({"setWeight": 33}, source={"path": str(tmp_path / "source")}, images={}, task="task-2")

    assert result.outcome is Outcome.SUCCEEDED, result
    assert "no workload affected, so nothing was verified" in result.message
    assert (await cluster.client.get(CONFIG_MAPS, canarist.namespace, "settings"))["data"] == {"pool": "400"}
    assert await replicas_of(cluster.client, canarist.namespace) == -1


async def test_the_same_release_from_another_task_goes_on_where_the_first_one_stands(canarist: Canarist, cluster: Cluster) -> None:
    """Case 14: no second set and no step twice."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    stop = StopSignal()
    first = asyncio.create_task(canarist.run({"setWeight": 33}, {"pause": {}}, stop=stop))
    await eventually(lambda: at_pause(cluster, canarist), within=20)
    uid = (await cluster.client.get(DEPLOYMENTS, canarist.namespace, "web-canary"))["metadata"]["uid"]
    stop.request(StopVerdict.SUPERSEDED)
    await first
    again = asyncio.create_task(canarist.run({"setWeight": 33}, {"pause": {}}, task="task-2"))

    async def is_theirs() -> bool:
        return (await journal_of(cluster.client, canarist.namespace)).task == "task-2"

    await eventually(is_theirs, within=20)
    same = (await cluster.client.get(DEPLOYMENTS, canarist.namespace, "web-canary"))["metadata"]["uid"]
    journal = await journal_of(cluster.client, canarist.namespace)
    canarist.resume.request()
    result = await again

    assert (same, journal.step) == (uid, 1)
    assert "" < journal.loaded <= journal.since  # evidence counts from when the share came into force, whoever asks for it
    assert result.outcome is Outcome.SUCCEEDED, result
    assert sum("setWeight 33" in words for words in result.notices if "step 0" in words) == 1


def autoscaler(namespace: str) -> JsonObject:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "minReplicas": 2,
            "maxReplicas": 12,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}],
        },
    }


async def test_a_canary_of_another_container_keeps_the_image_that_the_last_one_brought(canarist: Canarist, cluster: Cluster) -> None:
    """Each names only what it changes."""
    body = deployment("web", OLD, 1, namespace=canarist.namespace)
    body["spec"]["template"]["spec"]["containers"].append({"name": "side", "image": "registry.example/side:1"})
    await cluster.client.create(DEPLOYMENTS, body)

    first = await canarist.run(images={"main": NEW})
    second = await canarist.run(images={"side": "registry.example/side:2"}, task="task-2")

    assert (first.outcome, second.outcome) == (Outcome.SUCCEEDED, Outcome.SUCCEEDED), second
    live = await cluster.client.get(DEPLOYMENTS, canarist.namespace, "web")
    assert images_of(live["spec"]["template"]) == {"main": NEW, "side": "registry.example/side:2"}
