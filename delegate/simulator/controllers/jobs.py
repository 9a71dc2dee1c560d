"""Jobs: pods until enough have succeeded or too many failed, each counted exactly once (pkg/controller/job)."""

import datetime as dt
from collections.abc import Iterable

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.controllers.base import (
    Controller,
    Key,
    condition_of,
    is_ready,
    moment,
    owner_key,
    pod_from_template,
)
from delegate.simulator.store import Change, StorageKey, Stored

JOBS: StorageKey = ("batch", "jobs")
PODS: StorageKey = ("", "pods")
COMPONENT = "job-controller"
TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
BACK_OFF_SECONDS = 10.0
LONGEST_BACK_OFF_SECONDS = 600.0


class JobController(Controller):
    rank = 6
    watched = (JOBS, PODS)

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        stored = change.stored
        if table == JOBS:
            yield stored.namespace, stored.name
        else:
            yield from owner_key(stored.body, "Job")

    def sync(self, key: Key) -> float | None:
        stored = self.find("batch", "Job", key)
        if stored is None:
            self._release(key)
            return None
        if _finish_of(stored.body) is not None:
            return self._expire(stored)
        if stored.body["metadata"].get("deletionTimestamp"):
            for pod in self.owned("", "Pod", stored):
                if pod.body["metadata"].get("deletionTimestamp"):
                    self.untrack(pod)
        return _Round(self, stored).run()

    def _release(self, key: Key) -> None:
        """Pods of a Job that is gone are held by nothing any more."""
        for pod in self.store.table(PODS).items(key[0]):
            labels = pod.body["metadata"].get("labels") or {}
            if labels.get("batch.kubernetes.io/job-name") == key[1]:
                self.untrack(pod)

    def untrack(self, pod: Stored) -> None:
        """Lets go of a pod that has been counted."""
        held = pod.body["metadata"].get("finalizers") or []
        if TRACKING in held:
            body = pod.copy()
            body["metadata"]["finalizers"] = [item for item in held if item != TRACKING]
            if not body["metadata"]["finalizers"]:
                del body["metadata"]["finalizers"]
            self.update(pod, "", "Pod", body)

    def _expire(self, stored: Stored) -> float | None:
        """Deletes a finished Job when its time to live is over."""
        seconds = stored.body["spec"].get("ttlSecondsAfterFinished")
        finish = _finish_of(stored.body)
        if seconds is None or finish is None or stored.body["metadata"].get("deletionTimestamp"):
            return None
        left = float(seconds) - self.seconds_since(finish["lastTransitionTime"])
        if left > 0:
            return left
        self.delete(stored, "batch", "Job", "Foreground")
        return None


def _finish_of(body: JsonObject) -> JsonObject | None:
    for kind in ("Complete", "Failed"):
        found = condition_of(body, kind)
        if found is not None and found["status"] == "True":
            return found
    return None


