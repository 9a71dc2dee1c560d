"""Health rules for what the recordings do not show."""

from typing import Any

import pytest

from delegate.model.health.conditions import Circumstances
from delegate.model.health.rules import assess, reads_status, settle_seconds
from delegate.model.health.storage import waits_for_consumer
from delegate.model.health.verdicts import HealthStatus
from delegate.model.resources import GroupKind, JsonObject


def _object(api_version: str, kind: str, *, spec: Any = None, status: Any = None, **metadata: Any) -> JsonObject:
    body: JsonObject = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", **metadata}}
    if spec is not None:
        body["spec"] = spec
    if status is not None:
        body["status"] = status
    return body


def _condition(type_: str, status: str, reason: str = "", **more: Any) -> JsonObject:
    return {"type": type_, "status": status, "reason": reason, "message": f"{type_} is {status}", **more}


def test_an_object_that_is_not_there_is_missing() -> None:
    """No object is Missing, not Healthy."""
    assert assess(None).status is HealthStatus.MISSING


def test_an_object_that_goes_is_not_done() -> None:
    """Deletion comes before everything else, and its finalizers are named."""
    health = assess(_object("v1", "ConfigMap", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["example.test/hold"]))

    assert health.status is HealthStatus.PROGRESSING
    assert "example.test/hold" in health.message


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([_condition("Ready", "True", observedGeneration=2)], HealthStatus.HEALTHY),
        ([_condition("Ready", "True", observedGeneration=1)], HealthStatus.PROGRESSING),
        ([_condition("Ready", "False", "Failed")], HealthStatus.PROGRESSING),
        ([_condition("Ready", "True"), _condition("Reconciling", "True")], HealthStatus.PROGRESSING),
        ([_condition("Ready", "True"), _condition("Stalled", "True")], HealthStatus.DEGRADED),
        ([_condition("Ready", "True"), _condition("Stalled", "True", observedGeneration=1)], HealthStatus.HEALTHY),
        ([_condition("Synced", "True")], HealthStatus.HEALTHY),
    ],
)
def test_conditions_of_custom_resources(conditions: list[JsonObject], expected: HealthStatus) -> None:
    """kstatus's order; a condition about an older generation stands for nothing."""
    custom = _object("example.test/v1", "Basket", generation=2, status={"observedGeneration": 2, "conditions": conditions})

    assert assess(custom).status is expected


def test_an_observed_generation_in_text() -> None:
    """Argo Rollouts write observedGeneration as text."""
    rollout = _object("argoproj.io/v1alpha1", "Rollout", generation=5, status={"observedGeneration": "4"})

    assert assess(rollout).reason == "GenerationNotObserved"


def test_a_deployment_without_a_progress_deadline() -> None:
    """Without a deadline the controller never says NewReplicaSetAvailable; the counts and Available decide."""
    counts = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
    body = _object(
        "apps/v1",
        "Deployment",
        generation=1,
        spec={"replicas": 1, "progressDeadlineSeconds": 2**31 - 1},
        status={**counts, "conditions": [_condition("Available", "True")]},
    )

    assert assess(body).status is HealthStatus.HEALTHY


def test_old_replicas_that_are_still_there() -> None:
    """A roll-out is not done while pods of the old revision terminate."""
    counts = {"observedGeneration": 1, "replicas": 3, "updatedReplicas": 2, "readyReplicas": 3, "availableReplicas": 3}
    body = _object("apps/v1", "Deployment", generation=1, spec={"replicas": 2}, status=counts)

    assert assess(body).reason == "OldReplicasTerminating"


