"""Since when the new version of a workload is there, as its cluster shows it: evidence from before is not of it."""

import asyncio
import re
import time

import pytest

from delegate.engine.clusters.registry import Cluster
from delegate.engine.tasks.errors import HealthTimeoutError, UnsupportedTaskError
from delegate.engine.tasks.new_versions import await_new_version
from delegate.model.resource_types import DEPLOYMENTS, PODS, STATEFUL_SETS
from delegate.model.verification.checks import Workload
from tests.cluster.syncing import deployment

WEB = Workload("Deployment", "web")


def deadline(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds


async def test_the_new_pods_and_since_when_they_are_ready(cluster: Cluster, namespace: str) -> None:
    """After a second release: its pods alone, and not before the last of them was ready."""
    body = deployment(image="nginx:1.0", replicas=2)
    body["metadata"]["namespace"] = namespace
    await cluster.client.apply(DEPLOYMENTS, body)
    first = await await_new_version(cluster.client, WEB, namespace, deadline(40))
    body["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:2.0"
    await cluster.client.apply(DEPLOYMENTS, body)

    second = await await_new_version(cluster.client, WEB, namespace, deadline(40))

    assert first.revision != second.revision
    assert first.ready_since <= second.ready_since <= time.time()
    names = [each["metadata"]["name"] for each in (await cluster.client.list(PODS, namespace)).items]
    ours = [name for name in names if re.fullmatch(second.pods, name)]
    assert len(ours) == 2
    assert all(second.revision in name for name in ours)


async def test_a_part_of_a_stateful_set(cluster: Cluster, namespace: str) -> None:
    """Behind a partition only the highest ordinals are new: their pods alone are told."""
    body = deployment(image="nginx:1.0", replicas=2, namespace=namespace)
    body["kind"] = "StatefulSet"
    body["spec"] |= {"serviceName": "web", "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}}
    await cluster.client.apply(STATEFUL_SETS, body)
    web = Workload("StatefulSet", "web")
    await await_new_version(cluster.client, web, namespace, deadline(40))
    body["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:2.0"
    await cluster.client.apply(STATEFUL_SETS, body)

    found = await await_new_version(cluster.client, web, namespace, deadline(40), count=1)

    assert found.pods == "(web-1)"


async def test_a_version_that_is_never_ready(cluster: Cluster, namespace: str) -> None:
    """Is not verified by anybody's metrics: the wait ends with the task, in words."""
    body = deployment(image="nginx:broken", replicas=1)
    body["metadata"]["namespace"] = namespace
    await cluster.client.apply(DEPLOYMENTS, body)

    with pytest.raises(HealthTimeoutError, match="was never ready: 0 of 1 pods"):
        await await_new_version(cluster.client, WEB, namespace, deadline(2.5))


async def test_a_kind_without_pods(cluster: Cluster, namespace: str) -> None:
    """Is refused, with those that there are."""
    with pytest.raises(UnsupportedTaskError, match="a Service has no pods"):
        await await_new_version(cluster.client, Workload("Service", "web"), namespace, deadline(5))
