"""The delegate dies at a write of a routed canary, or calls fail: the route ends as it began, and nothing of the canary is left."""

from collections import Counter

import pytest

from delegate.engine.clusters.registry import Cluster
from delegate.engine.clusters.transport import Answer, Call, Transport
from delegate.model.resource_types import INGRESSES, SERVICES
from delegate.model.results import Outcome
from tests.cluster.canaries import Canarist, replicas_of, stable_stands
from tests.cluster.routes import HTTP_ROUTE, Ground, accepted, main_ingress, served
from tests.cluster.test_sync_crashes import Death

pytestmark = pytest.mark.lease_seconds(1)
ROUTED = ("httproutes", "services", "endpointslices")
ROUTING = {"nginx": {"ingress": "web"}}


async def nothing_is_left(ground: Ground) -> bool:
    left = [await ground.exists(INGRESSES, "web-canary"), await ground.exists(SERVICES, "web-canary")]
    return not any(left) and await replicas_of(ground.client, ground.namespace) == -1


@pytest.mark.parametrize("at_write", [3, 4, 5, 6, 8, 10, 12, 14])
async def test_another_attempt_goes_on_whatever_write_the_last_one_died_at(
    canarist: Canarist, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, at_write: int
) -> None:
    """By a canary Ingress, to promotion."""
    ground = Ground(cluster, canarist.namespace)
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    await cluster.client.create(INGRESSES, main_ingress(ground))
    death = Death(at_write, after_it_was_done=True)
    with death.strikes(monkeypatch):
        died = await canarist.run({"setWeight": 50}, routing=ROUTING, drain="0s")

    result = await canarist.run({"setWeight": 50}, routing=ROUTING, drain="0s")

    assert death.happened
    assert died.outcome is not Outcome.SUCCEEDED
    assert result.outcome is Outcome.SUCCEEDED, (result.message, result.error)
    assert await nothing_is_left(ground)


async def test_each_call_may_fail_once(canarist: Canarist, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an HTTPRoute: each write that routing does answers 500 first, each read at its second time; the spec is as it was."""
    ground = Ground(cluster, canarist.namespace)
    type = await served(cluster, HTTP_ROUTE)
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    rules = [{"backendRefs": [{"name": "web", "port": 80}]}]
    body = ground.body("HTTPRoute", type.api_version, "web", {"parentRefs": [{"name": "gate"}], "rules": rules})
    before = await cluster.client.create(type, body)
    real, calls = Transport.send, Counter[tuple[str, str]]()

    async def send(transport: Transport, call: Call, timeout: float, **options: bool) -> Answer:
        if transport is not cluster.client.transport and any(kind in call.path for kind in ROUTED):
            calls[(call.method, call.path)] += 1
            if calls[(call.method, call.path)] == 2 or (call.method != "GET" and calls[(call.method, call.path)] == 1):
                return Answer(500, {"kind": "Status", "code": 500, "reason": "InternalError", "message": "the server has a moment"})
        return await real(transport, call, timeout, **options)

    async with accepted(cluster.client, type, canarist.namespace, "web"):
        with monkeypatch.context() as patched:
            patched.setattr(Transport, "send", send)
            result = await canarist.run({"setWeight": 50}, routing={"gatewayAPI": {"httpRoute": "web"}}, drain="0s")

    assert any("httproutes" in path and method == "PATCH" for method, path in calls)
    assert result.outcome is Outcome.SUCCEEDED, (result.message, result.error)
    assert (await cluster.client.get(type, canarist.namespace, "web"))["spec"] == before["spec"]
    assert await nothing_is_left(ground)