def _deployment(**changes: Any) -> JsonObject:
    """A Deployment of two replicas that has finished, but for the changes in its status."""
    counts = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}
    finished = [_condition("Available", "True"), _condition("Progressing", "True", "NewReplicaSetAvailable")]
    spec = {"replicas": 2, "progressDeadlineSeconds": 600}
    return _object("apps/v1", "Deployment", generation=1, spec=spec, status={**counts, "conditions": finished, **changes})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, ""),
        ({"updatedReplicas": 1}, "ReplicasUpdating"),
        ({"availableReplicas": 1}, "ReplicasNotAvailable"),
        ({"readyReplicas": 1}, "ReplicasNotAvailable"),
        ({"replicas": 3, "updatedReplicas": 3, "availableReplicas": 3}, "ReplicasTerminating"),
        ({"conditions": [_condition("Available", "True"), _condition("Progressing", "True", "ReplicaSetUpdated")]}, "ReplicaSetUpdated"),
        ({"conditions": [_condition("Progressing", "True", "NewReplicaSetAvailable")]}, "ReplicasNotAvailable"),
    ],
)
def test_each_count_of_a_deployment_is_waited_for(changes: JsonObject, reason: str) -> None:
    """One that is short, or a controller that has not finished, is enough to go on waiting."""
    health = assess(_deployment(**changes))

    assert health.reason == reason
    assert health.status is (HealthStatus.PROGRESSING if reason else HealthStatus.HEALTHY)


@pytest.mark.parametrize(
    ("changes", "strategy", "reason"),
    [
        ({}, "RollingUpdate", ""),
        ({"updatedNumberScheduled": 1}, "RollingUpdate", "PodsUpdating"),
        ({"updatedNumberScheduled": 1}, "OnDelete", ""),
        ({"numberAvailable": 1}, "OnDelete", "PodsNotAvailable"),
        ({"currentNumberScheduled": 1}, "RollingUpdate", "PodsNotAvailable"),
    ],
)
def test_each_count_of_a_daemon_set_is_waited_for(changes: JsonObject, strategy: str, reason: str) -> None:
    """By update strategy."""
    names = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady")
    status = {"observedGeneration": 1, **dict.fromkeys(names, 2), **changes}
    spec = {"updateStrategy": {"type": strategy}}

    assert assess(_object("apps/v1", "DaemonSet", generation=1, spec=spec, status=status)).reason == reason


def test_a_stateful_set_that_updates_on_deletion_only() -> None:
    """OnDelete never updates by itself: ready is done."""
    status = {
        "observedGeneration": 2,
        "replicas": 2,
        "readyReplicas": 2,
        "currentReplicas": 2,
        "currentRevision": "a",
        "updateRevision": "b",
    }
    body = _object("apps/v1", "StatefulSet", generation=2, spec={"replicas": 2, "updateStrategy": {"type": "OnDelete"}}, status=status)

    assert assess(body).status is HealthStatus.HEALTHY


def test_a_daemon_set_with_no_node_to_run_on() -> None:
    """No matching node is done."""
    status = {"observedGeneration": 1, "desiredNumberScheduled": 0, "currentNumberScheduled": 0, "numberReady": 0}

    assert assess(_object("apps/v1", "DaemonSet", generation=1, spec={}, status=status)).status is HealthStatus.HEALTHY


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([_condition("Failed", "False"), _condition("Complete", "False")], HealthStatus.PROGRESSING),
        ([_condition("Suspended", "False", "JobResumed")], HealthStatus.PROGRESSING),
        ([_condition("FailureTarget", "True", "BackoffLimitExceeded")], HealthStatus.PROGRESSING),
        ([_condition("Complete", "True")], HealthStatus.HEALTHY),
    ],
)
def test_a_job_by_the_status_of_its_conditions(conditions: list[JsonObject], expected: HealthStatus) -> None:
    """A condition with status False says that it does not hold; a resumed Job is not done."""
    assert assess(_object("batch/v1", "Job", spec={"suspend": False}, status={"conditions": conditions})).status is expected


