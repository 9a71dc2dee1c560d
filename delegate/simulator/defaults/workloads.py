"""Defaults of the kinds that run pods."""

from delegate.model.resources import JsonObject
from delegate.simulator.defaults.pods import default_pod, default_template

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _deployment(body: JsonObject) -> None:
    spec = body["spec"]
    spec.setdefault("replicas", 1)
    strategy = spec["strategy"]
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    default_template(spec["template"])


def _replica_set(body: JsonObject) -> None:
    spec = body["spec"]
    spec.setdefault("replicas", 1)
    template = spec.get("template")
    if template:
        default_template(template)


def _replication_controller(body: JsonObject) -> None:
    spec = body["spec"]
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        body["metadata"].setdefault("labels", dict(labels))
    spec.setdefault("replicas", 1)
    if spec.get("template"):
        default_template(spec["template"])


def _stateful_set(body: JsonObject) -> None:
    spec = body["spec"]
    spec.setdefault("podManagementPolicy", "OrderedReady")
    strategy = spec["updateStrategy"]
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    default_template(spec["template"])
    for claim in spec.get("volumeClaimTemplates", ()):
        claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
        claim["spec"].setdefault("volumeMode", "Filesystem")
        claim.setdefault("status", {}).setdefault("phase", "Pending")


def _daemon_set(body: JsonObject) -> None:
    spec = body["spec"]
    strategy = spec["updateStrategy"]
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)
    default_template(spec["template"])
    # The conversion to v1 writes the generation that the internal type holds, 0 in an object that says nothing of it.
    (body["metadata"].get("annotations") or body["metadata"].setdefault("annotations", {})).setdefault(TEMPLATE_GENERATION, "0")


def default_job_spec(spec: JsonObject) -> None:
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")


def _job(body: JsonObject) -> None:
    spec = body["spec"]
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if labels and not body["metadata"].get("labels"):
        # The very same labels, as in the server: those that the strategy adds to the template appear here too.
        body["metadata"]["labels"] = labels
    default_job_spec(spec)
    default_template(spec["template"])


def _cron_job(body: JsonObject) -> None:
    spec = body["spec"]
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    default_template(spec["jobTemplate"]["spec"]["template"])


def _pod_template(body: JsonObject) -> None:
    default_template(body["template"])


TABLE = {
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("", "Pod"): default_pod,
    ("", "PodTemplate"): _pod_template,
    ("", "ReplicationController"): _replication_controller,
}
