"""Header routes as steps of a canary: who carries a header gets the new version, whatever the weight, and everything comes back."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from delegate.engine.clusters.registry import Cluster
from delegate.engine.tasks.stopping import StopSignal, StopVerdict
from delegate.engine.traffic.errors import ForeignRouteError, RouteNotInForceError, RoutingSpecError
from delegate.engine.traffic.gateway import gateway_router
from delegate.engine.traffic.istio import istio_router
from delegate.model.resource_types import INGRESSES, SERVICES
from delegate.model.resources import JsonObject, ResourceType
from delegate.model.results import Outcome
from delegate.model.rollouts.loads import HeaderMatch, HeaderRoute, HeaderValue, Load
from delegate.model.rollouts.states import Phase
from tests.cluster.canaries import NEW, OLD, Canarist, image_of, journal_of, replicas_of, stable_stands, verifying, watched
from tests.cluster.routes import HTTP_ROUTE, VIRTUAL_SERVICE, Ground, accept, accepted, main_ingress, served
from tests.cluster.servers import eventually
from tests.cluster.test_sync_crashes import Death

pytestmark = pytest.mark.lease_seconds(1)
TESTERS = HeaderRoute("testers", (HeaderMatch("X-Group", HeaderValue(exact="testers")),))
STAFF = HeaderRoute("staff", (HeaderMatch("x-staff", HeaderValue(prefix="eu-")), HeaderMatch("x-day", HeaderValue(regex="mon|tue"))))
SET: JsonObject = {"setHeaderRoute": {"name": "testers", "match": [{"headerName": "x-group", "headerValue": {"exact": "testers"}}]}}
TAKEN_AWAY: JsonObject = {"setHeaderRoute": {"name": "testers"}}
ROUTING = {"nginx": {"ingress": "web"}}
PREFIX = "nginx.ingress.kubernetes.io/canary"


@pytest.fixture
async def http_routes(cluster: Cluster, namespace: str) -> ResourceType:
    """The kind, with a route `web` of one rule with a header of its own, accepted by its parent."""
    ground = Ground(cluster, namespace)
    type = await served(cluster, HTTP_ROUTE)
    match = {"path": {"type": "PathPrefix", "value": "/a"}, "headers": [{"type": "Exact", "name": "x-own", "value": "1"}]}
    rules = [{"matches": [match], "backendRefs": [{"name": "web", "port": 80}]}]
    await ground.client.create(type, ground.body("HTTPRoute", type.api_version, "web", {"parentRefs": [{"name": "gate"}], "rules": rules}))
    await accept(ground.client, type, namespace, "web")
    return type


async def test_header_routes_of_an_http_route(cluster: Cluster, namespace: str, http_routes: ResourceType) -> None:
    """Two of them with no weight, one taken away, a weight beside the other: each is read back, and the first spec comes again."""
    ground = Ground(cluster, namespace)
    await ground.stands()
    before = await ground.client.get(http_routes, namespace, "web")
    router = gateway_router({"httpRoute": "web", "timeout": "15s"}, ground.place())
    async with accepted(ground.client, http_routes, namespace, "web"):
        both = Load(0.0, (TESTERS, STAFF))
        await router.check([both])
        assert (await ground.client.get(http_routes, namespace, "web"))["metadata"]["generation"] == before["metadata"]["generation"]
        snapshot = await router.snapshot()
        await router.prepare(snapshot)
        await ground.pods_are_ready()
        await router.set_load(both, snapshot)
        testers, staff, main = (await ground.client.get(http_routes, namespace, "web"))["spec"]["rules"]
        own = {"type": "Exact", "name": "x-own", "value": "1"}
        assert testers["matches"][0]["headers"] == [own, {"type": "Exact", "name": "X-Group", "value": "testers"}]
        assert staff["matches"][0]["headers"] == [
            own,
            {"type": "RegularExpression", "name": "x-staff", "value": r"^eu\-.*"},
            {"type": "RegularExpression", "name": "x-day", "value": "^(?:mon|tue)$"},
        ]
        assert [[each["name"] for each in rule["backendRefs"]] for rule in (testers, staff)] == [["web-canary"], ["web-canary"]]
        assert [each["weight"] for each in main["backendRefs"]] == [100, 0]
        assert await router.read_load(snapshot) == both

        await router.set_load(Load(10.0, (STAFF,)), snapshot)
        assert await router.read_load(snapshot) == Load(10.0, (STAFF,))
        await router.restore(snapshot)
    after = await ground.client.get(http_routes, namespace, "web")
    assert (after["spec"], after["metadata"].get("annotations")) == (before["spec"], before["metadata"].get("annotations"))
    assert await router.read_load(snapshot) == Load()


async def test_a_header_rule_that_somebody_takes_out_is_missed(cluster: Cluster, namespace: str, http_routes: ResourceType) -> None:
    """It is read back, and nothing is written over whoever did it; to restore goes all the same."""
    ground = Ground(cluster, namespace)
    await ground.stands()
    router = gateway_router({"httpRoute": "web", "timeout": "15s"}, ground.place())
    async with accepted(ground.client, http_routes, namespace, "web"):
        snapshot = await router.snapshot()
        await router.prepare(snapshot)
        await ground.pods_are_ready()
        await router.set_load(Load(10.0, (TESTERS,)), snapshot)
        await ground.client.patch(http_routes, namespace, "web", [{"op": "remove", "path": "/spec/rules/0"}], kind="json")
        assert await router.read_load(snapshot) == Load(10.0)
        with pytest.raises(ForeignRouteError, match="0 rules for it alone, where 10% and the header route testers was written"):
            await router.set_load(Load(20.0, (TESTERS,)), snapshot)
        await router.restore(snapshot)
    assert await router.read_load(snapshot) == Load()


async def test_no_header_leads_to_a_service_without_ready_pods(cluster: Cluster, namespace: str, http_routes: ResourceType) -> None:
    """The route is not even written."""
    ground = Ground(cluster, namespace)
    await ground.stands()
    before = await ground.client.get(http_routes, namespace, "web")
    router = gateway_router({"httpRoute": "web", "timeout": "200ms"}, ground.place())
    snapshot = await router.snapshot()
    await router.prepare(snapshot)
    with pytest.raises(RouteNotInForceError, match="leads to no ready pod"):
        await router.set_load(Load(0.0, (TESTERS,)), snapshot)
    assert (await ground.client.get(http_routes, namespace, "web"))["metadata"]["generation"] == before["metadata"]["generation"]


async def test_more_rules_than_the_cluster_takes_are_refused_in_its_words(
    cluster: Cluster, namespace: str, http_routes: ResourceType
) -> None:
    """An HTTPRoute holds sixteen: asked beforehand, so that nobody finds out in mid-canary."""
    ground = Ground(cluster, namespace)
    await ground.stands()
    routes = tuple(HeaderRoute(f"group-{number}", TESTERS.match) for number in range(16))
    with pytest.raises(RoutingSpecError, match=r"could not be written as the steps want it: .*spec\.rules"):
        await gateway_router({"httpRoute": "web"}, ground.place()).check([Load(0.0, routes)])
    assert http_routes.kind == "HTTPRoute"


async def test_header_routes_of_a_virtual_service(cluster: Cluster, namespace: str) -> None:
    """Before the named route, under the names of the steps, with what Istio calls exact, prefix and regex."""
    ground = Ground(cluster, namespace)
    await ground.stands()
    type = await served(cluster, VIRTUAL_SERVICE)
    http = [{"name": "main", "match": [{"uri": {"prefix": "/a"}}], "route": [{"destination": {"host": "web"}}]}]
    before = await ground.client.create(
        type, ground.body("VirtualService", type.api_version, "web", {"hosts": ["a.example"], "http": http})
    )
    router = istio_router({"virtualService": "web"}, ground.place())
    snapshot = await router.snapshot()
    await router.prepare(snapshot)
    await ground.pods_are_ready()
    await router.set_load(Load(0.0, (TESTERS, STAFF)), snapshot)

    testers, staff, main = (await ground.client.get(type, namespace, "web"))["spec"]["http"]
    assert (testers["name"], staff["name"]) == ("web-canary-testers", "web-canary-staff")
    assert testers["match"] == [{"uri": {"prefix": "/a"}, "headers": {"x-group": {"exact": "testers"}}}]
    assert staff["match"][0]["headers"] == {"x-staff": {"prefix": "eu-"}, "x-day": {"regex": "mon|tue"}}
    assert [each["weight"] for each in main["route"]] == [100, 0]
    assert await router.read_load(snapshot) == Load(0.0, (TESTERS, STAFF))
    await router.restore(snapshot)
    assert (await ground.client.get(type, namespace, "web"))["spec"] == before["spec"]


@asynccontextmanager
async def errors_of(percent: float, look: Callable[[], Awaitable[None]] | None = None) -> AsyncIterator[JsonObject]:
    """A check of a server that tells this ratio of errors, and may look around first."""

    async def answer(request: web.Request) -> web.Response:
        del request
        if look is not None:
            await look()
        return web.json_response({"errors": percent})

    application = web.Application()
    application.router.add_get("/errors", answer)
    async with TestServer(application) as metrics:
        check = {"name": "errors", "type": "http", "url": str(metrics.make_url("/errors")), "query": "$.errors", "unit": "%"}
        yield {**check, "threshold": "<= 1%", "every": "100ms"}


async def annotations_of(cluster: Cluster, namespace: str) -> Mapping[str, str]:
    """Those that say who gets the new version; none where there is no canary Ingress."""
    if not await Ground(cluster, namespace).exists(INGRESSES, "web-canary"):
        return {}
    found = (await cluster.client.get(INGRESSES, namespace, "web-canary"))["metadata"]["annotations"]
    return {key.removeprefix(PREFIX): value for key, value in found.items() if key.startswith(PREFIX)}


async def test_a_canary_by_headers_alone(canarist: Canarist, cluster: Cluster, namespace: str) -> None:
    """Evidence is of those who carry the header: one pod, no weight. It is promoted, nothing is left, and the journal says what counted."""
    verifying(canarist)
    await stable_stands(cluster.client, namespace)
    await cluster.client.create(INGRESSES, main_ingress(Ground(cluster, namespace)))
    seen: list[tuple[int, str, str]] = []

    async def look() -> None:
        said = await annotations_of(cluster, namespace)
        seen.append((await replicas_of(cluster.client, namespace), said["-weight"], said.get("-by-header-value", "")))

    async with errors_of(0.1, look) as check, watched(cluster.client, namespace) as capacity:
        result = await canarist.run(SET, {"verify": ["errors"]}, routing=ROUTING, drain="0s", verification=[check], background=["errors"])

    assert result.outcome is Outcome.SUCCEEDED, (result.message, result.error)
    assert await image_of(cluster.client, namespace) == NEW
    assert set(seen) == {(1, "0", "testers")}
    assert any("setHeaderRoute testers: set, 0% and the header route testers in force" in words for words in result.notices)
    assert any("verified errors with 0% and the header route testers: 1 of 1" in words for words in result.notices)
    assert any("promotes; in the background 1 of 1 checks passed" in words for words in result.notices)
    assert capacity.least >= 4
    assert await annotations_of(cluster, namespace) == {}
    assert await replicas_of(cluster.client, namespace) == -1


async def test_pods_stay_where_a_header_leads_and_scales_are_kept(canarist: Canarist, cluster: Cluster, namespace: str) -> None:
    """Three whatever the weight, then what the weight takes, and one for the header though it falls to none; cancelled it is as before."""
    await stable_stands(cluster.client, namespace)
    main = await cluster.client.create(INGRESSES, main_ingress(Ground(cluster, namespace)))
    stop, told = StopSignal(), [""]
    canarist.on_event = lambda event, data: told.append(str(data.get("words", "")))
    steps: tuple[JsonObject, ...] = ({"setCanaryScale": {"replicas": 3}}, SET, {"setWeight": 25})
    steps += ({"setCanaryScale": {"matchTrafficWeight": True}}, {"setWeight": 0}, {"pause": {}})
    running = asyncio.create_task(canarist.run(*steps, routing=ROUTING, drain="0s", stop=stop))
    await eventually(lambda: at_pause(cluster, namespace, 5), within=20)
    stands = await replicas_of(cluster.client, namespace), await annotations_of(cluster, namespace)
    stop.request(StopVerdict.CANCEL)
    result = await running

    assert stands == (1, {"": "true", "-weight": "0", "-by-header": "x-group", "-by-header-value": "testers"})
    assert [words for words in told if words.startswith("set")] == [
        "setCanaryScale 3 new pods: 3 new beside 4 old pods",
        "setHeaderRoute testers: set, 0% and the header route testers in force",
        "setWeight 25: 25% (3 new beside 4 old pods)",
        "setCanaryScale as the weight takes: 1 new beside 4 old pods",
        "setWeight 0: 0% (1 new beside 4 old pods)",
    ]
    assert result.outcome is Outcome.CANCELLED, result
    assert await annotations_of(cluster, namespace) == {}
    assert (await cluster.client.get(INGRESSES, namespace, "web"))["metadata"]["resourceVersion"] == main["metadata"]["resourceVersion"]


async def at_pause(cluster: Cluster, namespace: str, step: int) -> bool:
    if await replicas_of(cluster.client, namespace) < 0:
        return False
    journal = await journal_of(cluster.client, namespace)
    return journal.step == step and bool(journal.since)


async def test_a_newer_release_takes_header_routes_over(
    canarist: Canarist, cluster: Cluster, namespace: str, http_routes: ResourceType
) -> None:
    """The older one's rule is out of the route before the newer one begins, by whatever way that shifts its own load."""
    await stable_stands(cluster.client, namespace, replicas=2)
    before = await cluster.client.get(http_routes, namespace, "web")
    async with accepted(cluster.client, http_routes, namespace, "web"):
        routing = {"gatewayAPI": {"httpRoute": "web"}}
        first = asyncio.create_task(canarist.run(SET, {"pause": {}}, routing=routing, drain="0s"))
        await eventually(lambda: at_pause(cluster, namespace, 1), within=20)
        assert len((await cluster.client.get(http_routes, namespace, "web"))["spec"]["rules"]) == 2
        first.cancel()
        await asyncio.wait([first])

        result = await canarist.run({"setWeight": 50}, routing=routing, drain="0s", image=f"{NEW}.1", task="task-2")

    assert result.outcome is Outcome.SUCCEEDED, (result.message, result.error)
    assert any("before: " in words and "taken back: a newer release takes its place" in words for words in result.notices)
    assert (await cluster.client.get(http_routes, namespace, "web"))["spec"] == before["spec"]
    assert await image_of(cluster.client, namespace) == f"{NEW}.1"


