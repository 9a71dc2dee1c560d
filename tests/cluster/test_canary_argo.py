"""Canaries that drive an Argo Rollout: our steps at its pauses, its promotion, its abort, and nothing half done."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import AlreadyExistsError, ClusterError, UnreachableError
from delegate.engine.clusters.metering import Effect
from delegate.engine.clusters.registry import Cluster
from delegate.engine.clusters.transport import Answer, Call, Transport
from delegate.engine.records.journals import JournalStore
from delegate.engine.tasks.stopping import StopSignal, StopVerdict
from delegate.model.resource_types import ROLLOUTS, SERVICES
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, TaskResult
from delegate.model.rollouts.argo import is_settled
from delegate.model.rollouts.states import Phase
from delegate.model.rollouts.versions import images_of
from tests.cluster.canaries import NEW, OLD, Canarist, verifying
from tests.cluster.servers import eventually
from tests.cluster.syncing import deployment
from tests.fakes.rollouts_controller import RolloutsController, rollouts_are_defined

pytestmark = pytest.mark.lease_seconds(2)
_STEPS = [{"setWeight": 50}, {"pause": {}}, {"setWeight": 100}, {"pause": {}}]
BLUE_GREEN: JsonObject = {"blueGreen": {"activeService": "web", "autoPromotionEnabled": False, "scaleDownDelaySeconds": 1}}
_ROLLOUT: JsonObject = {"workload": {"kind": "Rollout", "name": "web"}, "routing": {"argoRollouts": {}}}


@pytest.fixture
async def controller(request: pytest.FixtureRequest, cluster: Cluster, namespace: str) -> AsyncIterator[RolloutsController]:
    """At work on a Rollout `web` that is healthy; its strategy is the parameter's, if any."""
    client = cluster.client
    await rollouts_are_defined(client)
    body = deployment("web", OLD, 2, namespace=namespace)
    body |= {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}
    body["spec"]["strategy"] = getattr(request, "param", {"canary": {"steps": _STEPS}})
    await client.create(SERVICES, service(namespace))
    await eventually(lambda: created(client, body), within=20)
    playing = RolloutsController(client, namespace)
    async with playing.running():
        await eventually(lambda: settled(client, namespace, OLD), within=20)
        yield playing


def service(namespace: str) -> JsonObject:
    """That a blue/green switch changes."""
    metadata = {"name": "web", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}


async def created(client: ApiClient, body: JsonObject) -> bool:
    try:
        await client.create(ROLLOUTS, body)
    except AlreadyExistsError:
        return True
    except ClusterError:
        return False  # the definition is not served yet
    return True


async def settled(client: ApiClient, namespace: str, image: str) -> bool:
    live = await client.get(ROLLOUTS, namespace, "web")
    return is_settled(live) and images_of(live["spec"]["template"]) == {"main": image}


async def run(canarist: Canarist, *steps: JsonObject, **spec: object) -> TaskResult:
    return await canarist.run(*steps, **{**_ROLLOUT, **spec})


async def phase_of(canarist: Canarist, client: ApiClient) -> Phase | None:
    journal = (await JournalStore(client, canarist.namespace, "Rollout", "web").read()).journal
    return journal.phase if journal is not None else None


async def pauses(canarist: Canarist, client: ApiClient, step: int) -> bool:
    journal = (await JournalStore(client, canarist.namespace, "Rollout", "web").read()).journal
    return journal is not None and journal.step == step and bool(journal.since)


async def test_each_pause_is_left_when_its_step_is_done(canarist: Canarist, cluster: Cluster, controller: RolloutsController) -> None:
    """A timed step at the first, a resumption at the second; then the new version is the stable one."""
    running = asyncio.create_task(run(canarist, {"pause": {"duration": "100ms"}}, {"pause": {}}))
    await eventually(lambda: pauses(canarist, cluster.client, 3), within=20)
    at_pause = (await cluster.client.get(ROLLOUTS, canarist.namespace, "web"))["status"]
    canarist.resume.request()
    result = await running

    assert (at_pause["phase"], at_pause["currentStepIndex"]) == ("Paused", 3)
    assert at_pause["stableRS"] != at_pause["currentPodHash"]
    assert result.outcome is Outcome.SUCCEEDED, result
    assert await settled(cluster.client, canarist.namespace, NEW)
    assert await phase_of(canarist, cluster.client) is Phase.PROMOTED


