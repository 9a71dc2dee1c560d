"""Rollbacks of what Git owns (case 20): the owner is known before the first write, and nobody fights it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.registry import Cluster
from delegate.model.gitops import APPLICATION, KUSTOMIZATION, PIN_ANNOTATION, pin_of
from delegate.model.resource_types import CONFIG_MAPS, DEPLOYMENTS
from delegate.model.resources import GroupKind, JsonObject
from delegate.model.results import Outcome, TaskResult
from tests.cluster.servers import eventually
from tests.cluster.syncing import Syncer, deployment, settings_map
from tests.cluster.test_rollback import git, image_of
from tests.fakes.gitops_controllers import GitOpsController, define, served

GOOD, BAD = "nginx:1.0", "nginx:2.0"
WEB: JsonObject = {"kind": "Deployment", "name": "web"}
AUTOMATED: JsonObject = {"syncPolicy": {"automated": {"selfHeal": True}}}


class Repository:
    """What Git says of `web`: its image, in a bare repository with a commit for each."""

    def __init__(self, directory: Path) -> None:
        self.origin = directory / "origin.git"
        work = directory / "work"
        work.mkdir()
        git(work, "init", "--quiet", "--initial-branch", "main")
        for image in (GOOD, BAD):
            (work / "image").write_text(image)
            git(work, "add", ".")
            git(work, "commit", "--quiet", "--message", image)
        git(directory, "clone", "--quiet", "--bare", str(work), str(self.origin))
        self.bad = git(work, "rev-parse", "HEAD")

    async def says(self) -> tuple[str, JsonObject]:
        commit = await asyncio.to_thread(git, self.origin, "rev-parse", "main")
        image = await asyncio.to_thread(git, self.origin, "show", "main:image")
        return commit, deployment(image=image)["spec"]["template"]

    @property
    def revert(self) -> JsonObject:
        return {"mode": "revert", "commit": self.bad, "repoURL": self.origin.as_uri(), "branch": "main"}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


async def owned(client: ApiClient, syncer: Syncer, kind: GroupKind | None) -> None:
    """A Deployment that was rolled out with the good image and then with the bad one; marked as its owner marks it."""
    namespace = syncer.namespace
    body = deployment(image=GOOD, replicas=1)
    marks: JsonObject = {}
    if kind == APPLICATION:
        marks = {"annotations": {"argocd.argoproj.io/tracking-id": f"web:apps/Deployment:{namespace}/web"}}
    elif kind == KUSTOMIZATION:
        marks = {"labels": {"kustomize.toolkit.fluxcd.io/name": "web", "kustomize.toolkit.fluxcd.io/namespace": namespace}}
    await client.create(DEPLOYMENTS, {**body, "metadata": {"name": "web", "namespace": namespace, **marks}}, manager="gitops-controller")
    await rolled_out(client, syncer)
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": BAD}]}}}}
    await client.patch(DEPLOYMENTS, namespace, "web", patch, kind="strategic", manager="gitops-controller")
    await rolled_out(client, syncer)


async def rolled_out(client: ApiClient, syncer: Syncer) -> None:
    async def is_out() -> bool:
        live = await client.get(DEPLOYMENTS, syncer.namespace, "web")
        status = live.get("status") or {}
        counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
        return bool(status.get("observedGeneration") == live["metadata"]["generation"] and counts == [1, 1, 1])

    await eventually(is_out, within=30)


async def live_image(client: ApiClient, syncer: Syncer) -> str:
    return image_of(await client.get(DEPLOYMENTS, syncer.namespace, "web"))


async def roll_back(syncer: Syncer, *, pin: bool = False, **spec: object) -> TaskResult:
    agreed = {"pin": pin, "for": "2h", "namespace": syncer.namespace}
    return await syncer.roll_back(**{"workload": WEB, "gitops": agreed, "watch": "300ms", **spec})  # type: ignore[arg-type]


@pytest.fixture
async def argo(cluster: Cluster, syncer: Syncer, repository: Repository) -> AsyncIterator[GitOpsController]:
    """Argo CD, at work on an Application that heals itself."""
    await define(cluster.client, APPLICATION)
    await owned(cluster.client, syncer, APPLICATION)
    controller = GitOpsController(cluster.client, APPLICATION, syncer.namespace, repository.says)
    await controller.create(AUTOMATED)
    async with controller.running():
        yield controller


@pytest.fixture
async def flux(cluster: Cluster, syncer: Syncer, repository: Repository) -> AsyncIterator[GitOpsController]:
    """Flux, at work on a Kustomization."""
    await define(cluster.client, KUSTOMIZATION)
    await owned(cluster.client, syncer, KUSTOMIZATION)
    controller = GitOpsController(cluster.client, KUSTOMIZATION, syncer.namespace, repository.says)
    await controller.create({"interval": "10m"})
    async with controller.running():
        yield controller


async def test_without_agreement_it_is_refused(syncer: Syncer, cluster: Cluster, argo: GitOpsController) -> None:
    """With the owner's name, what to do, and no write; a dry run says the same."""
    for options in ({}, {"dryRun": True}):
        result = await roll_back(syncer, options=options)
        assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0), result
        assert result.error is not None
        assert f"belongs to the Argo CD Application {syncer.namespace}/web, which would set it back" in result.error.message
        assert "spec.gitops {pin: true" in result.error.hint
        assert "spec.git {mode: revert" in result.error.hint
    assert await live_image(cluster.client, syncer) == BAD


