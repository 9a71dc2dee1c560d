"""The verify steps of a canary: good evidence promotes, anything else takes back."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from delegate.engine.clusters.registry import Cluster
from delegate.model.resource_types import PODS
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome
from delegate.model.rollouts.errors import CanarySpecError
from delegate.model.rollouts.specs import read_canary
from delegate.model.verification.readings import Verdict
from tests.cluster.canaries import NEW, OLD, QUOTAS, Canarist, image_of, journal_of, no_more_pods, replicas_of, stable_stands, verifying
from tests.cluster.servers import eventually


@pytest.fixture
def canarist(canarist: Canarist) -> Canarist:
    """With providers of evidence."""
    return verifying(canarist)


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


class Shop:
    """Answers an error ratio, in percent; `ratio` may change, and is None where nobody has asked anything of the new version yet.

    The next `bad` answers are bad all the same.
    """

    def __init__(self) -> None:
        self.ratio: float | None = 0.1
        self.bad = 0
        self.asked = 0
        self.pods: list[int] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        self.pods.append(len(request.query.get("pods", "").split("|")))
        if self.bad:
            self.bad -= 1
            return web.json_response({"errors": 9.0})
        return web.json_response({"errors": self.ratio})


@pytest.fixture
async def shop() -> AsyncIterator[tuple[Shop, JsonObject]]:
    """And the check that asks it."""
    shop, app = Shop(), web.Application()
    app.router.add_get("/errors", shop.answer)
    async with TestServer(app) as running:
        check = {"name": "errors", "type": "http", "url": str(running.make_url("/errors")), "query": "$.errors", "unit": "%"}
        yield shop, {**check, "threshold": "<= 1%", "every": "100ms", "timeout": "1s"}


async def test_what_is_watched_beside_the_steps_convicts_in_the_middle_of_a_pause(
    canarist: Canarist, cluster: Cluster, shop: tuple[Shop, JsonObject]
) -> None:
    """The pause would last for a minute; the result holds what was seen."""
    metrics, check = shop
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    told: list[str] = []
    canarist.on_event = lambda event, data: told.append(str(data.get("words", "")))
    running = asyncio.create_task(
        canarist.run({"setWeight": 33}, {"pause": {"duration": "60s"}}, verification=[check], background=["errors"])
    )
    await eventually(lambda: metrics.asked > 2 and "pauses for 60 s" in told, within=20)
    assert not running.done()

    metrics.ratio = 9.0
    async with asyncio.timeout(20):
        result = await running

    assert result.outcome is Outcome.ABORTED, result
    assert "1 of at most 0 fails" in result.message
    assert await image_of(cluster.client, canarist.namespace) == OLD
    assert await replicas_of(cluster.client, canarist.namespace) == -1
    assert [each.verdict for each in result.verification.checks] == [Verdict.FAIL]  # type: ignore[union-attr]


@pytest.mark.parametrize(("ratio", "outcome"), [(0.1, Outcome.SUCCEEDED), (None, Outcome.ABORTED)])
async def test_nothing_is_promoted_without_an_answer_to_what_is_watched(
    canarist: Canarist, cluster: Cluster, shop: tuple[Shop, JsonObject], ratio: float | None, outcome: Outcome
) -> None:
    """However short the steps are: it is waited for, and none that comes is no good news."""
    metrics, check = shop
    metrics.ratio = ratio
    await stable_stands(cluster.client, canarist.namespace, replicas=2)

    result = await canarist.run({"setWeight": 33}, verification=[check], background=["errors"])

    assert result.outcome is outcome, result
    assert metrics.asked >= 1
    assert await image_of(cluster.client, canarist.namespace) == (NEW if ratio is not None else OLD)
    if ratio is not None:
        assert any("promotes; in the background 1 of 1 checks passed" in words for words in result.notices)
    else:
        assert result.error is not None
        assert result.error.message.startswith("errors: ")


async def test_what_is_watched_are_the_pods_of_the_share_that_stands(
    canarist: Canarist, cluster: Cluster, shop: tuple[Shop, JsonObject]
) -> None:
    """With more pods they are asked of all of them; nothing is promoted on the first one's evidence."""
    metrics, check = shop
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    watched = {**check, "url": f"{check['url']}?pods=$PODS"}

    result = await canarist.run(
        {"setWeight": 33}, {"pause": {"duration": "1s"}}, {"setWeight": 50}, verification=[watched], background=["errors"]
    )

    assert result.outcome is Outcome.SUCCEEDED, result
    assert (metrics.pods[0], metrics.pods[-1]) == (1, 2)


async def fails_once(metrics: Shop) -> None:
    """The next answer is bad, and those after it are good again."""
    asked, metrics.bad = metrics.asked, 1
    await eventually(lambda: metrics.asked > asked + 1, within=20)


async def kept_fails(cluster: Cluster, canarist: Canarist) -> dict[str, int]:
    return (await journal_of(cluster.client, canarist.namespace)).fails


