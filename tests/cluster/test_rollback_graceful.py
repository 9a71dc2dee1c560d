"""The graceful way back: the good version takes the load over beside the bad one, before anything is restored in its place."""

import asyncio
import contextlib
from collections.abc import Mapping

import pytest

from delegate.engine.clusters.metering import Effect
from delegate.engine.clusters.registry import Cluster
from delegate.engine.clusters.transport import Answer, Call, Transport
from delegate.engine.records.journals import JournalStore
from delegate.engine.records.releases import ReleaseStore
from delegate.model.releases import ReleaseOutcome
from delegate.model.resource_types import CONFIG_MAPS, DEPLOYMENTS, INGRESSES, SERVICES
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, TaskResult
from delegate.model.rollouts.states import Phase
from delegate.model.tasks import TaskDocumentError, read_task
from tests.cluster.canaries import NEW, OLD, Canarist, image_of, replicas_of, stable_stands, watched
from tests.cluster.routes import Ground, main_ingress
from tests.cluster.servers import eventually
from tests.cluster.syncing import Syncer, deployment, settings_map

pytestmark = pytest.mark.lease_seconds(2)
BY_INGRESS: JsonObject = {"nginx": {"ingress": "web"}}


async def bad_version_runs(cluster: Cluster, canarist: Canarist, replicas: int = 4) -> None:
    """After a good one."""
    await stable_stands(cluster.client, canarist.namespace, replicas=replicas)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": NEW}]}}}}
    await cluster.client.patch(DEPLOYMENTS, canarist.namespace, "web", patch, kind="strategic")

    async def is_out() -> bool:
        live = await cluster.client.get(DEPLOYMENTS, canarist.namespace, "web")
        status = live["status"]
        counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
        return bool(status.get("observedGeneration") == live["metadata"]["generation"] and counts == [replicas] * 3)

    await eventually(is_out, within=30)


async def roll_back(canarist: Canarist, task: str = "back", **spec: object) -> TaskResult:
    wanted = {"workload": {"kind": "Deployment", "name": "web"}, "mode": "graceful", "drain": "0s", "minReady": "0s", "watch": "0s", **spec}
    return await canarist.attempt(kind="rollback", task=task, spec=wanted, options={"failFastAfter": "1s"})


async def weights(cluster: Cluster, namespace: str) -> Mapping[str, str]:
    if not await Ground(cluster, namespace).exists(INGRESSES, "web-canary"):
        return {}
    found: Mapping[str, str] = (await cluster.client.get(INGRESSES, namespace, "web-canary"))["metadata"]["annotations"]
    return found


