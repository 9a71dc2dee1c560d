"""The tasks of the demo: each submitted to the manager, watched to its end, shown, and held to the outcome that the story has."""

from delegate.demo.expecting import expect
from delegate.demo.narration import Narrator
from delegate.demo.stages import LABELS, NAMESPACE, Stage
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome, SyncStatus, TaskResult

APPLICATION = "shop-demo"
_CLUSTER = "simulator"


def source_of(stage: Stage) -> JsonObject:
    return {"repoURL": stage.repository.url, "targetRevision": "main", "path": stage.repository.path}


def document_of(kind: str, spec: JsonObject) -> JsonObject:
    return {
        "kind": kind,
        "application": APPLICATION,
        "destination": {"name": _CLUSTER, "namespace": NAMESPACE},
        "selector": LABELS,
        "timeout": "1m",
        "spec": spec,
    }


async def run_task(stage: Stage, narrator: Narrator, kind: str, spec: JsonObject, outcome: Outcome = Outcome.SUCCEEDED) -> TaskResult:
    """Raises UnexpectedError where it ends otherwise."""
    with narrator.watching() as on_event:
        result = await stage.operator.run(document_of(kind, spec), on_event)
    narrator.result(result)
    expect("outcome", result.outcome.value, outcome.value, because=(error.message for error in result.errors))
    return result


async def sync(stage: Stage, narrator: Narrator, revision: str = "", outcome: Outcome = Outcome.SUCCEEDED) -> TaskResult:
    spec = {"source": source_of(stage), "syncPolicy": {"syncOptions": ["CreateNamespace=true"]}}
    result = await run_task(stage, narrator, "sync", spec, outcome)
    if revision:
        expect("revision", result.revision, revision)
    if outcome is Outcome.SUCCEEDED:
        expect("sync status", result.sync.value, SyncStatus.SYNCED.value)
    return result
