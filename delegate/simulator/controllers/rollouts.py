"""Decisions of a Deployment's rollout, on values: revisions, sizes, conditions (deployment/util/deployment_util.go)."""

import datetime as dt
import json
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator.controllers.base import condition_of, moment, scaled
from delegate.simulator.store import Stored

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
HASH_LABEL = "pod-template-hash"
NOT_COPIED = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        HISTORY,
        DESIRED,
        MAXIMUM,
        "deprecated.deployment.rollback.to",
    }
)
NO_DEADLINE = 2**31 - 1


def has_deadline(spec: JsonObject) -> bool:
    return bool(spec.get("progressDeadlineSeconds", NO_DEADLINE) != NO_DEADLINE)


def revision_of(body: JsonObject) -> int:
    text = (body["metadata"].get("annotations") or {}).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def replicas_of(item: Stored) -> int:
    return int(item.body["spec"].get("replicas", 0))


def same_template(left: JsonObject, right: JsonObject) -> bool:
    """Equal but for the hash label that ReplicaSets add."""

    def plain(template: JsonObject) -> Any:
        copy = json.loads(json.dumps(template))
        (copy.get("metadata") or {}).get("labels", {}).pop(HASH_LABEL, None)
        return copy

    return bool(plain(left) == plain(right))


def by_age(sets: list[Stored]) -> list[Stored]:
    return sorted(sets, key=lambda item: (item.body["metadata"]["creationTimestamp"], item.name))


def split(deployment: JsonObject, sets: list[Stored]) -> tuple[Stored | None, list[Stored]]:
    """The ReplicaSet of the current template, and the others."""
    template = deployment["spec"]["template"]
    new = next((item for item in by_age(sets) if same_template(item.body["spec"]["template"], template)), None)
    return new, [item for item in sets if new is None or item.uid != new.uid]


def active(sets: list[Stored]) -> list[Stored]:
    return [item for item in sets if replicas_of(item) > 0]


def bounds(deployment: JsonObject) -> tuple[int, int]:
    """How many pods more than wanted there may be, and how many fewer."""
    spec = deployment["spec"]
    if spec["strategy"].get("type") != "RollingUpdate" or spec["replicas"] == 0:
        return 0, 0
    rolling = spec["strategy"].get("rollingUpdate") or {}
    surge = scaled(rolling.get("maxSurge", 0), spec["replicas"], up=True)
    unavailable = scaled(rolling.get("maxUnavailable", 0), spec["replicas"], up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, spec["replicas"])


def new_set_size(deployment: JsonObject, sets_total: int, current: int) -> int:
    """How large the new ReplicaSet may be now."""
    spec = deployment["spec"]
    if spec["strategy"].get("type") != "RollingUpdate":
        return int(spec["replicas"])
    limit = spec["replicas"] + bounds_for_growth(deployment)
    if sets_total >= limit:
        return current
    return int(current + min(limit - sets_total, spec["replicas"] - current))


def bounds_for_growth(deployment: JsonObject) -> int:
    rolling = deployment["spec"]["strategy"].get("rollingUpdate") or {}
    return scaled(rolling.get("maxSurge", 0), deployment["spec"]["replicas"], up=True)


def condition(now: str, kind: str, state: str, reason: str, message: str) -> JsonObject:
    return {"type": kind, "status": state, "lastUpdateTime": now, "lastTransitionTime": now, "reason": reason, "message": message}


def set_condition(status: JsonObject, new: JsonObject) -> None:
    """Puts a condition in, at the end, unless it says what is said already; a kept status keeps its transition time."""
    conditions = status.setdefault("conditions", [])
    held = next((item for item in conditions if item["type"] == new["type"]), None)
    if held is not None and held["status"] == new["status"]:
        if held["reason"] == new["reason"]:
            return
        new = {**new, "lastTransitionTime": held["lastTransitionTime"]}
    status["conditions"] = [item for item in conditions if item["type"] != new["type"]] + [new]


def drop_condition(status: JsonObject, kind: str) -> None:
    left = [item for item in status.get("conditions") or () if item["type"] != kind]
    if left:
        status["conditions"] = left
    else:
        status.pop("conditions", None)


def _count(sets: list[Stored], key: str) -> int:
    return sum((item.body.get("status") or {}).get(key, 0) for item in sets)


