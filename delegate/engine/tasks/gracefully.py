"""The graceful way back: the version to go back to stands beside the bad one first, and takes its load over, before anything is restored.

    good version beside -> its weight to 100, the bad one's to zero -> drain -> restore in place -> weights as before -> drain -> clear

That is a canary whose new version is the old one, with its journal, its capacity law and its routes. Without a router there are no
weights: the pods of the good version that stand beside make up for what the workload's own update rule lets go, so that there are never
fewer that serve than before, and each pod that goes is drained by its own termination.
"""

import msgspec

from delegate.engine.tasks.canarying import CanaryRun
from delegate.engine.tasks.canarying_sources import Bringer
from delegate.engine.tasks.errors import CanaryFailedError, UnsupportedTaskError
from delegate.engine.tasks.undos import Occasion
from delegate.engine.traffic.routers import separates
from delegate.model.resources import JsonObject
from delegate.model.results import Outcome
from delegate.model.rollbacks import RollbackMode, RollbackSpec
from delegate.model.rollouts.specs import faults_of_canary, read_canary
from delegate.model.tasks import TaskKind


async def restore_gracefully(occasion: Occasion, workload: str, bringer: Bringer) -> None:
    """Raises CanaryFailedError where the good version does not come up: then the bad one keeps its load. Raises DelegateError."""
    spec = canary_spec(occasion.spec, workload)
    task = msgspec.structs.replace(occasion.task, kind=TaskKind.CANARY, spec=spec, supersedes=False, notices=())
    run = CanaryRun(task, occasion.context, occasion.parts, bringer=bringer)
    try:
        await run.execute()
    finally:
        result = run.conclude()
        occasion.report.notice(result.notices)
    if result.outcome is not Outcome.SUCCEEDED:
        reason = result.error.message if result.error is not None else result.message
        raise CanaryFailedError(
            f"the version to go back to could not take over, and what was bad keeps the load: {reason}",
            hint="look at its pods; mode immediate restores in place",
        )


def canary_spec(spec: RollbackSpec, workload: str) -> JsonObject:
    """The canary that goes back. Its source is none: who restores brings the version."""
    routed = separates(spec.routing)
    return {
        "workload": {"kind": "Deployment", "name": workload},
        "source": {"repoURL": "the release or revision to go back to"},
        "routing": spec.routing,
        "steps": [{"setWeight": 100}, {"pause": {"duration": spec.drain}}] if routed else [],
        "drain": spec.drain,
        "minReady": spec.min_ready,
    }


def check_graceful(spec: RollbackSpec) -> None:
    """Raises UnsupportedTaskError, CanarySpecError, UnknownRoutingError for what can't be done gracefully."""
    if spec.mode is not RollbackMode.GRACEFUL:
        return
    if spec.helm_release is not None:
        raise UnsupportedTaskError(
            "spec.mode graceful: Helm replaces the objects of a release by itself, and shifts no load",
            hint="mode immediate; each workload then goes by its own update rule",
        )
    if spec.workload is not None and spec.workload.kind != "Deployment":
        raise UnsupportedTaskError(
            f"spec.mode graceful: nothing can stand beside a {spec.workload.kind}, so its capacity would fall by a pod at a time",
            hint="mode immediate does just that, by the update rule of its own",
        )
    for field, words, hint in faults_of_canary(read_canary(canary_spec(spec, "any"))):
        raise UnsupportedTaskError(f"spec.{field}: {words}", hint=hint)
