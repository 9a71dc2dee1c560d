"""Blue/green: the new set beside the stable one, seen by its preview alone, then all load at once, and a way back until the end."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from delegate.engine.clusters.access import Access, may
from delegate.engine.clusters.registry import Cluster
from delegate.model.resource_types import AUTOSCALERS, DEPLOYMENTS, JOBS, PODS, SERVICES
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome
from delegate.model.rollouts.states import Phase
from tests.cluster.canaries import (
    NEW,
    OLD,
    Canarist,
    image_of,
    journal_of,
    replicas_of,
    running_canarist,
    service,
    stable_stands,
    verifying,
    watched,
)
from tests.cluster.conftest import Server
from tests.cluster.routes import HTTP_ROUTE, Ground, accepted, served
from tests.cluster.servers import eventually
from tests.cluster.syncing import Syncer, deployment
from tests.cluster.test_canary_smoke import allow
from tests.cluster.test_sync_crashes import Death

pytestmark = pytest.mark.lease_seconds(1)
OLD_PODS, NEW_PODS = {"app": "web"}, {"app": "web-canary", "delegate.gitops/track": "canary"}


class Shop:
    """Answers a ratio of errors, in percent, and notes at each question: host, new pods, whom the two Services lead to."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        self.ratios: list[float] = []
        """The next ones; none: few."""
        self.seen: list[tuple[str, int, JsonObject, JsonObject]] = []

    async def answer(self, request: web.Request) -> web.Response:
        active, preview = await selector_of(self, "web"), await selector_of(self, "web-preview")
        self.seen.append((request.query["host"], await replicas_of(self.cluster.client, self.namespace), active, preview))
        return web.json_response({"errors": self.ratios.pop(0) if self.ratios else 0.1})

    @asynccontextmanager
    async def check(self) -> AsyncIterator[JsonObject]:
        application = web.Application()
        application.router.add_get("/errors", self.answer)
        async with TestServer(application) as running:
            url = f"{running.make_url('/errors')}?host=$PREVIEW"
            yield {"name": "errors", "type": "http", "url": url, "query": "$.errors", "unit": "%", "threshold": "<= 1%", "every": "100ms"}


async def selector_of(place: Shop | Ground, name: str) -> JsonObject:
    """Of a Service; empty where there is none."""
    if not await Ground(place.cluster, place.namespace).exists(SERVICES, name):
        return {}
    found: JsonObject = (await place.cluster.client.get(SERVICES, place.namespace, name))["spec"]["selector"]
    return found


def blue_green(**more: object) -> JsonObject:
    wanted = {"activeService": "web", "previewService": "web-preview", "scaleDownDelay": "0s", **more}
    return {"blueGreen": wanted, "drain": "0s"}


@pytest.fixture
def shop(canarist: Canarist, cluster: Cluster) -> Shop:
    return Shop(cluster, verifying(canarist).namespace)


@asynccontextmanager
async def selectors_seen(cluster: Cluster, namespace: str, name: str = "web") -> AsyncIterator[list[JsonObject]]:
    """Each one that a Service has had while the block ran, in order."""
    seen: list[JsonObject] = []

    async def watch() -> None:
        deadline = asyncio.get_running_loop().time() + 60
        async with contextlib.aclosing(cluster.client.watch(SERVICES, namespace, deadline=deadline)) as events:
            async for event in events:
                if event.object and event.object["metadata"]["name"] == name and event.object["spec"]["selector"] not in seen[-1:]:
                    seen.append(event.object["spec"]["selector"])

    watching = asyncio.create_task(watch())
    try:
        await eventually(lambda: bool(seen), within=20)
        yield seen
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching


async def at_pause(shop: Shop, step: int) -> bool:
    if await replicas_of(shop.cluster.client, shop.namespace) < 0:
        return False
    journal = await journal_of(shop.cluster.client, shop.namespace)
    return journal.step == step and bool(journal.since)


