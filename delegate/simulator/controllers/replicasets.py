"""ReplicaSets: as many pods as wanted, and a status that counts them (pkg/controller/replicaset)."""

from collections.abc import Iterable
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.controllers.base import (
    Controller,
    Key,
    is_active,
    is_available,
    is_ready,
    owner_key,
    pod_from_template,
)
from delegate.simulator.selectors import of_label_selector
from delegate.simulator.store import Change, StorageKey, Stored

SETS: StorageKey = ("apps", "replicasets")
PODS: StorageKey = ("", "pods")
BURST = 500


class ReplicaSetController(Controller):
    rank = 6
    watched = (SETS, PODS)

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        stored = change.stored
        if table == SETS:
            yield stored.namespace, stored.name
        else:
            yield from owner_key(stored.body, "ReplicaSet")

    def sync(self, key: Key) -> float | None:
        stored = self.find("apps", "ReplicaSet", key)
        if stored is None:
            return None
        self.adopt("", "Pod", stored)
        pods = self.owned("", "Pod", stored)
        active = [pod for pod in pods if is_active(pod.body)]
        terminating = sum(1 for pod in pods if pod.body["metadata"].get("deletionTimestamp"))
        failure = None
        if not stored.body["metadata"].get("deletionTimestamp"):
            failure = self._scale(stored, active)
        status = self._status(stored, active, terminating, failure)
        self.update_status(stored, "apps", "ReplicaSet", status)
        if failure is not None:
            return 1.0
        ready = stored.body["spec"].get("minReadySeconds", 0)
        return float(ready) if ready and status.get("readyReplicas") != status.get("availableReplicas") else None

    def _scale(self, stored: Stored, active: list[Stored]) -> tuple[str, str] | None:
        """Creates or deletes pods; the reason and message of the first refusal."""
        wanted = stored.body["spec"].get("replicas", 0)
        if len(active) < wanted:
            for _ in range(min(wanted - len(active), BURST)):
                body = pod_from_template(stored.body["spec"]["template"], stored)
                try:
                    pod = self.create("", "Pod", stored.namespace, body)
                except statuses.StatusError as error:
                    if error.details and any(item["reason"] == "NamespaceTerminating" for item in error.details.get("causes", ())):
                        return None
                    self.record(stored, "replicaset-controller", "Warning", "FailedCreate", f"Error creating: {error.message}")
                    return "FailedCreate", error.message
                self.record(stored, "replicaset-controller", "Normal", "SuccessfulCreate", f"Created pod: {pod.name}")
        elif len(active) > wanted:
            for pod in sorted(active, key=lambda item: deletion_rank(item.body))[: len(active) - wanted]:
                self.delete(pod, "", "Pod", "Background")
                self.record(stored, "replicaset-controller", "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")
        return None

    def _status(self, stored: Stored, active: list[Stored], terminating: int, failure: tuple[str, str] | None) -> JsonObject:
        spec, before = stored.body["spec"], stored.body.get("status") or {}
        labels = (spec["template"].get("metadata") or {}).get("labels") or {}
        now = self.registry.clock()
        status: JsonObject = {
            "replicas": len(active),
            "fullyLabeledReplicas": sum(
                1 for pod in active if of_label_selector({"matchLabels": labels})(pod.body["metadata"].get("labels") or {})
            ),
            "readyReplicas": sum(1 for pod in active if is_ready(pod.body)),
            "availableReplicas": sum(1 for pod in active if is_available(pod.body, spec.get("minReadySeconds", 0), now)),
        }
        status = {key: value for key, value in status.items() if value or key == "replicas"}
        status["terminatingReplicas"] = terminating
        status["observedGeneration"] = stored.body["metadata"]["generation"]
        conditions = [item for item in before.get("conditions") or () if item["type"] != "ReplicaFailure"]
        if failure is not None:
            held = next((item for item in before.get("conditions") or () if item["type"] == "ReplicaFailure"), None)
            at = held["lastTransitionTime"] if held else self.registry.now()
            conditions.append(
                {"type": "ReplicaFailure", "status": "True", "lastTransitionTime": at, "reason": failure[0], "message": failure[1]}
            )
        if conditions:
            status["conditions"] = conditions
        return status


def deletion_rank(pod: JsonObject) -> tuple[Any, ...]:
    """The order in which pods go: those that matter least first (ActivePodsWithRanks)."""
    status = pod.get("status") or {}
    phases = {"Pending": 0, "Unknown": 1, "Running": 2}
    cost = (pod["metadata"].get("annotations") or {}).get("controller.kubernetes.io/pod-deletion-cost", "0")
    restarts = sum(item.get("restartCount", 0) for item in status.get("containerStatuses") or ())
    created = pod["metadata"]["creationTimestamp"]
    return (
        bool(pod["spec"].get("nodeName")),
        phases.get(status.get("phase", ""), 1),
        is_ready(pod),
        int(cost) if cost.lstrip("-").isdigit() else 0,
        -restarts,
        _reversed(created),
        pod["metadata"]["name"],
    )


def _reversed(text: str) -> tuple[int, ...]:
    """Sorts later times first."""
    return tuple(-ord(char) for char in text)
