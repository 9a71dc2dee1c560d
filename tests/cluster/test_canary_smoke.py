"""The smoke test of a canary: a command of the new version that has to pass before it gets any load."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from delegate.engine.clusters.access import Access, may
from delegate.engine.clusters.errors import ClusterError
from delegate.engine.clusters.registry import Cluster
from delegate.engine.tasks.stopping import StopSignal, StopVerdict
from delegate.model.resource_types import INGRESSES, JOBS, PODS
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
    stable_stands,
    verifying,
)
from tests.cluster.conftest import Server
from tests.cluster.routes import Ground, main_ingress
from tests.cluster.servers import eventually, kind
from tests.cluster.test_sync_crashes import Death

pytestmark = pytest.mark.lease_seconds(2)


def test_of(tag: str, **more: object) -> JsonObject:
    return {"command": ["/bin/check", "--fast"], "image": f"registry.example/check:{tag}", **more}


test_of.__test__ = False  # type: ignore[attr-defined]


async def jobs_of(cluster: Cluster, canarist: Canarist) -> list[JsonObject]:
    return list((await cluster.client.list(JOBS, canarist.namespace)).items)


async def test_one_that_passes_lets_the_canary_begin(canarist: Canarist, cluster: Cluster) -> None:
    """And its Job is gone."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)

    result = await canarist.run({"setWeight": 33}, smokeTest=test_of("complete"))

    assert result.outcome is Outcome.SUCCEEDED, result
    assert await image_of(cluster.client, canarist.namespace) == NEW
    assert any("the smoke test passed: Job web-canary-smoke-" in words for words in result.notices)
    assert await jobs_of(cluster, canarist) == []


@pytest.mark.parametrize(
    ("test", "words"),
    [
        (test_of("fail"), "it ended with 1"),
        (test_of("broken"), "its pod can't start: "),
        (test_of("hang", timeout="1s"), "it has not ended within 1 s"),
    ],
)
async def test_one_that_does_not_pass_takes_the_canary_back(canarist: Canarist, cluster: Cluster, test: JsonObject, words: str) -> None:
    """Before a single new pod was there, with the reason."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)

    result = await canarist.run({"setWeight": 33}, smokeTest=test)

    assert result.outcome is Outcome.ABORTED, result
    assert f"the smoke test did not pass: {words}" in result.message
    assert not any("setWeight 33:" in each for each in result.notices)
    assert await image_of(cluster.client, canarist.namespace) == OLD
    assert await replicas_of(cluster.client, canarist.namespace) == -1
    assert await jobs_of(cluster, canarist) == []


async def test_a_container_that_is_not_there_is_refused(canarist: Canarist, cluster: Cluster) -> None:
    """Before anything is written, with those that there are."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)

    result = await canarist.run({"setWeight": 33}, smokeTest=test_of("complete", container="nobody"))

    assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0), result
    assert "the new version has no container 'nobody'" in result.message
    assert result.error is not None
    assert result.error.hint == "it has main"