async def test_from_the_preview_to_the_switch_and_its_end(canarist: Canarist, cluster: Cluster, shop: Shop) -> None:
    """One pod for the preview, a word, the whole set, the switch, checks after it; both Services come back as they were."""
    namespace = shop.namespace
    await stable_stands(cluster.client, namespace)
    preview = {**service(namespace), "metadata": {"name": "web-preview", "namespace": namespace}}
    before = [await cluster.client.get(SERVICES, namespace, "web"), await cluster.client.create(SERVICES, preview)]
    wanted = blue_green(previewReplicaCount=1, prePromotion=["errors"], autoPromotion=False, postPromotion=["errors"])
    async with shop.check() as check, watched(cluster.client, namespace) as capacity, selectors_seen(cluster, namespace) as seen:
        running = asyncio.create_task(canarist.run(verification=[check], **wanted))
        await eventually(lambda: at_pause(shop, 2), within=20)
        at_the_gate = await selector_of(shop, "web"), await selector_of(shop, "web-preview")
        canarist.resume.request((await journal_of(cluster.client, namespace)).gate)
        result = await running

    assert result.outcome is Outcome.SUCCEEDED, (result.message, result.error)
    assert at_the_gate == (OLD_PODS, NEW_PODS)
    host = f"web-preview.{namespace}.svc"
    assert shop.seen == [(host, 1, OLD_PODS, NEW_PODS), (host, 4, NEW_PODS, NEW_PODS)]
    assert seen == [OLD_PODS, NEW_PODS, OLD_PODS]
    assert any("verified errors with no load: 1 of 1" in words for words in result.notices)
    assert any("verified errors with 100%: 1 of 1" in words for words in result.notices)
    assert (capacity.least_stable, capacity.least >= 4) == (4, True)
    after = [await cluster.client.get(SERVICES, namespace, name) for name in ("web", "web-preview")]
    assert [(each["spec"], each["metadata"].get("annotations")) for each in after] == [
        (each["spec"], each["metadata"].get("annotations")) for each in before
    ]
    assert not await Ground(cluster, namespace).exists(SERVICES, "web-canary")
    assert await image_of(cluster.client, namespace) == NEW


@pytest.mark.parametrize("ratios", [[9.0], [0.1, 9.0]], ids=["before", "after"])
async def test_bad_evidence_on_either_side_of_the_switch_leads_back(
    canarist: Canarist, cluster: Cluster, shop: Shop, ratios: list[float]
) -> None:
    """Before it the active Service is not even written; after it the old pods stand, untouched, and have all load again."""
    shop.ratios = list(ratios)
    stable = await stable_stands(cluster.client, shop.namespace, replicas=2)
    before = await cluster.client.get(SERVICES, shop.namespace, "web")
    async with shop.check() as check, watched(cluster.client, shop.namespace) as capacity:
        wanted = blue_green(prePromotion=["errors"], postPromotion=["errors"])
        result = await canarist.run(verification=[check], **wanted)

    assert result.outcome is Outcome.ABORTED, (result.message, result.error)
    assert [active for _, _, active, _ in shop.seen] == [OLD_PODS, NEW_PODS][: len(ratios)]
    after = await cluster.client.get(SERVICES, shop.namespace, "web")
    assert after["spec"] == before["spec"]
    assert (after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]) is (len(ratios) == 1)
    assert (await cluster.client.get(DEPLOYMENTS, shop.namespace, "web"))["spec"] == stable["spec"]
    assert capacity.least_stable == 2
    assert await nothing_is_left(shop)


async def nothing_is_left(shop: Shop) -> bool:
    ground = Ground(shop.cluster, shop.namespace)
    left = [await ground.exists(SERVICES, name) for name in ("web-canary", "web-preview")]
    return not any(left) and await replicas_of(shop.cluster.client, shop.namespace) == -1


async def test_a_preview_that_somebody_leads_elsewhere_holds_it(canarist: Canarist, cluster: Cluster, shop: Shop) -> None:
    """What was seen by it is of other pods: the verdict does not count, and resumed the preview is as it was and asked again."""
    namespace = shop.namespace
    await stable_stands(cluster.client, namespace, replicas=2)
    await cluster.client.create(SERVICES, {**service(namespace), "metadata": {"name": "web-preview", "namespace": namespace}})
    lead_back, answer = asyncio.Event(), shop.answer

    async def meddling(request: web.Request) -> web.Response:
        if not lead_back.is_set():
            lead_back.set()
            patch = [{"op": "replace", "path": "/spec/selector", "value": OLD_PODS}]
            await cluster.client.patch(SERVICES, namespace, "web-preview", patch, kind="json")
        return await answer(request)

    shop.answer = meddling  # type: ignore[method-assign]
    async with shop.check() as check:
        running = asyncio.create_task(canarist.run(verification=[check], **blue_green(prePromotion=["errors"])))

        async def is_held() -> bool:
            return lead_back.is_set() and (await journal_of(cluster.client, namespace)).phase is Phase.HELD

        await eventually(is_held, within=20)
        journal = await journal_of(cluster.client, namespace)
        canarist.resume.request(journal.gate)
        result = await running

    assert f"Service {namespace}/web-preview leads elsewhere than to the new pods" in journal.reason
    assert [preview for _, _, _, preview in shop.seen] == [OLD_PODS, NEW_PODS]
    assert result.outcome is Outcome.SUCCEEDED, (result.message, result.error)
    assert await selector_of(shop, "web-preview") == OLD_PODS


