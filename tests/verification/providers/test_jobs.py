"""Jobs as checks, in a cluster with real controllers."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.verification.answers import Answer, Query
from delegate.engine.verification.errors import ProviderConfigurationError, ProviderUnavailableError, UnreadableAnswerError
from delegate.engine.verification.providers.jobs import JobProvider
from delegate.model.resource_types import JOBS
from delegate.model.resources import JsonObject
from tests.cluster.servers import new_namespace, opened
from tests.cluster.simulated import simulated_server
from tests.verification.providers.sources import END, WHOLE, values_of

_MANIFEST = """
apiVersion: batch/v1
kind: Job
metadata: {{name: smoke}}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: smoke, image: "registry.example/smoke:{tag}"}}]
"""


class Jobs:
    """Jobs in a namespace of a cluster."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace

    async def run(self, text: str, *, timeout: float = 30.0) -> Answer:
        async def open_client() -> ApiClient:
            return self.client

        return await JobProvider(open_client, self.namespace).read(Query(text, WHOLE), timeout=timeout)

    async def left(self) -> list[JsonObject]:
        """What has not been told to go."""
        found = (await self.client.list(JOBS, self.namespace)).items
        return [job for job in found if "deletionTimestamp" not in job["metadata"]]


@pytest.fixture
async def jobs(tmp_path: Path) -> AsyncIterator[Jobs]:
    async with contextlib.AsyncExitStack() as stack:
        admin, _, _ = await stack.enter_async_context(simulated_server(tmp_path))
        cluster = await stack.enter_async_context(opened(admin, tmp_path / "keys"))
        namespace = await new_namespace(cluster.client)
        yield Jobs(cluster.client, namespace["metadata"]["name"])


async def test_reads_one_of_a_job_that_completes(jobs: Jobs) -> None:
    """Complete is 1, under a name of its own each time, and nothing is left behind."""
    for _ in range(2):
        answer = await jobs.run(_MANIFEST.format(tag="complete"))
        assert answer.series[0].points == ((END, 1.0),)
        assert answer.series[0].labels["job"].startswith("smoke-")
    assert await jobs.left() == []


async def test_reads_zero_of_a_job_that_fails(jobs: Jobs) -> None:
    """Failed is 0, with the reason that the controller gives."""
    answer = await jobs.run(_MANIFEST.format(tag="fail"))
    assert values_of(answer) == [0.0]
    assert answer.series[0].labels["reason"] == "BackoffLimitExceeded"
    assert await jobs.left() == []


async def test_takes_an_image_that_can_not_be_pulled_for_an_error(jobs: Jobs) -> None:
    """A Job that could not start says nothing about the release."""
    with pytest.raises(UnreadableAnswerError) as raised:
        await jobs.run(_MANIFEST.format(tag="broken"))
    assert "ImagePullBackOff" in raised.value.message
    assert await jobs.left() == []


async def test_ends_a_job_with_its_time(jobs: Jobs) -> None:
    """A Job that runs on is deleted when the reading's time is over."""
    with pytest.raises(ProviderUnavailableError) as raised:
        await jobs.run(_MANIFEST.format(tag="hang"), timeout=2.0)
    assert "2 s" in raised.value.message
    assert await jobs.left() == []


async def test_waits_for_a_job_of_somebody_else(jobs: Jobs) -> None:
    """A name alone watches, and deletes nothing."""
    body: JsonObject = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "theirs", "namespace": jobs.namespace},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:complete"}]}}},
    }
    await jobs.client.create(JOBS, body)
    assert values_of(await jobs.run("theirs")) == [1.0]
    assert [job["metadata"]["name"] for job in await jobs.left()] == ["theirs"]
    with pytest.raises(NotFoundError):
        await jobs.run("nobodys")


@pytest.mark.parametrize("text", ["", "kind: Pod\n", "kind: [\n", "kind: Job\napiVersion: batch/v1\n"])
async def test_refuses_what_is_no_job(text: str, jobs: Jobs) -> None:
    """Neither a Job nor a name."""
    with pytest.raises(ProviderConfigurationError):
        await jobs.run(text)


async def test_stays_in_its_namespace(jobs: Jobs) -> None:
    """A manifest leads to no other namespace."""
    with pytest.raises(ProviderConfigurationError):
        await jobs.run(_MANIFEST.format(tag="complete").replace("name: smoke}", "name: smoke, namespace: kube-system}", 1))
