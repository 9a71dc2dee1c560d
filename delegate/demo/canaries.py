"""The second part of the demo: releases under load. Customers shop, their checkouts are counted, and the counts decide.

What runs is verified; a new version that fails one checkout in four is taken back by the evidence; one that doesn't is promoted; and
what was promoted is rolled back, so that no sync brings it again.
"""

import msgspec

from delegate.demo.expecting import expect, look_up
from delegate.demo.narration import Narrator
from delegate.demo.shoppers import BAD_FAILS_EVERY, Shoppers
from delegate.demo.stages import Stage
from delegate.demo.tasks import run_task, source_of, sync
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, TaskResult

_IMAGE = "registry.example/shop/web"
_OLD, _BAD, _GOOD = f"{_IMAGE}:1.1.0", f"{_IMAGE}:1.2.0", f"{_IMAGE}:1.3.0"
_COUNTED_SECONDS = 0.5


async def tell(stage: Stage, narrator: Narrator) -> None:
    """Raises UnexpectedError at the first thing that isn't as told. The shop runs 1.1.0 before and after."""
    async with Shoppers(stage.cluster, selector="app=web", bad_images=frozenset({_BAD})) as shoppers:
        await verified_version(stage, narrator, shoppers)
        await failing_canary(stage, narrator, shoppers)
        await passing_canary(stage, narrator, shoppers)
        await rolled_back(stage, narrator)


async def verified_version(stage: Stage, narrator: Narrator, shoppers: Shoppers) -> None:
    narrator.chapter("What runs is verified")
    narrator.say(f"Customers shop at {shoppers.url}/checkout; their checkouts are counted by the pod that served them.")
    ratio = {
        "name": "failed-checkouts",
        "type": "http",
        "url": f"{shoppers.url}/statistics?seconds=1",
        "query": "$.web.errorRatio",
        "unit": "ratio",
        "threshold": "<= 10%",
        "requests": "$.web.requests",
        "minRequests": 20,
        "every": "500ms",
        "for": "1s",
    }
    await run_task(stage, narrator, "verify", {"workload": {"kind": "Deployment", "name": "web"}, "verification": [ratio]})
    narrator.verified("the release is marked as verified: a rollback without a number leads here")


async def failing_canary(stage: Stage, narrator: Narrator, shoppers: Shoppers) -> None:
    narrator.chapter("A new version that fails checkouts, beside the old one")
    stage.repository.edit("web.yaml", _OLD, _BAD)
    await stage.repository.commit("Release 1.2.0")
    narrator.say(f"1.2.0 fails one checkout in {BAD_FAILS_EVERY}. It gets one pod in four, and is compared with 1.1.0:")
    result = await run_task(stage, narrator, "canary", _canary(stage, shoppers), Outcome.ABORTED)
    expect("what the judge said", _verdicts(result), ["fail"])
    await _expect_image(stage, _OLD)
    narrator.verified("convicted by the errors of its own pod and taken back; web never ran anything but 1.1.0")


async def passing_canary(stage: Stage, narrator: Narrator, shoppers: Shoppers) -> None:
    narrator.chapter("A new version that is good")
    stage.repository.edit("web.yaml", _BAD, _GOOD)
    await stage.repository.commit("Release 1.3.0 instead")
    result = await run_task(stage, narrator, "canary", _canary(stage, shoppers))
    expect("what the judge said", _verdicts(result), ["pass"])
    await _expect_image(stage, _GOOD)
    narrator.verified("acquitted by as many errors as it takes, promoted by the sync of its commit, and nothing left beside it")


async def rolled_back(stage: Stage, narrator: Narrator) -> None:
    narrator.chapter("Back to the verified version after all")
    await run_task(stage, narrator, "rollback", {"to": "last-verified"})
    await _expect_image(stage, _OLD)
    narrator.verified("web runs 1.1.0 again, to which nobody had to give a number")
    narrator.say("Git still says 1.3.0. A sync of it:")
    await sync(stage, narrator, outcome=Outcome.REFUSED)
    await _expect_image(stage, _OLD)
    narrator.verified("what was rolled back from is refused until Git says something else")


def _canary(stage: Stage, shoppers: Shoppers) -> JsonObject:
    counted = {
        "name": "errors",
        "type": "http",
        "url": f"{shoppers.url}/statistics?seconds={_COUNTED_SECONDS}",
        "query": "$['$CANARY'].errors",
        "requests": "$['$CANARY'].requests",
        "unit": "count",
        "every": f"{_COUNTED_SECONDS:g}s",
        "initialDelay": f"{_COUNTED_SECONDS:g}s",
        "for": "20s",
        "compare": {"kind": "counts", "baseline": "$['$WORKLOAD'].errors", "requests": "$['$WORKLOAD'].requests"},
    }
    return {
        "workload": {"kind": "Deployment", "name": "web"},
        "source": source_of(stage),
        "steps": [{"setWeight": 25}, {"verify": ["errors"]}],
        "verification": [counted],
        "minReady": "0s",
        "drain": "1s",
    }


def _verdicts(result: TaskResult) -> list[str]:
    record = result.verification
    return [] if isinstance(record, msgspec.UnsetType) else [check.verdict.value for check in record.checks]


async def _expect_image(stage: Stage, image: str) -> None:
    deployment = await look_up(stage, "deployments/web")
    expect("image of web", deployment["spec"]["template"]["spec"]["containers"][0]["image"], image)
    status = deployment.get("status") or {}
    replicas = deployment["spec"]["replicas"]
    expect("updated and ready replicas", (status.get("updatedReplicas"), status.get("readyReplicas")), (replicas, replicas))
    expect("a Deployment beside it", await stage.cluster.read("deployments/web-canary"), None)
