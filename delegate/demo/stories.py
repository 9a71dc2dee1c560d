"""What happens in the demo, chapter by chapter, each looked up in the cluster afterwards: a story that isn't true ends it.

A first sync; an object changed by hand and put right; a broken commit that is refused whole; a new version rolled out; and a
sync that has nothing to do, and does nothing.
"""

from collections.abc import Iterable

from delegate.demo.errors import UnexpectedError
from delegate.demo.narration import Narrator
from delegate.demo.stages import LABELS, NAMESPACE, Stage
from delegate.model.resources import JsonObject
from delegate.model.results import Action, Change, Outcome, SyncStatus, TaskResult

APPLICATION = "shop-demo"
CLUSTER = "simulator"
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


def _introduce(stage: Stage, narrator: Narrator) -> None:
    narrator.chapter("The parts")
    narrator.say(f"manager             {stage.manager.url}")
    narrator.say(f"simulated cluster   {stage.simulator.url}")
    narrator.say(f"Git repository      {stage.repository.url}")
    narrator.say(f"delegate            {stage.delegate.name}, a process of its own, enrolled with a token and connected")


async def first_sync(stage: Stage, narrator: Narrator) -> None:
    narrator.chapter("A first sync")
    revision = await stage.repository.commit("Open the shop")
    result = await _sync(stage, narrator, revision)
    _expect("objects created", result.summary.created, _OBJECTS)
    _expect("health of the application", result.health.value, "Healthy")
    deployment = await _object(stage, "deployments/web")
    _expect("ready replicas of web", (deployment.get("status") or {}).get("readyReplicas"), _REPLICAS)
    await _object(stage, "services/web")
    narrator.verified(f"the cluster has all {_OBJECTS} objects, and web runs with {_REPLICAS} ready replicas")
    inventory = await _object(stage, f"configmaps/delegate-{APPLICATION}")
    narrator.verified(f"what the application owns is recorded beside it, in ConfigMap {inventory['metadata']['name']}")


async def meddling(stage: Stage, narrator: Narrator) -> None:
    narrator.chapter("Somebody changes an object by hand")
    await stage.cluster.patch("deployments/web", {"spec": {"replicas": _TOO_MANY}}, _HAND)
    _expect("replicas after the change by hand", (await _object(stage, "deployments/web"))["spec"]["replicas"], _TOO_MANY)
    narrator.say(f"{_HAND}: Deployment web now wants {_TOO_MANY} replicas; Git says {_REPLICAS}. The same sync again:")
    result = await _sync(stage, narrator)
    _expect("objects configured", result.summary.configured, 1)
    _expect("objects unchanged", result.summary.unchanged, _OBJECTS - 1)
    change = _change(result, "Deployment", "web", "/spec/replicas")
    _expect("the change that the result names", (change.before, change.after), (_TOO_MANY, _REPLICAS))
    _expect("replicas afterwards", (await _object(stage, "deployments/web"))["spec"]["replicas"], _REPLICAS)
    narrator.verified(f"the cluster is back at {_REPLICAS} replicas; nothing else was written to")


async def broken_commit(stage: Stage, narrator: Narrator) -> None:
    narrator.chapter("A commit that is broken, twice")
    lines = {
        "web.yaml": stage.repository.edit("web.yaml", "  replicas: 3\n", "  replicas: 3\n   paused: true\n") + 1,
        "worker.yaml": stage.repository.edit("worker.yaml", "  replicas: 1\n", "  replicas: 1\n  replicas: 2\n") + 1,
    }
    revision = await stage.repository.commit("Break both files")
    before, writes = await stage.cluster.versions(), stage.writes
    result = await _sync(stage, narrator, revision, outcome=Outcome.REFUSED)
    named = {error.file.rpartition("/")[2]: error.line for error in result.errors}
    _expect("the places that the errors name", named, lines)
    _expect("writes to the cluster", stage.writes - writes, 0)
    _expect("versions of the objects", await stage.cluster.versions(), before)
    narrator.verified("both faults are named with file and line, and nothing in the cluster was touched")


