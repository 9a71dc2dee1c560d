"""What makes a new revision known to fail early, and what does not."""

import copy
from typing import Any

import pytest

from delegate.model.health.failing import Suspicion, Trouble, TroubleKind, find_trouble, follow, has_lasted, judge
from delegate.model.health.rules import assess
from delegate.model.health.verdicts import HealthStatus, Subject, degraded, progressing
from delegate.model.resources import JsonObject
from tests.model.recordings import body_of, items_of, versions_of


def _workload(recording: str, kind: str = "Deployment") -> JsonObject:
    """The last version of the recorded workload, with the uid that its watch events leave out."""
    metadata = body_of(recording, 0)["metadata"]
    last = copy.deepcopy(versions_of(recording, "apps")[-1])
    last["metadata"]["uid"] = metadata["uid"]
    assert last["kind"] == kind
    return last


def _trouble(recording: str) -> Trouble | None:
    return find_trouble(_workload(recording), items_of(recording, "ReplicaSet"), items_of(recording, "Pod"))


def test_an_image_that_cant_be_pulled() -> None:
    """Reason, pod, container and image are named; the healthy pods of the old ReplicaSet don't matter."""
    trouble = _trouble("rollout-deployment-image-broken")

    assert trouble is not None
    assert (trouble.kind, trouble.reason) == (TroubleKind.PULL, "ImagePullBackOff")
    assert (trouble.container, trouble.image) == ("main", "nginx:broken")
    assert trouble.revision == "good-6546d67459"
    assert trouble.pod.startswith(trouble.revision)
    assert trouble.is_fatal
    assert "nginx:broken" in trouble.message


def test_a_container_that_crashes() -> None:
    """CrashLoopBackOff of the new revision is fatal."""
    trouble = _trouble("rollout-deployment-crash")

    assert trouble is not None
    assert (trouble.kind, trouble.reason, trouble.is_fatal) == (TroubleKind.CRASH, "CrashLoopBackOff", True)


def test_a_pod_that_fits_no_node() -> None:
    """The scheduler's words are passed on, and they fail nothing early."""
    trouble = _trouble("rollout-deployment-unschedulable")

    assert trouble is not None
    assert (trouble.kind, trouble.is_fatal) == (TroubleKind.UNSCHEDULABLE, False)
    assert "0/1 nodes are available: 1 Insufficient cpu." in trouble.message


@pytest.mark.parametrize("recording", ["rollout-deployment-ok", "rollout-deployment-fixed"])
def test_a_revision_that_comes_up(recording: str) -> None:
    """No trouble is found where there is none."""
    assert _trouble(recording) is None