@pytest.mark.parametrize(("at_write", "errors"), [(7, 0.1), (12, 9.0)])
async def test_another_attempt_ends_it_whatever_write_of_a_header_route_the_last_one_died_at(
    canarist: Canarist, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, at_write: int, errors: float
) -> None:
    """Promoted, or taken back where those who carry the header meet errors; nothing is left beside the stable version."""
    namespace = verifying(canarist).namespace
    ground = Ground(cluster, namespace)
    await stable_stands(cluster.client, namespace, replicas=2)
    await cluster.client.create(INGRESSES, main_ingress(ground))
    death = Death(at_write, after_it_was_done=True)
    async with errors_of(errors) as check, watched(cluster.client, namespace) as capacity:
        steps: tuple[JsonObject, ...] = (SET, {"setWeight": 50}, {"verify": ["errors"]}, TAKEN_AWAY)
        with death.strikes(monkeypatch):
            died = await canarist.run(*steps, routing=ROUTING, drain="0s", verification=[check])
        result = await canarist.run(*steps, routing=ROUTING, drain="0s", verification=[check])

    good = errors < 1
    assert death.happened
    assert died.outcome is not Outcome.SUCCEEDED
    assert result.outcome is (Outcome.SUCCEEDED if good else Outcome.ABORTED), (result.message, result.error)
    assert (await journal_of(cluster.client, namespace)).phase is (Phase.PROMOTED if good else Phase.RESTORED)
    assert await image_of(cluster.client, namespace) == (NEW if good else OLD)
    assert capacity.least >= 2
    assert await annotations_of(cluster, namespace) == {}
    assert not await ground.exists(SERVICES, "web-canary")