def test_a_cron_job_whose_last_run_failed() -> None:
    """It is Degraded to look at, but no write is blamed for a run before it."""
    status = {"lastScheduleTime": "2026-01-02T00:00:00Z", "lastSuccessfulTime": "2026-01-01T00:00:00Z"}
    body = _object("batch/v1", "CronJob", generation=3, spec={}, status=status)

    assert assess(body).status is HealthStatus.DEGRADED
    waited_for = assess(body, Circumstances(generation=3))
    assert (waited_for.status, waited_for.reason) == (HealthStatus.HEALTHY, "LastRunFailed")
    assert assess(_object("batch/v1", "CronJob", spec={}, status={})).status is HealthStatus.HEALTHY


def test_a_claim_that_binds_late_is_done() -> None:
    """A wait for it would never end, as its pod comes later."""
    claim = _object("v1", "PersistentVolumeClaim", spec={"storageClassName": "fast"}, status={"phase": "Pending"})

    health = assess(claim, Circumstances(waits_for_consumer=True))

    assert (health.status, health.reason) == (HealthStatus.HEALTHY, "WaitForFirstConsumer")
    assert assess(claim).status is HealthStatus.PROGRESSING
    assert assess({**claim, "status": {"phase": "Lost"}}).status is HealthStatus.DEGRADED


def test_what_tells_that_a_claim_binds_late() -> None:
    """Its StorageClass by name or as the default, or an event about it."""
    claim = _object("v1", "PersistentVolumeClaim", spec={"storageClassName": "fast"})
    unnamed = _object("v1", "PersistentVolumeClaim", spec={})
    event = {"reason": "WaitForFirstConsumer", "involvedObject": {"kind": "PersistentVolumeClaim", "name": "x"}}
    late: JsonObject = {"metadata": {"name": "fast"}, "volumeBindingMode": "WaitForFirstConsumer"}
    default: JsonObject = {
        "metadata": {"name": "std", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "volumeBindingMode": "WaitForFirstConsumer",
    }

    assert waits_for_consumer(claim, events=[event])
    assert waits_for_consumer(claim, storage_classes=[late])
    assert not waits_for_consumer(claim, storage_classes=[default])
    assert waits_for_consumer(unnamed, storage_classes=[late, default])
    assert not waits_for_consumer(unnamed, storage_classes=[late])


def test_addresses_are_waited_for_as_asked() -> None:
    """A load balancer's address by default, an Ingress's on request."""
    service = _object("v1", "Service", spec={"type": "LoadBalancer"}, status={"loadBalancer": {}})
    ingress = _object("networking.k8s.io/v1", "Ingress", spec={}, status={"loadBalancer": {}})
    addressed = {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}

    assert assess(service).reason == "AddressPending"
    assert assess(service, Circumstances(needs_address=False)).status is HealthStatus.HEALTHY
    assert assess({**service, "status": addressed}).status is HealthStatus.HEALTHY
    assert assess(ingress).status is HealthStatus.HEALTHY
    assert assess(ingress, Circumstances(needs_address=True)).reason == "AddressPending"
    assert assess(_object("v1", "Service", spec={"type": "ClusterIP"})).status is HealthStatus.HEALTHY


def test_a_definition_whose_names_are_taken() -> None:
    """Names that collide never get accepted."""
    conditions = [_condition("NamesAccepted", "False", "MultipleNamesConflict"), _condition("Established", "False", "NotAccepted")]
    body = _object("apiextensions.k8s.io/v1", "CustomResourceDefinition", status={"conditions": conditions})

    assert (assess(body).status, assess(body).reason) == (HealthStatus.DEGRADED, "MultipleNamesConflict")


def test_an_api_service_that_stays_away() -> None:
    """Not available is Degraded once it had time to start."""
    status = {"conditions": [_condition("Available", "False", "MissingEndpoints")]}
    body = _object("apiregistration.k8s.io/v1", "APIService", status=status)

    assert assess(body).status is HealthStatus.PROGRESSING
    assert assess(body, Circumstances(settled=True)).status is HealthStatus.DEGRADED


@pytest.mark.parametrize(
    ("status", "expected", "words"),
    [
        ({"phase": "Succeeded"}, HealthStatus.HEALTHY, ""),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on disk"}, HealthStatus.DEGRADED, "low on disk"),
        (
            {"phase": "Failed", "containerStatuses": [{"name": "m", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]},
            HealthStatus.DEGRADED,
            "container m exited with 137 (OOMKilled)",
        ),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [{"name": "i", "state": {"waiting": {"reason": "ErrImagePull", "message": "-"}}}],
            },
            HealthStatus.DEGRADED,
            "container i (init:1): -",
        ),
        (
            {"phase": "Pending", "conditions": [_condition("PodScheduled", "False", "Unschedulable")]},
            HealthStatus.PROGRESSING,
            "PodScheduled is False",
        ),
        ({"phase": "Running", "conditions": [_condition("Ready", "True")]}, HealthStatus.HEALTHY, ""),
        ({"phase": "Running", "conditions": [_condition("Ready", "False")]}, HealthStatus.PROGRESSING, "Ready is False"),
    ],
)
def test_pods(status: JsonObject, expected: HealthStatus, words: str) -> None:
    """A pod by phase, containers and conditions; init containers count too."""
    spec = {"initContainers": [{"name": "i", "image": "init:1"}], "containers": [{"name": "m", "image": "main:1"}]}

    health = assess(_object("v1", "Pod", spec=spec, status=status))

    assert health.status is expected
    assert health.message == words