@pytest.mark.parametrize("path", ["/good", "/bad"])
async def test_the_evidence_promotes_or_aborts_it(canarist: Canarist, cluster: Cluster, controller: RolloutsController, path: str) -> None:
    """Of the pods of its newest version; after an abort the old template is back, and it is healthy."""
    verifying(canarist)
    async with metrics() as serving:
        check = {"name": "errors", "type": "http", "url": str(serving.make_url(path)), "query": "$.errors", "unit": "%"}
        check |= {"threshold": "<= 1%", "every": "100ms"}
        steps = ({"verify": ["errors"]}, {"pause": {"duration": "50ms"}})
        result = await run(canarist, *steps, verification=[check])

    good = path == "/good"
    assert result.outcome is (Outcome.SUCCEEDED if good else Outcome.ABORTED), result
    assert result.verification
    assert await settled(cluster.client, canarist.namespace, NEW if good else OLD)


async def test_an_analysis_of_its_own_that_fails_ends_the_canary_in_its_words(
    canarist: Canarist, cluster: Cluster, controller: RolloutsController
) -> None:
    """The old template is given back, so that nothing tries the new version again."""
    if controller.is_real:
        pytest.skip("the real controller follows no script")
    controller.aborts_at = 2

    result = await run(canarist, {"pause": {"duration": "50ms"}}, {"pause": {"duration": "50ms"}})

    assert controller.aborted == 1
    assert result.outcome is Outcome.ABORTED, result
    assert "metric errors assessed Failed" in result.message
    assert await settled(cluster.client, canarist.namespace, OLD)


async def test_a_version_that_crashes_is_aborted_early(canarist: Canarist, cluster: Cluster, controller: RolloutsController) -> None:
    """In the words of its pods."""
    result = await run(canarist, {"pause": {}}, {"pause": {}}, image="registry.example/web:crash")

    assert result.outcome is Outcome.ABORTED, result
    assert "CrashLoopBackOff" in result.message
    assert await settled(cluster.client, canarist.namespace, OLD)


@pytest.mark.parametrize("controller", [BLUE_GREEN], indirect=True, ids=["blue-green"])
@pytest.mark.parametrize("image", [NEW, "registry.example/web:crash"], ids=["good", "bad"])
async def test_a_blue_green_switch_waits_for_its_step(
    canarist: Canarist, cluster: Cluster, controller: RolloutsController, image: str
) -> None:
    """The new version stands beside the old one, whole; a version that crashes never gets there."""
    client, namespace = cluster.client, canarist.namespace
    running = asyncio.create_task(run(canarist, {"pause": {}}, image=image))
    if image == NEW:
        await eventually(lambda: pauses(canarist, client, 1), within=20)
        status = (await client.get(ROLLOUTS, namespace, "web"))["status"]
        assert (status["phase"], status["stableRS"] == status["currentPodHash"]) == ("Paused", False)
        canarist.resume.request()
    result = await running

    assert result.outcome is (Outcome.SUCCEEDED if image == NEW else Outcome.ABORTED), result
    assert await settled(client, namespace, NEW if image == NEW else OLD)


async def test_a_cancelled_canary_aborts_it(canarist: Canarist, cluster: Cluster, controller: RolloutsController) -> None:
    """And gives the old template back."""
    stop = StopSignal()
    running = asyncio.create_task(run(canarist, {"pause": {}}, {"pause": {}}, stop=stop))
    await eventually(lambda: pauses(canarist, cluster.client, 1), within=20)
    stop.request(StopVerdict.CANCEL, "somebody asked")

    assert (await running).outcome is Outcome.CANCELLED
    assert await settled(cluster.client, canarist.namespace, OLD)


async def test_somebody_who_promotes_it_before_the_step_is_done_ends_the_canary(
    canarist: Canarist, cluster: Cluster, controller: RolloutsController
) -> None:
    """What nobody verified does not become the stable version."""
    running = asyncio.create_task(run(canarist, {"pause": {}}, {"pause": {}}))
    await eventually(lambda: pauses(canarist, cluster.client, 1), within=20)
    await cluster.client.patch(ROLLOUTS, canarist.namespace, "web", {"status": {"pauseConditions": None}}, subresource="status")
    result = await running

    assert result.outcome is Outcome.ABORTED, result
    assert "before the step there was done" in result.message
    assert await settled(cluster.client, canarist.namespace, OLD)