async def test_by_agreement_the_owner_is_pinned(syncer: Syncer, cluster: Cluster, argo: GitOpsController) -> None:
    """Recorded with an end; one write of the template, and it stays. What is to be done later is told."""
    result = await roll_back(syncer, pin=True)

    assert result.outcome is Outcome.SUCCEEDED, result
    assert (await live_image(cluster.client, syncer), argo.brought) == (GOOD, 0)
    owner = await argo.owner()
    pin = pin_of(owner)
    assert pin is not None
    assert (pin.application, pin.was) == ("shop", {"selfHeal": True})
    assert owner["spec"]["syncPolicy"].get("automated") is None
    assert any(f"stays pinned until {pin.until}" in words and "kubectl -n" in words for words in result.notices)
    assert result.requests.writes == 2  # the pin, and the template


async def test_a_rollback_that_does_nothing_pins_nothing(syncer: Syncer, cluster: Cluster, argo: GitOpsController) -> None:
    """The owner is as it was: its automation is on."""
    result = await roll_back(syncer, pin=True, workload={**WEB, "revision": 2})
    assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0), result
    assert (await argo.owner())["spec"] == AUTOMATED


async def test_git_is_taken_back_and_the_owner_let_go(
    syncer: Syncer, cluster: Cluster, argo: GitOpsController, repository: Repository
) -> None:
    """Pin, restore, revert; unpinned once Argo CD says that live is what Git says, and then nothing changes back."""
    result = await roll_back(syncer, pin=True, git=repository.revert)

    assert result.outcome is Outcome.SUCCEEDED, result
    owner = await argo.owner()
    assert owner["spec"] == AUTOMATED
    assert PIN_ANNOTATION not in (owner["metadata"].get("annotations") or {})
    assert (await live_image(cluster.client, syncer), argo.brought) == (GOOD, 0)
    assert any("has seen that Git is taken back, and is no longer pinned" in words for words in result.notices)


async def test_git_alone_may_be_the_way_back(syncer: Syncer, cluster: Cluster, argo: GitOpsController, repository: Repository) -> None:
    """Nothing is written to the cluster: the owner brings what Git says, and that is waited for."""
    result = await roll_back(syncer, git=repository.revert)

    assert (result.outcome, result.requests.writes) == (Outcome.SUCCEEDED, 0), result
    assert (await live_image(cluster.client, syncer), argo.brought) == (GOOD, 1)
    assert "by its owner" in result.message


