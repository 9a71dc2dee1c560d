"""What happens in the demo, chapter by chapter, each looked up in the cluster afterwards: a story that isn't true ends it.

A first sync; an object changed by hand and put right; a broken commit that is refused whole; a new version rolled out; a sync that has
nothing to do, and does nothing; and then releases under load (`canaries`).
"""

from delegate.demo import canaries
from delegate.demo.expecting import expect, find_change, look_up
from delegate.demo.narration import Narrator
from delegate.demo.stages import Stage
from delegate.demo.tasks import APPLICATION, sync
from delegate.model.results import Outcome

_OBJECTS = 6
_REPLICAS = 3
_TOO_MANY = 7
_HAND = "kubectl-edit"
_NEW_IMAGE = "registry.example/shop/web:1.1.0"


async def tell(stage: Stage, narrator: Narrator) -> None:
    """The whole story. Raises UnexpectedError at the first thing that isn't as told."""
    _introduce(stage, narrator)
    await first_sync(stage, narrator)
    await meddling(stage, narrator)
    await broken_commit(stage, narrator)
    await new_version(stage, narrator)
    await nothing_to_do(stage, narrator)
    await canaries.tell(stage, narrator)


def _introduce(stage: Stage, narrator: Narrator) -> None:
    narrator.chapter("The parts")
    narrator.say(f"manager             {stage.manager.url}")
    narrator.say(f"simulated cluster   {stage.simulator.url}")
    narrator.say(f"Git repository      {stage.repository.url}")
    narrator.say(f"delegate            {stage.delegate.name}, a process of its own, enrolled with a token and connected")


async def first_sync(stage: Stage, narrator: Narrator) -> None:
    narrator.chapter("A first sync")
    revision = await stage.repository.commit("Open the shop")
    result = await sync(stage, narrator, revision)
    expect("objects created", result.summary.created, _OBJECTS)
    expect("health of the application", result.health.value, "Healthy")
    deployment = await look_up(stage, "deployments/web")
    expect("ready replicas of web", (deployment.get("status") or {}).get("readyReplicas"), _REPLICAS)
    await look_up(stage, "services/web")
    narrator.verified(f"the cluster has all {_OBJECTS} objects, and web runs with {_REPLICAS} ready replicas")
    inventory = await look_up(stage, f"configmaps/delegate-{APPLICATION}")
    narrator.verified(f"what the application owns is recorded beside it, in ConfigMap {inventory['metadata']['name']}")


async def meddling(stage: Stage, narrator: Narrator) -> None:
    narrator.chapter("Somebody changes an object by hand")
    await stage.cluster.patch("deployments/web", {"spec": {"replicas": _TOO_MANY}}, _HAND)
    expect("replicas after the change by hand", (await look_up(stage, "deployments/web"))["spec"]["replicas"], _TOO_MANY)
    narrator.say(f"{_HAND}: Deployment web now wants {_TOO_MANY} replicas; Git says {_REPLICAS}. The same sync again:")
    result = await sync(stage, narrator)
    expect("objects configured", result.summary.configured, 1)
    expect("objects unchanged", result.summary.unchanged, _OBJECTS - 1)
    change = find_change(result, "Deployment", "web", "/spec/replicas")
    expect("the change that the result names", (change.before, change.after), (_TOO_MANY, _REPLICAS))
    expect("replicas afterwards", (await look_up(stage, "deployments/web"))["spec"]["replicas"], _REPLICAS)
    narrator.verified(f"the cluster is back at {_REPLICAS} replicas; nothing else was written to")


async def broken_commit(stage: Stage, narrator: Narrator) -> None:
    narrator.chapter("A commit that is broken, twice")
    lines = {
        "web.yaml": stage.repository.edit("web.yaml", "  replicas: 3\n", "  replicas: 3\n   paused: true\n") + 1,
        "worker.yaml": stage.repository.edit("worker.yaml", "  replicas: 1\n", "  replicas: 1\n  replicas: 2\n") + 1,
    }
    revision = await stage.repository.commit("Break both files")
    before, writes = await stage.cluster.versions(), stage.writes
    result = await sync(stage, narrator, revision, outcome=Outcome.REFUSED)
    named = {error.file.rpartition("/")[2]: error.line for error in result.errors}
    expect("the places that the errors name", named, lines)
    expect("writes to the cluster", stage.writes - writes, 0)
    expect("versions of the objects", await stage.cluster.versions(), before)
    narrator.verified("both faults are named with file and line, and nothing in the cluster was touched")


async def new_version(stage: Stage, narrator: Narrator) -> None:
    narrator.chapter("The commit is reverted, and a new version rolled out")
    await stage.repository.revert()
    stage.repository.edit("web.yaml", "registry.example/shop/web:1.0.0", _NEW_IMAGE)
    stage.repository.edit("web.yaml", 'checkout.enabled: "false"', 'checkout.enabled: "true"')
    revision = await stage.repository.commit("Roll out 1.1.0 with the new checkout")
    result = await sync(stage, narrator, revision)
    expect("objects configured", result.summary.configured, 2)
    change = find_change(result, "ConfigMap", "web", "/data/checkout.enabled")
    expect("the change of the ConfigMap", (change.before, change.after), ("false", "true"))
    deployment = await look_up(stage, "deployments/web")
    status = deployment.get("status") or {}
    expect("image", deployment["spec"]["template"]["spec"]["containers"][0]["image"], _NEW_IMAGE)
    expect("updated and ready replicas", (status.get("updatedReplicas"), status.get("readyReplicas")), (_REPLICAS, _REPLICAS))
    narrator.verified(f"all {_REPLICAS} replicas of web run {_NEW_IMAGE}")


async def nothing_to_do(stage: Stage, narrator: Narrator) -> None:
    narrator.chapter("The same again, with nothing changed")
    before, writes = await stage.cluster.versions(), stage.writes
    result = await sync(stage, narrator)
    expect("objects unchanged", result.summary.unchanged, _OBJECTS)
    expect("writes that the result counts", (result.requests.writes, result.requests.dry_runs), (0, 0))
    expect("writes that the cluster counts", stage.writes - writes, 0)
    expect("versions of the objects", await stage.cluster.versions(), before)
    narrator.verified(f"not one write: {result.requests.reads} reads were enough to know")


async def farewell(stage: Stage, narrator: Narrator) -> None:
    """Stops the delegate the way a deployment does. Raises UnexpectedError where it doesn't drain."""
    narrator.chapter("The delegate is stopped")
    await stage.delegate.drain()
    narrator.verified("it drained and ended with 0")
