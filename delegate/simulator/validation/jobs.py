"""Validation of Jobs and CronJobs."""

from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.naming import label
from delegate.simulator.schedules import Schedule, zone_of
from delegate.simulator.selectors import of_label_selector
from delegate.simulator.statuses import Cause
from delegate.simulator.validation.pods import template_causes
from delegate.simulator.validation.selectors import selector_causes
from delegate.simulator.validation.values import chosen, domain_path, not_negative
from delegate.simulator.validation.workloads import labels_of, mismatch

_ENDING = ("OnFailure", "Never")
_LONGEST_NAME = 63
_GENERATED = ("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name")


def spec_causes(spec: JsonObject, path: str) -> list[Cause]:
    """What a Job and a CronJob's template have in common."""
    causes: list[Cause] = []
    for key in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ):
        causes += not_negative(f"{path}.{key}", spec.get(key))
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        causes.append(statuses.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if "managedBy" in spec:
        causes += domain_path(f"{path}.managedBy", spec["managedBy"])
    causes += _completion(spec, path) + _failure_policy(spec, path)
    if "podReplacementPolicy" in spec:
        causes += chosen(f"{path}.podReplacementPolicy", spec["podReplacementPolicy"], ("Failed", "TerminatingOrFailed"))
    causes += template_causes(spec.get("template") or {}, f"{path}.template")
    return causes + _ends(spec, path)


def _ends(spec: JsonObject, path: str) -> list[Cause]:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy") or ""
    here = f"{path}.template.spec.restartPolicy"
    if policy in ("", "Always"):
        return [statuses.required(here, 'valid values: "OnFailure", "Never"')]
    if policy == "OnFailure" and "podFailurePolicy" in spec:
        return [statuses.invalid_value(here, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return chosen(here, policy, _ENDING)


def _completion(spec: JsonObject, path: str) -> list[Cause]:
    causes: list[Cause] = []
    mode = spec.get("completionMode")
    if mode is not None:
        causes += chosen(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed" and "completions" not in spec:
        causes.append(statuses.required(f"{path}.completions", "when completion mode is Indexed"))
    if mode in (None, "NonIndexed"):
        for key in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            if key in spec:
                causes.append(statuses.invalid_value(f"{path}.{key}", spec[key], "requires indexed completion mode"))
    return causes


def _failure_policy(spec: JsonObject, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, rule in enumerate((spec.get("podFailurePolicy") or {}).get("rules") or ()):
        here = f"{path}.podFailurePolicy.rules[{index}]"
        causes += chosen(f"{here}.action", rule.get("action"), ("Count", "FailIndex", "FailJob", "Ignore"))
        if "onExitCodes" not in rule and not rule.get("onPodConditions"):
            text = "specifying one of OnExitCodes and OnPodConditions is required"
            causes.append(Cause("FieldValueInvalid", f"Invalid value: {text}", here))
    if "successPolicy" in spec and not spec["successPolicy"].get("rules"):
        text = "at least one rules must be specified when the successPolicy is specified"
        causes.append(statuses.required(f"{path}.successPolicy.rules", text))
    return causes


def _job(body: JsonObject) -> list[Cause]:
    spec, metadata = body["spec"], body["metadata"]
    name = metadata.get("name", "")
    causes: list[Cause] = []
    if len(name) > _LONGEST_NAME:
        causes.append(statuses.invalid_value("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters"))
    labels, selector = labels_of(spec.get("template")), spec.get("selector")
    if not spec.get("manualSelector"):
        causes += _generated(name, metadata.get("uid", ""), labels, selector)
    causes += spec_causes(spec, "spec")
    causes += [statuses.required("spec.selector")] if selector is None else selector_causes(selector, "spec.selector")
    if selector is None or not of_label_selector(selector)(labels):
        causes.append(mismatch(labels))
    if spec.get("completionMode") == "Indexed" and spec.get("completions", 0) > 0:
        host = f"{name}-{spec['completions'] - 1}"
        if label(host):
            text = f"will not able to create pod with invalid DNS label: {host}"
            causes.append(statuses.invalid_value("metadata.name", name, text))
    return causes


def _generated(name: str, uid: str, labels: JsonObject, selector: Any) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in zip(_GENERATED, (uid, name, uid, name), strict=True):
        if labels.get(key, value) != value:
            causes.append(statuses.invalid_value(f"spec.template.metadata.labels[{key}]", labels, f"must be '{value}'"))
    if selector is not None and selector != {"matchLabels": {_GENERATED[0]: uid}}:
        causes.append(statuses.invalid_value("spec.selector", selector, "`selector` not auto-generated"))
    return causes


def _cron_job(body: JsonObject) -> list[Cause]:
    spec, template = body["spec"], body["spec"]["jobTemplate"]["spec"]
    causes = _schedule(spec.get("schedule", ""))
    causes += not_negative("spec.startingDeadlineSeconds", spec.get("startingDeadlineSeconds"))
    causes += _zone(spec)
    causes += chosen("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), ("Allow", "Forbid", "Replace"))
    path = "spec.jobTemplate.spec"
    causes += spec_causes(template, path)
    if template.get("selector") is not None:
        causes.append(statuses.invalid_value(f"{path}.selector", template["selector"], "`selector` will be auto-generated"))
    if template.get("manualSelector"):
        causes.append(statuses.unsupported(f"{path}.manualSelector", True, ("nil", "false")))
    for key in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        causes += not_negative(f"spec.{key}", spec.get(key))
    name = body["metadata"].get("name", "")
    if len(name) > _LONGEST_NAME - 11:
        causes.append(statuses.invalid_value("metadata.name", name, f"must be no more than {_LONGEST_NAME - 11} characters"))
    return causes


def _schedule(text: str) -> list[Cause]:
    if not text:
        return [statuses.required("spec.schedule")]
    if "TZ=" in text:
        why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        return [statuses.invalid_value("spec.schedule", text, why)]
    try:
        Schedule.parse(text)
    except ValueError as error:
        return [statuses.invalid_value("spec.schedule", text, str(error))]
    return []


def _zone(spec: JsonObject) -> list[Cause]:
    name = spec.get("timeZone")
    if name is None:
        return []
    if not name:
        return [statuses.invalid_value("spec.timeZone", name, "timeZone must be nil or non-empty string")]
    if name.lower() == "local":
        return [statuses.invalid_value("spec.timeZone", name, "timeZone must be an explicit time zone as defined in the IANA database")]
    return [] if zone_of(name) is not None else [statuses.invalid_value("spec.timeZone", name, f"unknown time zone {name}")]


TABLE = {("batch", "Job"): _job, ("batch", "CronJob"): _cron_job}
