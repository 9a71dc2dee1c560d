"""The verify steps of a canary: good evidence promotes, anything else takes back."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from delegate.engine.clusters.registry import Cluster
from delegate.model.results import Outcome
from tests.cluster.canaries import NEW, OLD, Canarist, canarist_for, image_of, replicas_of, stable_stands, verifying
from tests.cluster.conftest import Server


@pytest.fixture
async def canarist(server: Server, namespace: str, tmp_path: Path) -> AsyncIterator[Canarist]:
    made = verifying(canarist_for(server.kubeconfig, tmp_path, namespace))
    yield made
    await made.engine.close()


@pytest.fixture
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


@pytest.mark.parametrize("path", ["/good", "/bad"])
async def test_the_evidence_decides(canarist: Canarist, cluster: Cluster, metrics: TestServer, path: str) -> None:
    """And the result holds it."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    check = {"name": "errors", "type": "http", "url": str(metrics.make_url(path)), "query": "$.errors", "unit": "%", "threshold": "<= 1%"}

    result = await canarist.run({"setWeight": 33}, {"verify": ["errors"]}, verification=[{**check, "every": "100ms"}])

    good = path == "/good"
    assert result.outcome is (Outcome.SUCCEEDED if good else Outcome.ABORTED), result
    assert await image_of(cluster.client, canarist.namespace) == (NEW if good else OLD)
    assert await replicas_of(cluster.client, canarist.namespace) == -1
    assert result.verification
