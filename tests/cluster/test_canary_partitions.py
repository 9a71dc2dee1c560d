"""Canaries of StatefulSets: the highest ordinals take the new version, and give it back, whatever happens meanwhile."""

import asyncio
from collections import Counter

import pytest

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.registry import Cluster
from delegate.engine.clusters.transport import Answer, Call, Transport
from delegate.engine.records.journals import JournalStore
from delegate.engine.tasks.stopping import StopSignal, StopVerdict
from delegate.model.resource_types import PODS, STATEFUL_SETS
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, TaskResult
from delegate.model.rollouts.journals import Journal
from delegate.model.rollouts.partitions import is_whole, partition_of
from delegate.model.rollouts.states import Phase
from delegate.model.rollouts.versions import images_of
from tests.cluster.canaries import NEW, OLD, Canarist
from tests.cluster.servers import eventually
from tests.cluster.syncing import deployment
from tests.cluster.test_sync_crashes import Death

pytestmark = pytest.mark.lease_seconds(2)
_BROKEN = "registry.example/web:crash"
_SET = {"workload": {"kind": "StatefulSet", "name": "web"}}


async def set_stands(client: ApiClient, namespace: str, replicas: int = 3, strategy: JsonObject | None = None) -> JsonObject:
    """A StatefulSet `web`, all its pods ready."""
    body = deployment("web", OLD, replicas, namespace=namespace)
    body["kind"] = "StatefulSet"
    body["spec"] |= {"serviceName": "web", "updateStrategy": strategy or {"type": "RollingUpdate"}}
    await client.create(STATEFUL_SETS, body)
    await eventually(lambda: whole(client, namespace), within=20)
    return await client.get(STATEFUL_SETS, namespace, "web")


async def whole(client: ApiClient, namespace: str) -> bool:
    return is_whole(await client.get(STATEFUL_SETS, namespace, "web"))


async def run(canarist: Canarist, *steps: JsonObject, **spec: object) -> TaskResult:
    return await canarist.run(*steps, **{**_SET, **spec})  # type: ignore[arg-type]


async def images_by_ordinal(client: ApiClient, namespace: str) -> list[str]:
    pods = sorted((await client.list(PODS, namespace, labels="app=web")).items, key=lambda pod: str(pod["metadata"]["name"]))
    return [str(pod["spec"]["containers"][0]["image"]) for pod in pods]


async def journal_of(canarist: Canarist, client: ApiClient) -> Journal | None:
    return (await JournalStore(client, canarist.namespace, "StatefulSet", "web").read()).journal


async def ended(cluster: Cluster, canarist: Canarist, before: JsonObject) -> Phase:
    """How it ended; fails where that is neither fully the one nor fully the other."""
    journal = await journal_of(canarist, cluster.client)
    assert journal is not None
    assert journal.phase in (Phase.PROMOTED, Phase.RESTORED)
    image = NEW if journal.phase is Phase.PROMOTED else OLD
    await eventually(lambda: whole(cluster.client, canarist.namespace), within=20)
    live = await cluster.client.get(STATEFUL_SETS, canarist.namespace, "web")
    assert images_of(live["spec"]["template"]) == {"main": image}
    assert live["spec"]["updateStrategy"] == before["spec"]["updateStrategy"]
    assert live["spec"]["replicas"] == before["spec"]["replicas"]
    assert set(await images_by_ordinal(cluster.client, canarist.namespace)) == {image}
    return journal.phase


async def pauses(canarist: Canarist, client: ApiClient) -> bool:
    journal = await journal_of(canarist, client)
    return journal is not None and journal.phase is Phase.STEPPING and journal.step == 1 and bool(journal.since)