@pytest.mark.parametrize(
    ("changes", "reason", "expected"),
    [
        ({}, "", HealthStatus.HEALTHY),
        ({"observedGeneration": 0}, "GenerationNotObserved", HealthStatus.PROGRESSING),
        ({"availableReplicas": 1}, "ReplicasNotAvailable", HealthStatus.PROGRESSING),
        ({"replicas": 3}, "ReplicasTerminating", HealthStatus.PROGRESSING),
        ({"conditions": [_condition("ReplicaFailure", "True", "FailedCreate")]}, "FailedCreate", HealthStatus.DEGRADED),
    ],
)
def test_replica_sets(changes: JsonObject, reason: str, expected: HealthStatus) -> None:
    """By counts; one that can't create pods is Degraded."""
    status = {"observedGeneration": 1, "replicas": 2, "availableReplicas": 2, **changes}

    health = assess(_object("apps/v1", "ReplicaSet", generation=1, spec={"replicas": 2}, status=status))

    assert (health.reason, health.status) == (reason, expected)


@pytest.mark.parametrize(
    ("changes", "update", "reason"),
    [
        ({}, None, ""),
        ({"readyReplicas": 1}, None, "ReplicasNotReady"),
        ({"availableReplicas": 1}, None, "ReplicasNotAvailable"),
        ({"replicas": 3}, None, "ReplicasTerminating"),
        ({"updateRevision": "b"}, None, "ReplicasUpdating"),
        ({"updateRevision": "b", "updatedReplicas": 0}, {"partition": 1}, "ReplicasUpdating"),
        ({"updateRevision": "b", "updatedReplicas": 1}, {"partition": 1}, ""),
        ({"updateRevision": "b", "updatedReplicas": 0}, {"partition": 5}, ""),
    ],
)
def test_stateful_sets(changes: JsonObject, update: Any, reason: str) -> None:
    """By counts and revisions; a partition stops where it is asked to."""
    counts = dict.fromkeys(("replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas"), 2)
    status = {"observedGeneration": 1, "currentRevision": "a", "updateRevision": "a", **counts, **changes}
    spec = {"replicas": 2, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": update}}

    assert assess(_object("apps/v1", "StatefulSet", generation=1, spec=spec, status=status)).reason == reason


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], HealthStatus.PROGRESSING),
        ([_condition("AbleToScale", "True"), _condition("ScalingActive", "True")], HealthStatus.HEALTHY),
        ([_condition("AbleToScale", "False", "BackoffBoth"), _condition("ScalingLimited", "True")], HealthStatus.HEALTHY),
        ([_condition("AbleToScale", "False", "FailedGetScale")], HealthStatus.DEGRADED),
        ([_condition("AbleToScale", "True"), _condition("ScalingActive", "False", "ScalingDisabled")], HealthStatus.HEALTHY),
    ],
)
def test_autoscalers(conditions: list[JsonObject], expected: HealthStatus) -> None:
    """By whether they can scale their target."""
    body = _object("autoscaling/v2", "HorizontalPodAutoscaler", spec={}, status={"conditions": conditions})

    assert assess(body).status is expected


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([_condition("NonStructuralSchema", "True", "Violations")], HealthStatus.DEGRADED),
        ([_condition("Established", "False", "Installing")], HealthStatus.PROGRESSING),
        ([_condition("Established", "False", "Refused")], HealthStatus.DEGRADED),
        (None, HealthStatus.PROGRESSING),
    ],
)
def test_definitions(conditions: Any, expected: HealthStatus) -> None:
    """By what the server says of names and schema."""
    body = _object("apiextensions.k8s.io/v1", "CustomResourceDefinition", status={"conditions": conditions})

    assert assess(body).status is expected


