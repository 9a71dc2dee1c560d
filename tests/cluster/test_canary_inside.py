"""Canaries of a source whose workload takes the new version inside: the old pods read what they read, until there are none."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.journals import JournalStore
from delegate.engine.tasks.stopping import StopSignal, StopVerdict
from delegate.model.resource_types import CONFIG_MAPS, JOBS, PODS, ROLLOUTS, SERVICES, STATEFUL_SETS
from delegate.model.resources import JsonObject
from delegate.model.results import Action, Outcome
from delegate.model.rollouts.partitions import is_whole
from delegate.model.rollouts.states import Phase
from tests.cluster.canaries import OLD, Canarist
from tests.cluster.servers import eventually
from tests.cluster.syncing import Syncer, deployment, settings_map
from tests.cluster.test_canary_argo import BLUE_GREEN, created, killed, service, settled
from tests.cluster.test_canary_smoke import test_of
from tests.cluster.test_sync_crashes import Death
from tests.fakes.rollouts_controller import RolloutsController, rollouts_are_defined

pytestmark = pytest.mark.lease_seconds(2)
_SET: JsonObject = {"workload": {"kind": "StatefulSet", "name": "web"}, "images": {}}
_ROLLOUT: JsonObject = {"workload": {"kind": "Rollout", "name": "web"}, "routing": {"argoRollouts": {}}, "images": {}}
_PAUSES = [{"setWeight": 50}, {"pause": {}}]


def set_body() -> JsonObject:
    """A StatefulSet `web` that reads a ConfigMap, and has a claim that nothing binds."""
    body = deployment("web", OLD, 2)
    body["kind"] = "StatefulSet"
    body["spec"] |= {"serviceName": "web"}
    body["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    return body


async def set_stands(canarist: Canarist, cluster: Cluster, directory: Path, body: JsonObject | None = None) -> Syncer:
    """It is synced, and of its source nothing has changed since but what it reads."""
    syncer = Syncer(canarist.engine, directory, canarist.namespace)
    syncer.write([settings_map(data={"pool": "40"}), set_body()])
    synced = await syncer.sync()
    assert synced.outcome is Outcome.SUCCEEDED, synced
    syncer.write([settings_map(data={"pool": "400"}), body or set_body()])
    return syncer


async def read_by_ordinal(client: ApiClient, namespace: str) -> list[str]:
    """What the pods read, as it stands: each of them would read that if it began now. None of those that are on their way out."""
    pods = sorted((await client.list(PODS, namespace, labels="app=web")).items, key=lambda pod: str(pod["metadata"]["name"]))
    pods = [pod for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    names = [str(pod["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"]) for pod in pods]
    return [str((await client.get(CONFIG_MAPS, namespace, name))["data"]["pool"]) for name in names]


async def stands_at(canarist: Canarist, client: ApiClient, kind: str, gate: int) -> bool:
    journal = (await JournalStore(client, canarist.namespace, kind, "web").read()).journal
    return journal is not None and journal.gate == gate and bool(journal.since)


async def copies(client: ApiClient, namespace: str) -> list[str]:
    names = [str(each["metadata"]["name"]) for each in (await client.list(CONFIG_MAPS, namespace)).items]
    return [name for name in names if name.startswith("settings-")]


@asynccontextmanager
async def old_pods_watched(client: ApiClient, namespace: str) -> AsyncIterator[list[str]]:
    """The pods that stood at the beginning and were seen beside the new content under the name that they read."""
    old = {str(pod["metadata"]["uid"]) for pod in (await client.list(PODS, namespace, labels="app=web")).items}
    seen: list[str] = []

    async def watch() -> None:
        while True:
            if (await client.get(CONFIG_MAPS, namespace, "settings"))["data"] == {"pool": "400"}:
                pods = (await client.list(PODS, namespace, labels="app=web")).items
                seen.extend(str(pod["metadata"]["name"]) for pod in pods if pod["metadata"]["uid"] in old)
            await asyncio.sleep(0.01)

    watching = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def test_old_ordinals_keep_what_they_read_until_there_are_none(canarist: Canarist, cluster: Cluster, tmp_path: Path) -> None:
    """At the pause the new one reads a copy; at the end all read the new content by its own name, and a sync has nothing to do."""
    client, namespace = cluster.client, canarist.namespace
    syncer = await set_stands(canarist, cluster, tmp_path / "source")
    before = await client.get(STATEFUL_SETS, namespace, "web")
    spec = {**_SET, "source": {"path": str(tmp_path / "source")}}
    async with old_pods_watched(client, namespace) as misled:
        running = asyncio.create_task(canarist.run({"setWeight": 50}, {"pause": {}}, **spec))
        await eventually(lambda: stands_at(canarist, client, "StatefulSet", 1), within=20)
        at_pause, of_settings = await read_by_ordinal(client, namespace), await client.get(CONFIG_MAPS, namespace, "settings")
        canarist.resume.request()
        result = await running
    live = await client.get(STATEFUL_SETS, namespace, "web")
    again = await syncer.sync()

    assert at_pause == ["40", "400"]
    assert misled == []
    assert of_settings["data"] == {"pool": "40"}
    assert result.outcome is Outcome.SUCCEEDED, result
    assert is_whole(live)
    assert await read_by_ordinal(client, namespace) == ["400", "400"]
    assert await copies(client, namespace) == []
    assert (live["spec"]["template"], live["spec"]["updateStrategy"]) == (before["spec"]["template"], before["spec"]["updateStrategy"])
    assert {each.action for each in again.resources} == {Action.UNCHANGED}


async def test_an_abort_leaves_what_a_sync_of_the_old_source_would(canarist: Canarist, cluster: Cluster, tmp_path: Path) -> None:
    """Nothing of it has changed, and what the source states no more is not held by us."""
    client, namespace = cluster.client, canarist.namespace
    changed = set_body()
    changed["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "LEVEL", "value": "3"}]
    syncer = await set_stands(canarist, cluster, tmp_path / "source", changed)
    before = await client.get(STATEFUL_SETS, namespace, "web")
    stop = StopSignal()
    spec = {**_SET, "source": {"path": str(tmp_path / "source")}}
    running = asyncio.create_task(canarist.run({"setWeight": 50}, {"pause": {}}, stop=stop, **spec))
    await eventually(lambda: stands_at(canarist, client, "StatefulSet", 1), within=20)
    stop.request(StopVerdict.CANCEL)
    result = await running
    live = await client.get(STATEFUL_SETS, namespace, "web")
    syncer.write([settings_map(data={"pool": "40"}), set_body()])
    again = await syncer.sync()

    assert result.outcome is Outcome.CANCELLED, result
    assert live["spec"] == before["spec"]
    assert not any(each["manager"] == "delegate-canary" for each in live["metadata"]["managedFields"])
    assert await read_by_ordinal(client, namespace) == ["40", "40"]
    assert await copies(client, namespace) == []
    assert not any(each.changes for each in again.resources)


@pytest.mark.parametrize("at_write", [6, 8, 9, 11])
async def test_another_attempt_promotes_a_source_whatever_write_the_last_one_died_at(
    canarist: Canarist, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_write: int
) -> None:
    """The new version inside, all of it, or the sync in between."""
    client, namespace = cluster.client, canarist.namespace
    await set_stands(canarist, cluster, tmp_path / "source")
    spec = {**_SET, "source": {"path": str(tmp_path / "source")}}
    death = Death(at_write, after_it_was_done=True)
    with death.strikes(monkeypatch):
        died = await canarist.run({"setWeight": 50}, **spec)

    result = await canarist.run({"setWeight": 50}, **spec)

    assert death.happened
    assert died.outcome is not Outcome.SUCCEEDED
    assert result.outcome is Outcome.SUCCEEDED, result
    assert await read_by_ordinal(client, namespace) == ["400", "400"]
    assert await copies(client, namespace) == []


async def test_a_partition_of_the_source_is_refused(canarist: Canarist, cluster: Cluster, tmp_path: Path) -> None:
    """It would move the canary's own."""
    body = set_body()
    body["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    await set_stands(canarist, cluster, tmp_path / "source", body)

    result = await canarist.run({"setWeight": 50}, **{**_SET, "source": {"path": str(tmp_path / "source")}})

    assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0), result
    assert "an update strategy of its own hand" in result.message


