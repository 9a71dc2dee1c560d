"""A canary by the share of pods: through its steps, promoted or taken back, and refused where it can't be meant."""

import asyncio

import pytest

from delegate.engine.clusters.registry import Cluster
from delegate.engine.tasks.stopping import StopSignal, StopVerdict
from delegate.model.resource_types import CONFIG_MAPS, DEPLOYMENTS
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome
from delegate.model.rollouts.journals import RESUME_ANNOTATION, journal_name
from delegate.model.rollouts.pauses import Pause
from delegate.model.rollouts.states import Phase
from tests.cluster.canaries import NEW, OLD, QUOTAS, Canarist, image_of, journal_of, no_more_pods, replicas_of, stable_stands, watched
from tests.cluster.servers import eventually
from tests.cluster.syncing import deployment


async def test_a_good_version_goes_through_its_steps_and_is_promoted(canarist: Canarist, cluster: Cluster) -> None:
    """The stable version keeps its capacity, nothing is left beside it, and the journal says how it went."""
    await stable_stands(cluster.client, canarist.namespace)
    async with watched(cluster.client, canarist.namespace) as capacity:
        result = await canarist.run({"setWeight": 20}, {"pause": {"duration": "100ms"}}, {"setWeight": 50})

    assert result.outcome is Outcome.SUCCEEDED, result
    assert await image_of(cluster.client, canarist.namespace) == NEW
    assert await replicas_of(cluster.client, canarist.namespace) == -1
    journal = await journal_of(cluster.client, canarist.namespace)
    assert journal.phase is Phase.PROMOTED
    assert capacity.least >= 4
    assert any("setWeight 20: 20%" in words for words in result.notices)


async def test_a_version_that_does_not_come_up_is_taken_back(canarist: Canarist, cluster: Cluster) -> None:
    """Its pods crash: the outcome is aborted with the cluster's words, and the stable version was never touched."""
    before = await stable_stands(cluster.client, canarist.namespace)

    result = await canarist.run({"setWeight": 20}, image="registry.example/web:crash")

    assert result.outcome is Outcome.ABORTED, result
    assert "CrashLoopBackOff" in result.message
    assert (await cluster.client.get(DEPLOYMENTS, canarist.namespace, "web"))["spec"] == before["spec"]
    assert await replicas_of(cluster.client, canarist.namespace) == -1
    assert (await journal_of(cluster.client, canarist.namespace)).phase is Phase.RESTORED


async def test_a_version_that_is_never_ready_is_taken_back_by_our_own_clock(canarist: Canarist, cluster: Cluster) -> None:
    """Nothing crashes and nothing happens: the progress deadline decides."""
    await stable_stands(cluster.client, canarist.namespace)

    result = await canarist.run({"setWeight": 20}, image="registry.example/notready:never-ready", progressDeadline="1s")

    assert result.outcome is Outcome.ABORTED, result
    assert "0 of 1 pods are ready" in result.message


async def test_a_share_that_no_number_of_pods_comes_near_is_refused(canarist: Canarist, cluster: Cluster) -> None:
    """Beside one pod 5 % is not to be had: nothing is written."""
    await stable_stands(cluster.client, canarist.namespace, replicas=1)

    result = await canarist.run({"setWeight": 5})

    assert result.outcome is Outcome.REFUSED, result
    assert "0% and 50%" in result.message
    assert result.requests.writes == 0


@pytest.mark.parametrize(
    ("replicas", "strategy", "words"),
    [
        (0, {}, "scaled to zero"),
        (
            1,
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
            "lets no pod stand beside its old ones (maxSurge 0)",
        ),
        (2, {"type": "Recreate"}, "lets no pod stand beside its old ones (strategy Recreate)"),
    ],
)
async def test_a_workload_that_nothing_may_stand_beside_is_refused(
    canarist: Canarist, cluster: Cluster, replicas: int, strategy: JsonObject, words: str
) -> None:
    """Case 03: none that serves, and none that may be joined. Nothing is written."""
    body = deployment("web", OLD, replicas, namespace=canarist.namespace)
    body["spec"]["strategy"] = strategy
    await cluster.client.create(DEPLOYMENTS, body)

    result = await canarist.run({"setWeight": 50}, maxEffectiveShare=50)

    assert result.outcome is Outcome.REFUSED, result
    assert words in result.message
    assert result.requests.writes == 0


async def test_a_quota_that_lets_no_pod_in_is_the_reason(canarist: Canarist, cluster: Cluster) -> None:
    """Case 03: the cluster's own words, and the old pod was never touched."""
    before = await stable_stands(cluster.client, canarist.namespace, replicas=1)
    await cluster.client.create(QUOTAS, no_more_pods(canarist.namespace))

    result = await canarist.run({"setWeight": 5}, maxEffectiveShare=50, progressDeadline="2s")

    assert result.outcome is Outcome.ABORTED, result
    assert "exceeded quota: none" in result.message
    assert (await cluster.client.get(DEPLOYMENTS, canarist.namespace, "web"))["spec"] == before["spec"]
    assert await replicas_of(cluster.client, canarist.namespace) == -1


async def test_an_image_that_is_not_there_and_a_silent_watch(canarist: Canarist, cluster: Cluster) -> None:
    """Case 08: by our own clock, with the cluster's words; no weight was given to it."""
    await stable_stands(cluster.client, canarist.namespace)

    result = await canarist.run({"setWeight": 20}, image="registry.example/web:broken")

    assert result.outcome is Outcome.ABORTED, result
    assert "ImagePullBackOff" in result.message
    assert not any("setWeight 20: 20%" in words for words in result.notices)