def test_a_pod_of_an_old_replica_set_does_not_count() -> None:
    """The broken pod belongs to revision 2; once 3 is wanted, it is nobody's trouble."""
    recording = "rollout-deployment-image-broken"
    workload = _workload(recording)
    replica_sets = copy.deepcopy(items_of(recording, "ReplicaSet"))
    newest = copy.deepcopy(replica_sets[0])
    newest["metadata"] |= {"name": "good-new", "uid": "new", "annotations": {"deployment.kubernetes.io/revision": "3"}}
    workload["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "3"}

    assert find_trouble(workload, [*replica_sets, newest], items_of(recording, "Pod")) is None


def test_nothing_is_known_before_the_generation_is_observed() -> None:
    """Until the controller has seen the newest generation, its newest ReplicaSet is an old one."""
    recording = "rollout-deployment-image-broken"
    workload = _workload(recording)
    workload["metadata"]["generation"] += 1

    assert find_trouble(workload, items_of(recording, "ReplicaSet"), items_of(recording, "Pod")) is None


def test_a_pod_that_goes_does_not_count() -> None:
    """A pod that is being deleted is on its way out anyway."""
    pods = copy.deepcopy(items_of("rollout-deployment-crash", "Pod"))
    pods[0]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert find_trouble(_workload("rollout-deployment-crash"), items_of("rollout-deployment-crash", "ReplicaSet"), pods) is None


def test_pods_that_are_not_let_in() -> None:
    """A ReplicaSet that can't create pods is trouble, in the words of the cluster and with what to do."""
    trouble = find_trouble(body_of("admission", 8))

    assert trouble is not None
    assert (trouble.kind, trouble.reason) == (TroubleKind.CREATE, "FailedCreate")
    assert 'violates PodSecurity "restricted:latest"' in trouble.message
    assert "pod security level" in trouble.hint


def test_a_stateful_set_over_its_quota() -> None:
    """Its controller only says so in an event; a later success makes it history."""
    workload: JsonObject = {
        "kind": "StatefulSet",
        "metadata": {"name": "db", "uid": "u", "generation": 1},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": 1, "replicas": 0, "updateRevision": "db-1"},
    }
    about = {"kind": "StatefulSet", "name": "db", "uid": "u"}
    refused = {
        "reason": "FailedCreate",
        "message": 'create Pod db-0 failed error: pods "db-0" is forbidden: exceeded quota: q',
        "involvedObject": about,
        "lastTimestamp": "2026-01-01T00:00:10Z",
    }
    created = {"reason": "SuccessfulCreate", "involvedObject": about, "lastTimestamp": "2026-01-01T00:00:20Z"}

    trouble = find_trouble(workload, events=[refused])

    assert trouble is not None
    assert trouble.kind is TroubleKind.CREATE
    assert "ResourceQuota" in trouble.hint
    assert find_trouble(workload, events=[refused, created]) is None
    assert find_trouble({**workload, "status": {**workload["status"], "replicas": 2}}, events=[refused]) is None


def test_the_newest_replica_set_is_the_deployments_own() -> None:
    """After a scale-back the highest number is not always the wanted one yet: the Deployment's own annotation decides."""
    recording = "rollout-deployment-image-broken"
    workload = _workload(recording)
    workload["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "1"}

    assert find_trouble(workload, items_of(recording, "ReplicaSet"), items_of(recording, "Pod")) is None


def _pod(owner: JsonObject, *, labels: Any = None, **container: Any) -> JsonObject:
    metadata = owner["metadata"]
    return {
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "shop",
            "labels": labels or {},
            "ownerReferences": [{"kind": owner["kind"], "name": metadata["name"], "uid": metadata["uid"], "controller": True}],
        },
        "spec": {"containers": [{"name": "m", "image": "registry.test/app:2"}], "imagePullSecrets": [{"name": "regcred"}]},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "m", **container}]},
    }


def test_only_pods_of_the_update_revision_of_a_stateful_set() -> None:
    """A broken pod of the revision before is what the update repairs."""
    workload: JsonObject = {
        "kind": "StatefulSet",
        "metadata": {"name": "db", "uid": "u", "generation": 2},
        "spec": {"replicas": 1},
        "status": {"observedGeneration": 2, "replicas": 1, "currentRevision": "db-1", "updateRevision": "db-2"},
    }
    waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    old = _pod(workload, labels={"controller-revision-hash": "db-1"}, **waiting)
    new = _pod(workload, labels={"controller-revision-hash": "db-2"}, **waiting)

    assert find_trouble(workload, pods=[old]) is None
    trouble = find_trouble(workload, pods=[old, new])
    assert trouble is not None
    assert trouble.revision == "db-2"


def test_only_pods_of_the_newest_template_of_a_daemon_set() -> None:
    """Its pods tell their template by a number."""
    workload: JsonObject = {
        "kind": "DaemonSet",
        "metadata": {
            "name": "agent",
            "uid": "u",
            "generation": 2,
            "annotations": {"deprecated.daemonset.template.generation": "2"},
        },
        "status": {"observedGeneration": 2, "desiredNumberScheduled": 1, "currentNumberScheduled": 1},
    }
    waiting = {"state": {"waiting": {"reason": "ErrImagePull", "message": "x"}}}

    assert find_trouble(workload, pods=[_pod(workload, labels={"pod-template-generation": "1"}, **waiting)]) is None
    assert find_trouble(workload, pods=[_pod(workload, labels={"pod-template-generation": "2"}, **waiting)]) is not None


_JOB: JsonObject = {"kind": "Job", "metadata": {"name": "j", "uid": "u", "generation": 1}, "spec": {}, "status": {"active": 1}}