async def test_a_set_is_tried_by_a_command_before_any_ordinal(canarist: Canarist, cluster: Cluster, tmp_path: Path) -> None:
    """With the new configuration, and empty in place of the claims that its pods mount."""
    client, namespace = cluster.client, canarist.namespace
    body = set_body()
    body["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, "storageClassName": "none"}
    body["spec"] |= {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}], "replicas": 0}
    syncer = Syncer(canarist.engine, tmp_path / "source", namespace)
    syncer.write([settings_map(data={"pool": "40"}), body])
    assert (await syncer.sync()).outcome is Outcome.SUCCEEDED
    syncer.write([settings_map(data={"pool": "400"}), body])
    made: list[JsonObject] = []

    async def seen() -> bool:
        made[:] = (await client.list(JOBS, namespace)).items
        return bool(made)

    spec = {**_SET, "source": {"path": str(tmp_path / "source")}, "smokeTest": test_of("complete")}
    running = asyncio.create_task(canarist.run(**spec))
    await eventually(seen, within=20)
    pod = made[0]["spec"]["template"]["spec"]
    result = await running

    assert result.outcome is Outcome.SUCCEEDED, result
    assert {"name": "data", "emptyDir": {}} in pod["volumes"]
    assert pod["containers"][0]["envFrom"][0]["configMapRef"]["name"].startswith("settings-")