def test_disruption_budgets_and_volumes() -> None:
    """A budget that can't be computed and a volume that failed are Degraded, with the reason."""
    failed = {"observedGeneration": 1, "conditions": [_condition("DisruptionAllowed", "False", "SyncFailed")]}
    budget = assess(_object("policy/v1", "PodDisruptionBudget", generation=1, spec={}, status=failed))
    volumes = {phase: assess(_object("v1", "PersistentVolume", status={"phase": phase})).status for phase in ("Pending", "Bound", "Failed")}

    assert (budget.status, budget.reason) == (HealthStatus.DEGRADED, "SyncFailed")
    assert volumes == {"Pending": HealthStatus.PROGRESSING, "Bound": HealthStatus.HEALTHY, "Failed": HealthStatus.DEGRADED}
    assert assess(_object("v1", "PersistentVolumeClaim", status={"phase": "Odd"})).status is HealthStatus.UNKNOWN


def test_a_pod_that_runs_to_an_end() -> None:
    """One that is not restarted is done when it has succeeded, not while it runs."""
    body = _object("v1", "Pod", spec={"restartPolicy": "Never"}, status={"phase": "Running", "conditions": [_condition("Ready", "True")]})

    assert assess(body).reason == "PodRunning"


def test_a_namespace_on_its_way_out() -> None:
    """Nothing new is let into it."""
    assert assess(_object("v1", "Namespace", status={"phase": "Terminating"})).status is HealthStatus.PROGRESSING
    assert assess(_object("v1", "Namespace", status={"phase": "Active"})).status is HealthStatus.HEALTHY


def test_which_kinds_a_wait_has_to_read() -> None:
    """Kinds that are done by existing need no look at their body."""
    assert not reads_status(GroupKind("", "ConfigMap"))
    assert reads_status(GroupKind("apps", "Deployment"))
    assert reads_status(GroupKind("example.test", "ConfigMap"))


def test_kinds_that_need_time_before_silence_is_an_answer() -> None:
    """Custom resources a moment, autoscalers longer, built-in kinds none."""
    assert settle_seconds(GroupKind("apps", "Deployment")) == 0
    assert 0 < settle_seconds(GroupKind("example.test", "Basket")) < settle_seconds(GroupKind("autoscaling", "HorizontalPodAutoscaler"))


@pytest.mark.parametrize("body", [{}, {"kind": None}, {"metadata": None, "status": []}, {"spec": "x", "status": {"conditions": [1, None]}}])
def test_malformed_objects_raise_nothing(body: JsonObject) -> None:
    """What a foreign server sends may have any shape."""
    for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"):
        assert assess({**body, "apiVersion": "apps/v1", "kind": kind}).status is HealthStatus.PROGRESSING
    assert assess({**body, "apiVersion": "v1", "kind": "Pod"}).status is HealthStatus.PROGRESSING
