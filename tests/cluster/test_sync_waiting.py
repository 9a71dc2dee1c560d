"""Waiting for health: early failure with the cluster's words, deadlines, stops."""

import asyncio

import pytest

from delegate.engine.clusters.registry import Cluster
from delegate.engine.tasks.stopping import StopSignal, StopVerdict
from delegate.model.health.verdicts import HealthStatus
from delegate.model.resource_types import DEPLOYMENTS
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome
from tests.cluster.syncing import Syncer, deployment, resource


@pytest.mark.parametrize("image", ["registry.example/broken:broken", "registry.example/crash:crash"])
async def test_a_revision_that_can_not_come_up_fails_early_and_says_why(syncer: Syncer, image: str) -> None:
    """A pull that fails or a crash fails the wait long before its deadline, naming pod, container and image (case 28.2)."""
    syncer.write([deployment(image=image)])

    result = await syncer.sync(failFastAfter="1s")

    assert result.outcome is Outcome.FAILED, result
    assert result.error is not None
    assert result.error.code == "dependency.unhealthy"
    assert image in result.error.message
    assert "web" in result.error.object


async def test_a_broken_new_revision_is_not_hidden_by_healthy_old_pods(syncer: Syncer, cluster: Cluster) -> None:
    """While the old pods serve on, the new revision's fault fails the sync (case 28.1)."""
    syncer.write([deployment(image="nginx:1.0")])
    await syncer.sync()
    syncer.write([deployment(image="registry.example/broken:broken")])

    result = await syncer.sync(failFastAfter="1s")

    assert result.outcome is Outcome.FAILED, result
    live = await cluster.client.get(DEPLOYMENTS, syncer.namespace, "web")
    assert live["status"]["availableReplicas"] >= 1


async def test_the_fix_after_a_broken_revision_succeeds(syncer: Syncer) -> None:
    """A failed sync is in nobody's way."""
    syncer.write([deployment(image="registry.example/broken:broken")])
    await syncer.sync(failFastAfter="1s")
    syncer.write([deployment(image="nginx:1.1")])

    result = await syncer.sync()

    assert (result.outcome, result.health) == (Outcome.SUCCEEDED, HealthStatus.HEALTHY), result


async def test_what_no_node_takes_stays_progressing_until_the_deadline(syncer: Syncer) -> None:
    """An autoscaler may still make room: only the deadline ends the wait, with the scheduler's words."""
    syncer.write([deployment(image="registry.example/unschedulable:unschedulable")])

    result = await syncer.run(timeout="4s", failFastAfter="500ms")

    assert result.outcome is Outcome.TIMED_OUT, result
    assert resource(result, "Deployment", "web").health.status is HealthStatus.PROGRESSING
    assert "nodes are available" in resource(result, "Deployment", "web").health.message


async def test_a_wait_that_may_run_out_succeeds_as_progressing(syncer: Syncer) -> None:
    """With failIfTimesOut off the sync has done its part, and says that it is not healthy yet."""
    syncer.write([deployment(image="registry.example/unschedulable:unschedulable")])

    result = await syncer.run(timeout="3s", failIfTimesOut=False)

    assert (result.outcome, result.health) == (Outcome.SUCCEEDED, HealthStatus.PROGRESSING), result


async def test_without_wait_the_sync_ends_at_once(syncer: Syncer) -> None:
    """Without wait the objects are applied, their health is what it is."""
    syncer.write([deployment(image="registry.example/unschedulable:unschedulable")])

    result = await syncer.sync(wait=False)

    assert (result.outcome, result.sync) == ("succeeded", "Synced"), result


async def test_a_newer_task_ends_a_wait_at_once(syncer: Syncer) -> None:
    """A wait that is superseded ends as superseded, and the next sync is not held up (case 28.3)."""
    stop, waiting = StopSignal(), asyncio.Event()

    def hear(event: str, data: JsonObject) -> None:
        del data
        if event == "wait.started":
            waiting.set()

    syncer.on_event = hear
    syncer.write([deployment(image="registry.example/unschedulable:unschedulable")])
    first = asyncio.create_task(syncer.run(timeout="60s", stop=stop))
    async with asyncio.timeout(20):
        await waiting.wait()
    stop.request(StopVerdict.SUPERSEDED)
    result = await first
    syncer.write([deployment(image="nginx:1.1")])

    second = await syncer.sync()

    assert result.outcome is Outcome.SUPERSEDED
    assert second.outcome is Outcome.SUCCEEDED, second


async def test_an_unchanged_set_is_read_once(syncer: Syncer) -> None:
    """What the plan read is good for the first look at health too, healthy or not; so that a sync asks no more than a plan does."""
    syncer.write([deployment(), deployment("api")])
    await syncer.sync()
    shown, again = await syncer.diff(), await syncer.sync()

    assert (again.requests.reads, again.health) == (shown.requests.reads, HealthStatus.HEALTHY)
    syncer.write([deployment(image="registry.example/broken:broken")])
    await syncer.sync(wait=False)
    unwell = await syncer.sync(wait=False)
    assert (unwell.requests.writes, unwell.health is HealthStatus.HEALTHY) == (0, False)
    ended = await syncer.sync(failFastAfter="500ms")
    assert ended.error is not None
    assert ended.error.code == "dependency.unhealthy"