@pytest.fixture
async def rollout(
    request: pytest.FixtureRequest, canarist: Canarist, cluster: Cluster, tmp_path: Path
) -> AsyncIterator[RolloutsController]:
    """A Rollout `web` of a source, settled; of the source nothing has changed since but what it reads."""
    client, namespace = cluster.client, canarist.namespace
    await rollouts_are_defined(client)
    body = deployment("web", OLD, 2)
    body |= {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}
    body["spec"]["strategy"] = getattr(request, "param", {"canary": {"steps": _PAUSES}})
    await client.create(SERVICES, service(namespace))
    body["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    syncer = Syncer(canarist.engine, tmp_path / "source", namespace)
    syncer.write([settings_map(data={"pool": "40"}), body])
    controller = RolloutsController(client, namespace)
    async with controller.running():
        await eventually(lambda: created(client, {**body, "metadata": {**body["metadata"], "namespace": namespace}}), within=20)
        assert (await syncer.sync()).outcome is Outcome.SUCCEEDED
        await eventually(lambda: settled(client, namespace, OLD), within=20)
        syncer.write([settings_map(data={"pool": "400"}), body])
        yield controller


@pytest.mark.usefixtures("rollout")
@pytest.mark.parametrize("rollout", [{"canary": {"steps": _PAUSES}}, BLUE_GREEN], indirect=True, ids=["canary", "blue-green"])
async def test_a_rollout_is_judged_once_whatever_names_it_reads_by(canarist: Canarist, cluster: Cluster, tmp_path: Path) -> None:
    """At its pause the new pods read a copy; the sync's own names take no step again."""
    client, namespace = cluster.client, canarist.namespace
    running = asyncio.create_task(canarist.run({"pause": {}}, **_ROLLOUT, source={"path": str(tmp_path / "source")}))
    await eventually(lambda: stands_at(canarist, client, "Rollout", 1), within=20)
    at_pause = await read_by_ordinal(client, namespace)
    canarist.resume.request()
    result = await running

    assert set(at_pause) == {"40", "400"}
    assert result.outcome is Outcome.SUCCEEDED, result
    assert await settled(client, namespace, OLD)
    assert set(await read_by_ordinal(client, namespace)) == {"400"}
    assert await copies(client, namespace) == []


@pytest.mark.usefixtures("rollout")
@pytest.mark.parametrize("at_write", [8, 11])
async def test_a_rollout_goes_on_whatever_write_the_last_attempt_died_at(
    canarist: Canarist, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_write: int
) -> None:
    """Its promotion and the sync among them."""
    client, namespace = cluster.client, canarist.namespace
    spec = {**_ROLLOUT, "source": {"path": str(tmp_path / "source")}}
    with killed(monkeypatch, cluster, at_write) as death:
        await canarist.run({"pause": {"duration": "50ms"}}, **spec)

    result = await canarist.run({"pause": {"duration": "50ms"}}, **spec)

    assert death.is_set()
    assert result.outcome is Outcome.SUCCEEDED, result
    assert set(await read_by_ordinal(client, namespace)) == {"400"}
    assert await copies(client, namespace) == []


@pytest.mark.usefixtures("rollout")
async def test_a_rollout_of_a_source_is_taken_back(canarist: Canarist, cluster: Cluster, tmp_path: Path) -> None:
    """Its template as it was, its configuration never written."""
    client, namespace = cluster.client, canarist.namespace
    before = await client.get(ROLLOUTS, namespace, "web")
    stop = StopSignal()
    running = asyncio.create_task(
        canarist.run({"pause": {}}, stop=stop, smokeTest=test_of("complete"), **{**_ROLLOUT, "source": {"path": str(tmp_path / "source")}})
    )
    await eventually(lambda: stands_at(canarist, client, "Rollout", 1), within=20)
    stop.request(StopVerdict.CANCEL)
    result = await running

    assert result.outcome is Outcome.CANCELLED, result
    assert any("the smoke test passed" in words for words in result.notices)
    live = await client.get(ROLLOUTS, namespace, "web")
    assert live["spec"] == before["spec"]
    assert await settled(client, namespace, OLD)
    assert set(await read_by_ordinal(client, namespace)) == {"40"}
    journal = (await JournalStore(client, namespace, "Rollout", "web").read()).journal
    assert journal is not None
    assert journal.phase is Phase.RESTORED