async def new_version(stage: Stage, narrator: Narrator) -> None:
    narrator.chapter("The commit is reverted, and a new version rolled out")
    await stage.repository.revert()
    stage.repository.edit("web.yaml", "registry.example/shop/web:1.0.0", _NEW_IMAGE)
    stage.repository.edit("web.yaml", 'checkout.enabled: "false"', 'checkout.enabled: "true"')
    revision = await stage.repository.commit("Roll out 1.1.0 with the new checkout")
    result = await _sync(stage, narrator, revision)
    _expect("objects configured", result.summary.configured, 2)
    change = _change(result, "ConfigMap", "web", "/data/checkout.enabled")
    _expect("the change of the ConfigMap", (change.before, change.after), ("false", "true"))
    deployment = await _object(stage, "deployments/web")
    status = deployment.get("status") or {}
    _expect("image", deployment["spec"]["template"]["spec"]["containers"][0]["image"], _NEW_IMAGE)
    _expect("updated and ready replicas", (status.get("updatedReplicas"), status.get("readyReplicas")), (_REPLICAS, _REPLICAS))
    narrator.verified(f"all {_REPLICAS} replicas of web run {_NEW_IMAGE}")


async def nothing_to_do(stage: Stage, narrator: Narrator) -> None:
    narrator.chapter("The same again, with nothing changed")
    before, writes = await stage.cluster.versions(), stage.writes
    result = await _sync(stage, narrator)
    _expect("objects unchanged", result.summary.unchanged, _OBJECTS)
    _expect("writes that the result counts", (result.requests.writes, result.requests.dry_runs), (0, 0))
    _expect("writes that the cluster counts", stage.writes - writes, 0)
    _expect("versions of the objects", await stage.cluster.versions(), before)
    narrator.verified(f"not one write: {result.requests.reads} reads were enough to know")


async def farewell(stage: Stage, narrator: Narrator) -> None:
    """Stops the delegate the way a deployment does. Raises UnexpectedError where it doesn't drain."""
    narrator.chapter("The delegate is stopped")
    await stage.delegate.drain()
    narrator.verified("it drained and ended with 0")


async def _sync(stage: Stage, narrator: Narrator, revision: str = "", outcome: Outcome = Outcome.SUCCEEDED) -> TaskResult:
    document: JsonObject = {
        "kind": "sync",
        "application": APPLICATION,
        "destination": {"name": CLUSTER, "namespace": NAMESPACE},
        "selector": LABELS,
        "timeout": "1m",
        "spec": {
            "source": {"repoURL": stage.repository.url, "targetRevision": "main", "path": stage.repository.path},
            "syncPolicy": {"syncOptions": ["CreateNamespace=true"]},
        },
    }
    with narrator.watching() as on_event:
        result = await stage.operator.run(document, on_event)
    narrator.result(result)
    _expect("outcome", result.outcome.value, outcome.value, because=(error.message for error in result.errors))
    if revision:
        _expect("revision", result.revision, revision)
    if outcome is Outcome.SUCCEEDED:
        _expect("sync status", result.sync.value, SyncStatus.SYNCED.value)
    return result


async def _object(stage: Stage, place: str) -> JsonObject:
    found = await stage.cluster.read(place)
    if found is None:
        raise UnexpectedError(f"the cluster has no {place} in namespace {NAMESPACE}")
    return found


def _change(result: TaskResult, kind: str, name: str, path: str) -> Change:
    changed = [each for each in result.resources if each.action is Action.CONFIGURED and (each.kind, each.name) == (kind, name)]
    for change in (change for each in changed for change in each.changes):
        if change.path == path:
            return change
    raise UnexpectedError(f"the result names no change of {path} in {kind} {name}")


def _expect(what: str, found: object, expected: object, because: Iterable[str] = ()) -> None:
    if found != expected:
        reasons = "".join(f"; {reason}" for reason in because)
        raise UnexpectedError(f"{what}: expected {expected!r}, found {found!r}{reasons}")
