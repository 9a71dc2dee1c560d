"""The new version inside a StatefulSet: its highest ordinals, from the partition on."""

from collections.abc import Iterable

from delegate.model.resources import JsonObject
from delegate.model.rollouts.errors import UpdateRuleError
from delegate.model.rollouts.workloads import wanted_replicas

_REVISION_LABEL = "controller-revision-hash"


def check_partition(stable: JsonObject) -> None:
    """Whether a canary may use the partition. Raises UpdateRuleError where it is somebody else's, or moves nothing."""
    name = str((stable.get("metadata") or {}).get("name") or "")
    strategy = (stable.get("spec") or {}).get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        raise UpdateRuleError(
            f"StatefulSet {name} updates its pods only when somebody deletes them (OnDelete), so a partition moves none",
            hint="give it the update strategy RollingUpdate",
        )
    partition = partition_of(strategy)
    if partition:
        raise UpdateRuleError(
            f"StatefulSet {name} has the partition {partition} already: somebody else keeps a part of it at an old version",
            hint="let that update end, and take the partition out",
        )
    status = stable.get("status") or {}
    if is_observed(stable) and status.get("updateRevision") != status.get("currentRevision"):
        raise UpdateRuleError(
            f"StatefulSet {name} is in the middle of an update: not all of its pods are of one version",
            hint="wait until it is rolled out",
        )


def partition_of(strategy: JsonObject) -> int:
    return int((strategy.get("rollingUpdate") or {}).get("partition") or 0)


def partition_for(spec: JsonObject, replicas: int, count: int) -> int:
    """The ordinal from which on pods are new, so that `count` of `replicas` are."""
    return int((spec.get("ordinals") or {}).get("start") or 0) + replicas - count


def with_partition(strategy: JsonObject, partition: int) -> JsonObject:
    """An update strategy with this partition, and everything else of it as it was."""
    return {**strategy, "type": "RollingUpdate", "rollingUpdate": {**(strategy.get("rollingUpdate") or {}), "partition": partition}}


def is_observed(body: JsonObject) -> bool:
    """Whether its controller's status is of what is wanted now."""
    status, metadata = body.get("status") or {}, body.get("metadata") or {}
    return int(status.get("observedGeneration") or 0) >= int(metadata.get("generation") or 0)


def new_pods(stable: JsonObject, pods: Iterable[JsonObject]) -> list[JsonObject]:
    """Those of the newest revision that are not on their way out; none as long as nobody knows which that is."""
    newest = (stable.get("status") or {}).get("updateRevision")
    if not newest or not is_observed(stable):
        return []
    return [pod for pod in _staying(stable, pods) if _revision_of(pod) == newest]


def stuck_pods(stable: JsonObject, pods: Iterable[JsonObject]) -> list[JsonObject]:
    """Those of another revision than is wanted that aren't ready: their set waits for them for ever, and does not replace them.

    What stands below the partition is not to be replaced.
    """
    newest = (stable.get("status") or {}).get("updateRevision")
    if not newest or not is_observed(stable):
        return []
    lowest = partition_of(stable["spec"].get("updateStrategy") or {})
    left = [pod for pod in _staying(stable, pods) if _revision_of(pod) != newest and not is_ready(pod)]
    return [pod for pod in left if _ordinal_of(pod) >= lowest]


def is_ready(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def is_whole(body: JsonObject) -> bool:
    """Whether a StatefulSet runs all that is wanted, in one version, and nothing else."""
    status, wanted = body.get("status") or {}, wanted_replicas(body)
    counts = [int(status.get(field) or 0) for field in ("replicas", "updatedReplicas", "availableReplicas")]
    return is_observed(body) and counts == [wanted] * 3 and status.get("currentRevision") == status.get("updateRevision")


def _staying(stable: JsonObject, pods: Iterable[JsonObject]) -> list[JsonObject]:
    uid = stable["metadata"]["uid"]
    return [
        pod
        for pod in pods
        if not pod["metadata"].get("deletionTimestamp")
        and any(owner.get("uid") == uid for owner in pod["metadata"].get("ownerReferences") or ())
    ]


def _ordinal_of(pod: JsonObject) -> int:
    number = str(pod["metadata"]["name"]).rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def _revision_of(pod: JsonObject) -> str:
    return str((pod["metadata"].get("labels") or {}).get(_REVISION_LABEL) or "")
