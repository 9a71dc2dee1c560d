"""What the controllers write, version by version, against what the real ones were recorded to write."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp

from delegate.simulator.server import Simulator
from tests.simulator.clients import APPLY, Client, config_map
from tests.simulator.replaying import IN_ORDER as REPLAYED
from tests.simulator.replaying import RECORDINGS, Replay, load
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


def test_every_rollout_and_job_recording_is_compared() -> None:
    """A recording of what controllers write that nobody compares would prove nothing."""
    found = {path.stem for path in RECORDINGS.glob("*.json") if path.stem.startswith(("rollout-", "job-"))}
    watched = {path.stem for path in RECORDINGS.glob("*.json") if path.stem not in REPLAYED and _watches(path.stem)}

    assert len(found) == 14
    assert found | watched <= set(IN_ORDER)


def _watches(name: str) -> bool:
    recording = load(name)
    return any("events" in (step.get("response") or {}) for step in recording.get("steps", ()))


async def test_endpoints_follow_their_pods_as_recorded() -> None:
    """A Service over two Deployments: all ready, then a canary whose new pod is not."""
    steps = load("endpoints")["steps"]
    path, params = steps[3]["request"]["path"], steps[3]["request"]["params"]
    async with Simulator(speed=SPEED) as simulator, Client(simulator.url, simulator.admin_token) as client:
        await client.post("/api/v1/namespaces", {"metadata": {"name": "roll"}})
        for step in steps:
            request, want = step["request"], step["response"]["body"]
            if request["method"] == "PATCH":
                answer = await client.send("PATCH", request["path"], request["body"], kind=APPLY, **request["params"])
                assert answer.status == step["response"]["status"]
            elif request["path"] == path:
                got = await client.until(path, _stand_behind(endpoints_of(want)), **params)
                assert slices_of(got) == slices_of(want)
            else:
                pods = await client.get(request["path"], **request["params"])
                assert [readiness(item) for item in pods["items"]] == [readiness(item) for item in want["items"]]


def _stand_behind(want: list[tuple[str, str]]) -> Callable[[Any], bool]:
    return lambda listed: endpoints_of(listed) == want


def endpoints_of(listed: Any) -> list[tuple[str, str]]:
    """Whose pods stand behind a Service, and in what condition."""
    return sorted(
        (endpoint["targetRef"]["name"].rsplit("-", 2)[0], json.dumps(endpoint["conditions"], sort_keys=True))
        for item in listed["items"]
        for endpoint in item["endpoints"] or ()
    )


def slices_of(listed: Any) -> list[Any]:
    def shown(item: Any) -> Any:
        metadata = item["metadata"]
        return item["addressType"], item["ports"], metadata["labels"], sorted(metadata["annotations"]), metadata["generateName"]

    return [shown(item) for item in listed["items"]]


def readiness(pod: Any) -> Any:
    states = [(status["ready"], sorted(status["state"])) for status in pod["status"].get("containerStatuses") or ()]
    conditions = {item["type"]: (item["status"], item.get("reason")) for item in pod["status"].get("conditions") or ()}
    return pod["status"]["phase"], states, conditions.get("Ready"), conditions.get("ContainersReady")


async def test_an_autoscaler_without_metrics_says_so_as_recorded(client: Client) -> None:
    """It can scale and doesn't know how far; nothing is scaled."""
    await client.post("/api/v1/namespaces", {"metadata": {"name": "roll"}})
    await client.apply("/apis/apps/v1/namespaces/roll/deployments/good", load("rollout-deployment-ok")["steps"][0]["request"]["body"])
    make, show = load("hpa")["steps"]
    answer = await client.send("PATCH", make["request"]["path"], make["request"]["body"], kind=APPLY, **make["request"]["params"])
    assert answer.status == make["response"]["status"]
    want = show["response"]["body"]

    def told(body: Any) -> Any:
        status = body.get("status") or {}
        conditions = [(item["type"], item["status"], item["reason"], item["message"]) for item in status.get("conditions") or ()]
        return conditions, status.get("currentReplicas"), status.get("desiredReplicas"), status.get("currentMetrics")

    got = await client.until(show["request"]["path"], lambda body: told(body) == told(want))
    assert got["spec"] == want["spec"]


async def test_an_eviction_against_its_budget_is_refused_as_recorded(client: Client) -> None:
    """429 with the budget's numbers."""
    await client.post("/api/v1/namespaces", {"metadata": {"name": "roll"}})
    await client.apply("/apis/apps/v1/namespaces/roll/deployments/good", load("rollout-deployment-ok")["steps"][0]["request"]["body"])
    await client.until("/apis/apps/v1/namespaces/roll/deployments/good", lambda body: body["status"].get("availableReplicas") == 3)
    budget = load("pdb")["steps"][0]["request"]
    body = {**budget["body"], "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "good"}}}}
    await client.apply(budget["path"], body)
    await client.until(budget["path"], lambda found: (found.get("status") or {}).get("currentHealthy") == 3)
    name = (await client.get("/api/v1/namespaces/roll/pods"))["items"][0]["metadata"]["name"]
    step = load("eviction")["steps"][0]
    answer = await client.post(f"/api/v1/namespaces/roll/pods/{name}/eviction", {**step["request"]["body"], "metadata": {"name": name}})

    assert (answer.status, answer.body) == (step["response"]["status"], step["response"]["body"])


async def test_admission_answers_as_recorded(client: Client) -> None:
    """Quota, pod security, a policy, a webhook that isn't there, a limit range: in order, word by word."""
    await client.until("/api/v1/namespaces/rec/configmaps", lambda body: len(body["items"]) == 2)
    await client.post("/api/v1/namespaces/rec/configmaps", config_map("third"))  # the recorded quota was full from the start
    async with aiohttp.ClientSession() as session:
        replay = Replay(session, client.url, {"admin": client.token}, wording=True)
        found = await replay.play("admission")

    assert found == []


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