async def test_a_version_that_it_aborted_is_tried_again(canarist: Canarist, cluster: Cluster, controller: RolloutsController) -> None:
    """The template holds it already: its abort is taken back, and the steps begin anew."""
    client, namespace = cluster.client, canarist.namespace
    image = {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": NEW}
    await client.patch(ROLLOUTS, namespace, "web", [image], kind="json")
    await eventually(lambda: _stands(client, namespace, "pauseConditions"), within=20)
    await client.patch(ROLLOUTS, namespace, "web", {"status": {"abort": True}}, subresource="status")
    await eventually(lambda: _stands(client, namespace, "abort"), within=20)

    result = await run(canarist, {"pause": {"duration": "50ms"}}, {"pause": {"duration": "50ms"}})

    assert result.outcome is Outcome.SUCCEEDED, result
    assert await settled(cluster.client, canarist.namespace, NEW)


@pytest.mark.parametrize("steps", [1, 3])
async def test_as_many_steps_as_pauses_or_nothing(canarist: Canarist, controller: RolloutsController, steps: int) -> None:
    """Otherwise nobody would say how a pause ends, or a check would never run."""
    result = await run(canarist, *[{"pause": {}}] * steps)

    assert result.outcome is Outcome.REFUSED, result
    assert f"pauses without an end 2 times, and there are {steps} steps" in result.message
    assert result.requests.writes == 0


@pytest.mark.parametrize("at_write", [5, 10])
async def test_another_attempt_goes_on_whatever_write_the_last_one_died_at(
    canarist: Canarist, cluster: Cluster, controller: RolloutsController, monkeypatch: pytest.MonkeyPatch, at_write: int
) -> None:
    """At the same step."""
    steps = ({"pause": {"duration": "50ms"}}, {"pause": {"duration": "50ms"}})
    with killed(monkeypatch, cluster, at_write) as death:
        died = await run(canarist, *steps)

    result = await run(canarist, *steps)

    assert death.is_set()
    assert died.outcome is not Outcome.SUCCEEDED
    assert result.outcome is Outcome.SUCCEEDED, result
    assert await settled(cluster.client, canarist.namespace, NEW)


@pytest.mark.parametrize("at_write", [7, 8])
async def test_another_attempt_takes_back_whatever_write_the_last_one_died_at(
    canarist: Canarist, cluster: Cluster, controller: RolloutsController, monkeypatch: pytest.MonkeyPatch, at_write: int
) -> None:
    """The image set, the abort, and the old template among them."""
    broken = "registry.example/web:crash"
    with killed(monkeypatch, cluster, at_write) as death:
        await run(canarist, {"pause": {}}, {"pause": {}}, image=broken)

    result = await run(canarist, {"pause": {}}, {"pause": {}}, image=broken)

    assert death.is_set()
    assert result.outcome is Outcome.ABORTED, result
    assert await settled(cluster.client, canarist.namespace, OLD)


@contextlib.contextmanager
def killed(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, at_write: int) -> Iterator[asyncio.Event]:
    """The delegate is gone after its n-th write; the controller, which talks to the cluster by another way, lives on."""
    real, left, death = Transport.send, at_write, asyncio.Event()

    async def send(transport: Transport, call: Call, timeout: float, **options: bool) -> Answer:
        nonlocal left
        if transport is cluster.client.transport:
            return await real(transport, call, timeout, **options)
        if not death.is_set() and call.effect is Effect.WRITE:
            left -= 1
            if left == 0:
                await real(transport, call, timeout, **options)
                death.set()
        if death.is_set():
            raise UnreachableError("the process is gone", retryable=False)
        return await real(transport, call, timeout, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Transport, "send", send)
        yield death


@pytest.mark.parametrize("image", [NEW, "registry.example/web:crash"], ids=["good", "bad"])
async def test_each_call_may_fail_once(
    canarist: Canarist, cluster: Cluster, controller: RolloutsController, monkeypatch: pytest.MonkeyPatch, image: str
) -> None:
    """Every path and verb of the delegate answers 500 at its first and fourth call."""
    real, calls = Transport.send, Counter[tuple[str, str]]()

    async def send(transport: Transport, call: Call, timeout: float, **options: bool) -> Answer:
        if transport is not cluster.client.transport and "leases" not in call.path:
            calls[(call.method, call.path)] += 1
            if calls[(call.method, call.path)] in (1, 4):
                return Answer(500, {"kind": "Status", "code": 500, "reason": "InternalError", "message": "the server has a moment"})
        return await real(transport, call, timeout, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Transport, "send", send)
        result = await run(canarist, {"pause": {"duration": "50ms"}}, {"pause": {"duration": "50ms"}}, image=image)

    assert len(calls) > 5
    assert result.outcome is (Outcome.SUCCEEDED if image == NEW else Outcome.ABORTED), result
    assert await settled(cluster.client, canarist.namespace, NEW if image == NEW else OLD)


async def _stands(client: ApiClient, namespace: str, field: str) -> bool:
    return bool((await client.get(ROLLOUTS, namespace, "web"))["status"].get(field))


@contextlib.asynccontextmanager
async def metrics() -> AsyncIterator[TestServer]:
    """Answers an error ratio, in percent, by path."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"errors": 0.1 if request.path == "/good" else 9.0})

    app = web.Application()
    app.router.add_get("/{any}", answer)
    running = TestServer(app)
    await running.start_server()
    yield running
    await running.close()