async def test_the_highest_ordinals_go_first_and_then_all_of_them(canarist: Canarist, cluster: Cluster) -> None:
    """At the pause one pod of three is new; at the end all are, under the update strategy that the set had."""
    before = await set_stands(cluster.client, canarist.namespace)
    running = asyncio.create_task(run(canarist, {"setWeight": 33}, {"pause": {}}))
    await eventually(lambda: pauses(canarist, cluster.client), within=20)
    at_pause = await cluster.client.get(STATEFUL_SETS, canarist.namespace, "web")
    images = await images_by_ordinal(cluster.client, canarist.namespace)
    canarist.resume.request()
    result = await running

    assert result.outcome is Outcome.SUCCEEDED, result
    assert images == [OLD, OLD, NEW]
    assert partition_of(at_pause["spec"]["updateStrategy"]) == 2
    assert any("33.3% for the wanted 33% (1 new beside 2 old pods)" in words for words in result.notices)
    assert await ended(cluster, canarist, before) is Phase.PROMOTED


async def test_a_broken_pod_that_its_set_would_wait_for_is_freed_by_the_abort(canarist: Canarist, cluster: Cluster) -> None:
    """Setting the template back alone leaves it crashing; only the highest ordinal was ever touched."""
    before = await set_stands(cluster.client, canarist.namespace)
    kept = await _uids(cluster.client, canarist.namespace)

    result = await run(canarist, {"setWeight": 33}, image=_BROKEN)

    assert result.outcome is Outcome.ABORTED, result
    assert "CrashLoopBackOff" in result.message
    assert await ended(cluster, canarist, before) is Phase.RESTORED
    now = await _uids(cluster.client, canarist.namespace)
    assert [name for name in kept if kept[name] != now[name]] == ["web-2"]


async def test_a_cancelled_canary_gives_every_ordinal_back(canarist: Canarist, cluster: Cluster) -> None:
    """Healthy new pods go back as well."""
    before = await set_stands(cluster.client, canarist.namespace)
    stop = StopSignal()
    running = asyncio.create_task(run(canarist, {"setWeight": 67}, {"pause": {}}, stop=stop))
    await eventually(lambda: pauses(canarist, cluster.client), within=20)
    images = await images_by_ordinal(cluster.client, canarist.namespace)

    stop.request(StopVerdict.CANCEL, "somebody asked")
    result = await running

    assert images == [OLD, NEW, NEW]
    assert result.outcome is Outcome.CANCELLED, result
    assert await ended(cluster, canarist, before) is Phase.RESTORED


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        ({"type": "OnDelete"}, "only when somebody deletes them"),
        ({"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}, "has the partition 1 already"),
    ],
    ids=["on-delete", "partition"],
)
async def test_an_update_rule_that_leaves_no_room_is_refused(
    canarist: Canarist, cluster: Cluster, strategy: JsonObject, words: str
) -> None:
    """Nothing is written."""
    await set_stands(cluster.client, canarist.namespace, replicas=2, strategy=strategy)

    result = await run(canarist, {"setWeight": 50})

    assert result.outcome is Outcome.REFUSED, result
    assert words in result.message
    assert result.requests.writes == 0


async def test_a_share_that_no_whole_ordinal_reaches_is_refused(canarist: Canarist, cluster: Cluster) -> None:
    """Of two pods 10 % is not to be had."""
    await set_stands(cluster.client, canarist.namespace, replicas=2)

    result = await run(canarist, {"setWeight": 10})

    assert result.outcome is Outcome.REFUSED, result
    assert "the nearest are 0% and 50%" in result.message
    assert result.requests.writes == 0


async def test_a_partition_that_somebody_moves_holds_the_canary(canarist: Canarist, cluster: Cluster) -> None:
    """It is not written over; a cancellation then gives everything back."""
    before = await set_stands(cluster.client, canarist.namespace)
    stop = StopSignal()
    running = asyncio.create_task(run(canarist, {"setWeight": 33}, {"pause": {}}, stop=stop))
    await eventually(lambda: pauses(canarist, cluster.client), within=20)
    patch = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 3}}}}
    await cluster.client.patch(STATEFUL_SETS, canarist.namespace, "web", patch)
    await eventually(lambda: _holds(canarist, cluster.client), within=20)
    live = await cluster.client.get(STATEFUL_SETS, canarist.namespace, "web")

    stop.request(StopVerdict.CANCEL, "somebody asked")
    result = await running

    assert partition_of(live["spec"]["updateStrategy"]) == 3
    assert result.outcome is Outcome.CANCELLED, result
    assert await ended(cluster, canarist, before) is Phase.RESTORED


