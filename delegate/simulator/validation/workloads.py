"""Validation of the kinds that run pods."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.schedules import Schedule
from delegate.simulator.selectors import of_label_selector
from delegate.simulator.statuses import Cause
from delegate.simulator.validation.metadata import validate_annotations, validate_labels
from delegate.simulator.validation.pods import validate_spec

WITH_TEMPLATE = {("apps", "Deployment"), ("apps", "StatefulSet"), ("apps", "DaemonSet"), ("apps", "ReplicaSet"), ("batch", "Job")}
_PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is"
    " '[0-9]+%')"
)
_MISMATCH = "`selector` does not match template `labels`"


def selector_causes(selector: Any, path: str) -> list[Cause]:
    causes = validate_labels((selector or {}).get("matchLabels"), f"{path}.matchLabels")
    for index, item in enumerate((selector or {}).get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{index}]"
        operator, values = item.get("operator"), item.get("values")
        if operator in ("In", "NotIn"):
            if not values:
                causes.append(statuses.required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                causes.append(statuses.forbidden_value(f"{here}.values", text))
        else:
            causes.append(statuses.invalid_value(f"{here}.operator", operator or "", "not a valid selector operator"))
    return causes


def not_negative(path: str, value: Any) -> list[Cause]:
    if isinstance(value, int) and value < 0:
        return [statuses.invalid_value(path, value, "must be greater than or equal to 0")]
    return []


def template_causes(template: JsonObject, path: str) -> list[Cause]:
    metadata = template.get("metadata") or {}
    causes = validate_labels(metadata.get("labels"), f"{path}.labels")
    causes += validate_annotations(metadata.get("annotations"), f"{path}.annotations")
    return causes + validate_spec(template.get("spec") or {}, f"{path}.spec")


def _selected(spec: JsonObject) -> list[Cause]:
    """Selector and template of a controller: the selector is there, says something, and matches the template."""
    selector = spec.get("selector")
    causes: list[Cause] = []
    if selector is None:
        causes.append(statuses.required("spec.selector"))
    else:
        causes += selector_causes(selector, "spec.selector")
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            causes.append(statuses.invalid_value("spec.selector", selector, "empty selector is invalid for deployment"))
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if selector is not None and not causes and not of_label_selector(selector)(labels):
        causes.append(statuses.invalid_value("spec.template.metadata.labels", labels, _MISMATCH))
    causes += template_causes(spec.get("template") or {}, "spec.template")
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    if policy in ("OnFailure", "Never"):
        causes.append(statuses.unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    return causes


def _deployment(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes = not_negative("spec.replicas", spec.get("replicas")) + _selected(spec)
    strategy = spec["strategy"]
    if strategy.get("type") == "Recreate" and "rollingUpdate" in strategy:
        text = "may not be specified when strategy `type` is 'Recreate'"
        causes.append(statuses.forbidden_value("spec.strategy.rollingUpdate", text))
    elif strategy.get("type") not in ("Recreate", "RollingUpdate"):
        causes.append(statuses.unsupported("spec.strategy.type", strategy.get("type"), ("Recreate", "RollingUpdate")))
    elif strategy.get("type") == "RollingUpdate":
        causes += _rolling(strategy.get("rollingUpdate") or {}, "spec.strategy.rollingUpdate")
    for key in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        causes += not_negative(f"spec.{key}", spec.get(key))
    deadline, ready = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds", 0)
    if deadline is not None and deadline <= ready:
        causes.append(statuses.invalid_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return causes


def _rolling(rolling: JsonObject, path: str) -> list[Cause]:
    causes = []
    values = []
    for key in ("maxUnavailable", "maxSurge"):
        value = rolling.get(key, 0)
        values.append(value)
        if isinstance(value, str):
            number = value.removesuffix("%")
            if not value.endswith("%") or not number.isdigit():
                causes.append(statuses.invalid_value(f"{path}.{key}", value, _PERCENT_TEXT))
            elif key == "maxUnavailable" and int(number) > 100:
                causes.append(statuses.invalid_value(f"{path}.{key}", value, "must not be greater than 100%"))
        else:
            causes += not_negative(f"{path}.{key}", value)
    if not causes and all(value in (0, "0%") for value in values):
        causes.append(statuses.invalid_value(f"{path}.maxUnavailable", values[0], "may not be 0 when `maxSurge` is 0"))
    return causes


def _replica_set(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    return (
        not_negative("spec.replicas", spec.get("replicas"))
        + not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
        + _selected(spec)
    )


def _stateful_set(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes = []
    if spec.get("podManagementPolicy") not in ("OrderedReady", "Parallel"):
        text = "must be 'OrderedReady' or 'Parallel'"
        causes.append(statuses.invalid_value("spec.podManagementPolicy", spec.get("podManagementPolicy"), text))
    strategy = spec["updateStrategy"]
    if strategy.get("type") not in ("RollingUpdate", "OnDelete"):
        causes.append(statuses.invalid_value("spec.updateStrategy", strategy, "must be 'RollingUpdate' or 'OnDelete'"))
    causes += not_negative("spec.updateStrategy.rollingUpdate.partition", (strategy.get("rollingUpdate") or {}).get("partition"))
    causes += not_negative("spec.replicas", spec.get("replicas")) + not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))
    return causes + _selected(spec)


def _daemon_set(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes = _selected(spec)
    if spec["updateStrategy"].get("type") == "RollingUpdate":
        causes += _rolling(spec["updateStrategy"].get("rollingUpdate") or {}, "spec.updateStrategy.rollingUpdate")
    return causes + not_negative("spec.minReadySeconds", spec.get("minReadySeconds"))


def job_causes(spec: JsonObject, path: str) -> list[Cause]:
    causes = []
    for key in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
        causes += not_negative(f"{path}.{key}", spec.get(key))
    causes += template_causes(spec.get("template") or {}, f"{path}.template")
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    if policy == "Always":
        causes.append(statuses.unsupported(f"{path}.template.spec.restartPolicy", policy, ("Never", "OnFailure")))
    return causes


def _job(body: JsonObject) -> list[Cause]:
    causes = []
    if len(body["metadata"].get("name", "")) > 63:
        causes.append(statuses.invalid_value("metadata.name", body["metadata"]["name"], "must be no more than 63 characters"))
    return causes + job_causes(body["spec"], "spec")


def _cron_job(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes = job_causes(spec["jobTemplate"]["spec"], "spec.jobTemplate.spec")
    schedule = spec.get("schedule", "")
    if not schedule:
        causes.append(statuses.required("spec.schedule"))
    else:
        try:
            Schedule.parse(schedule)
        except ValueError as error:
            causes.append(statuses.invalid_value("spec.schedule", schedule, str(error)))
    if spec.get("concurrencyPolicy") not in ("Allow", "Forbid", "Replace"):
        causes.append(statuses.unsupported("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), ("Allow", "Forbid", "Replace")))
    for key in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        causes += not_negative(f"spec.{key}", spec.get(key))
    if len(body["metadata"].get("name", "")) > 52:
        causes.append(statuses.invalid_value("metadata.name", body["metadata"]["name"], "must be no more than 52 characters"))
    return causes


def _pod(body: JsonObject) -> list[Cause]:
    return validate_spec(body["spec"], "spec")


def _replication_controller(body: JsonObject) -> list[Cause]:
    spec = body["spec"]
    causes = not_negative("spec.replicas", spec.get("replicas"))
    selector = spec.get("selector") or {}
    if not selector:
        causes.append(statuses.required("spec.selector"))
    template = spec.get("template")
    if not template:
        return [*causes, statuses.required("spec.template")]
    labels = (template.get("metadata") or {}).get("labels") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        causes.append(statuses.invalid_value("spec.template.metadata.labels", labels, _MISMATCH))
    return causes + template_causes(template, "spec.template")


def warnings(body: JsonObject) -> list[str]:
    """Advice about templates."""
    spec = body.get("spec") or {}
    template = spec.get("template") or {}
    found = []
    for index, container in enumerate((template.get("spec") or {}).get("containers") or ()):
        seen: set[str] = set()
        for at, variable in enumerate(container.get("env") or ()):
            if variable.get("name") in seen:
                path = f"spec.template.spec.containers[{index}].env[{at}]"
                found.append(f'{path}: hides previous definition of "{variable["name"]}", which may be dropped when using apply')
            seen.add(variable.get("name", ""))
    return found


TABLE = {
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("", "Pod"): _pod,
    ("", "ReplicationController"): _replication_controller,
}
