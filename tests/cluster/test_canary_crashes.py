"""The delegate dies at any write of a canary, or calls fail: the stable version keeps its capacity, and the journal tells the end."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from delegate.engine.clusters.registry import Cluster
from delegate.engine.clusters.transport import Answer, Call, Transport
from delegate.model.resource_types import DEPLOYMENTS, LEASES
from delegate.model.results import Outcome
from delegate.model.rollouts.states import Phase
from tests.cluster.canaries import NEW, OLD, Canarist, canarist_for, image_of, journal_of, replicas_of, stable_stands, watched
from tests.cluster.conftest import Server
from tests.cluster.servers import eventually
from tests.cluster.test_sync_crashes import Death

pytestmark = pytest.mark.lease_seconds(2)
_BROKEN = "registry.example/web:crash"


async def ended(cluster: Cluster, canarist: Canarist) -> Phase:
    """How it ended; fails where that is neither fully the one nor fully the other."""
    phase = (await journal_of(cluster.client, canarist.namespace)).phase
    assert phase in (Phase.PROMOTED, Phase.RESTORED)
    assert await image_of(cluster.client, canarist.namespace) == (NEW if phase is Phase.PROMOTED else OLD)
    assert await replicas_of(cluster.client, canarist.namespace) == -1
    return phase


@pytest.mark.parametrize("at_write", range(1, 13))
async def test_another_attempt_promotes_whatever_write_the_last_one_died_at(
    canarist: Canarist, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, at_write: int
) -> None:
    """It goes on at the same step, without a second set, and capacity never falls."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    death = Death(at_write, after_it_was_done=True)
    async with watched(cluster.client, canarist.namespace) as capacity:
        with death.strikes(monkeypatch):
            died = await canarist.run({"setWeight": 33})

        result = await canarist.run({"setWeight": 33})

    assert death.happened
    assert died.outcome is not Outcome.SUCCEEDED
    assert result.outcome is Outcome.SUCCEEDED, result
    assert await ended(cluster, canarist) is Phase.PROMOTED
    assert capacity.least >= 2


@pytest.mark.parametrize("at_write", range(1, 10))
async def test_another_attempt_takes_back_whatever_write_the_last_one_died_at(
    canarist: Canarist, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, at_write: int
) -> None:
    """An abort that was begun is finished, and nothing goes forward again."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    death = Death(at_write, after_it_was_done=True)
    async with watched(cluster.client, canarist.namespace) as capacity:
        with death.strikes(monkeypatch):
            await canarist.run({"setWeight": 33}, image=_BROKEN)

        result = await canarist.run({"setWeight": 33}, image=_BROKEN)

    assert death.happened
    assert result.outcome is Outcome.ABORTED, result
    assert await ended(cluster, canarist) is Phase.RESTORED
    assert capacity.least_stable >= 2


@pytest.mark.parametrize("image", [NEW, _BROKEN], ids=["good", "bad"])
async def test_each_call_may_fail_once(patient: Canarist, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, image: str) -> None:
    """Every path and verb answers 500 at its first and fourth call: the end is still fully the one or fully the other."""
    await stable_stands(cluster.client, patient.namespace, replicas=2)
    real, calls = Transport.send, Counter[tuple[str, str]]()

    async def send(transport: Transport, call: Call, timeout: float, **options: bool) -> Answer:
        calls[(call.method, call.path)] += 1
        if calls[(call.method, call.path)] in (1, 4) and "leases" not in call.path:
            return Answer(500, {"kind": "Status", "code": 500, "reason": "InternalError", "message": "the server has a moment"})
        return await real(transport, call, timeout, **options)

    async with watched(cluster.client, patient.namespace) as capacity:
        with monkeypatch.context() as patched:
            patched.setattr(Transport, "send", send)
            result = await patient.run({"setWeight": 33}, image=image)

    assert len(calls) > 8
    assert result.outcome is (Outcome.SUCCEEDED if image == NEW else Outcome.ABORTED), result
    assert await ended(cluster, patient) is (Phase.PROMOTED if image == NEW else Phase.RESTORED)
    assert capacity.least >= 2


async def test_two_delegates_at_once_come_to_one_end(patient: Canarist, cluster: Cluster, server: Server, tmp_path: Path) -> None:
    """One of them has the Lease; the other waits for it, and then finds the work done."""
    await stable_stands(cluster.client, patient.namespace, replicas=2)
    other = canarist_for(server.kubeconfig, tmp_path / "other", patient.namespace)
    try:
        async with watched(cluster.client, patient.namespace) as capacity:
            results = await asyncio.gather(patient.run({"setWeight": 33}), other.run({"setWeight": 33}))
    finally:
        await other.engine.close()

    assert {result.outcome for result in results} == {Outcome.SUCCEEDED}, results
    assert await ended(cluster, patient) is Phase.PROMOTED
    assert capacity.least >= 2
    assert sum(result.requests.writes > 5 for result in results) == 1


async def test_a_lease_that_is_lost_in_between_stops_the_canary_and_another_attempt_ends_it(canarist: Canarist, cluster: Cluster) -> None:
    """Whoever lost it writes nothing more; the journal is as it was left."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    running = asyncio.create_task(canarist.run({"setWeight": 33}, {"pause": {}}))
    await eventually(lambda: at_pause(cluster, canarist), within=20)
    lease = await cluster.client.get(LEASES, canarist.namespace, "delegate-shop")
    await cluster.client.delete(LEASES, canarist.namespace, "delegate-shop", uid=lease["metadata"]["uid"])
    lost = await running

    canarist.resume.request()
    result = await canarist.run({"setWeight": 33}, {"pause": {}})

    assert lost.outcome is Outcome.FAILED
    assert lost.error is not None
    assert lost.error.code == "conflict.lease_lost"
    assert result.outcome is Outcome.SUCCEEDED, result
    assert await ended(cluster, canarist) is Phase.PROMOTED


async def test_an_attempt_that_has_no_time_left_takes_back_what_the_dead_one_left(canarist: Canarist, cluster: Cluster) -> None:
    """Case 12: the task's time went by while nobody was there; nothing goes forward any more."""
    before = await stable_stands(cluster.client, canarist.namespace, replicas=2)
    running = asyncio.create_task(canarist.run({"setWeight": 33}, {"pause": {}}))
    await eventually(lambda: at_pause(cluster, canarist), within=20)
    running.cancel()
    await asyncio.wait([running])

    result = await canarist.run({"setWeight": 33}, {"pause": {}}, timeout="1ms")

    assert result.outcome is Outcome.ABORTED, result
    assert "the task's time is over" in result.message
    assert await ended(cluster, canarist) is Phase.RESTORED
    assert (await cluster.client.get(DEPLOYMENTS, canarist.namespace, "web"))["spec"] == before["spec"]


async def at_pause(cluster: Cluster, canarist: Canarist) -> bool:
    if await replicas_of(cluster.client, canarist.namespace) < 0:
        return False
    journal = await journal_of(cluster.client, canarist.namespace)
    return journal.step == 1 and bool(journal.since)