async def test_jobs_that_may_not_be_made_are_refused_with_the_rule(
    cluster: Cluster, limited: Cluster, server: Server, namespace: str, tmp_path: Path
) -> None:
    """Before anything is written: later it would keep the way back from its end."""
    await stable_stands(cluster.client, namespace, replicas=2)
    rules = [
        {"apiGroups": ["", "apps", "autoscaling"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get"]},
    ]
    await allow(cluster, namespace, rules)
    await eventually(lambda: may(limited.client, Access("get", "batch", "jobs", namespace)), within=20)

    async with running_canarist(server.limited_kubeconfig, tmp_path / "limited", namespace) as canarist:
        result = await canarist.run({"setWeight": 33}, smokeTest=test_of("complete"))

    assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0), result
    assert "needs to create, delete Jobs" in result.message
    assert result.error is not None
    assert result.error.hint.endswith('{apiGroups: ["batch"], resources: ["jobs"], verbs: [create, delete]}')


async def allow(cluster: Cluster, namespace: str, rules: list[JsonObject]) -> None:
    """These to the user who may do nothing, in this namespace."""
    group, name = "rbac.authorization.k8s.io", {"name": "limited", "namespace": namespace}
    subject = {"kind": "User", "name": "limited", "apiGroup": group}
    binding = {"roleRef": {"apiGroup": group, "kind": "Role", "name": "limited"}, "subjects": [subject]}
    parts: dict[str, JsonObject] = {"Role": {"rules": rules}, "RoleBinding": binding}
    for made, part in parts.items():
        body = {"apiVersion": f"{group}/v1", "kind": made, "metadata": name, **part}
        await cluster.client.apply(await cluster.discovery.resource_for(kind(f"{group}/{made}")), body)


async def test_one_that_does_not_pass_is_never_held(canarist: Canarist, cluster: Cluster) -> None:
    """Whatever the task says of failures: whoever resumed it would promote what has not passed."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)

    result = await canarist.run({"setWeight": 33}, smokeTest=test_of("fail"), onFailure="hold")

    assert result.outcome is Outcome.ABORTED, result
    assert not any("held" in words for words in result.notices)
    assert await image_of(cluster.client, canarist.namespace) == OLD


async def test_its_pod_is_nobodys_but_ours(canarist: Canarist, cluster: Cluster) -> None:
    """It has none of the labels that a Service selects by, and what the new version reads; a cancelled canary takes it along."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    stop = StopSignal()
    running = asyncio.create_task(canarist.run({"setWeight": 33}, smokeTest=test_of("hang"), stop=stop))
    pods: list[JsonObject] = []

    async def runs() -> bool:
        pods[:] = [each for each in (await cluster.client.list(PODS, canarist.namespace)).items if "job-name" in each["metadata"]["labels"]]
        return bool(pods)

    await eventually(runs, within=20)
    stop.request(StopVerdict.CANCEL)
    result = await running

    assert "app" not in pods[0]["metadata"]["labels"]
    assert result.outcome is Outcome.CANCELLED, result
    assert await jobs_of(cluster, canarist) == []


@pytest.mark.parametrize("at_write", range(2, 7))
async def test_it_is_not_run_twice_whatever_write_the_last_attempt_died_at(
    canarist: Canarist, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, at_write: int
) -> None:
    """The next attempt waits for the Job that is there."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    made: set[str] = set()
    death = Death(at_write, after_it_was_done=True)

    async def count() -> None:
        while True:
            with contextlib.suppress(ClusterError):  # who is dead sees nothing
                made.update(str(each["metadata"]["uid"]) for each in await jobs_of(cluster, canarist))
            await asyncio.sleep(0.02)

    counting = asyncio.create_task(count())
    with death.strikes(monkeypatch):
        await canarist.run({"setWeight": 33}, smokeTest=test_of("complete"))
    result = await canarist.run({"setWeight": 33}, smokeTest=test_of("complete"))
    counting.cancel()

    assert death.happened
    assert result.outcome is Outcome.SUCCEEDED, result
    assert (await journal_of(cluster.client, canarist.namespace)).phase is Phase.PROMOTED
    assert len(made) == 1
    assert await jobs_of(cluster, canarist) == []


@pytest.mark.parametrize("status", [200, 503])
async def test_checks_look_at_a_first_pod_that_gets_no_load(canarist: Canarist, cluster: Cluster, namespace: str, status: int) -> None:
    """Behind a router: the pod is ready, its weight is none; what they say decides before the first weight."""
    verifying(canarist)
    ground = Ground(cluster, namespace)
    await stable_stands(cluster.client, namespace, replicas=2)
    await cluster.client.create(INGRESSES, main_ingress(ground))
    seen: list[tuple[int, str]] = []

    async def answer(request: web.Request) -> web.Response:
        route = await cluster.client.get(INGRESSES, namespace, "web-canary") if await ground.exists(INGRESSES, "web-canary") else {}
        weight = ((route.get("metadata") or {}).get("annotations") or {}).get("nginx.ingress.kubernetes.io/canary-weight", "0")
        seen.append((await replicas_of(cluster.client, namespace), weight))
        return web.Response(status=status)

    application = web.Application()
    application.router.add_get("/healthz", answer)
    async with TestServer(application) as pods:
        check = {"name": "health", "type": "http", "url": str(pods.make_url("/healthz")), "unit": "count", "threshold": "== 200 count"}
        result = await canarist.run(
            {"setWeight": 50},
            routing={"nginx": {"ingress": "web"}},
            drain="0s",
            smokeTest={"verify": ["health"]},
            verification=[{**check, "every": "100ms"}],
        )

    assert result.outcome is (Outcome.SUCCEEDED if status == 200 else Outcome.ABORTED), result
    assert set(seen) == {(1, "0")}
    assert any("setWeight 50:" in words for words in result.notices) is (status == 200)
    assert await replicas_of(cluster.client, namespace) == -1
