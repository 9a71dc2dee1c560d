"""A simulated cluster that goes on from its snapshot is the one that it was."""

from pathlib import Path
from typing import Any

import pytest

from delegate.simulator.server import Simulator
from delegate.simulator.snapshots import SnapshotError
from tests.simulator.clients import Client, config_map, deployment

DEPLOYMENTS = "/apis/apps/v1/namespaces/rec/deployments"
DEFINITION = {
    "metadata": {"name": "boxes.example.org"},
    "spec": {
        "group": "example.org",
        "scope": "Namespaced",
        "names": {"plural": "boxes", "kind": "Box"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


async def _available(client: Client, replicas: int) -> Any:
    return await client.until(f"{DEPLOYMENTS}/web", lambda body: body.get("status", {}).get("availableReplicas") == replicas)


async def test_it_is_the_same_cluster_and_goes_on(tmp_path: Path) -> None:
    """Uids, versions, addresses and defined kinds stay; controllers go on; what is new gets addresses that nobody has."""
    file = tmp_path / "cluster.json"
    async with Simulator(snapshot=file) as simulator, Client(simulator.url, simulator.admin_token) as client:
        await client.post("/api/v1/namespaces", {"metadata": {"name": "rec"}})
        await client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
        await client.post(DEPLOYMENTS, deployment("web", replicas=2))
        await client.post("/api/v1/namespaces/rec/services", {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})
        await client.until("/apis/example.org/v1", lambda body: isinstance(body, dict) and body.get("kind") == "APIResourceList")
        await client.post(
            "/apis/example.org/v1/namespaces/rec/boxes", {"apiVersion": "example.org/v1", "kind": "Box", "metadata": {"name": "a"}}
        )
        before = await _available(client, 2)
        listed = await client.get("/api/v1/pods")

    async with Simulator(snapshot=file) as simulator, Client(simulator.url, simulator.admin_token) as client:
        assert (await client.get("/api/v1/pods"))["items"] == listed["items"]
        assert (await client.get("/apis/example.org/v1/namespaces/rec/boxes/a"))["kind"] == "Box"
        after = await client.get(f"{DEPLOYMENTS}/web")
        assert (after["metadata"], after["spec"], after["status"]) == (before["metadata"], before["spec"], before["status"])

        watched = await client.get("/api/v1/pods", watch="true", resourceVersion="2")
        assert watched["object"]["reason"] == "Expired"

        await client.send("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 4}}, kind="application/merge-patch+json")
        await _available(client, 4)
        addresses = [pod["status"]["podIP"] for pod in (await client.get("/api/v1/pods"))["items"]]
        assert len(set(addresses)) == 4
        made = await client.post("/api/v1/namespaces/rec/services", {"metadata": {"name": "api"}, "spec": {"ports": [{"port": 80}]}})
        held = {item["spec"]["clusterIP"] for item in (await client.get("/api/v1/services"))["items"] if item["metadata"]["name"] != "api"}
        assert made.body["spec"]["clusterIP"] not in held


async def test_its_time_does_not_go_back(tmp_path: Path) -> None:
    """A cluster whose time ran fast is ahead of the machine's; it goes on from its own."""
    file = tmp_path / "cluster.json"
    async with Simulator(snapshot=file, speed=100_000) as simulator, Client(simulator.url, simulator.admin_token) as client:
        first = (await client.post("/api/v1/namespaces/default/configmaps", config_map("first"))).body["metadata"]["creationTimestamp"]
        ahead = simulator.registry.now()

    async with Simulator(snapshot=file) as simulator, Client(simulator.url, simulator.admin_token) as client:
        second = (await client.post("/api/v1/namespaces/default/configmaps", config_map("second"))).body["metadata"]["creationTimestamp"]

    assert first <= ahead <= second


async def test_a_file_that_can_not_be_written_is_told_at_the_start(tmp_path: Path) -> None:
    """Not at the end, when everything is lost."""
    with pytest.raises(SnapshotError, match="can't be written"):
        async with Simulator(snapshot=tmp_path / "absent" / "cluster.json"):
            pass
