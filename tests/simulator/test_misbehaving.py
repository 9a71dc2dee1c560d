"""What only a simulated cluster can do: misbehave on demand, count what it was asked, forget, and run its time faster."""

import asyncio

import aiohttp
import pytest

from delegate.simulator.counters import RequestKey
from delegate.simulator.faults import Fault
from delegate.simulator.server import Simulator
from tests.simulator.clients import Client, config_map, deployment

MAPS = "/api/v1/namespaces/rec/configmaps"


async def test_refuses_connections(simulator: Simulator, client: Client) -> None:
    """Closed without an answer as often as the rule says, then as before."""
    fault = simulator.faults.add(Fault("refuse", times=2))
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {simulator.admin_token}"}) as session:
        for _ in range(2):
            # A POST is not sent again by the HTTP library, as a GET would be.
            with pytest.raises(aiohttp.ClientError):
                await session.post(simulator.url + MAPS, json=config_map("a"))
    assert fault.times == 0

    assert (await client.post(MAPS, config_map("a"))).status == 201


async def test_asks_to_come_back_later(simulator: Simulator, client: Client) -> None:
    """429 with Retry-After, in the header and in the details; nothing is done."""
    simulator.faults.add(Fault("too_many_requests", verbs=("create",), times=1, retry_after=7))
    answer = await client.post(MAPS, config_map("a"))

    assert (answer.status, answer.body["reason"], answer.headers["Retry-After"]) == (429, "TooManyRequests", "7")
    assert answer.body["details"]["retryAfterSeconds"] == 7
    assert (await client.send("GET", f"{MAPS}/a")).status == 404
    assert (await client.post(MAPS, config_map("a"))).status == 201


@pytest.mark.parametrize(("status", "reason"), [(500, "InternalError"), (502, None), (503, "ServiceUnavailable"), (504, "Timeout")])
async def test_fails(status: int, reason: str | None, simulator: Simulator, client: Client) -> None:
    """With the status that the rule says, for what the rule names alone."""
    simulator.faults.add(Fault("server_error", verbs=("get",), resources=("configmaps",), names=("a",), status=status))
    answer = await client.send("GET", f"{MAPS}/a")

    assert (answer.status, answer.body.get("reason")) == (status, reason)
    assert (await client.send("GET", f"{MAPS}/b")).status == 404
    assert (await client.send("GET", "/api/v1/namespaces/rec/secrets/a")).status == 404
    assert (await client.send("GET", MAPS)).status == 200
    simulator.faults.clear()
    assert (await client.send("GET", f"{MAPS}/a")).status == 404


async def test_takes_its_time(simulator: Simulator, client: Client) -> None:
    """A slow answer comes after the others that were asked for later."""
    simulator.faults.add(Fault("slow", names=("slow",), seconds=0.3))
    order: list[str] = []

    async def ask(name: str) -> None:
        await client.send("GET", f"{MAPS}/{name}")
        order.append(name)

    await asyncio.gather(ask("slow"), ask("quick"))

    assert order == ["quick", "slow"]


async def test_hangs(simulator: Simulator, client: Client) -> None:
    """No answer until the client gives up; others are answered, and stopping is not held up."""
    simulator.faults.add(Fault("hang", names=("a",), times=1))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await client.send("GET", f"{MAPS}/a")

    assert (await client.send("GET", f"{MAPS}/b")).status == 404
    assert (await client.send("GET", f"{MAPS}/a")).status == 404


async def test_cuts_watches(simulator: Simulator, client: Client) -> None:
    """A watch whose connection breaks in the middle."""
    simulator.faults.add(Fault("drop_watch", verbs=("watch",), seconds=0.1, times=1))
    with pytest.raises(aiohttp.ClientError):
        async with client.watch(MAPS) as events:
            await events.rest()

    async with client.watch(MAPS, timeoutSeconds="1") as events:
        assert all(kind == "ADDED" for kind, _ in await events.rest())


async def test_ends_every_watch(simulator: Simulator, client: Client) -> None:
    """Cleanly, at the next event."""
    start = (await client.get(MAPS))["metadata"]["resourceVersion"]
    async with client.watch(MAPS, resourceVersion=start) as events:
        simulator.drop_watches()
        await client.post(MAPS, config_map("a"))
        told = await events.rest()

    assert len(told) <= 1


async def test_counts_requests_by_verb_resource_and_user(simulator: Simulator, client: Client) -> None:
    """Dry runs and subresources apart; what the test did before doesn't count after clear."""
    path = "/apis/apps/v1/namespaces/rec/deployments"
    simulator.requests.clear()
    await client.apply(f"{path}/d", deployment("d", replicas=0), dryRun="All")
    await client.apply(f"{path}/d", deployment("d", replicas=0))
    await client.get(path)
    await client.get(f"{path}/d")
    await client.get(f"{path}/d/scale")
    await client.patch(f"{path}/d/scale", {"spec": {"replicas": 0}})
    await client.delete(f"{path}/d")
    await client.get("/version")
    async with Client(simulator.url, simulator.limited_token) as limited:
        await limited.send("GET", path)

    assert dict(simulator.requests) == {
        RequestKey("patch:dry-run", "deployments", "admin"): 1,
        RequestKey("patch", "deployments", "admin"): 1,
        RequestKey("list", "deployments", "admin"): 1,
        RequestKey("get", "deployments", "admin"): 1,
        RequestKey("get", "deployments/scale", "admin"): 1,
        RequestKey("patch", "deployments/scale", "admin"): 1,
        RequestKey("delete", "deployments", "admin"): 1,
        RequestKey("get", "/version", "admin"): 1,
        RequestKey("list", "deployments", "limited"): 1,
    }
    assert simulator.requests.writes() == 3
    assert simulator.requests.writes("limited") == 0
    assert simulator.requests.count() == 9
    assert simulator.requests.count(resource="deployments") == 6
    assert simulator.requests.count("list", user="limited") == 1


async def test_controllers_are_not_counted(simulator: Simulator, client: Client) -> None:
    """They work on the store, not through requests: what is counted is what clients asked."""
    await client.apply("/apis/apps/v1/namespaces/rec/deployments/d", deployment("d", replicas=1))
    await client.until("/api/v1/namespaces/rec/pods", lambda body: len(body["items"]) == 1)

    assert {key.user for key in simulator.requests} == {"admin"}


async def test_its_time_runs_faster() -> None:
    """At 100 times the speed the time that a minute takes is over in a moment, by its clock and by its controllers'."""
    async with Simulator(speed=100.0) as simulator, Client(simulator.url, simulator.admin_token) as client:
        await client.apply("/apis/apps/v1/namespaces/default/deployments/d", deployment("d", replicas=1, minReadySeconds=30))
        body = await client.until(
            "/apis/apps/v1/namespaces/default/deployments/d", lambda found: found["status"].get("availableReplicas") == 1
        )
        times = {item["type"]: item["lastUpdateTime"] for item in body["status"]["conditions"]}

    assert times["Available"] > body["metadata"]["creationTimestamp"]