class _Round:
    """One look at one Job."""

    def __init__(self, controller: JobController, stored: Stored) -> None:
        self.controller = controller
        self.stored = stored
        self.spec = stored.body["spec"]
        self.status: JsonObject = stored.copy().get("status") or {}
        pods = controller.owned("", "Pod", stored)
        self.finished = [pod for pod in pods if pod.body["status"].get("phase") in ("Succeeded", "Failed")]
        self.active = [pod for pod in pods if pod not in self.finished and not pod.body["metadata"].get("deletionTimestamp")]
        self.terminating = [pod for pod in pods if pod not in self.finished and pod.body["metadata"].get("deletionTimestamp")]
        self.now = controller.registry.now()

    def run(self) -> float | None:
        if self.spec.get("suspend"):
            self._suspend()
            return None
        held = condition_of({"status": self.status}, "Suspended")
        if held is not None and held["status"] == "True":
            self._condition("Suspended", "False", "JobResumed", "Job resumed")
            self.controller.record(self.stored, COMPONENT, "Normal", "Resumed", "Job resumed")
            self.status["startTime"] = self.now
        self.status.setdefault("startTime", self.now)
        uncounted = [pod for pod in self.finished if TRACKING in (pod.body["metadata"].get("finalizers") or ())]
        done = self._counts(uncounted)
        verdict = self._verdict(done)
        wait = None
        if verdict is None and self.stored.body["metadata"].get("deletionTimestamp"):
            wait = None  # a Job that is being deleted starts no pod any more
        elif verdict is None:
            wait = self._manage(done["succeeded"], done["failed"])
        else:
            for pod in self.active:
                self.controller.delete(pod, "", "Pod")
            self.active = []
            self._condition(*verdict)
        self._write(uncounted)
        if uncounted:
            for pod in uncounted:
                self.controller.untrack(pod)
            self._count(uncounted)
            self._finish(verdict)
            self._write([])
        elif verdict is not None:
            self._finish(verdict)
            self._write([])
        return wait

    def _counts(self, uncounted: list[Stored]) -> dict[str, int]:
        def fresh(phase: str) -> int:
            return sum(pod.body["status"]["phase"] == phase for pod in uncounted)

        return {
            "succeeded": self.status.get("succeeded", 0) + fresh("Succeeded"),
            "failed": self.status.get("failed", 0) + fresh("Failed"),
        }

    def _verdict(self, done: dict[str, int]) -> tuple[str, str, str, str] | None:
        """The condition that says how the Job ends, if it does."""
        deadline = self.spec.get("activeDeadlineSeconds")
        if deadline is not None and self.controller.seconds_since(self.status["startTime"]) >= deadline:
            return "FailureTarget", "True", "DeadlineExceeded", "Job was active longer than specified deadline"
        if done["failed"] > self.spec["backoffLimit"]:
            return "FailureTarget", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        wanted = self.spec.get("completions")
        enough = done["succeeded"] >= wanted if wanted is not None else done["succeeded"] > 0 and not self.active
        if enough:
            return "SuccessCriteriaMet", "True", "CompletionsReached", "Reached expected number of succeeded pods"
        return None

    def _manage(self, succeeded: int, failed: int) -> float | None:
        """Creates or deletes pods; seconds to wait where a failure is to be backed off."""
        wanted = self.spec.get("completions")
        target = self.spec["parallelism"] if wanted is None else min(self.spec["parallelism"], wanted - succeeded)
        if wanted is None and succeeded:
            target = len(self.active)
        for pod in self.active[target:]:
            self.controller.delete(pod, "", "Pod")
        missing = target - len(self.active)
        if missing <= 0:
            return self._until_deadline()
        left = self._back_off(failed)
        if left > 0:
            return left
        for _ in range(missing):
            self._create()
        return self._until_deadline()

    def _until_deadline(self) -> float | None:
        deadline = self.spec.get("activeDeadlineSeconds")
        return max(float(deadline) - self.controller.seconds_since(self.status["startTime"]), 0.1) if deadline is not None else None

    def _back_off(self, failed: int) -> float:
        failures = [pod for pod in self.finished if pod.body["status"]["phase"] == "Failed"]
        if not failed or not failures:
            return 0.0
        last = max(_ended_at(pod.body) for pod in failures)
        delay = min(BACK_OFF_SECONDS * 2 ** (min(failed, 7) - 1), LONGEST_BACK_OFF_SECONDS)
        return float(delay - (self.controller.registry.clock() - last).total_seconds())

    def _create(self) -> None:
        body = pod_from_template(self.stored.copy()["spec"]["template"], self.stored)
        body["metadata"]["finalizers"] = [TRACKING]
        if self.spec.get("completionMode") == "Indexed":
            index = str(self._free_index())
            body["metadata"].setdefault("annotations", {})[INDEX] = index
            body["metadata"].setdefault("labels", {})[INDEX] = index
            body["metadata"]["generateName"] = f"{self.stored.name}-{index}-"
        try:
            pod = self.controller.create("", "Pod", self.stored.namespace, body)
        except statuses.StatusError as error:
            self.controller.record(self.stored, COMPONENT, "Warning", "FailedCreate", f"Error creating: {error.message}")
            raise
        self.active.append(pod)
        self.controller.record(self.stored, COMPONENT, "Normal", "SuccessfulCreate", f"Created pod: {pod.name}")

    def _free_index(self) -> int:
        succeeded = [pod for pod in self.finished if pod.body["status"]["phase"] == "Succeeded"]
        taken = {(pod.body["metadata"].get("annotations") or {}).get(INDEX) for pod in [*self.active, *succeeded]}
        return next(index for index in range(int(self.spec.get("completions") or 1)) if str(index) not in taken)

    def _suspend(self) -> None:
        for pod in self.active:
            self.controller.delete(pod, "", "Pod")
        self.active = []
        self.status.pop("startTime", None)
        held = condition_of({"status": self.status}, "Suspended")
        if held is None or held["status"] == "False":
            self._condition("Suspended", "True", "JobSuspended", "Job suspended")
            self.controller.record(self.stored, COMPONENT, "Normal", "Suspended", "Job suspended")
        self._write([])

    def _condition(self, kind: str, state: str, reason: str, message: str) -> None:
        held = condition_of({"status": self.status}, kind)
        if held is not None and held["status"] == state:
            return
        made = {
            "type": kind,
            "status": state,
            "lastProbeTime": self.now,
            "lastTransitionTime": self.now,
            "reason": reason,
            "message": message,
        }
        others = [item for item in self.status.get("conditions") or () if item["type"] != kind]
        self.status["conditions"] = [*others, made]

    def _count(self, pods: list[Stored]) -> None:
        for pod in pods:
            key = "succeeded" if pod.body["status"]["phase"] == "Succeeded" else "failed"
            self.status[key] = self.status.get(key, 0) + 1

    def _finish(self, verdict: tuple[str, str, str, str] | None) -> None:
        if verdict is None:
            return
        kind, _, reason, message = verdict
        if kind == "SuccessCriteriaMet":
            self._condition("Complete", "True", reason, message)
            self.status["completionTime"] = self.now
            self.controller.record(self.stored, COMPONENT, "Normal", "Completed", "Job completed")
        else:
            self._condition("Failed", "True", reason, message)
            self.controller.record(self.stored, COMPONENT, "Warning", reason, message)

    def _write(self, uncounted: list[Stored]) -> None:
        lists: dict[str, list[str]] = {}
        for pod in uncounted:
            lists.setdefault("succeeded" if pod.body["status"]["phase"] == "Succeeded" else "failed", []).append(pod.uid)
        counts: JsonObject = {"active": len(self.active)} if self.active else {}
        kept: JsonObject = {key: self.status[key] for key in ("conditions", "startTime", "completionTime") if key in self.status}
        done = {key: self.status[key] for key in ("succeeded", "failed", "completedIndexes", "failedIndexes") if self.status.get(key)}
        ready = sum(is_ready(pod.body) for pod in self.active)
        status = {
            **kept,
            **counts,
            **done,
            "terminating": len(self.terminating),
            "uncountedTerminatedPods": lists,
            "ready": ready,
        }
        self.stored = self.controller.update_status(self.stored, "batch", "Job", status)


def _ended_at(pod: JsonObject) -> dt.datetime:
    for container in pod["status"].get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated")
        if ended:
            return moment(ended["finishedAt"])
    return moment(pod["metadata"]["creationTimestamp"])