async def test_flux_is_suspended_by_agreement(syncer: Syncer, cluster: Cluster, flux: GitOpsController) -> None:
    """And refused without."""
    refused = await roll_back(syncer)
    result = await roll_back(syncer, pin=True)

    assert (refused.outcome, refused.requests.writes) == (Outcome.REFUSED, 0), refused
    assert "the Flux Kustomization" in refused.message
    assert result.outcome is Outcome.SUCCEEDED, result
    owner = await flux.owner()
    assert (owner["spec"], flux.brought) == ({"interval": "10m", "suspend": True}, 0)
    assert await live_image(cluster.client, syncer) == GOOD


async def test_it_is_watched_for_two_intervals_of_its_owner(syncer: Syncer, cluster: Cluster, flux: GitOpsController) -> None:
    """Ten minutes twice: a task without that time restores, and does not call it done."""
    result = await roll_back(syncer, pin=True, watch="", timeout="3s")

    assert result.outcome is Outcome.TIMED_OUT, result
    assert "is back and healthy, but the task's time was over before it was watched for 1200 s" in result.message
    assert await live_image(cluster.client, syncer) == GOOD


async def test_an_owner_that_syncs_by_hand_sets_nothing_back(syncer: Syncer, cluster: Cluster, repository: Repository) -> None:
    """The rollback is allowed, and says that Git differs."""
    await define(cluster.client, APPLICATION)
    await owned(cluster.client, syncer, APPLICATION)
    controller = GitOpsController(cluster.client, APPLICATION, syncer.namespace, repository.says)
    await controller.create({"syncPolicy": {}})
    async with controller.running():
        result = await roll_back(syncer)

    assert (result.outcome, result.requests.writes) == (Outcome.SUCCEEDED, 1), result
    assert any("Git and cluster differ until Git is taken back" in words for words in result.notices)
    assert controller.brought == 0


async def test_an_unknown_second_writer_is_not_fought(syncer: Syncer, cluster: Cluster) -> None:
    """No mark says whose it is. After the first set-back it is held: one write, and the other manager's name."""
    await owned(cluster.client, syncer, None)

    async def set_back() -> None:
        patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": BAD}]}}}}
        while True:
            if await live_image(cluster.client, syncer) == GOOD:
                await asyncio.sleep(0.5)
                await cluster.client.patch(DEPLOYMENTS, syncer.namespace, "web", patch, kind="strategic", manager="night-shift")
            await asyncio.sleep(0.1)

    second = asyncio.create_task(set_back())
    try:
        result = await roll_back(syncer, watch="20s")
    finally:
        second.cancel()
        await asyncio.wait([second])

    assert result.outcome is Outcome.FAILED, result
    assert result.error is not None
    assert result.error.code == "conflict.set_back"
    assert "was set back by night-shift; it is not written a second time" in result.message
    assert result.requests.writes == 1


async def test_an_owner_that_is_elsewhere_is_named(syncer: Syncer, cluster: Cluster) -> None:
    """Argo CD may run in another cluster: what can't be pinned is refused."""
    await owned(cluster.client, syncer, APPLICATION)
    result = await roll_back(syncer, pin=True)
    assert (result.outcome, result.requests.writes) == (Outcome.REFUSED, 0), result
    assert "can't be pinned from here" in result.message


