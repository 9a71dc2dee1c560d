"""Many canaries that look bad at once (case 21): no wave of aborts, no loop, and nobody blamed for what is not his fault."""

import asyncio
import copy
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.canary_groups import GroupStore
from delegate.engine.records.journals import JournalStore
from delegate.engine.tasks.resuming import ResumeSignal
from delegate.engine.tasks.stopping import StopSignal, StopVerdict
from delegate.model.resource_types import CONFIG_MAPS, DEPLOYMENTS
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, TaskResult
from delegate.model.rollouts.journals import Journal, journal_name
from delegate.model.rollouts.states import Phase
from delegate.model.rollouts.storms import CLEARED_ANNOTATION, Group
from tests.cluster.canaries import NEW, OLD, Canarist, image_of, verifying
from tests.cluster.servers import eventually
from tests.cluster.syncing import deployment

NAMES = [f"svc-{number:02}" for number in range(1, 13)]
NEWER = "registry.example/web:3.0"


class Shop:
    """Answers an error ratio, in percent, of the pods that it is asked about."""

    def __init__(self) -> None:
        self.new, self.old = 22.0, 0.1

    async def answer(self, request: web.Request) -> web.Response:
        return web.json_response({"errors": self.new if "canary" in request.query["pods"] else self.old})


@pytest.fixture
async def shop() -> AsyncIterator[tuple[Shop, JsonObject]]:
    """And the check that asks it."""
    shop, app = Shop(), web.Application()
    app.router.add_get("/errors", shop.answer)
    async with TestServer(app) as running:
        url = f"{running.make_url('/errors')}?pods=$PODS"
        check = {"name": "err", "type": "http", "url": url, "query": "$.errors", "unit": "%", "threshold": "<= 1percent"}
        yield shop, {**check, "every": "100ms", "timeout": "2s", "failsAllowed": 1, "for": "500ms"}


@pytest.fixture
def canarist(canarist: Canarist) -> Canarist:
    return verifying(canarist)


async def stand(cluster: Cluster, namespace: str, names: list[str]) -> None:
    """A stable Deployment each."""
    for name in names:
        await cluster.client.create(DEPLOYMENTS, deployment(name, OLD, 1, namespace=namespace))

    async def ready() -> bool:
        live = (await cluster.client.list(DEPLOYMENTS, namespace)).items
        return all((each.get("status") or {}).get("availableReplicas") == 1 for each in live)

    await eventually(ready, within=30)


def of(canarist: Canarist, name: str) -> Canarist:
    """The same delegate for the Application of one service."""
    own = copy.copy(canarist)
    own.application, own.resume = name, ResumeSignal()
    return own


def run(
    canarist: Canarist, name: str, check: JsonObject, *, image: str = NEW, task: str = "", **more: object
) -> Coroutine[Any, Any, TaskResult]:
    spec = {
        "workload": {"kind": "Deployment", "name": name},
        "images": {"main": image},
        "steps": [{"setWeight": 50}, {"verify": ["err"]}, {"setWeight": 50}],
        "verification": [check],
        "minReady": "0s",
        "progressDeadline": "20s",
        "onFailure": "abort",
    }
    stop, options = more.pop("stop", None), more.pop("options", {})
    return of(canarist, name).attempt(
        kind="canary",
        spec={**spec, **more},
        options={"failFastAfter": "1s", **options},  # type: ignore[dict-item]
        task=task or f"task-{name}",
        timeout="60s",
        stop=stop,  # type: ignore[arg-type]
    )


async def group_of(cluster: Cluster, namespace: str) -> Group:
    return await GroupStore(cluster.client, namespace, "canaries").read()


async def journal_of(cluster: Cluster, namespace: str, name: str) -> Journal | None:
    return (await JournalStore(cluster.client, namespace, "Deployment", name).read()).journal


async def test_what_the_stable_versions_suffer_from_too_is_no_releases_fault(
    canarist: Canarist, cluster: Cluster, shop: tuple[Shop, JsonObject]
) -> None:
    """Nothing is taken back and no share is raised: all are held where they stand, with one alarm for their storm."""
    metrics, check = shop
    metrics.old = 21.0
    names = NAMES[:4]
    await stand(cluster, canarist.namespace, names)
    alarms: list[str] = []
    canarist.on_event = lambda event, data: alarms.append(str(data["words"])) if event == "canary.group_alarm" else None
    stops = {name: StopSignal() for name in names}
    running = [asyncio.create_task(run(canarist, name, check, stop=stops[name])) for name in names]

    async def held() -> bool:
        journals = [await journal_of(cluster, canarist.namespace, name) for name in names]
        return all(each is not None and each.phase is Phase.HELD for each in journals)

    await eventually(held, within=30)
    journal = await journal_of(cluster, canarist.namespace, names[0])
    assert journal is not None
    assert (journal.step, journal.weight, journal.bad) == (1, 50.0, ())
    assert "not caused by the release: the stable version fails as well" in journal.reason
    assert [await image_of(cluster.client, canarist.namespace, f"{name}-canary") for name in names] == [NEW] * 4
    assert alarms == ["the stable versions fail as well: this is not caused by a release"]

    for stop in stops.values():
        stop.request(StopVerdict.CANCEL)
    assert {(await each).outcome for each in running} == {Outcome.CANCELLED}