def status_of(deployment: JsonObject, sets: list[Stored], new: Stored | None, now: str) -> JsonObject:
    """The counts and the Available condition; other conditions are carried over."""
    available = _count(sets, "availableReplicas")
    counts = {
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": _count(sets, "replicas"),
        "updatedReplicas": _count([new], "replicas") if new is not None else 0,
        "readyReplicas": _count(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(sum(replicas_of(item) for item in sets) - available, 0),
    }
    status: JsonObject = {key: value for key, value in counts.items() if value}
    status["terminatingReplicas"] = _count(sets, "terminatingReplicas")
    before = deployment.get("status") or {}
    if "collisionCount" in before:
        status["collisionCount"] = before["collisionCount"]
    if before.get("conditions"):
        status["conditions"] = list(before["conditions"])
    if available >= deployment["spec"]["replicas"] - bounds(deployment)[1]:
        text = "Deployment has minimum availability."
        set_condition(status, condition(now, "Available", "True", "MinimumReplicasAvailable", text))
    else:
        text = "Deployment does not have minimum availability."
        set_condition(status, condition(now, "Available", "False", "MinimumReplicasUnavailable", text))
    return status


def is_complete(deployment: JsonObject, status: JsonObject) -> bool:
    wanted = deployment["spec"]["replicas"]
    return (
        all(status.get(key, 0) == wanted for key in ("updatedReplicas", "replicas", "availableReplicas"))
        and status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
    )


def has_progressed(before: JsonObject, after: JsonObject) -> bool:
    def old(status: JsonObject) -> int:
        return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

    return old(after) < old(before) or any(
        after.get(key, 0) > before.get(key, 0) for key in ("updatedReplicas", "readyReplicas", "availableReplicas")
    )


def has_timed_out(deployment: JsonObject, status: JsonObject, now: dt.datetime) -> bool:
    found = condition_of({"status": status}, "Progressing")
    if found is None or found["reason"] == "NewReplicaSetAvailable":
        return False
    if found["reason"] == "ProgressDeadlineExceeded":
        return True
    since = (now - moment(found["lastUpdateTime"])).total_seconds()
    return since > float(deployment["spec"]["progressDeadlineSeconds"])


def annotations_for(deployment: JsonObject, held: JsonObject, revision: str, *, exists: bool) -> JsonObject:
    """The annotations of the new ReplicaSet: the Deployment's own, its revision, and the sizes it was made for."""
    given = deployment["metadata"].get("annotations") or {}
    annotations = {**held, **{key: value for key, value in given.items() if key not in NOT_COPIED}}
    before = annotations.get(REVISION, "0")
    if int(before or 0) < int(revision):
        if exists and before != "0":
            history = annotations.get(HISTORY, "")
            annotations[HISTORY] = f"{history},{before}" if history else before
        annotations[REVISION] = revision
    if not exists:
        annotations |= sizes(deployment)
    return annotations


def sizes(deployment: JsonObject) -> dict[str, str]:
    replicas = deployment["spec"]["replicas"]
    surge = bounds(deployment)[0]
    return {DESIRED: str(replicas), MAXIMUM: str(replicas + surge)}


def proportions(deployment: JsonObject, sets: list[Stored]) -> dict[str, int]:
    """The sizes of several active ReplicaSets after a scaling in the middle of a rollout."""
    replicas = deployment["spec"]["replicas"]
    allowed = replicas + bounds(deployment)[0] if replicas > 0 else 0
    total = sum(replicas_of(item) for item in sets)
    to_add = allowed - total
    newest_first = to_add > 0
    by_time = sorted(sets, key=lambda item: item.body["metadata"]["creationTimestamp"], reverse=newest_first)
    ordered = sorted(by_time, key=replicas_of, reverse=True)
    found: dict[str, int] = {}
    added = 0
    for item in ordered:
        share = _share(deployment, item, to_add, added) if to_add else 0
        found[item.name] = replicas_of(item) + share
        added += share
    if ordered and to_add:
        largest = ordered[0].name
        found[largest] = max(found[largest] + to_add - added, 0)
    return found


def _share(deployment: JsonObject, item: Stored, to_add: int, added: int) -> int:
    size = replicas_of(item)
    if size == 0 or to_add == added:
        return 0
    spec = deployment["spec"]
    annotated = (item.body["metadata"].get("annotations") or {}).get(MAXIMUM, "")
    base = int(annotated) if annotated.isdigit() else (deployment.get("status") or {}).get("replicas", 0)
    grown = size * (spec["replicas"] + bounds(deployment)[0]) / base if base else size
    fraction = int(grown + 0.5) - size
    allowed = to_add - added
    return min(fraction, allowed) if to_add > 0 else max(fraction, allowed)
