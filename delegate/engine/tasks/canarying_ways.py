"""Which way a workload takes a new version, by its kind."""

import copy

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.engine.tasks.canarying_argo import ArgoRollout
from delegate.engine.tasks.canarying_beside import SecondDeployment
from delegate.engine.tasks.canarying_partition import Partition
from delegate.engine.tasks.canarying_plans import Plan
from delegate.engine.tasks.canarying_pods import NewPods
from delegate.engine.tasks.canarying_sets import Authority, Sets
from delegate.model.health.failing import ROLLOUT_HASH
from delegate.model.resource_types import REPLICA_SETS
from delegate.model.resources import JsonObject
from delegate.model.rollouts.argo import at_stops, check_rollout, is_aborted, stops_of
from delegate.model.rollouts.errors import UpdateRuleError
from delegate.model.rollouts.partitions import check_partition
from delegate.model.rollouts.shares import reached_share
from delegate.model.rollouts.specs import CanarySpec
from delegate.model.rollouts.workloads import check_surge


def new_pods_of(client: ApiClient, plan: Plan, sets: Sets, authority: Authority, *, routed: bool) -> NewPods:
    match sets.kind:
        case Partition.kind:
            return Partition(client, plan, sets, authority)
        case ArgoRollout.kind:
            return ArgoRollout(client, plan, sets)
        case _:
            return SecondDeployment(plan, sets, authority, routed=routed)


def check_update_rule(stable: JsonObject, spec: CanarySpec) -> None:
    """Raises UpdateRuleError where the workload's own rule leaves no room for a canary."""
    if spec.workload.kind == Partition.kind:
        check_partition(stable)
    elif spec.workload.kind == ArgoRollout.kind:
        check_rollout(stable, spec.steps)
    else:
        check_surge(stable)


def reach(spec: CanarySpec, stable: int) -> list[str]:
    """What each weight of the steps comes to, in words. Raises UnreachableShareError."""
    weights = [step.set_weight for step in spec.steps if step.set_weight is not None]
    most, kind = spec.max_effective_share, spec.workload.kind
    told = [f"blue/green: {', '.join(map(str, spec.steps))}"] if spec.blue_green is not None else []
    return told + [f"setWeight {weight:g} comes to {reached_share(kind, stable, weight, most, routed=spec.routed)}" for weight in weights]


def spec_for(spec: CanarySpec, stable: JsonObject) -> CanarySpec:
    """With the steps as they are driven."""
    if spec.workload.kind != ArgoRollout.kind:
        return spec
    return msgspec.structs.replace(spec, steps=at_stops(spec.steps, stops_of(stable["spec"])))


def is_under_way(stable: JsonObject) -> bool:
    """Whether a Rollout holds a new version that it has aborted, and that may be tried again."""
    return "stableRS" in (stable.get("status") or {}) and is_aborted(stable)


async def stable_template(client: ApiClient, stable: JsonObject) -> JsonObject:
    """The pod template of the version that serves: an aborted Rollout's is that of its stable ReplicaSet.

    Raises UpdateRuleError where that is gone, ClusterError.
    """
    template: JsonObject = stable["spec"].get("template") or {}
    if not is_under_way(stable):
        return template
    wanted = stable["status"]["stableRS"]
    for found in (await client.list(REPLICA_SETS, stable["metadata"]["namespace"], labels=f"{ROLLOUT_HASH}={wanted}")).items:
        owners = found["metadata"].get("ownerReferences") or ()
        if any(owner.get("uid") == stable["metadata"]["uid"] for owner in owners):
            old: JsonObject = copy.deepcopy(found["spec"]["template"])
            old.get("metadata", {}).get("labels", {}).pop(ROLLOUT_HASH, None)
            return old
    raise UpdateRuleError(
        f"Rollout {stable['metadata']['name']} was aborted, and its stable ReplicaSet is gone",
        hint="set its image back first",
    )