async def test_only_the_new_versions_are_bad(canarist: Canarist, cluster: Cluster, shop: tuple[Shop, JsonObject]) -> None:
    """They are taken back, three at a time at the most, each once; from the fifth on none of the group begins until somebody clears it."""
    _, check = shop
    await stand(cluster, canarist.namespace, NAMES)
    at_once = most = 0

    def told(event: str, data: JsonObject) -> None:
        nonlocal at_once, most
        if event == "canary.moved" and str(data["words"]).startswith("taken back"):
            at_once += 1
        elif event == "canary.moved" and data["phase"] == Phase.RESTORED:
            at_once -= 1
        most = max(most, at_once)

    canarist.on_event = told
    results = await asyncio.gather(*(run(canarist, name, check) for name in NAMES[:11]))

    assert {result.outcome for result in results} == {Outcome.ABORTED}, results
    assert 1 <= most <= 3
    group = await group_of(cluster, canarist.namespace)
    assert "workloads were convicted within 120s" in group.stopped
    assert all(each.begun and each.ended for each in group.convictions)

    refused = await run(canarist, NAMES[11], check)
    assert (refused.outcome, refused.requests.writes) == (Outcome.REFUSED, 0), refused
    assert refused.error is not None
    assert refused.error.code == "policy.group_stopped"
    assert "delete configmap delegate.canary-group.canaries" in refused.error.hint
    name = "delegate.canary-group.canaries"
    record = await cluster.client.get(CONFIG_MAPS, canarist.namespace, name)
    await cluster.client.delete(CONFIG_MAPS, canarist.namespace, name, uid=record["metadata"]["uid"])
    assert (await run(canarist, NAMES[11], check)).outcome is Outcome.ABORTED


async def test_the_same_release_again_is_refused_until_it_is_cleared(
    canarist: Canarist, cluster: Cluster, shop: tuple[Shop, JsonObject]
) -> None:
    """By its digest, whatever the task and its steps; another version begins. Cleared, it is tried once more."""
    metrics, check = shop
    await stand(cluster, canarist.namespace, NAMES[:1])
    first = await run(canarist, NAMES[0], check, task="one")
    again = await run(canarist, NAMES[0], check, task="two", drain="31s")
    assert (first.outcome, again.outcome, again.requests.writes) == (Outcome.ABORTED, Outcome.REFUSED, 0), again
    assert again.error is not None
    assert again.error.code == "policy.known_bad"
    assert "known bad digest" in again.message
    assert "task one convicted this version" in again.message

    forced = await run(canarist, NAMES[0], check, task="three", options={"force": True})
    assert forced.outcome is Outcome.ABORTED
    mark = {"metadata": {"annotations": {CLEARED_ANNOTATION: "all"}}}
    await cluster.client.patch(CONFIG_MAPS, canarist.namespace, journal_name("Deployment", NAMES[0]), mark)
    metrics.new = 0.1
    cleared = await run(canarist, NAMES[0], check, task="four")
    assert cleared.outcome is Outcome.SUCCEEDED, cleared
    assert await image_of(cluster.client, canarist.namespace, NAMES[0]) == NEW


async def test_too_many_bad_versions_in_an_hour(canarist: Canarist, cluster: Cluster, shop: tuple[Shop, JsonObject]) -> None:
    """Where that is asked for: the third is not tried."""
    _, check = shop
    await stand(cluster, canarist.namespace, NAMES[:1])
    bound = {"perHour": 2}
    for number in range(2):
        result = await run(canarist, NAMES[0], check, image=f"registry.example/web:2.{number}", task=f"task-{number}", storm=bound)
        assert result.outcome is Outcome.ABORTED, result
    third = await run(canarist, NAMES[0], check, image=NEWER, task="task-3", storm=bound)
    assert (third.outcome, third.requests.writes) == (Outcome.REFUSED, 0), third
    assert "2 versions of Deployment svc-01 were convicted within the last hour" in third.message


async def test_who_waits_for_its_turn_and_dies_is_not_in_the_way(
    canarist: Canarist, cluster: Cluster, shop: tuple[Shop, JsonObject]
) -> None:
    """The place is lost, the version stays known as bad, and another attempt takes it back."""
    _, check = shop
    await stand(cluster, canarist.namespace, NAMES[:2])
    one_at_a_time = {"abortsAtOnce": 1}
    waiting = GroupStore(cluster.client, canarist.namespace, "canaries")
    first = asyncio.create_task(run(canarist, NAMES[0], check, storm=one_at_a_time, drain="0s"))
    assert (await first).outcome is Outcome.ABORTED
    await waiting.change(_at_work_again)

    second = asyncio.create_task(run(canarist, NAMES[1], check, storm=one_at_a_time))

    async def waits() -> bool:
        journal = await journal_of(cluster, canarist.namespace, NAMES[1])
        return len((await waiting.read()).convictions) == 2 and journal is not None and bool(journal.bad)

    await eventually(waits, within=20)
    journal = await journal_of(cluster, canarist.namespace, NAMES[1])
    assert journal is not None
    assert journal.phase is Phase.STEPPING
    await waiting.change(_dead)
    assert (await second).outcome is Outcome.ABORTED


def _at_work_again(group: Group) -> Group:
    far = "2100-01-01T00:00:00+00:00"
    return msgspec.structs.replace(
        group, convictions=tuple(msgspec.structs.replace(each, ended=False, until=far) for each in group.convictions)
    )


def _dead(group: Group) -> Group:
    first, *rest = group.convictions
    return msgspec.structs.replace(group, convictions=(msgspec.structs.replace(first, until="2026-01-01T00:00:00+00:00"), *rest))