async def test_a_fail_that_a_dead_attempt_has_seen_still_counts(
    canarist: Canarist, cluster: Cluster, shop: tuple[Shop, JsonObject]
) -> None:
    """Case 12: the journal keeps it, so that the next one is the second of one allowed; what was good is asked anew."""
    metrics, check = shop
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    steps: tuple[JsonObject, ...] = ({"setWeight": 33}, {"pause": {}})
    watched = {**check, "failsAllowed": 1}
    first = asyncio.create_task(canarist.run(*steps, verification=[watched], background=["errors"]))
    await eventually(lambda: metrics.asked > 1, within=20)
    await fails_once(metrics)

    async def is_kept() -> bool:
        return await kept_fails(cluster, canarist) == {"background/errors": 1}

    await eventually(is_kept, within=20)
    assert not first.done()
    first.cancel()
    await asyncio.wait([first])
    metrics.bad = 1

    result = await canarist.run(*steps, verification=[watched], background=["errors"])

    assert result.outcome is Outcome.ABORTED, result
    assert "2 of at most 1 fails, 1 of them before" in result.message


async def test_fails_add_up_over_all_weights(canarist: Canarist, cluster: Cluster, shop: tuple[Shop, JsonObject]) -> None:
    """The checks begin anew with another weight, and are not forgiven what they saw."""
    metrics, check = shop
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    told: list[str] = []
    canarist.on_event = lambda event, data: told.append(str(data.get("words", "")))
    steps: tuple[JsonObject, ...] = ({"setWeight": 33}, {"pause": {}}, {"setWeight": 50}, {"pause": {}})
    running = asyncio.create_task(canarist.run(*steps, verification=[{**check, "failsAllowed": 1}], background=["errors"]))
    await eventually(lambda: metrics.asked > 1 and told.count("pauses until the task is resumed") == 1, within=20)
    await fails_once(metrics)
    canarist.resume.request()
    await eventually(lambda: told.count("pauses until the task is resumed") == 2, within=20)
    metrics.bad = 1

    async with asyncio.timeout(20):
        result = await running

    assert result.outcome is Outcome.ABORTED, result
    assert "2 of at most 1 fails" in result.message


async def test_a_pause_that_nobody_watched_begins_anew(canarist: Canarist, cluster: Cluster, shop: tuple[Shop, JsonObject]) -> None:
    """Case 12: its time is not over for having gone by without a reading."""
    metrics, check = shop
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    steps: tuple[JsonObject, ...] = ({"setWeight": 33}, {"pause": {"duration": "2s"}})
    first = asyncio.create_task(canarist.run(*steps, verification=[check], background=["errors"]))

    async def pauses() -> bool:
        return metrics.asked > 0 and bool((await journal_of(cluster.client, canarist.namespace)).since)

    await eventually(pauses, within=20)
    first.cancel()
    await asyncio.wait([first])
    began = (await journal_of(cluster.client, canarist.namespace)).since

    result = await canarist.run(*steps, verification=[check], background=["errors"])

    assert result.outcome is Outcome.SUCCEEDED, result
    anew = next(words for words in result.notices if "pauses for 2 s from now on" in words)
    assert anew.split(" ", 1)[0] > began


async def test_pods_that_stop_serving_in_the_middle_of_a_pause_take_the_canary_back(canarist: Canarist, cluster: Cluster) -> None:
    """Nothing is restarted, and the stable version alone looks well: the new one has no share any more (case 08)."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    running = asyncio.create_task(canarist.run({"setWeight": 33}, {"pause": {"duration": "60s"}}))

    async def pauses() -> bool:
        return await replicas_of(cluster.client, canarist.namespace) == 1 and bool(
            (await journal_of(cluster.client, canarist.namespace)).since
        )

    await eventually(pauses, within=20)
    await cluster.client.create(QUOTAS, no_more_pods(canarist.namespace))
    pods = (await cluster.client.list(PODS, canarist.namespace)).items
    new = next(pod for pod in pods if pod["spec"]["containers"][0]["image"] == NEW)
    await cluster.client.delete(PODS, canarist.namespace, new["metadata"]["name"], uid=new["metadata"]["uid"])
    async with asyncio.timeout(30):
        result = await running

    assert result.outcome is Outcome.ABORTED, result
    assert "0 of 1 new pods are ready, for 1 s now" in result.message
    assert await image_of(cluster.client, canarist.namespace) == OLD


async def test_who_goes_on_after_a_crash_watches_anew(canarist: Canarist, cluster: Cluster, shop: tuple[Shop, JsonObject]) -> None:
    """Good evidence of the dead attempt is in no journal."""
    metrics, check = shop
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    steps: tuple[JsonObject, ...] = ({"setWeight": 33}, {"pause": {}})
    first = asyncio.create_task(canarist.run(*steps, verification=[check], background=["errors"]))
    await eventually(lambda: metrics.asked > 2, within=20)
    first.cancel()
    await asyncio.wait([first])
    before, metrics.ratio = metrics.asked, 9.0

    result = await canarist.run(*steps, verification=[check], background=["errors"])

    assert metrics.asked > before
    assert result.outcome is Outcome.ABORTED, result


def test_a_name_of_nothing_and_a_canary_without_load_are_refused() -> None:
    """Nothing would be watched."""
    check = {"name": "errors", "type": "http", "url": "http://shop/errors", "query": "$.e", "unit": "%", "threshold": "<= 1%"}
    spec: JsonObject = {"workload": {"name": "web"}, "images": {"main": NEW}, "verification": [check]}
    for more, words in (
        ({"background": ["other"], "steps": [{"setWeight": 10}]}, "spec.background: it names the check 'other'"),
        ({"background": ["errors"], "steps": [{"pause": {}}]}, "spec.background: the new version gets no load in any step"),
    ):
        with pytest.raises(CanarySpecError, match=words):
            read_canary(spec | more)
