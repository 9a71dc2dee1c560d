"""The new version of a workload as its cluster shows it: its revision, its pods, and since when all of them are ready."""

import asyncio
import datetime as dt
import re
from collections.abc import Iterable, Sequence

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.engine.tasks.errors import HealthTimeoutError, UnsupportedTaskError
from delegate.model.health.failing import ROLLOUT_HASH
from delegate.model.resource_types import CONTROLLER_REVISIONS, PODS, REPLICA_SETS, VERSIONED
from delegate.model.resources import JsonObject
from delegate.model.verification.checks import Workload

_EVERY_SECONDS = 2.0
_NUMBER = "deployment.kubernetes.io/revision"


class NewVersion(msgspec.Struct, frozen=True):
    """`pods` is a regular expression that the names of its pods match. `ready_since`: seconds since 1970."""

    revision: str
    pods: str
    ready_since: float


async def await_new_version(client: ApiClient, workload: Workload, namespace: str, deadline: float, count: int | None = None) -> NewVersion:
    """Waits until all pods of the newest revision are ready. `deadline` is of the loop's time; `count`: how many
    pods that are, where not all that the workload wants.

    Raises UnsupportedTaskError, HealthTimeoutError (never ready: whatever its metrics say, they aren't of it), ClusterError.
    """
    if workload.kind not in VERSIONED:
        raise UnsupportedTaskError(
            f"spec.workload: a {workload.kind} has no pods of a new version", hint=f"it may be {', '.join(VERSIONED)}"
        )
    loop = asyncio.get_running_loop()
    while True:
        found = await _find(client, workload, namespace, count)
        if isinstance(found, NewVersion):
            return found
        if loop.time() + _EVERY_SECONDS >= deadline:
            raise HealthTimeoutError(f"{workload.kind} {namespace}/{workload.name} was never ready: {found}")
        await asyncio.sleep(_EVERY_SECONDS)


async def _find(client: ApiClient, workload: Workload, namespace: str, count: int | None) -> NewVersion | str:
    """The new version, or why it is not ready yet."""
    body = await client.get(VERSIONED[workload.kind], namespace, workload.name)
    status, metadata = body.get("status") or {}, body["metadata"]
    if int(status.get("observedGeneration") or 0) < int(metadata.get("generation") or 0):
        return "its controller has not seen it yet"
    label, revision = await _revision(client, body, namespace)
    if not revision:
        return "it has no revision yet"
    pods = [each for each in (await client.list(PODS, namespace, labels=f"{label}={revision}")).items if _is_of(each, body)]
    wanted = _wanted(body, workload.kind) if count is None else count
    ready = [since for each in pods if (since := _ready_since(each)) is not None]
    if not wanted:
        return "it wants no pods"
    if len(ready) < wanted:
        return f"{len(ready)} of {wanted} pods of revision {revision} are ready"
    names = "|".join(re.escape(str(each["metadata"]["name"])).replace("\\-", "-") for each in pods)
    # We see that they are ready: a cluster whose clock is ahead of ours does not put evidence off.
    return NewVersion(revision, f"({names})", min(max(ready), client.clock.now().timestamp()))


def _wanted(body: JsonObject, kind: str) -> int:
    if kind == "Rollout":  # as many as its own steps have made
        return int((body.get("status") or {}).get("updatedReplicas") or 0)
    if kind == "DaemonSet":
        return int((body.get("status") or {}).get("desiredNumberScheduled") or 0)
    return int((body.get("spec") or {}).get("replicas", 1))


async def _revision(client: ApiClient, body: JsonObject, namespace: str) -> tuple[str, str]:
    """The label of the newest revision's pods, and its value."""
    if body.get("kind") == "StatefulSet":
        return "controller-revision-hash", str((body.get("status") or {}).get("updateRevision") or "")
    if body.get("kind") == "Rollout":
        return ROLLOUT_HASH, str((body.get("status") or {}).get("currentPodHash") or "")
    if body.get("kind") == "DaemonSet":
        revisions = _owned((await client.list(CONTROLLER_REVISIONS, namespace)).items, body)
        newest = max(revisions, key=lambda each: int(each.get("revision") or 0), default=None)
        return "controller-revision-hash", _label(newest, "controller-revision-hash")
    number = (body["metadata"].get("annotations") or {}).get(_NUMBER)
    sets = _owned((await client.list(REPLICA_SETS, namespace)).items, body)
    current = next((each for each in sets if (each["metadata"].get("annotations") or {}).get(_NUMBER) == number), None)
    return "pod-template-hash", _label(current, "pod-template-hash")


def _owned(bodies: Iterable[JsonObject], owner: JsonObject) -> list[JsonObject]:
    uid = owner["metadata"]["uid"]
    return [body for body in bodies if any(each.get("uid") == uid for each in body["metadata"].get("ownerReferences") or ())]


def _label(body: JsonObject | None, name: str) -> str:
    return str((body["metadata"].get("labels") or {}).get(name) or "") if body is not None else ""


def _is_of(pod: JsonObject, owner: JsonObject) -> bool:
    """Whether a pod carries the labels that its owner selects by, and is not on its way out."""
    wanted = ((owner.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    labels = pod["metadata"].get("labels") or {}
    return not pod["metadata"].get("deletionTimestamp") and all(labels.get(name) == value for name, value in wanted.items())


def _ready_since(pod: JsonObject) -> float | None:
    conditions: Sequence[JsonObject] = (pod.get("status") or {}).get("conditions") or ()
    for condition in conditions:
        if condition.get("type") == "Ready" and condition.get("status") == "True" and condition.get("lastTransitionTime"):
            return dt.datetime.fromisoformat(str(condition["lastTransitionTime"])).timestamp()
    return None
