"""Columns of the kinds that run pods, and of what watches over them."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator.columns.base import (
    NONE,
    UNSET,
    WORKLOAD,
    Printer,
    age_of,
    columns,
    containers_of,
    labelled,
    leaves,
    name_of,
    pod_spec_of,
    selected,
    status_of,
)
from delegate.simulator.times import elapsed


def _deployment(body: JsonObject, now: str) -> list[Any]:
    spec, status = body["spec"], status_of(body)
    counts = [status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}"
    return [name_of(body), ready, *counts, age_of(body, now), *containers_of(pod_spec_of(body)), selected(spec.get("selector"))]


def _replica_set(body: JsonObject, now: str) -> list[Any]:
    spec, status = body["spec"], status_of(body)
    counts = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    selector = spec.get("selector")
    text = selected(selector) if body.get("kind") == "ReplicaSet" else labelled(selector)
    return [name_of(body), *counts, age_of(body, now), *containers_of(pod_spec_of(body)), text]


def _stateful_set(body: JsonObject, now: str) -> list[Any]:
    ready = f"{status_of(body).get('readyReplicas', 0)}/{body['spec'].get('replicas', 1)}"
    return [name_of(body), ready, age_of(body, now), *containers_of(pod_spec_of(body))]


def _daemon_set(body: JsonObject, now: str) -> list[Any]:
    status, pod = status_of(body), pod_spec_of(body)
    keys = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable")
    counts = [status.get(key, 0) for key in keys]
    nodes = labelled(pod.get("nodeSelector"))
    return [name_of(body), *counts, nodes, age_of(body, now), *containers_of(pod), selected(body["spec"].get("selector"))]


def _job(body: JsonObject, now: str) -> list[Any]:
    spec, status = body["spec"], status_of(body)
    wanted, parallel = spec.get("completions"), spec.get("parallelism", 1)
    done = status.get("succeeded", 0)
    of_all = f"1 of {parallel}" if parallel > 1 else "1"
    completions = f"{done}/{wanted if wanted is not None else of_all}"
    true = {item["type"] for item in status.get("conditions") or () if item.get("status") == "True"}
    states = (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended"), ("FailureTarget", "FailureTarget"))
    state = next((word for kind, word in states if kind in true), "Terminating" if leaves(body) else "Running")
    duration = ""
    if status.get("startTime"):
        duration = elapsed(status["startTime"], status.get("completionTime") or now)
    return [
        name_of(body),
        state,
        completions,
        duration,
        age_of(body, now),
        *containers_of(pod_spec_of(body)),
        selected(spec.get("selector")),
    ]


def _cron_job(body: JsonObject, now: str) -> list[Any]:
    spec, status = body["spec"], status_of(body)
    last = elapsed(status["lastScheduleTime"], now) if status.get("lastScheduleTime") else NONE
    head = [spec.get("schedule", ""), spec.get("timeZone", NONE), "True" if spec.get("suspend") else "False"]
    selector = spec.get("jobTemplate", {}).get("spec", {}).get("selector")
    return [
        name_of(body),
        *head,
        len(status.get("active") or ()),
        last,
        age_of(body, now),
        *containers_of(pod_spec_of(body)),
        selected(selector),
    ]


def _pod(body: JsonObject, now: str) -> list[Any]:
    spec, status = body["spec"], status_of(body)
    statuses = status.get("containerStatuses") or []
    reason = status.get("reason") or status.get("phase", "")
    restarts, ready, running = 0, 0, False
    for item in reversed(statuses):
        restarts += item.get("restartCount", 0)
        state = item.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended is not None:
            reason = ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"
        elif item.get("ready") and "running" in state:
            running = True
            ready += 1
    if reason == "Completed" and running:
        conditions = {item["type"]: item.get("status") for item in status.get("conditions") or ()}
        reason = "Running" if conditions.get("Ready") == "True" else "NotReady"
    if leaves(body):
        reason = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    total = len(spec.get("containers") or ())
    wide = [status.get("podIP") or NONE, spec.get("nodeName") or NONE, status.get("nominatedNodeName") or NONE, NONE]
    return [name_of(body), f"{ready}/{total}", reason, _restarts(statuses, restarts, now), age_of(body, now), *wide]


def _restarts(statuses: list[JsonObject], count: int, now: str) -> str:
    ends = [(item.get("lastState") or {}).get("terminated", {}).get("finishedAt") for item in statuses]
    last = max((end for end in ends if end), default=None)
    return f"{count} ({elapsed(last, now)} ago)" if count and last else str(count)


def _budget(body: JsonObject, now: str) -> list[Any]:
    spec = body["spec"]
    bounds = [str(spec.get(key, "N/A")) for key in ("minAvailable", "maxUnavailable")]
    return [name_of(body), *bounds, status_of(body).get("disruptionsAllowed", 0), age_of(body, now)]


def _autoscaler(body: JsonObject, now: str) -> list[Any]:
    spec, status = body["spec"], status_of(body)
    target = spec.get("scaleTargetRef") or {}
    parts = []
    for metric in spec.get("metrics") or ():
        resource = metric.get("resource")
        if resource is None:
            parts.append("<unknown>")
            continue
        wanted = resource["target"]
        goal = f"{wanted['averageUtilization']}%" if "averageUtilization" in wanted else wanted.get("averageValue", "<auto>")
        parts.append(f"{resource.get('name', '')}: <unknown>/{goal}")
    targets = ", ".join(parts) or NONE
    low = str(spec["minReplicas"]) if "minReplicas" in spec else UNSET
    named = f"{target.get('kind', '')}/{target.get('name', '')}"
    return [name_of(body), named, targets, low, spec.get("maxReplicas", 0), status.get("currentReplicas", 0), age_of(body, now)]


def _revision(body: JsonObject, now: str) -> list[Any]:
    owner = next((item for item in body["metadata"].get("ownerReferences") or () if item.get("controller")), None)
    group = owner["apiVersion"].rpartition("/")[0] if owner else ""
    named = f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}" if owner else NONE
    return [name_of(body), named, body.get("revision", 0), age_of(body, now)]


_REPLICAS = Printer(columns(f"Desired:integer, Current:integer, Ready:integer, Age, {WORKLOAD}"), _replica_set)
_SET_COLUMNS = "Desired:integer, Current:integer, Ready:integer, Up-to-date:integer, Available:integer, Node Selector, Age, " + WORKLOAD
_CRON_COLUMNS = f"Schedule, Timezone, Suspend:boolean, Active:integer, Last Schedule, Age, {WORKLOAD}"

PRINTERS: dict[tuple[str, str], Printer] = {
    ("apps", "Deployment"): Printer(columns(f"Ready, Up-to-date, Available, Age, {WORKLOAD}"), _deployment),
    ("apps", "ReplicaSet"): _REPLICAS,
    ("", "ReplicationController"): _REPLICAS,
    ("apps", "StatefulSet"): Printer(columns("Ready, Age, Containers+, Images+"), _stateful_set),
    ("apps", "DaemonSet"): Printer(columns(_SET_COLUMNS), _daemon_set),
    ("apps", "ControllerRevision"): Printer(columns("Controller, Revision, Age"), _revision),
    ("batch", "Job"): Printer(columns(f"Status, Completions, Duration, Age, {WORKLOAD}"), _job),
    ("batch", "CronJob"): Printer(columns(_CRON_COLUMNS), _cron_job),
    ("", "Pod"): Printer(columns("Ready, Status, Restarts, Age, IP+, Node+, Nominated Node+, Readiness Gates+"), _pod),
    ("policy", "PodDisruptionBudget"): Printer(columns("Min Available, Max Unavailable, Allowed Disruptions:integer, Age"), _budget),
    ("autoscaling", "HorizontalPodAutoscaler"): Printer(columns("Reference, Targets, MinPods, MaxPods, Replicas, Age"), _autoscaler),
}
