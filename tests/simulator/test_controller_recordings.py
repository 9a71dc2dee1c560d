"""What the controllers write, version by version, against what the real ones were recorded to write."""

import asyncio
import json
from typing import Any

from delegate.simulator.server import Simulator
from tests.simulator.clients import Client
from tests.simulator.replaying import load
from tests.simulator.sequences import Version, sequence_of

SPEED = 5.0
PATIENCE_SECONDS = 20.0
IN_ORDER = (
    "rollout-deployment-ok",
    "rollout-deployment-image-broken",
    "rollout-deployment-fixed",
    "rollout-deployment-zero",
    "rollout-deployment-paused",
    "rollout-deployment-crash",
    "rollout-deployment-unschedulable",
    "rollout-statefulset",
    "rollout-statefulset-update",
    "rollout-statefulset-partition",
    "rollout-daemonset",
    "job-complete",
    "job-failed",
    "job-suspended",
    "pdb",
    "pvc-pending",
    "service-loadbalancer",
)


async def played(client: Client, recording: Any) -> tuple[list[Version], list[Version]]:
    """The recorded sequence, and the one that the same request leads to; the watch ends when as much has come as was recorded."""
    request, watch = recording["steps"][0]["request"], recording["steps"][1]
    want = sequence_of([event["object"] for event in watch["response"]["events"] if event["type"] != "BOOKMARK"])
    path, selector = watch["request"]["path"], watch["request"]["params"]["fieldSelector"]
    before = await client.get(path, fieldSelector=selector)
    bodies = list(before["items"])
    answer = await client.send(request["method"], request["path"], request["body"], kind=request["contentType"], **request["params"])
    assert answer.status in (200, 201), answer.body
    params = {"fieldSelector": selector, "watch": "1", "resourceVersion": before["metadata"]["resourceVersion"]}
    try:
        async with asyncio.timeout(PATIENCE_SECONDS), client.session.get(client.url + path, params=params) as events:
            async for line in events.content:
                bodies.append(json.loads(line)["object"])
                if sequence_of(bodies) == want:
                    break
    except TimeoutError:
        pass
    return want, sequence_of(bodies)


async def test_controllers_write_the_recorded_sequences() -> None:
    """Every version of every recorded object: generation, observed generation, counts, conditions and their reasons."""
    async with Simulator(speed=SPEED) as simulator, Client(simulator.url, simulator.admin_token) as client:
        await client.post("/api/v1/namespaces", {"metadata": {"name": "roll"}})
        for name in IN_ORDER:
            want, got = await played(client, load(name))

            assert got == want, name


async def test_nothing_more_is_written_once_a_rollout_is_over(simulator: Simulator, client: Client) -> None:
    """A Deployment that has come up is left alone: its resourceVersion stays."""
    body = load("rollout-deployment-ok")["steps"][0]["request"]["body"]
    await client.apply("/apis/apps/v1/namespaces/rec/deployments/good", body)
    path = "/apis/apps/v1/namespaces/rec/deployments/good"
    done = await client.until(path, lambda found: found["status"].get("availableReplicas") == 3)
    await client.until(path, lambda _: simulator.controllers.idle)

    assert (await client.get(path))["metadata"]["resourceVersion"] == done["metadata"]["resourceVersion"]


async def test_revisions_are_kept_as_recorded() -> None:
    """ReplicaSets carry their revision and sizes, ControllerRevisions the templates of StatefulSets and DaemonSets."""
    recorded = load("revisions")["steps"]
    async with Simulator(speed=SPEED) as simulator, Client(simulator.url, simulator.admin_token) as client:
        await client.post("/api/v1/namespaces", {"metadata": {"name": "roll"}})
        names = [name for name in IN_ORDER if name.startswith("rollout-deployment")][:3]
        for name in [*names, *(name for name in IN_ORDER if name.startswith(("rollout-stateful", "rollout-daemon")))]:
            want, got = await played(client, load(name))
            assert got == want, name

        def annotations(items: list[Any]) -> list[Any]:
            return sorted((sorted(item["metadata"]["annotations"].items()), item["spec"]["replicas"]) for item in items)

        sets = await client.get("/apis/apps/v1/namespaces/roll/replicasets", labelSelector="app=good")
        assert annotations(sets["items"]) == annotations(recorded[0]["response"]["body"]["items"])

        def templates(items: list[Any]) -> list[Any]:
            shown = [
                (
                    item["revision"],
                    item["metadata"]["name"].rpartition("-")[0],
                    json.dumps(item["data"], sort_keys=True),
                    sorted(item["metadata"]["labels"]),
                    item["metadata"].get("annotations"),
                )
                for item in items
            ]
            return sorted(shown, key=str)

        revisions = await client.get("/apis/apps/v1/namespaces/roll/controllerrevisions")
        assert templates(revisions["items"]) == templates(recorded[1]["response"]["body"]["items"])


async def test_leases_are_guarded_by_their_version(client: Client) -> None:
    """Create, take over, and a stale write that is refused, as recorded."""
    await client.post("/api/v1/namespaces", {"metadata": {"name": "roll"}})
    versions = {"": ""}
    for step in load("lease")["steps"]:
        request, want = step["request"], step["response"]
        body = json.loads(json.dumps(request["body"]).replace("<time>", "2026-01-01T00:00:00.000000Z"))
        metadata = {key: value for key, value in body["metadata"].items() if key in ("name", "namespace", "resourceVersion")}
        if "resourceVersion" in metadata:
            metadata["resourceVersion"] = versions[metadata["resourceVersion"]]
        answer = await client.send(request["method"], request["path"], {**body, "metadata": metadata})

        assert answer.status == want["status"]
        assert answer.body.get("reason") == want["body"].get("reason")
        if answer.status < 300:
            versions[want["body"]["metadata"]["resourceVersion"]] = answer.body["metadata"]["resourceVersion"]
