"""CronJobs: a Job at each scheduled time, by the concurrency policy, and a short history of them."""

import datetime as dt
from collections.abc import Iterable

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.controllers.base import TIME, Controller, Key, condition_of, moment, owner_key, owner_reference
from delegate.simulator.schedules import Schedule, zone_of
from delegate.simulator.store import Change, StorageKey, Stored

CRON_JOBS: StorageKey = ("batch", "cronjobs")
JOBS: StorageKey = ("batch", "jobs")
COMPONENT = "cronjob-controller"
SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class CronJobController(Controller):
    rank = 6
    watched = (CRON_JOBS, JOBS)

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        stored = change.stored
        if table == CRON_JOBS:
            yield stored.namespace, stored.name
        else:
            yield from owner_key(stored.body, "CronJob")

    def sync(self, key: Key) -> float | None:
        stored = self.find("batch", "CronJob", key)
        if stored is None or stored.body["metadata"].get("deletionTimestamp"):
            return None
        jobs = self.owned("batch", "Job", stored)
        running = [job for job in jobs if not _is_over(job.body)]
        status: JsonObject = dict(stored.copy().get("status") or {})
        self._clean_up(stored, jobs)
        self._note(status, jobs, running)
        wait = None if stored.body["spec"].get("suspend") else self._start_due(stored, status, running)
        self.update_status(stored, "batch", "CronJob", status)
        return wait

    def _note(self, status: JsonObject, jobs: list[Stored], running: list[Stored]) -> None:
        status.pop("active", None)
        if running:
            status["active"] = [_reference(job) for job in running]
        ended = [job.body["status"]["completionTime"] for job in jobs if condition_of(job.body, "Complete")]
        if ended:
            status["lastSuccessfulTime"] = max(ended)

    def _start_due(self, stored: Stored, status: JsonObject, running: list[Stored]) -> float | None:
        spec = stored.body["spec"]
        schedule = Schedule.parse(spec["schedule"])
        zone = zone_of(spec.get("timeZone") or "UTC") or dt.UTC
        now = self.registry.clock()
        since = moment(status.get("lastScheduleTime") or stored.body["metadata"]["creationTimestamp"])
        due, following = None, schedule.after(since, zone)
        while following is not None and following <= now:
            due, following = following, schedule.after(following, zone)
        wait = (following - now).total_seconds() if following is not None else None
        deadline = spec.get("startingDeadlineSeconds")
        if due is None or (deadline is not None and (now - due).total_seconds() > deadline):
            return wait
        minute = int(due.timestamp() // 60)
        if f"{stored.name}-{minute}" in [job.name for job in running]:
            return wait
        if running and spec.get("concurrencyPolicy") == "Forbid":
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.record(stored, COMPONENT, "Normal", "JobAlreadyActive", message)
            return wait
        if running and spec.get("concurrencyPolicy") == "Replace":
            for job in running:
                self.delete(job, "batch", "Job")
            running.clear()
        made = self._create(stored, due.strftime(TIME), minute)
        status["lastScheduleTime"] = due.strftime(TIME)
        if made is not None:
            status["active"] = [*status.get("active", ()), _reference(made)]
        return wait

    def _create(self, stored: Stored, at: str, minute: int) -> Stored | None:
        template = stored.copy()["spec"]["jobTemplate"]
        given = template.get("metadata") or {}
        metadata: JsonObject = {
            "name": f"{stored.name}-{minute}",
            "annotations": {**(given.get("annotations") or {}), SCHEDULED_AT: at},
            "ownerReferences": [owner_reference(stored)],
        }
        if given.get("labels"):
            metadata["labels"] = given["labels"]
        try:
            job = self.create("batch", "Job", stored.namespace, {"metadata": metadata, "spec": template["spec"]})
        except statuses.StatusError as error:
            if error.reason == "AlreadyExists":
                return None
            self.record(stored, COMPONENT, "Warning", "FailedCreate", f"Error creating job: {error.message}")
            raise
        self.record(stored, COMPONENT, "Normal", "SuccessfulCreate", f"Created job {job.name}")
        return job

    def _clean_up(self, stored: Stored, jobs: list[Stored]) -> None:
        spec = stored.body["spec"]
        for kind, limit in (("Complete", spec.get("successfulJobsHistoryLimit", 3)), ("Failed", spec.get("failedJobsHistoryLimit", 1))):
            over = [job for job in jobs if condition_of(job.body, kind)]
            over.sort(key=lambda job: job.body["metadata"]["creationTimestamp"])
            for job in over[: max(len(over) - limit, 0)]:
                self.delete(job, "batch", "Job")


def _is_over(body: JsonObject) -> bool:
    return any((found := condition_of(body, kind)) and found["status"] == "True" for kind in ("Complete", "Failed"))


def _reference(job: Stored) -> JsonObject:
    return {
        "kind": "Job",
        "namespace": job.namespace,
        "name": job.name,
        "uid": job.uid,
        "apiVersion": "batch/v1",
        "resourceVersion": str(job.version),
    }
