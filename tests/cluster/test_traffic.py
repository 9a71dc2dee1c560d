"""Load is shifted and comes back, by each kind of route: what is written, read back, refused, and left alone."""

import asyncio
from collections.abc import Callable

import pytest

from delegate.engine.clusters.errors import StaleObjectError
from delegate.engine.clusters.metering import Effect
from delegate.engine.clusters.registry import Cluster
from delegate.engine.clusters.transport import Answer, Call, Transport
from delegate.engine.tasks.stopping import StopSignal, StopVerdict
from delegate.engine.traffic.endpoints import ready_pods
from delegate.engine.traffic.errors import (
    ForeignRouteError,
    RouteNotFoundError,
    RouteNotInForceError,
    RoutingSpecError,
    RoutingUnavailableError,
)
from delegate.engine.traffic.gateway import gateway_router
from delegate.engine.traffic.istio import istio_router
from delegate.engine.traffic.marks import Mark, mark_of, marked
from delegate.engine.traffic.nginx import nginx_router
from delegate.engine.traffic.patching import guarded_patch
from delegate.engine.traffic.writing import Writer, type_of
from delegate.model.resource_types import CONFIG_MAPS, INGRESSES, SERVICES
from delegate.model.resources import GroupKind, JsonObject, ResourceType
from delegate.model.results import Outcome
from delegate.model.rollouts.journals import RESUME_ANNOTATION, journal_name
from delegate.model.rollouts.loads import Load
from tests.cluster.canaries import NEW, Canarist, image_of, stable_stands
from tests.cluster.routes import HTTP_ROUTE, VIRTUAL_SERVICE, Ground, accept, accepted, main_ingress, served
from tests.cluster.servers import eventually

ROUTE = {"httpRoute": "web", "timeout": "15s"}


@pytest.fixture
async def ground(cluster: Cluster, namespace: str) -> Ground:
    made = Ground(cluster, namespace)
    await made.stands()
    return made


@pytest.fixture
async def http_routes(ground: Ground) -> ResourceType:
    """The kind, with a route `web` of two rules, accepted by its parent."""
    type = await served(ground.cluster, HTTP_ROUTE)
    rules = [
        {
            "matches": [{"path": {"type": "PathPrefix", "value": "/a"}}],
            "filters": [{"type": "X"}],
            "backendRefs": [{"name": "web", "port": 80}],
        },
        {"backendRefs": [{"name": "web", "port": 80, "weight": 900}, {"name": "other", "port": 80, "weight": 100}]},
    ]
    spec = {"parentRefs": [{"name": "gate"}], "rules": rules}
    await ground.client.create(type, ground.body("HTTPRoute", type.api_version, "web", spec))
    await accept(ground.client, type, ground.namespace, "web")
    return type


async def test_an_http_route_through_a_canary(ground: Ground, http_routes: ResourceType) -> None:
    """Weights in every rule once its parent has taken them, nothing written twice, the very first spec again, nothing left over."""
    before = await ground.client.get(http_routes, ground.namespace, "web")
    router = gateway_router({**ROUTE, "headers": {"x-canary": "always"}}, ground.place())
    async with accepted(ground.client, http_routes, ground.namespace, "web"):
        await router.check(())
        snapshot = await router.snapshot()
        await router.prepare(snapshot)
        await router.prepare(snapshot)
        await ground.pods_are_ready()
        await router.set_load(Load(25), snapshot)
        live = await ground.client.get(http_routes, ground.namespace, "web")
        router = gateway_router({**ROUTE, "headers": {"x-canary": "always"}}, ground.place(fence=2))
        await router.set_load(Load(25), snapshot)
        again = await ground.client.get(http_routes, ground.namespace, "web")

        weights = [[each["weight"] for each in rule["backendRefs"]] for rule in live["spec"]["rules"]]
        assert weights == [[1], [75, 25], [1], [675, 225, 100]]
        assert live["spec"]["rules"][1]["filters"] == [{"type": "X"}]
        assert again["metadata"]["generation"] == live["metadata"]["generation"]
        assert await router.read_load(snapshot) == Load(25)

        await router.restore(snapshot)
        await router.restore(snapshot)
    after = await ground.client.get(http_routes, ground.namespace, "web")
    assert after["spec"] == before["spec"]
    assert after["metadata"].get("annotations") == before["metadata"].get("annotations")
    assert await router.read_load(snapshot) == Load(0)
    await ground.pods_are_gone()
    await router.clear(snapshot)
    assert not await ground.exists(SERVICES, "web-canary")