async def test_a_pin_that_does_not_hold_stops_before_the_template(syncer: Syncer, cluster: Cluster, argo: GitOpsController) -> None:
    """Whoever makes the Application gives it its automation back: that is named, and the workload is left alone."""
    made = await cluster.client.create(CONFIG_MAPS, settings_map("generator", namespace=syncer.namespace))
    maker = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "generator", "uid": made["metadata"]["uid"]}]
    type, namespace = served(APPLICATION), syncer.namespace
    await cluster.client.patch(type, namespace, "web", {"metadata": {"ownerReferences": maker}})

    async def give_back() -> None:
        while True:
            if (await argo.owner())["spec"] != AUTOMATED:
                await cluster.client.patch(type, namespace, "web", {"spec": AUTOMATED}, manager="applicationset-controller")
            await asyncio.sleep(0.1)

    second = asyncio.create_task(give_back())
    try:
        result = await roll_back(syncer, pin=True)
    finally:
        second.cancel()
        await asyncio.wait([second])

    assert result.outcome is Outcome.REFUSED, result
    assert "ConfigMap generator gives it its automation back" in result.message
    assert await live_image(cluster.client, syncer) == BAD
    assert pin_of(await argo.owner()) is None


async def test_who_is_pinned_for_one_task_is_not_another_ones(syncer: Syncer, cluster: Cluster, argo: GitOpsController) -> None:
    """Unless its end has come: then what stood before the first pin is what is given back."""
    first = await roll_back(syncer, pin=True, task="first")
    second = await roll_back(syncer, pin=True, task="second")
    assert first.outcome is Outcome.SUCCEEDED, first
    assert second.outcome is Outcome.REFUSED, second
    assert "is pinned by task first of shop until" in second.message

    owner = await argo.owner()
    over = json.loads(owner["metadata"]["annotations"][PIN_ANNOTATION]) | {"until": "2026-01-01T00:00:00+00:00"}
    annotations = {PIN_ANNOTATION: json.dumps(over)}
    await cluster.client.patch(served(APPLICATION), syncer.namespace, "web", {"metadata": {"annotations": annotations}})
    third = await roll_back(syncer, pin=True, task="third")
    assert third.outcome is Outcome.SUCCEEDED, third
    pin = pin_of(await argo.owner())
    assert pin is not None
    assert (pin.task, pin.was) == ("third", {"selfHeal": True})


async def test_an_attempt_after_a_crash_goes_on(syncer: Syncer, cluster: Cluster, argo: GitOpsController) -> None:
    """It finds its own pin and its own write, and does not take what was left for the revision before."""
    running = asyncio.create_task(roll_back(syncer, pin=True, task="one", watch="60s"))
    await eventually(lambda: _has_image(cluster.client, syncer, GOOD), within=20)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running

    result = await roll_back(syncer, pin=True, task="one")

    assert (result.outcome, result.requests.writes) == (Outcome.SUCCEEDED, 0), result
    assert (await live_image(cluster.client, syncer), argo.brought) == (GOOD, 0)
    assert any("stays pinned until" in words for words in result.notices)


async def _has_image(client: ApiClient, syncer: Syncer, image: str) -> bool:
    return await live_image(client, syncer) == image


async def test_an_application_of_ours_may_have_a_foreign_owner_too(syncer: Syncer, cluster: Cluster) -> None:
    """What both bring would be brought back by the other."""
    tracked = {"argocd.argoproj.io/tracking-id": f"web:apps/Deployment:{syncer.namespace}/web"}
    for image in (GOOD, BAD):
        syncer.write([deployment(image=image, replicas=1, annotations=tracked)])
        assert (await syncer.sync()).outcome is Outcome.SUCCEEDED
    refused = await syncer.roll_back(gitops={"namespace": syncer.namespace})
    assert (refused.outcome, refused.requests.writes) == (Outcome.REFUSED, 0), refused

    await define(cluster.client, APPLICATION)
    controller = GitOpsController(cluster.client, APPLICATION, syncer.namespace, lambda: asyncio.sleep(0, ("", JsonObject())))
    await controller.create(AUTOMATED)
    result = await syncer.roll_back(gitops={"pin": True, "namespace": syncer.namespace}, watch="300ms")
    assert result.outcome is Outcome.SUCCEEDED, result
    assert (await controller.owner())["spec"]["syncPolicy"].get("automated") is None
    assert await live_image(cluster.client, syncer) == GOOD
