"""Syncs that have to prove themselves, and go one step back by themselves where they fail: once for a release, and no further."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from delegate.engine.clusters.registry import Cluster
from delegate.engine.records.releases import ReleaseStore
from delegate.model.resource_types import DEPLOYMENTS
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, SyncStatus, TaskResult
from delegate.model.tasks import TaskDocumentError, read_task
from tests.cluster.syncing import Syncer, deployment
from tests.cluster.test_rollback import image_of

GOOD, NEW = "nginx:1.0", "nginx:2.0"
BROKEN = "registry.example/broken:broken"


class Shop:
    """Answers an error ratio, in percent, by the image that runs."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.ratios = {GOOD: 0.1}
        self._cluster = cluster
        self._namespace = namespace

    async def answer(self, request: web.Request) -> web.Response:
        del request
        live = await self._cluster.client.get(DEPLOYMENTS, self._namespace, "web")
        return web.json_response({"errors": self.ratios.get(image_of(live), 9.0)})


@pytest.fixture
async def shop(cluster: Cluster, syncer: Syncer) -> AsyncIterator[Shop]:
    """And the check that asks it stands in the syncer's spec, with a rollback where it fails."""
    shop, app = Shop(cluster, syncer.namespace), web.Application()
    app.router.add_get("/errors", shop.answer)
    async with TestServer(app) as running:
        check = {"name": "errors", "type": "http", "url": str(running.make_url("/errors")), "query": "$.errors", "unit": "%"}
        syncer.spec = {"verification": [{**check, "threshold": "<= 1%", "every": "100ms", "timeout": "2s"}], "onFailure": "rollback"}
        yield shop


async def sync(syncer: Syncer, image: str, *, task: str = "", **options: object) -> TaskResult:
    syncer.write([deployment(image=image, replicas=1)])
    return await syncer.run(task=task or str(uuid.uuid4()), **options)  # type: ignore[arg-type]