async def test_what_is_stable_already_is_not_done_again(canarist: Canarist, cluster: Cluster) -> None:
    """The same images: it says so, and writes nothing."""
    await stable_stands(cluster.client, canarist.namespace)

    result = await canarist.run({"setWeight": 20}, image=OLD)

    assert result.outcome is Outcome.SUCCEEDED
    assert "already the good version" in result.message
    assert result.requests.writes == 0


async def test_a_pause_without_time_lasts_until_the_task_is_resumed(canarist: Canarist, cluster: Cluster) -> None:
    """And then goes on."""
    await stable_stands(cluster.client, canarist.namespace)
    running = asyncio.create_task(canarist.run({"setWeight": 20}, {"pause": {}}))
    await eventually(lambda: _pauses(cluster, canarist), within=20)

    canarist.resume.request()
    result = await running

    assert result.outcome is Outcome.SUCCEEDED, result
    assert any("resumed" in words for words in result.notices)


async def test_a_word_that_came_before_the_pause_does_not_end_it(canarist: Canarist, cluster: Cluster) -> None:
    """It was about another one, or said twice: a gate that nobody opened stays shut."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    told: list[str] = []
    canarist.on_event = lambda event, data: told.append(str(data.get("words", "")))
    canarist.resume.request()
    running = asyncio.create_task(canarist.run({"setWeight": 33}, {"pause": {}}))

    await eventually(lambda: _pauses(cluster, canarist), within=20)
    canarist.resume.request()
    await running
    first, second = told.index("pauses until the task is resumed"), told.index("resumed")
    assert second == first + 1


async def test_a_word_for_one_pause_does_not_end_the_next(canarist: Canarist, cluster: Cluster) -> None:
    """Said twice, by a command or at the journal; each of them is told of with a number of its own."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    shown: list[Pause | None] = []
    canarist.on_pause = shown.append
    running = asyncio.create_task(canarist.run({"setWeight": 33}, {"pause": {}}, {"pause": {}}))
    await eventually(lambda: _numbers(shown) == {1}, within=20)
    canarist.resume.request(1)
    await eventually(lambda: _numbers(shown) == {1, 2}, within=20)
    await _annotate(cluster, canarist, "1")
    for _ in range(2):
        canarist.resume.request(1)
        await eventually(lambda: canarist.resume._asked == 0, within=20)  # it was looked at

    still = shown[-1]
    await _annotate(cluster, canarist, "2")
    result = await running

    assert still is not None
    assert (still.number, still.step) == (2, 2)
    assert result.outcome is Outcome.SUCCEEDED, result
    assert shown[-1] is None


def _numbers(shown: list[Pause | None]) -> set[int]:
    return {each.number for each in shown if each is not None}


async def _annotate(cluster: Cluster, canarist: Canarist, pause: str) -> None:
    annotation = {"metadata": {"annotations": {RESUME_ANNOTATION: pause}}}
    await cluster.client.patch(CONFIG_MAPS, canarist.namespace, journal_name("Deployment", "web"), annotation)


async def test_a_cancelled_canary_is_taken_back(canarist: Canarist, cluster: Cluster) -> None:
    """Whole, before the result says cancelled."""
    before = await stable_stands(cluster.client, canarist.namespace)
    stop = StopSignal()
    running = asyncio.create_task(canarist.run({"setWeight": 20}, {"pause": {}}, stop=stop))
    await eventually(lambda: _pauses(cluster, canarist), within=20)

    stop.request(StopVerdict.CANCEL, "somebody asked")
    result = await running

    assert result.outcome is Outcome.CANCELLED, result
    assert (await cluster.client.get(DEPLOYMENTS, canarist.namespace, "web"))["spec"] == before["spec"]
    assert await replicas_of(cluster.client, canarist.namespace) == -1


async def _pauses(cluster: Cluster, canarist: Canarist) -> bool:
    if await replicas_of(cluster.client, canarist.namespace) < 0:
        return False
    journal = await journal_of(cluster.client, canarist.namespace)
    return journal.step == 1 and bool(journal.since)


async def test_a_promotion_that_does_not_come_through_gives_the_stable_version_back(canarist: Canarist, cluster: Cluster) -> None:
    """The new version was good beside the old one, and finds no room in its place: capacity never falls, and the old one is whole again."""
    await stable_stands(cluster.client, canarist.namespace, replicas=2)
    rule = {"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}}}
    before = await cluster.client.patch(DEPLOYMENTS, canarist.namespace, "web", rule)
    async with watched(cluster.client, canarist.namespace) as capacity:
        running = asyncio.create_task(canarist.run({"setWeight": 33}, {"pause": {}}, progressDeadline="2s"))
        await eventually(lambda: _pauses(cluster, canarist), within=20)
        await cluster.client.create(QUOTAS, no_more_pods(canarist.namespace))
        canarist.resume.request()
        result = await running

    assert result.outcome is Outcome.ABORTED, result
    assert "Deployment" in result.message
    live = await cluster.client.get(DEPLOYMENTS, canarist.namespace, "web")
    assert live["spec"]["template"] == before["spec"]["template"]
    assert await replicas_of(cluster.client, canarist.namespace) == -1
    assert capacity.least >= 2