@pytest.mark.parametrize("at_write", [4, 5, 6])
async def test_another_attempt_promotes_whatever_write_the_last_one_died_at(
    canarist: Canarist, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, at_write: int
) -> None:
    """It goes on at the same step."""
    before = await set_stands(cluster.client, canarist.namespace, replicas=2)
    death = Death(at_write, after_it_was_done=True)
    with death.strikes(monkeypatch):
        died = await run(canarist, {"setWeight": 50})

    result = await run(canarist, {"setWeight": 50})

    assert death.happened
    assert died.outcome is not Outcome.SUCCEEDED
    assert result.outcome is Outcome.SUCCEEDED, result
    assert await ended(cluster, canarist, before) is Phase.PROMOTED


@pytest.mark.parametrize("at_write", [5, 7, 8])
async def test_another_attempt_takes_back_whatever_write_the_last_one_died_at(
    canarist: Canarist, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, at_write: int
) -> None:
    """The stuck pod's deletion among them."""
    before = await set_stands(cluster.client, canarist.namespace, replicas=2)
    death = Death(at_write, after_it_was_done=True)
    with death.strikes(monkeypatch):
        await run(canarist, {"setWeight": 50}, image=_BROKEN)

    result = await run(canarist, {"setWeight": 50}, image=_BROKEN)

    assert death.happened
    assert result.outcome is Outcome.ABORTED, result
    assert await ended(cluster, canarist, before) is Phase.RESTORED


@pytest.mark.parametrize("image", [NEW, _BROKEN], ids=["good", "bad"])
async def test_each_call_may_fail_once(patient: Canarist, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, image: str) -> None:
    """Every path and verb answers 500 at its first and fourth call."""
    before = await set_stands(cluster.client, patient.namespace, replicas=2)
    real, calls = Transport.send, Counter[tuple[str, str]]()

    async def send(transport: Transport, call: Call, timeout: float, **options: bool) -> Answer:
        calls[(call.method, call.path)] += 1
        if calls[(call.method, call.path)] in (1, 4) and "leases" not in call.path:
            return Answer(500, {"kind": "Status", "code": 500, "reason": "InternalError", "message": "the server has a moment"})
        return await real(transport, call, timeout, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Transport, "send", send)
        result = await run(patient, {"setWeight": 50}, image=image)

    assert len(calls) > 5
    assert result.outcome is (Outcome.SUCCEEDED if image == NEW else Outcome.ABORTED), result
    assert await ended(cluster, patient, before) is (Phase.PROMOTED if image == NEW else Phase.RESTORED)


async def _uids(client: ApiClient, namespace: str) -> dict[str, str]:
    return {
        str(pod["metadata"]["name"]): str(pod["metadata"]["uid"]) for pod in (await client.list(PODS, namespace, labels="app=web")).items
    }


async def _holds(canarist: Canarist, client: ApiClient) -> bool:
    journal = await journal_of(canarist, client)
    return journal is not None and journal.phase is Phase.HELD


async def test_a_held_canary_that_is_resumed_has_its_share_again(canarist: Canarist, cluster: Cluster) -> None:
    """What somebody moved is put back at their word, and the step goes on."""
    before = await set_stands(cluster.client, canarist.namespace)
    running = asyncio.create_task(run(canarist, {"setWeight": 33}, {"pause": {}}))
    await eventually(lambda: pauses(canarist, cluster.client), within=20)
    patch = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 3}}}}
    await cluster.client.patch(STATEFUL_SETS, canarist.namespace, "web", patch)
    await eventually(lambda: _holds(canarist, cluster.client), within=20)

    canarist.resume.request()
    await eventually(lambda: pauses(canarist, cluster.client), within=20)
    live = await cluster.client.get(STATEFUL_SETS, canarist.namespace, "web")
    canarist.resume.request()
    result = await running

    assert partition_of(live["spec"]["updateStrategy"]) == 2
    assert result.outcome is Outcome.SUCCEEDED, result
    assert await ended(cluster, canarist, before) is Phase.PROMOTED