async def test_a_weight_that_no_parent_takes_is_not_in_force(ground: Ground, http_routes: ResourceType) -> None:
    """The controller is away: said so by our own clock, with what it has seen."""
    assert http_routes.kind == "HTTPRoute"
    router = gateway_router({"httpRoute": "web", "timeout": "300ms"}, ground.place())
    snapshot = await router.snapshot()
    await router.prepare(snapshot)
    await ground.pods_are_ready()
    with pytest.raises(RouteNotInForceError, match="has not seen its newest state"):
        await router.set_load(Load(25), snapshot)


async def test_no_weight_goes_to_a_service_without_ready_pods(ground: Ground, http_routes: ResourceType) -> None:
    """The route is not even written."""
    before = await ground.client.get(http_routes, ground.namespace, "web")
    router = gateway_router({"httpRoute": "web", "timeout": "200ms"}, ground.place())
    snapshot = await router.snapshot()
    await router.prepare(snapshot)
    with pytest.raises(RouteNotInForceError, match="leads to no ready pod"):
        await router.set_load(Load(25), snapshot)
    assert (await ground.client.get(http_routes, ground.namespace, "web"))["metadata"]["generation"] == before["metadata"]["generation"]


async def test_a_weight_that_somebody_else_wrote_stays(ground: Ground, http_routes: ResourceType) -> None:
    """It is told and not written over; to restore takes the new version out all the same."""
    router = gateway_router(ROUTE, ground.place())
    async with accepted(ground.client, http_routes, ground.namespace, "web"):
        snapshot = await router.snapshot()
        await router.prepare(snapshot)
        await ground.pods_are_ready()
        await router.set_load(Load(25), snapshot)
        foreign = [{"op": "replace", "path": "/spec/rules/0/backendRefs/1/weight", "value": 60}]
        await ground.client.patch(http_routes, ground.namespace, "web", foreign, kind="json")
        with pytest.raises(ForeignRouteError, match="where 25% was written"):
            await router.set_load(Load(50), snapshot)
        await router.restore(snapshot)
    assert await router.read_load(snapshot) == Load(0)


async def test_a_late_writer_is_refused(ground: Ground, http_routes: ResourceType) -> None:
    """Its patch names a state that is gone: 409. And a mark of a higher fence stops whoever reads first: the Lease is asked for."""
    stale = await ground.client.get(http_routes, ground.namespace, "web")
    router = gateway_router(ROUTE, ground.place(fence=5))
    async with accepted(ground.client, http_routes, ground.namespace, "web"):
        snapshot = await router.snapshot()
        await router.set_load(Load(0), snapshot)
    wanted = {**stale, "spec": {**stale["spec"], "rules": []}}
    with pytest.raises(StaleObjectError):
        await ground.client.patch(http_routes, ground.namespace, "web", guarded_patch(stale, wanted), kind="json")
    with pytest.raises(ForeignRouteError, match="under fence 5, this attempt has 4"):
        await gateway_router(ROUTE, ground.place(fence=4)).set_load(Load(0), snapshot)
    assert ground.verified


