"""What people ask of simulated pods: their logs, and what can't be had of them."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp

from delegate.simulator.server import Simulator
from tests.simulator.clients import Client, deployment
from tests.simulator.programs import Person

LOG = "simulator.delegate.dev/log"
PODS = "/api/v1/namespaces/rec/pods"


async def _start(client: Client, name: str, image: str = "web:1.0", containers: int = 1, log: str | None = None) -> None:
    made = [{"name": f"main-{number}", "image": image} for number in range(containers)]
    await client.post(PODS, {"metadata": {"name": name, "annotations": {LOG: log} if log else {}}, "spec": {"containers": made}})


async def _ready(client: Client, name: str) -> None:
    def is_ready(pod: Any) -> bool:
        return any(item["type"] == "Ready" and item["status"] == "True" for item in pod.get("status", {}).get("conditions") or ())

    await client.until(f"{PODS}/{name}", is_ready)


async def test_a_pod_prints_what_its_annotation_says(client: Client) -> None:
    """The last lines of it, so many bytes of it, and with times, where that is asked for."""
    await _start(client, "chatty", log="one\ntwo\nthree\n")
    await _ready(client, "chatty")
    log = f"{PODS}/chatty/log"

    assert await client.get(log) == "one\ntwo\nthree\n"
    assert await client.get(log, tailLines="1") == "three\n"
    assert await client.get(log, tailLines="0") == ""
    assert await client.get(log, limitBytes="5") == "one\nt"
    stamped = (await client.get(log, timestamps="true")).splitlines()
    assert [line.split(" ")[1] for line in stamped] == ["one", "two", "three"]


async def test_a_log_that_is_not_there_is_refused_as_the_server_and_the_kubelet_do(client: Client) -> None:
    """A pod or a container that doesn't exist, an image that can't be pulled, a container that has never ended."""
    await _start(client, "two", containers=2)
    await _start(client, "broken", image="web:broken")
    await _ready(client, "two")
    await client.until(f"{PODS}/broken", lambda pod: "ImagePullBackOff" in str(pod))

    async def refusal(name: str, **params: str) -> tuple[int, str]:
        answer = await client.send("GET", f"{PODS}/{name}/log", **params)
        return answer.status, answer.body["message"]

    assert await refusal("absent") == (404, 'pods "absent" not found')
    assert await refusal("two") == (400, "a container name must be specified for pod two, choose one of: [main-0 main-1]")
    assert await refusal("two", container="x") == (400, "container x is not valid for pod two")
    waiting = 'container "main-0" in pod "broken" is waiting to start: trying and failing to pull image'
    assert await refusal("broken") == (400, waiting)
    previous = 'previous terminated container "main-0" in pod "two" not found'
    assert await refusal("two", container="main-0", previous="true") == (400, previous)


async def test_a_followed_log_ends_with_its_pod(client: Client) -> None:
    """And not before."""
    await _start(client, "web")
    await _ready(client, "web")
    timeout = aiohttp.ClientTimeout(total=30)
    async with client.session.get(f"{client.url}{PODS}/web/log", params={"follow": "true"}, timeout=timeout) as answer:
        assert await answer.content.readline() == b"main-0 of web started\n"
        rest = asyncio.create_task(answer.content.read())
        await client.get("/version")
        assert not rest.done()

        await client.send("DELETE", f"{PODS}/web", gracePeriodSeconds="0")

        assert await rest == b""


async def test_who_leaves_a_watch_or_a_log_is_not_waited_for(simulator: Simulator, client: Client) -> None:
    """The server forgets a watch as soon as its client has gone, not with the next event."""
    await _start(client, "web")
    await _ready(client, "web")
    for path, params in ((PODS, {"watch": "true"}), (f"{PODS}/web/log", {"follow": "true"})):
        async with client.session.get(client.url + path, params=params) as answer:
            await answer.content.readline()
            assert bool(simulator.open_watches) is ("watch" in params)
    async with asyncio.timeout(20):
        while simulator.open_watches:  # noqa: ASYNC110  # the server has nothing that tells
            await asyncio.sleep(0.01)


async def test_nobody_gets_into_a_container_that_does_not_run(client: Client) -> None:
    """They are told why."""
    await _start(client, "web")
    for method, path in (("POST", "exec"), ("GET", "attach"), ("POST", "portforward"), ("GET", "proxy")):
        answer = await client.send(method, f"{PODS}/web/{path}")
        assert (answer.status, answer.body["message"]) == (501, f"nothing runs in a simulated pod: there is no {path}")


async def test_kubectl_says_who_it_is_and_scales_by_load(simulator: Simulator, client: Client, tmp_path: Path) -> None:
    """Kinds that it sends as protobuf."""
    await client.post("/apis/apps/v1/namespaces/rec/deployments", deployment("web"))
    person = Person(simulator, tmp_path)

    assert (await person.run("kubectl auth whoami -o jsonpath={.status.userInfo.username}")).stdout == ["admin"]
    assert (await person.run("kubectl -n rec autoscale deployment web --min 2 --max 5 --cpu=50%")).code == 0

    (made,) = (await client.get("/apis/autoscaling/v2/namespaces/rec/horizontalpodautoscalers"))["items"]
    target = {"type": "Utilization", "averageUtilization": 50}
    assert made["spec"] == {
        "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
        "minReplicas": 2,
        "maxReplicas": 5,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
