"""Every version of an object that the real controllers wrote, put through the health rules in its order."""

import pytest

from delegate.model.health.conditions import Circumstances
from delegate.model.health.rules import assess
from delegate.model.health.verdicts import HealthStatus
from tests.model.recordings import body_of, versions_of

WAITS, DONE, FAILED, HELD = HealthStatus.PROGRESSING, HealthStatus.HEALTHY, HealthStatus.DEGRADED, HealthStatus.SUSPENDED

_SEQUENCES = {
    ("rollout-deployment-ok", "apps", 1): [WAITS] * 6 + [DONE],
    ("rollout-deployment-zero", "apps", 1): [WAITS] * 2 + [DONE],
    ("rollout-deployment-fixed", "apps", 3): [WAITS] * 15 + [DONE],
    ("rollout-deployment-image-broken", "apps", 2): [WAITS] * 5 + [FAILED],
    ("rollout-deployment-crash", "apps", 1): [WAITS] * 4 + [FAILED],
    ("rollout-deployment-unschedulable", "apps", 1): [WAITS] * 4 + [FAILED],
    ("rollout-deployment-paused", "apps", 1): [WAITS] * 2 + [HELD],
    ("rollout-statefulset", "apps", 1): [WAITS] * 5 + [DONE],
    ("rollout-statefulset-update", "apps", 2): [WAITS] * 8 + [DONE],
    ("rollout-statefulset-partition", "apps", 3): [WAITS] * 5 + [DONE],
    ("rollout-daemonset", "apps", 1): [WAITS] * 3 + [DONE],
    ("job-complete", "batch", 1): [WAITS] * 3 + [DONE],
    ("job-failed", "batch", 1): [WAITS] * 6 + [FAILED],
    ("job-suspended", "batch", 1): [HELD] * 2,
    ("pvc-pending", "", 0): [WAITS],
    ("service-loadbalancer", "", 0): [WAITS],
    ("pdb", "policy", 1): [WAITS, DONE],
}


@pytest.mark.parametrize(("recording", "statuses"), _SEQUENCES.items(), ids=[name for name, _, _ in _SEQUENCES])
def test_statuses_along_a_recording(recording: tuple[str, str, int], statuses: list[HealthStatus]) -> None:
    """The statuses are those of the sequence; nothing is done before its last version."""
    name, group, generation = recording
    versions = versions_of(name, group)

    found = [assess(version, Circumstances(generation=generation)) for version in versions]

    assert [health.status for health in found] == statuses
    assert all(health.reason for health in found if health.status is not DONE)


@pytest.mark.parametrize("recording", ["rollout-deployment-fixed", "rollout-deployment-image-broken", "rollout-statefulset-update"])
def test_an_old_generation_is_no_answer(recording: str) -> None:
    """Before the controller has seen the new generation, neither its success nor its failure counts."""
    versions = versions_of(recording, "apps")
    newest = versions[-1]["metadata"]["generation"]

    for version in versions:
        observed = version["status"].get("observedGeneration", 0)
        health = assess(version, Circumstances(generation=newest))
        if observed < newest:
            assert health.status is WAITS
            assert health.reason in ("OldGeneration", "GenerationNotObserved")


def test_the_state_before_the_write_was_healthy() -> None:
    """Without knowing of a write, the first version in view is taken for what it is."""
    before = versions_of("rollout-deployment-image-broken", "apps")[0]

    assert assess(before).status is DONE


def test_the_answer_to_a_write_is_not_done() -> None:
    """What the server answers to an apply shows counts of the revision before."""
    answer = body_of("rollout-deployment-image-broken", 0)

    assert answer["status"]["availableReplicas"] == 3
    assert assess(answer, Circumstances(generation=answer["metadata"]["generation"])).status is WAITS


def test_a_definition_waits_until_it_is_established() -> None:
    """A definition is done when Established, and not while it goes."""
    created, established, going = body_of("crd", 1), body_of("crd", 3), body_of("crd", 11)

    assert assess(created).status is WAITS
    assert assess(established).status is DONE
    assert assess(going).status is WAITS


def test_a_custom_resource_is_judged_by_its_ready_condition() -> None:
    """Without a status it is held for a moment where its definition has one; then its Ready condition decides."""
    widget, ready = body_of("crd", 5), body_of("crd", 10)

    assert assess(widget, Circumstances(has_status=True)).reason == "NoStatusYet"
    assert assess(widget, Circumstances(has_status=True, settled=True)).status is DONE
    assert assess(ready).status is DONE


def test_missing_metrics_are_no_fault_at_first() -> None:
    """An autoscaler without metrics is given its first minute."""
    autoscaler = body_of("hpa", 1)

    young, old = assess(autoscaler), assess(autoscaler, Circumstances(settled=True))

    assert (young.status, old.status) == (WAITS, FAILED)
    assert young.reason == old.reason == "FailedGetResourceMetric"


def test_pods_that_are_not_let_in_are_told_in_the_clusters_words() -> None:
    """A Deployment whose pods violate the pod security level waits with the server's words."""
    health = assess(body_of("admission", 8))

    assert health.status is WAITS
    assert health.reason == "FailedCreate"
    assert 'violates PodSecurity "restricted:latest"' in health.message