async def runs(cluster: Cluster, syncer: Syncer) -> str:
    return image_of(await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web"))


async def test_a_release_that_proves_itself_is_verified(syncer: Syncer, cluster: Cluster, shop: Shop) -> None:
    """With its evidence in the result."""
    result = await sync(syncer, GOOD)
    assert result.outcome is Outcome.SUCCEEDED, result
    assert result.verification
    assert (await ReleaseStore(cluster.client, "shop", syncer.namespace).known())[0].verified


async def test_one_that_fails_its_checks_is_rolled_back_once(syncer: Syncer, cluster: Cluster, shop: Shop) -> None:
    """The task has failed all the same; the same release again is refused, and nothing loops."""
    await sync(syncer, GOOD)

    result = await sync(syncer, NEW)

    assert (result.outcome, result.sync, result.release) == (Outcome.FAILED, SyncStatus.OUT_OF_SYNC, 3), result
    assert result.error is not None
    assert result.error.code == "dependency.check_failed"
    assert "rolled back: back to release 1" in result.message
    assert await runs(cluster, syncer) == GOOD
    newest, left, _ = await ReleaseStore(cluster.client, "shop", syncer.namespace).known()
    assert (newest.restores, newest.verified, left.bad) == (1, True, True)

    again = await sync(syncer, NEW)
    assert (again.outcome, again.requests.writes) == (Outcome.REFUSED, 0), again
    assert again.error is not None
    assert again.error.code == "policy.known_bad"
    assert await runs(cluster, syncer) == GOOD


async def test_one_that_never_gets_healthy_is_rolled_back(syncer: Syncer, cluster: Cluster) -> None:
    """Without any check as well."""
    syncer.spec = {"onFailure": "rollback"}
    await sync(syncer, GOOD)

    result = await sync(syncer, BROKEN, failFastAfter="500ms")

    assert result.outcome is Outcome.FAILED, result
    assert "rolled back: back to release 1" in result.message
    assert await runs(cluster, syncer) == GOOD


async def test_a_task_whose_time_is_over_still_goes_back(syncer: Syncer, cluster: Cluster) -> None:
    """It has used up its own time; the way back has a time of its own."""
    syncer.spec = {"onFailure": "rollback"}
    await sync(syncer, GOOD)

    result = await sync(syncer, BROKEN, timeout="2s", failFastAfter="60s")

    assert result.outcome is Outcome.TIMED_OUT, result
    assert "rolled back: back to release 1" in result.message
    assert await runs(cluster, syncer) == GOOD


async def test_unless_it_is_asked_for_nothing_is_rolled_back(syncer: Syncer, cluster: Cluster, shop: Shop) -> None:
    """It stays as it is, and the task says why it failed."""
    await sync(syncer, GOOD)
    syncer.spec["onFailure"] = "keep"
    result = await sync(syncer, NEW)
    assert result.outcome is Outcome.FAILED, result
    assert await runs(cluster, syncer) == NEW


async def test_a_first_release_has_nothing_to_go_back_to(syncer: Syncer, cluster: Cluster, shop: Shop) -> None:
    """Said so."""
    result = await sync(syncer, NEW)
    assert result.outcome is Outcome.FAILED, result
    assert "not rolled back: no release before 1 was verified" in result.message
    assert await runs(cluster, syncer) == NEW


async def test_what_the_sync_did_not_change_is_not_rolled_back(syncer: Syncer, cluster: Cluster, shop: Shop) -> None:
    """What makes the check fail came from somewhere else."""
    await sync(syncer, GOOD)
    shop.ratios[NEW] = 0.1
    await sync(syncer, NEW)
    shop.ratios.clear()

    result = await sync(syncer, NEW)

    assert (result.outcome, result.requests.writes) == (Outcome.FAILED, 0), result
    assert "this sync has changed nothing, so there is nothing of it to roll back" in result.message
    assert await runs(cluster, syncer) == NEW


async def test_where_the_old_one_fails_too_nobody_goes_further_back(syncer: Syncer, cluster: Cluster, shop: Shop) -> None:
    """Case 21: one step back, held there, and the release is not called the cause."""
    await sync(syncer, "nginx:0.9", wait=True)
    await sync(syncer, GOOD)
    shop.ratios.clear()

    result = await sync(syncer, NEW)

    assert result.outcome is Outcome.FAILED, result
    assert "the rollback failed" in result.message
    assert any("fails the checks as well" in notice for notice in result.notices)
    assert await runs(cluster, syncer) == GOOD
    assert sum(1 for release in await ReleaseStore(cluster.client, "shop", syncer.namespace).known() if release.restores) == 1


@pytest.mark.parametrize("moment", ["sync.rolls_back", "object.written"])
async def test_an_attempt_after_a_crash_goes_on_with_the_way_back(syncer: Syncer, cluster: Cluster, shop: Shop, moment: str) -> None:
    """Killed as it begins, or between its write and its end."""
    await sync(syncer, GOOD)
    seen: set[str] = set()

    def told(event: str, data: JsonObject) -> None:
        del data
        seen.add(event)
        if {"sync.rolls_back", moment} <= seen and event == moment:
            running.cancel()

    syncer.on_event = told
    running = asyncio.create_task(sync(syncer, NEW, task="one"))
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert running.cancelled()
    syncer.on_event = lambda event, data: None

    result = await sync(syncer, NEW, task="one")
    once_more = await sync(syncer, NEW, task="one")

    assert result.outcome is Outcome.FAILED, result
    assert await runs(cluster, syncer) == GOOD
    assert sum(1 for release in await ReleaseStore(cluster.client, "shop", syncer.namespace).known() if release.restores) == 1
    assert (once_more.outcome, once_more.requests.writes) == (Outcome.FAILED, 0), once_more
    assert "rolled back to release 1 already" in once_more.message


def test_what_can_not_be_meant_is_refused_when_it_is_read() -> None:
    """A check without a rule, before anybody syncs."""
    check = {"name": "errors", "type": "http", "url": "http://127.0.0.1/", "query": "$.e", "unit": "%"}
    spec = {"source": {"path": "/srv/app"}, "verification": [check], "onFailure": "rollback"}
    with pytest.raises(TaskDocumentError, match="neither a threshold nor a comparison"):
        read_task({"kind": "sync", "application": "shop", "spec": spec})