async def test_writers_that_meet_decide_anew(ground: Ground) -> None:
    """Five at once, each with its own mark on one object: none is lost, and each conflict asks for the Lease."""
    writer = Writer(ground.place(), SERVICES)

    def marking(workload: str) -> Callable[[JsonObject], JsonObject]:
        return lambda live: marked(live, workload, Mark(1, 10.0))

    names = [f"web-{number}" for number in range(5)]
    await asyncio.gather(*(writer.change("web", marking(name)) for name in names))

    live = await ground.client.get(SERVICES, ground.namespace, "web")
    assert all(mark_of(live, name) for name in names)
    assert ground.verified


async def test_routes_that_can_not_be_meant(ground: Ground, http_routes: ResourceType) -> None:
    """No such route, none of the stable Services, several of them, a word that is not known, a kind that is not served."""
    assert http_routes.kind == "HTTPRoute"
    with pytest.raises(RouteNotFoundError, match="there is no"):
        await gateway_router({"httpRoute": "nothing"}, ground.place()).check(())
    with pytest.raises(RouteNotFoundError, match="names no Service of the stable pods"):
        await gateway_router(ROUTE, ground.place("api")).check(())
    with pytest.raises(RoutingSpecError, match="several Services of the stable pods: other, web"):
        await gateway_router(ROUTE, ground.place("web", "other")).check(())
    with pytest.raises(RoutingSpecError, match="wieght"):
        gateway_router({"httpRoute": "web", "wieght": 3}, ground.place())
    with pytest.raises(RoutingUnavailableError, match=r"serves no HTTPRoute of absent\.example"):
        await type_of(ground.place(), GroupKind("absent.example", "HTTPRoute"), "")


async def test_a_virtual_service_through_a_canary(ground: Ground) -> None:
    """The named route alone is weighted, its sum stays 100, and the header route comes and goes."""
    type = await served(ground.cluster, VIRTUAL_SERVICE)
    http = [
        {"name": "metrics", "match": [{"uri": {"prefix": "/metrics"}}], "route": [{"destination": {"host": "web"}}]},
        {"name": "main", "retries": {"attempts": 3}, "route": [{"destination": {"host": "web", "subset": "v1"}}]},
    ]
    body = ground.body("VirtualService", type.api_version, "web", {"hosts": ["shop.example"], "http": http})
    before = await ground.client.create(type, body)
    with pytest.raises(RoutingSpecError, match="several http routes lead to the stable Service: metrics, main"):
        await istio_router({"virtualService": "web"}, ground.place()).check(())

    router = istio_router({"virtualService": "web", "routes": ["main"], "headers": {"X-Canary": "always"}}, ground.place())
    await router.check(())
    snapshot = await router.snapshot()
    await router.prepare(snapshot)
    await ground.pods_are_ready()
    await router.set_load(Load(30), snapshot)
    metrics, header, main = (await ground.client.get(type, ground.namespace, "web"))["spec"]["http"]
    assert metrics == http[0]
    assert header["name"] == "web-canary-header"
    assert header["match"] == [{"headers": {"x-canary": {"exact": "always"}}}]
    assert [each["weight"] for each in main["route"]] == [70, 30]
    assert await router.read_load(snapshot) == Load(30)

    await router.restore(snapshot)
    assert (await ground.client.get(type, ground.namespace, "web"))["spec"] == before["spec"]