async def test_the_bad_version_has_no_load_when_it_is_replaced(
    canarist: Canarist, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weight is zero and it was drained when the template is written; afterwards nothing is left beside it."""
    await bad_version_runs(cluster, canarist, replicas=2)
    namespace = canarist.namespace
    await cluster.client.create(INGRESSES, main_ingress(Ground(cluster, namespace)))
    real, seen = Transport.send, list[tuple[str, int]]()

    async def send(transport: Transport, call: Call, timeout: float, **options: bool) -> Answer:
        if call.effect is Effect.WRITE and call.path.endswith("/deployments/web"):
            found = await weights(cluster, namespace)
            canary = await cluster.client.get(DEPLOYMENTS, namespace, "web-canary")
            seen.append((found["nginx.ingress.kubernetes.io/canary-weight"], canary["status"].get("availableReplicas", 0)))
        return await real(transport, call, timeout, **options)

    monkeypatch.setattr(Transport, "send", send)
    result = await roll_back(canarist, routing=BY_INGRESS)

    assert result.outcome is Outcome.SUCCEEDED, result
    assert seen[0] == ("100", 2)
    assert await image_of(cluster.client, namespace) == OLD
    assert await replicas_of(cluster.client, namespace) == -1
    assert await weights(cluster, namespace) == {}
    assert not await Ground(cluster, namespace).exists(SERVICES, "web-canary")


async def test_without_a_router_the_capacity_never_falls(canarist: Canarist, cluster: Cluster) -> None:
    """The update rule lets one of four go; pods of the good version beside them make up for it."""
    await bad_version_runs(cluster, canarist)

    async with watched(cluster.client, canarist.namespace) as capacity:
        result = await roll_back(canarist)

    assert result.outcome is Outcome.SUCCEEDED, result
    assert capacity.least >= 4
    assert await image_of(cluster.client, canarist.namespace) == OLD
    assert await replicas_of(cluster.client, canarist.namespace) == -1


async def test_where_the_good_version_does_not_come_up_the_bad_one_keeps_the_load(canarist: Canarist, cluster: Cluster) -> None:
    """Its image is gone: nothing was restored, and nothing is left beside."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "registry.example/broken:broken"}]}}}}
    await cluster.client.patch(DEPLOYMENTS, canarist.namespace, "web", patch, kind="strategic")
    patch["spec"]["template"]["spec"]["containers"][0]["image"] = NEW
    await eventually(lambda: _observed(cluster, canarist), within=20)
    await cluster.client.patch(DEPLOYMENTS, canarist.namespace, "web", patch, kind="strategic")
    await eventually(lambda: _observed(cluster, canarist), within=20)

    await cluster.client.create(INGRESSES, main_ingress(Ground(cluster, canarist.namespace)))

    result = await roll_back(canarist, routing=BY_INGRESS)

    assert result.outcome is Outcome.FAILED, result
    assert "what was bad keeps the load" in result.message
    assert await image_of(cluster.client, canarist.namespace) == NEW
    assert await weights(cluster, canarist.namespace) == {}
    assert await replicas_of(cluster.client, canarist.namespace) == -1


async def _observed(cluster: Cluster, canarist: Canarist) -> bool:
    live = await cluster.client.get(DEPLOYMENTS, canarist.namespace, "web")
    return bool(live["status"].get("observedGeneration") == live["metadata"]["generation"])


async def test_an_attempt_after_a_crash_goes_on_with_the_good_version_in_charge(canarist: Canarist, cluster: Cluster) -> None:
    """Its load is not given back to the bad one in between."""
    await bad_version_runs(cluster, canarist, replicas=2)
    namespace = canarist.namespace
    await cluster.client.create(INGRESSES, main_ingress(Ground(cluster, namespace)))
    first = asyncio.create_task(roll_back(canarist, routing=BY_INGRESS, drain="600s"))

    async def is_in_charge() -> bool:
        return (await weights(cluster, namespace)).get("nginx.ingress.kubernetes.io/canary-weight") == "100"

    await eventually(is_in_charge, within=20)
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await first
    store = JournalStore(cluster.client, namespace, "Deployment", "web")
    stored = await store.read()
    assert stored.journal is not None
    assert stored.journal.phase is Phase.STEPPING
    again = asyncio.create_task(roll_back(canarist, routing=BY_INGRESS, drain="600s"))

    async def is_adopted() -> bool:
        journal = (await store.read()).journal
        return journal is not None and stored.journal is not None and journal.attempt != stored.journal.attempt

    await eventually(is_adopted, within=20)
    assert await is_in_charge()
    again.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await again


async def two_releases(syncer: Syncer) -> None:
    for image, level in ((OLD, "info"), (NEW, "debug")):
        body = deployment(image=image, replicas=2)
        body["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
        syncer.write([settings_map(data={"level": level}), body])
        assert (await syncer.sync()).outcome is Outcome.SUCCEEDED


GRACEFUL: JsonObject = {"mode": "graceful", "drain": "0s", "minReady": "0s"}


async def test_an_application_goes_back_gracefully(syncer: Syncer, cluster: Cluster) -> None:
    """The pods beside read the configuration of their own release; then all of it is restored, and is a release of its own."""
    await two_releases(syncer)
    seen: list[str] = []

    def told(event: str, data: JsonObject) -> None:
        if event == "canary.moved":
            seen.append(str(data["phase"]))

    syncer.on_event = told
    result = await syncer.roll_back(**GRACEFUL)

    assert (result.outcome, result.release) == (Outcome.SUCCEEDED, 3), result
    assert seen[-1] == Phase.PROMOTED
    assert await image_of(cluster.client, syncer.namespace) == OLD
    assert (await cluster.client.get(CONFIG_MAPS, syncer.namespace, "settings"))["data"] == {"level": "info"}
    newest, left, _ = await ReleaseStore(cluster.client, "shop", syncer.namespace).known()
    assert (newest.restores, newest.outcome, left.bad) == (1, ReleaseOutcome.HEALTHY, True)
    assert await replicas_of(cluster.client, syncer.namespace) == -1


async def test_what_was_restored_and_not_cleared_is_cleared(syncer: Syncer, cluster: Cluster) -> None:
    """Killed after the release was back: the next attempt of the task takes away what stands beside."""
    await two_releases(syncer)

    def told(event: str, data: JsonObject) -> None:
        if event == "canary.moved" and data["phase"] == Phase.CLEARING:
            running.cancel()

    syncer.on_event = told
    running = asyncio.create_task(syncer.roll_back(task="one", **GRACEFUL))
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert running.cancelled()
    syncer.on_event = lambda event, data: None

    result = await syncer.roll_back(task="one", **GRACEFUL)

    assert result.outcome is Outcome.SUCCEEDED, result
    assert await image_of(cluster.client, syncer.namespace) == OLD
    assert await replicas_of(cluster.client, syncer.namespace) == -1
    assert sum(1 for release in await ReleaseStore(cluster.client, "shop", syncer.namespace).known() if release.restores) == 1


async def test_what_can_not_go_gracefully_is_refused_by_its_name(syncer: Syncer, cluster: Cluster) -> None:
    """With the reason, and nothing is written."""
    for image in (OLD, NEW):
        syncer.write([deployment(name, image, 1) for name in ("web", "shop")])
        assert (await syncer.sync()).outcome is Outcome.SUCCEEDED
    several = await syncer.roll_back(**GRACEFUL)
    ordered = await syncer.roll_back(workload={"kind": "StatefulSet", "name": "db"}, **GRACEFUL)
    by_helm = await syncer.roll_back(helmRelease={"name": "shop"}, **GRACEFUL)
    for result, words in (
        (several, "changes the pods of"),
        (ordered, "nothing can stand beside a StatefulSet"),
        (by_helm, "Helm replaces"),
    ):
        assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0), result
        assert words in result.message
    with pytest.raises(TaskDocumentError, match="mode immediate shifts no load"):
        read_task({"kind": "rollback", "application": "shop", "spec": {"routing": BY_INGRESS}})