def test_a_job_whose_pod_cant_be_pulled_but_may_crash() -> None:
    """How often its pods may crash is in the Job itself; a pull that fails never ends it."""
    pull = _pod(_JOB, state={"waiting": {"reason": "ErrImagePull", "message": "manifest unknown"}})
    crash = _pod(_JOB, state={"waiting": {"reason": "CrashLoopBackOff"}})

    assert find_trouble(_JOB, pods=[crash]) is None
    trouble = find_trouble(_JOB, pods=[pull])
    assert trouble is not None
    assert "check name and tag" in trouble.hint


def test_the_pods_events_say_why_it_cant_be_pulled() -> None:
    """A back-off says nothing of the cause; the event before it does."""
    pod = _pod(_JOB, state={"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}})
    said = "Unable to retrieve some image pull secrets (regcred); attempting to pull the image may not succeed."
    events = [{"reason": "FailedToRetrieveImagePullSecret", "message": said, "involvedObject": {"kind": "Pod", "name": "p"}}]

    trouble = find_trouble(_JOB, pods=[pod], events=events)

    assert trouble is not None
    assert trouble.hint == "create the image pull secret regcred in namespace shop"


def test_the_identity_stays_while_the_words_change() -> None:
    """Between ErrImagePull and ImagePullBackOff, and from one pod to its successor, it is the same trouble."""
    first = find_trouble(_JOB, pods=[_pod(_JOB, state={"waiting": {"reason": "ErrImagePull"}})])
    other = _pod(_JOB, state={"waiting": {"reason": "ImagePullBackOff"}})
    other["metadata"]["name"] = "another"
    second = find_trouble(_JOB, pods=[other])

    assert first is not None
    assert second is not None
    assert first.identity == second.identity
    assert first.reason != second.reason


def test_a_crash_loop_is_one_trouble_also_while_the_container_runs() -> None:
    """A container in a loop runs for moments; those don't start the measuring anew. One restart is no loop."""
    owner: JsonObject = {
        "kind": "ReplicaSet",
        "metadata": {"name": "r", "uid": "u", "generation": 1},
        "status": {"observedGeneration": 1},
    }
    backing_off = _pod(owner, restartCount=3, state={"waiting": {"reason": "CrashLoopBackOff"}})
    running = _pod(owner, restartCount=3, ready=False, state={"running": {}}, lastState={"terminated": {"exitCode": 1}})
    restarted = _pod(owner, restartCount=1, ready=False, state={"running": {}}, lastState={"terminated": {"exitCode": 1}})

    loop, moment = find_trouble(owner, pods=[backing_off]), find_trouble(owner, pods=[running])

    assert loop is not None
    assert moment is not None
    assert loop.identity == moment.identity
    assert find_trouble(owner, pods=[restarted]) is None


def test_a_crash_loop_says_how_its_container_ended_last() -> None:
    """Who is woken by it reads the exit code first."""
    owner: JsonObject = {"kind": "ReplicaSet", "metadata": {"name": "r", "uid": "u", "generation": 1}, "status": {"observedGeneration": 1}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}

    trouble = find_trouble(owner, pods=[_pod(owner, restartCount=3, state=waiting, lastState=ended)])

    assert trouble is not None
    assert "CrashLoopBackOff: exited with 137 (OOMKilled); back-off 10s" in trouble.message


def _some_trouble(container: str = "m", kind: TroubleKind = TroubleKind.PULL) -> Trouble:
    return Trouble(kind, "r1", "ImagePullBackOff", "it does not come", container=container, hint="do this")


def test_trouble_that_lasts_ends_the_wait() -> None:
    """The time runs from when the trouble was first seen, ends when it is gone and starts anew with another."""
    seen = follow(None, _some_trouble(), 100.0)
    again = follow(seen, _some_trouble(), 130.0)

    assert again == Suspicion(_some_trouble(), 100.0)
    assert not has_lasted(again, 159.9, 60.0)
    assert has_lasted(again, 160.0, 60.0)
    assert follow(again, None, 140.0) is None
    assert follow(again, _some_trouble("other"), 140.0) == Suspicion(_some_trouble("other"), 140.0)
    assert not has_lasted(follow(None, _some_trouble(kind=TroubleKind.UNSCHEDULABLE), 0.0), 1e9, 60.0)


def test_how_trouble_colours_health() -> None:
    """Progressing gets its words, and becomes Degraded once it has lasted; Healthy is left alone."""
    waits = progressing("ReplicasUpdating", "1 of 3")

    assert judge(waits, _some_trouble(), lasted=False) == progressing("ImagePullBackOff", "it does not come; do this")
    assert judge(waits, _some_trouble(), lasted=True) == degraded("ImagePullBackOff", "it does not come; do this")
    assert judge(waits, _some_trouble(kind=TroubleKind.UNSCHEDULABLE), lasted=True).status is HealthStatus.PROGRESSING
    assert judge(waits, None, lasted=True) == waits
    late = judge(degraded("ProgressDeadlineExceeded", "timed out"), _some_trouble(), lasted=False)
    assert late == degraded("ProgressDeadlineExceeded", "timed out: it does not come; do this")


def test_a_wait_for_a_new_revision_with_a_broken_image() -> None:
    """Along the recorded roll-out: Progressing while available stays 3, named reason, Degraded after the window."""
    recording = "rollout-deployment-image-broken"
    versions = versions_of(recording, "apps")
    workload = copy.deepcopy(versions[4])
    workload["metadata"]["uid"] = body_of(recording, 0)["metadata"]["uid"]
    trouble = find_trouble(workload, items_of(recording, "ReplicaSet"), items_of(recording, "Pod"))

    young, old = (judge(assess(workload), trouble, lasted=lasted) for lasted in (False, True))

    assert workload["status"]["availableReplicas"] == 3
    assert (young.status, old.status) == (HealthStatus.PROGRESSING, HealthStatus.DEGRADED)
    assert young.reason == old.reason == "ImagePullBackOff"


def test_the_health_of_a_workload_names_its_subject_and_since_when() -> None:
    """Pod, container and image beside the words, and the cluster's own time."""
    trouble = _trouble("rollout-deployment-crash")

    health = judge(assess(_workload("rollout-deployment-crash")), trouble, lasted=False)

    assert trouble is not None
    assert health.subject == Subject(trouble.pod, "main", trouble.image)
    assert trouble.since
    assert judge(progressing("ReplicasUpdating"), trouble, lasted=True).since == trouble.since


def test_a_pods_own_health_names_its_container() -> None:
    """Also since when, where a run of it has ended."""
    crashing = next(pod for pod in items_of("rollout-deployment-crash", "Pod") if assess(pod).status is HealthStatus.DEGRADED)

    health = assess(crashing)

    assert isinstance(health.subject, Subject)
    assert (health.subject.pod, health.subject.container) == (crashing["metadata"]["name"], "main")
    assert health.since


def test_only_the_pods_of_a_rollouts_current_hash_count() -> None:
    """Argo's Rollout names its newest ReplicaSet by the hash in its status."""
    owner = {"kind": "Rollout", "name": "web", "controller": True}
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    sets, pods = [], []
    for name, image in (("old", "app:1"), ("new", "app:2")):
        labels = {"rollouts-pod-template-hash": name}
        sets.append({"kind": "ReplicaSet", "metadata": {"name": f"web-{name}", "labels": labels, "ownerReferences": [owner]}})
        pods.append(
            {
                "kind": "Pod",
                "metadata": {
                    "name": f"web-{name}-1",
                    "ownerReferences": [{"kind": "ReplicaSet", "name": f"web-{name}", "controller": True}],
                },
                "spec": {"containers": [{"name": "main", "image": image}]},
                "status": {"containerStatuses": [{"name": "main", "state": waiting}]},
            }
        )
    rollout = {
        "kind": "Rollout",
        "metadata": {"name": "web", "generation": 2},
        "status": {"observedGeneration": "2", "currentPodHash": "new"},
    }

    trouble = find_trouble(rollout, sets, pods)

    assert trouble is not None
    assert (trouble.pod, trouble.image) == ("web-new-1", "app:2")