async def test_a_canary_ingress_through_a_canary(ground: Ground) -> None:
    """The main one is never written; weight 0 first, then the Ingress goes, then the Service, once it leads nowhere."""
    before = await ground.client.create(INGRESSES, main_ingress(ground))
    router = nginx_router({"ingress": "web", "headers": {"x-canary": "always"}, "timeout": "200ms"}, ground.place())
    await router.check(())
    snapshot = await router.snapshot()
    await router.prepare(snapshot)
    await ground.pods_are_ready()
    await router.set_load(Load(12.5), snapshot)
    made = await ground.client.get(INGRESSES, ground.namespace, "web-canary")
    prefix = "nginx.ingress.kubernetes.io/canary"
    own = {key.removeprefix(prefix): value for key, value in made["metadata"]["annotations"].items() if key.startswith(prefix)}
    assert own == {"": "true", "-weight": "125", "-weight-total": "1000", "-by-header": "x-canary", "-by-header-value": "always"}
    (rule,) = made["spec"]["rules"]
    assert [(path["path"], path["backend"]["service"]["name"]) for path in rule["http"]["paths"]] == [("/", "web-canary")]
    assert await router.read_load(snapshot) == Load(12.5)

    await router.restore(snapshot)
    assert await router.read_load(snapshot) == Load(0)
    with pytest.raises(RouteNotInForceError, match="still lists 1 pods"):
        await router.clear(snapshot)
    assert not await ground.exists(INGRESSES, "web-canary")
    assert await ground.exists(SERVICES, "web-canary")
    await ground.pods_are_gone()
    await router.clear(snapshot)
    assert not await ground.exists(SERVICES, "web-canary")
    after = await ground.client.get(INGRESSES, ground.namespace, "web")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_a_second_canary_ingress_is_refused(ground: Ground) -> None:
    """ingress-nginx takes one for each rule: the one that is there is named, and one that has our name is not taken over."""
    await ground.client.create(INGRESSES, main_ingress(ground))
    annotations = {"nginx.ingress.kubernetes.io/canary": "true", "nginx.ingress.kubernetes.io/canary-weight": "5"}
    await ground.client.create(INGRESSES, main_ingress(ground, "theirs", annotations=annotations))
    router = nginx_router({"ingress": "web"}, ground.place())
    with pytest.raises(ForeignRouteError, match="already: theirs"):
        await router.check(())
    theirs = await ground.client.get(INGRESSES, ground.namespace, "theirs")
    await ground.client.delete(INGRESSES, ground.namespace, "theirs", uid=theirs["metadata"]["uid"])
    await ground.client.create(INGRESSES, main_ingress(ground, "web-canary"))
    with pytest.raises(ForeignRouteError, match="not of this canary's making"):
        await router.check(())


async def test_a_whole_canary_by_ingress(canarist: Canarist, cluster: Cluster) -> None:
    """Through its steps by weights of a canary Ingress, promoted, and nothing is left beside the stable version."""
    await stable_stands(cluster.client, canarist.namespace)
    ground = Ground(cluster, canarist.namespace)
    await cluster.client.create(INGRESSES, main_ingress(ground))

    result = await canarist.run({"setWeight": 30}, {"setWeight": 60}, routing={"nginx": {"ingress": "web"}}, drain="0s")

    assert result.outcome is Outcome.SUCCEEDED, (result.message, result.error)
    assert await image_of(cluster.client, canarist.namespace) == NEW
    assert not await ground.exists(INGRESSES, "web-canary")
    assert not await ground.exists(SERVICES, "web-canary")