async def test_a_smoke_test_runs_against_the_whole_preview(canarist: Canarist, cluster: Cluster, shop: Shop) -> None:
    """Its command finds the host in its environment, and the new pods behind it."""
    namespace = shop.namespace
    await stable_stands(cluster.client, namespace, replicas=2)
    found: list[tuple[int, JsonObject, JsonObject]] = []

    async def look() -> None:
        while not found:
            for job in (await cluster.client.list(JOBS, namespace)).items:
                new = (await cluster.client.list(PODS, namespace, labels="app=web-canary")).items
                env = job["spec"]["template"]["spec"]["containers"][0]["env"]
                found.append((len(new), env[-1], await selector_of(shop, "web-preview")))
            await asyncio.sleep(0.02)

    looking = asyncio.create_task(look())
    smoke = {"command": ["/bin/check"], "image": "registry.example/check:complete"}
    result = await canarist.run(smokeTest=smoke, **blue_green())
    looking.cancel()

    assert result.outcome is Outcome.SUCCEEDED, (result.message, result.error)
    assert found == [(2, {"name": "PREVIEW", "value": f"web-preview.{namespace}.svc"}, NEW_PODS)]


async def test_the_new_set_keeps_its_size_where_the_old_one_is_scaled_down_for_want_of_load(
    canarist: Canarist, cluster: Cluster, shop: Shop
) -> None:
    """It bears all of it; an autoscaler leaves the old one alone meanwhile. A newer release finds the switched Service, and takes all of it
    back before it begins."""
    namespace = shop.namespace
    await stable_stands(cluster.client, namespace, replicas=3)
    scaler = await cluster.client.create(AUTOSCALERS, autoscaler(namespace))
    first = asyncio.create_task(canarist.run(**blue_green(scaleDownDelay="10m")))
    await eventually(lambda: at_pause(shop, 2), within=20)
    switched = await selector_of(shop, "web")
    held = (await cluster.client.get(AUTOSCALERS, namespace, "web"))["spec"]["behavior"]["scaleDown"]["selectPolicy"]
    await cluster.client.patch(DEPLOYMENTS, namespace, "web", {"spec": {"replicas": 1}})

    async def is_seen() -> bool:
        return (await journal_of(cluster.client, namespace)).replicas == 1

    await eventually(is_seen, within=20)
    kept = await replicas_of(cluster.client, namespace)
    first.cancel()
    await asyncio.wait([first])
    async with selectors_seen(cluster, namespace) as seen:
        result = await canarist.run(image=f"{NEW}.1", task="task-2", **blue_green())

    assert (switched, kept, held) == (NEW_PODS, 3, "Disabled")
    after = await cluster.client.get(AUTOSCALERS, namespace, "web")
    assert (after["spec"], after["metadata"].get("annotations")) == (scaler["spec"], scaler["metadata"].get("annotations"))
    assert seen == [NEW_PODS, OLD_PODS, NEW_PODS, OLD_PODS]
    assert result.outcome is Outcome.SUCCEEDED, (result.message, result.error)
    assert await image_of(cluster.client, namespace) == f"{NEW}.1"
    assert await nothing_is_left(shop)


