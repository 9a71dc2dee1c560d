"""Scheduler and kubelet in one: pods get a node, start, and do what `behaviors` says of them."""

from collections.abc import Iterable

from delegate.model.resources import JsonObject
from delegate.simulator import deletions
from delegate.simulator.behaviors import Behavior, behavior_of, seconds_of
from delegate.simulator.controllers.base import Controller, Key, condition_of, is_ready, moment
from delegate.simulator.deletions import DeleteOptions
from delegate.simulator.registry import Registry
from delegate.simulator.store import Change, StorageKey, Stored
from delegate.simulator.storing import Options
from delegate.simulator.writes import Write

PODS: StorageKey = ("", "pods")
KUBELET = "kubelet"
HOST = "127.0.0.1"
IMAGE_ID = "sha256:0"
STOP_SECONDS = 0.1
BACK_OFF_SECONDS = (0.3, 0.6, 1.2)
"""Between the restarts of a crashing container; after the last it stays in its back-off for good."""

_WAITING = {
    "broken": ("ImagePullBackOff", "Back-off pulling image"),
    "crash": ("CrashLoopBackOff", "back-off 10s restarting failed container"),
}


class PodController(Controller):
    rank = 9
    watched = (PODS,)

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self._started: dict[str, float] = {}

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        if change.type != "DELETED":
            yield change.stored.namespace, change.stored.name

    def sync(self, key: Key) -> float | None:
        stored = self.find("", "Pod", key)
        if stored is None:
            return None
        if stored.body["metadata"].get("deletionTimestamp"):
            return self._stop(stored)
        behavior = behavior_of(stored.body)
        if not stored.body["spec"].get("nodeName"):
            return self._schedule(stored, behavior)
        return self._run(stored, behavior)

    def _stop(self, stored: Stored) -> float | None:
        if not stored.body["metadata"].get("deletionGracePeriodSeconds"):
            return None
        grace = float(stored.body["metadata"]["deletionGracePeriodSeconds"])
        asked = moment(stored.body["metadata"]["deletionTimestamp"]).timestamp() - grace
        waited = self.registry.clock().timestamp() - asked
        if waited < STOP_SECONDS:
            return STOP_SECONDS - waited
        deletions.delete(
            self.registry, self.resource("", "Pod"), stored.namespace, stored.name, DeleteOptions(grace_seconds=0, uid=stored.uid)
        )
        return None

    def _schedule(self, stored: Stored, behavior: Behavior) -> float | None:
        if stored.body["spec"].get("schedulingGates"):
            return None
        nodes = self.registry.items(self.resource("", "Node"))
        free = [node for node in nodes if not node.body["spec"].get("unschedulable")]
        if behavior == "unschedulable" or not free:
            if condition_of(stored.body, "PodScheduled") is None:
                message = f"0/{len(nodes)} nodes are available: {len(nodes)} Insufficient cpu."
                status = {**stored.body["status"], "conditions": [self._condition("PodScheduled", "False", "Unschedulable", message)]}
                self._write(stored, status)
                self.record(stored, "default-scheduler", "Warning", "FailedScheduling", message)
            return 5.0 if not free else None
        body = stored.copy()
        body["spec"]["nodeName"] = free[0].name
        body["status"]["conditions"] = [self._condition("PodScheduled", "True")]
        self.store.commit(PODS, "MODIFIED", stored.namespace, stored.name, body)
        return None

    def _condition(self, kind: str, state: str, reason: str = "", message: str = "") -> JsonObject:
        made: JsonObject = {"type": kind, "status": state, "lastProbeTime": None, "lastTransitionTime": self.registry.now()}
        if reason:
            made |= {"reason": reason, "message": message}
        return made

    def _run(self, stored: Stored, behavior: Behavior) -> float | None:
        status = stored.body.get("status") or {}
        if status.get("phase") in ("Succeeded", "Failed"):
            return None
        waited = self.registry.clock().timestamp() - self._seen(stored)
        if behavior in _WAITING:
            return self._wait(stored, behavior, waited)
        left = seconds_of(stored.body) - waited
        if behavior == "run":
            return self._start(stored, ready=left <= 0) if left <= 0 or not status.get("startTime") else left
        if behavior in ("never-ready", "hang"):
            return self._start(stored, ready=behavior == "hang" and left <= 0) if left <= 0 or not status.get("startTime") else left
        if not status.get("startTime"):
            return self._start(stored, ready=False)
        if left > 0:
            return left
        self._end(stored, failed=behavior == "fail")
        return None

    def _seen(self, stored: Stored) -> float:
        """When this pod was first looked at, to the fraction of a second that timestamps don't have."""
        if len(self._started) > 20_000:
            self._started.clear()
        return self._started.setdefault(stored.uid, self.registry.clock().timestamp())

    def _start(self, stored: Stored, *, ready: bool) -> float | None:
        """Running, ready or not yet."""
        if ready and is_ready(stored.body):
            return None
        if not ready and (stored.body.get("status") or {}).get("startTime"):
            return None
        gates = [gate["conditionType"] for gate in stored.body["spec"].get("readinessGates") or ()]
        passed = all((found := condition_of(stored.body, gate)) and found["status"] == "True" for gate in gates)
        self._write(stored, self._status(stored, "Running" if ready else "Pending", ready=ready and passed))
        return max(seconds_of(stored.body) - (self.registry.clock().timestamp() - self._seen(stored)), 0.0) if not ready else None

    def _status(self, stored: Stored, phase: str, *, ready: bool) -> JsonObject:
        before = stored.body.get("status") or {}
        address = before.get("podIP") or self.registry.addresses.next_pod_address()
        state = "True" if ready else "False"
        kinds = (("PodScheduled", "True"), ("Initialized", "True"), ("ContainersReady", state), ("Ready", state))
        conditions = []
        for kind, wanted in kinds:
            held = condition_of(stored.body, kind)
            conditions.append(held if held is not None and held["status"] == wanted else self._condition(kind, wanted))
        others = [item for item in before.get("conditions") or () if item["type"] not in dict(kinds)]
        return {
            "phase": phase,
            "conditions": [*conditions, *others],
            "hostIP": HOST,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": before.get("startTime") or self.registry.now(),
            "containerStatuses": [self._container(item, phase, ready=ready) for item in stored.body["spec"].get("containers") or ()],
            "qosClass": before.get("qosClass", "BestEffort"),
        }

    def _container(self, container: JsonObject, phase: str, *, ready: bool) -> JsonObject:
        state: JsonObject = {"waiting": {"reason": "ContainerCreating"}}
        if phase == "Running":
            state = {"running": {"startedAt": self.registry.now()}}
        return {
            "name": container["name"],
            "state": state,
            "lastState": {},
            "ready": ready,
            "restartCount": 0,
            "image": container.get("image", ""),
            "imageID": IMAGE_ID,
            "started": phase == "Running",
        }

    def _wait(self, stored: Stored, behavior: Behavior, waited: float) -> float | None:
        """A container that can't start, or that dies as soon as it did."""
        reason, message = _WAITING[behavior]
        steps = [sum(BACK_OFF_SECONDS[:count]) for count in range(len(BACK_OFF_SECONDS) + 1)]
        restarts = sum(1 for at in steps[1:] if waited >= at) if behavior == "crash" else 0
        held = (stored.body.get("status") or {}).get("containerStatuses") or []
        if not held or held[0].get("restartCount", 0) != restarts:
            status = self._status(stored, "Running" if behavior == "crash" else "Pending", ready=False)
            ended = {"exitCode": 1, "reason": "Error", "startedAt": status["startTime"], "finishedAt": self.registry.now()}
            for container in status["containerStatuses"]:
                container |= {"state": {"waiting": {"reason": reason, "message": message}}, "restartCount": restarts, "started": False}
                if behavior == "crash":
                    container["lastState"] = {"terminated": ended}
            self._write(stored, status)
        if behavior == "crash" and restarts < len(BACK_OFF_SECONDS):
            return float(steps[restarts + 1] - waited)
        return None

    def _end(self, stored: Stored, *, failed: bool) -> None:
        """The containers of a finished pod have terminated."""
        phase = "Failed" if failed else "Succeeded"
        status = self._status(stored, phase, ready=False)
        for condition in status["conditions"]:
            if condition["type"] in ("ContainersReady", "Ready") and not failed:
                condition |= {"reason": "PodCompleted"}
        for container in status["containerStatuses"]:
            ended = {
                "exitCode": 1 if failed else 0,
                "reason": "Error" if failed else "Completed",
                "startedAt": status["startTime"],
                "finishedAt": self.registry.now(),
            }
            container |= {"state": {"terminated": ended}, "started": False}
        self._write(stored, status)

    def _write(self, stored: Stored, status: JsonObject) -> None:
        """As the kubelet writes it: through the status subresource, in its own name."""
        if status != stored.body.get("status"):
            body = stored.copy()
            body["status"] = status
            options = Options(manager=KUBELET, subresource="status")
            Write(self.registry, self.resource("", "Pod"), stored.namespace, stored.name, options=options).replace(body)