@pytest.mark.parametrize("ends", ["taken back", "promoted"])
async def test_load_goes_first_then_a_drain_then_the_pods_then_the_way_to_them(
    canarist: Canarist, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """Case 27: nobody is sent to pods that are gone, whichever way it ends; the Ingress goes before its Service."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    await cluster.client.create(INGRESSES, main_ingress(Ground(cluster, canarist.namespace)))
    told: list[str] = []
    canarist.on_event = lambda event, data: told.append(str(data.get("words", "")))
    stop, drain = StopSignal(), 1.5
    running = asyncio.create_task(
        canarist.run({"setWeight": 50}, {"pause": {}}, routing={"nginx": {"ingress": "web"}}, drain=f"{drain}s", stop=stop)
    )
    await eventually(lambda: any(words.startswith("pauses") for words in told), within=20)
    real, written = Transport.send, list[tuple[str, str, float]]()

    async def send(transport: Transport, call: Call, timeout: float, **options: bool) -> Answer:
        answer = await real(transport, call, timeout, **options)
        if call.effect is Effect.WRITE and call.path.endswith(("/web-canary", "/web-canary/scale")):
            written.append((call.method, call.path.split("/")[-2], asyncio.get_running_loop().time()))
        return answer

    monkeypatch.setattr(Transport, "send", send)
    if ends == "promoted":
        await resumed(cluster, canarist)
    else:
        stop.request(StopVerdict.CANCEL)
    result = await running

    assert result.outcome is (Outcome.SUCCEEDED if ends == "promoted" else Outcome.CANCELLED), result
    weight, scaled = (next(each for each in written if each[1] == kind) for kind in ("ingresses", "deployments"))
    assert scaled[2] - weight[2] >= drain
    deleted = [kind for method, kind, _ in written if method == "DELETE"]
    assert (deleted[0], [kind for kind in deleted if kind != "deployments"]) == ("deployments", ["ingresses", "services"])
    assert any("a drain of 1.5s is shorter than routers may take" in words for words in result.notices)


async def test_a_weight_that_somebody_writes_in_a_pause_holds_the_canary(canarist: Canarist, cluster: Cluster) -> None:
    """Case 12: it is not written over, and nothing is seen of a share that isn't there; who resumes has it put back."""
    await stable_stands(cluster.client, canarist.namespace)
    await cluster.client.create(INGRESSES, main_ingress(Ground(cluster, canarist.namespace)))
    told: list[str] = []
    canarist.on_event = lambda event, data: told.append(str(data.get("words", "")))
    steps: tuple[JsonObject, ...] = ({"setWeight": 30}, {"pause": {}})
    running = asyncio.create_task(canarist.run(*steps, routing={"nginx": {"ingress": "web"}}, drain="0s"))
    await eventually(lambda: any(words.startswith("pauses") for words in told), within=20)
    weight = "nginx.ingress.kubernetes.io/canary-weight"
    await cluster.client.patch(INGRESSES, canarist.namespace, "web-canary", {"metadata": {"annotations": {weight: "50"}}})
    await eventually(lambda: any(words.startswith("held:") for words in told), within=20)
    foreign = (await cluster.client.get(INGRESSES, canarist.namespace, "web-canary"))["metadata"]["annotations"][weight]

    await resumed(cluster, canarist)
    await eventually(lambda: "resumed" in told, within=20)
    ours = (await cluster.client.get(INGRESSES, canarist.namespace, "web-canary"))["metadata"]["annotations"][weight]
    await resumed(cluster, canarist)
    result = await running

    assert (foreign, ours) == ("50", "30")
    assert "the weight reads 50% after 30% was written" in next(words for words in told if words.startswith("held:"))
    assert result.outcome is Outcome.SUCCEEDED, (result.message, result.error)


async def resumed(cluster: Cluster, canarist: Canarist) -> None:
    """By the journal's annotation, as by hand."""
    patch = {"metadata": {"annotations": {RESUME_ANNOTATION: "now"}}}
    await cluster.client.patch(CONFIG_MAPS, canarist.namespace, journal_name("Deployment", "web"), patch)


async def test_blue_and_green_by_the_selector_of_the_service(canarist: Canarist, cluster: Cluster) -> None:
    """All load at once to the new pods, back to the promoted ones, and the Service is as it was."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    before = await cluster.client.get(SERVICES, canarist.namespace, "web")
    assert (await ready_pods(cluster.client, canarist.namespace, "web", {"app": "web-canary"})).share == 0

    result = await canarist.run({"setWeight": 100}, routing={"service": {}}, drain="0s")

    assert result.outcome is Outcome.SUCCEEDED, (result.message, result.error)
    after = await cluster.client.get(SERVICES, canarist.namespace, "web")
    assert (after["spec"], after["metadata"].get("annotations")) == (before["spec"], before["metadata"].get("annotations"))
    assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