def autoscaler(namespace: str) -> JsonObject:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"minReplicas": 1, "maxReplicas": 9, "scaleTargetRef": target}
    metadata = {"name": "web", "namespace": namespace}
    return {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": spec}


async def test_an_autoscaler_that_may_not_be_held_is_told(
    cluster: Cluster, limited: Cluster, server: Server, namespace: str, tmp_path: Path
) -> None:
    """It goes on, and the notice says what an abort may find, and which verb is missing; the autoscaler is not written."""
    await stable_stands(cluster.client, namespace, replicas=2)
    scaler = await cluster.client.create(AUTOSCALERS, autoscaler(namespace))
    rules = [
        {"apiGroups": ["", "apps", "coordination.k8s.io", "discovery.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["autoscaling"], "resources": ["*"], "verbs": ["get", "list"]},
    ]
    await allow(cluster, namespace, rules)
    await eventually(lambda: may(limited.client, Access("list", "autoscaling", "horizontalpodautoscalers", namespace)), within=20)
    async with running_canarist(server.limited_kubeconfig, tmp_path / "limited", namespace) as canarist:
        result = await canarist.run(**blue_green())

    assert result.outcome is Outcome.SUCCEEDED, (result.message, result.error)
    assert any("the autoscaler web may shrink web as soon as its load goes elsewhere" in words for words in result.notices)
    after = await cluster.client.get(AUTOSCALERS, namespace, "web")
    assert (after["spec"], after["metadata"].get("annotations")) == (scaler["spec"], scaler["metadata"].get("annotations"))


async def test_promoted_by_a_sync_that_holds_the_services_too(canarist: Canarist, cluster: Cluster, shop: Shop, tmp_path: Path) -> None:
    """It leaves alone whom they lead to: the old pods get no load while they are replaced."""
    namespace = shop.namespace
    syncer = Syncer(canarist.engine, tmp_path / "source", namespace)
    services = [{**service(namespace), "metadata": {"name": name}} for name in ("web", "web-preview")]
    syncer.write([deployment("web", OLD, 2), *services])
    synced = await syncer.sync()
    assert synced.outcome is Outcome.SUCCEEDED, synced
    syncer.write([deployment("web", NEW, 2), *services])
    phases: list[Phase] = []

    async def note_phase(name: str) -> None:
        async with selectors_seen(cluster, namespace, name) as seen:
            await eventually(lambda: seen == [OLD_PODS, NEW_PODS, OLD_PODS], within=40)
            phases.append((await journal_of(cluster.client, namespace)).phase)

    noting = asyncio.gather(note_phase("web"), note_phase("web-preview"))
    result = await canarist.run(images={}, source={"path": str(tmp_path / "source")}, **blue_green())
    await noting

    assert result.outcome is Outcome.SUCCEEDED, (result.message, result.error)
    assert Phase.PROMOTING not in phases
    assert await image_of(cluster.client, namespace) == NEW
    again = await syncer.sync()
    assert again.outcome is Outcome.SUCCEEDED, again
    assert await selector_of(shop, "web") == OLD_PODS


async def test_by_an_http_route_all_at_once(canarist: Canarist, cluster: Cluster, shop: Shop) -> None:
    """Nothing of the route's weight until the switch, all of it then; the preview is a Service of its own."""
    namespace, ground = shop.namespace, Ground(cluster, shop.namespace)
    type = await served(cluster, HTTP_ROUTE)
    await stable_stands(cluster.client, namespace, replicas=2)
    spec = {"parentRefs": [{"name": "gate"}], "rules": [{"backendRefs": [{"name": "web", "port": 80}]}]}
    before = await cluster.client.create(type, ground.body("HTTPRoute", type.api_version, "web", spec))
    weights: list[list[int]] = []

    async def weighed(request: web.Request) -> web.Response:
        route = await cluster.client.get(type, namespace, "web")
        weights.append([each["weight"] for each in route["spec"]["rules"][0]["backendRefs"]])
        return await Shop.answer(shop, request)

    shop.answer = weighed  # type: ignore[method-assign]
    async with accepted(cluster.client, type, namespace, "web"), shop.check() as check:
        wanted = blue_green(prePromotion=["errors"], postPromotion=["errors"])
        result = await canarist.run(verification=[check], routing={"gatewayAPI": {"httpRoute": "web"}}, **wanted)

    assert result.outcome is Outcome.SUCCEEDED, (result.message, result.error)
    assert weights == [[1], [0, 100]]
    assert [preview for _, _, _, preview in shop.seen] == [NEW_PODS, NEW_PODS]
    assert (await cluster.client.get(type, namespace, "web"))["spec"] == before["spec"]
    assert await nothing_is_left(shop)


@pytest.mark.parametrize(("at_write", "ratios"), [(19, [0.1]), (16, [9.0])])
async def test_another_attempt_ends_it_whatever_write_the_last_one_died_at(
    canarist: Canarist, shop: Shop, monkeypatch: pytest.MonkeyPatch, at_write: int, ratios: list[float]
) -> None:
    """All of the one or all of the other; the old pods stay until they are replaced, and both Services lead to the stable ones."""
    cluster, namespace = shop.cluster, shop.namespace
    await stable_stands(cluster.client, namespace, replicas=2)
    preview = {**service(namespace), "metadata": {"name": "web-preview", "namespace": namespace}}
    await cluster.client.create(SERVICES, preview)
    death = Death(at_write, after_it_was_done=True)
    shop.ratios = ratios * 9
    async with shop.check() as check, watched(cluster.client, namespace) as capacity:
        wanted = blue_green(previewReplicaCount=1, postPromotion=["errors"])
        with death.strikes(monkeypatch):
            died = await canarist.run(verification=[check], **wanted)
        result = await canarist.run(verification=[check], **wanted)

    good = ratios == [0.1]
    assert death.happened
    assert died.outcome is not Outcome.SUCCEEDED
    assert result.outcome is (Outcome.SUCCEEDED if good else Outcome.ABORTED), (result.message, result.error)
    assert (await journal_of(cluster.client, namespace)).phase is (Phase.PROMOTED if good else Phase.RESTORED)
    assert await image_of(cluster.client, namespace) == (NEW if good else OLD)
    assert (capacity.least_stable, capacity.least >= 2) == (2, True)
    assert (await selector_of(shop, "web"), await selector_of(shop, "web-preview")) == (OLD_PODS, OLD_PODS)
    assert not await Ground(cluster, namespace).exists(SERVICES, "web-canary")
    assert await replicas_of(cluster.client, namespace) == -1
