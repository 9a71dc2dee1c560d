"""Whether a new revision is already known to fail, long before a progress deadline says so.

Only what belongs to the newest revision counts: its ReplicaSet that can't create pods, its pods that can't pull, can't be
configured or crash. A pod that no node takes is told apart: an autoscaler may still make room. The trouble that is found
has an identity that stays while a kubelet goes to and fro between two words for it, so that whoever waits can measure how
long it has lasted; the time itself is kept with `follow` and judged with `has_lasted`.
"""

import enum
from collections.abc import Iterable, Iterator

import msgspec

from delegate.model.health.conditions import (
    condition_of,
    integer,
    is_observed,
    mapping,
    metadata_of,
    sequence,
    spec_of,
    status_of,
)
from delegate.model.health.pods import FaultKind, container_faults, not_ready_since, scheduling_words
from delegate.model.health.pulls import explain_pull
from delegate.model.health.verdicts import Health, HealthStatus, Subject
from delegate.model.resources import JsonObject

_REVISION = "deployment.kubernetes.io/revision"
ROLLOUT_HASH = "rollouts-pod-template-hash"
"""The label by which an Argo Rollout tells its versions' pods apart."""
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class TroubleKind(enum.StrEnum):
    """From what speaks for the whole revision to what may pass by itself; the first that is found is reported."""

    CREATE = "create"
    PULL = "pull"
    CONFIG = "config"
    CRASH = "crash"
    UNSCHEDULABLE = "unschedulable"


class Trouble(msgspec.Struct, frozen=True):
    """What keeps a new revision from coming up, in the words of the cluster; `pod`, `container`, `image`, `since` where it has them."""

    kind: TroubleKind
    revision: str
    reason: str
    message: str
    pod: str = ""
    container: str = ""
    image: str = ""
    hint: str = ""
    since: str = ""

    @property
    def is_fatal(self) -> bool:
        """Whether it fails the wait once it has lasted; what only waits for a node does not."""
        return self.kind is not TroubleKind.UNSCHEDULABLE

    @property
    def identity(self) -> tuple[str, ...]:
        """Equal for the same trouble seen again, whichever pod of the revision it is seen on."""
        return (self.kind.value, self.revision, self.container, self.image)


class Suspicion(msgspec.Struct, frozen=True):
    """A trouble as last seen, and since when it is there (the caller's monotonic clock)."""

    trouble: Trouble
    since: float


def follow(previous: Suspicion | None, trouble: Trouble | None, now: float) -> Suspicion | None:
    """Takes a fresh look into account: the same trouble keeps its `since`, another one starts anew, none ends it."""
    if trouble is None:
        return None
    same = previous is not None and previous.trouble.identity == trouble.identity
    return Suspicion(trouble, previous.since if previous is not None and same else now)


def has_lasted(suspicion: Suspicion | None, now: float, fail_fast_after: float) -> bool:
    """Whether a wait is to be given up: fatal trouble, unchanged for `fail_fast_after` seconds."""
    return suspicion is not None and suspicion.trouble.is_fatal and now - suspicion.since >= fail_fast_after


def judge(health: Health, trouble: Trouble | None, *, lasted: bool) -> Health:
    """The health of a workload with what is known of its pods: the cluster's words, and Degraded once they have lasted."""
    if trouble is None or health.status not in (HealthStatus.PROGRESSING, HealthStatus.DEGRADED):
        return health
    words = f"{trouble.message}; {trouble.hint}" if trouble.hint else trouble.message
    subject = Subject(trouble.pod, trouble.container, trouble.image) if trouble.pod else msgspec.UNSET
    if health.status is HealthStatus.DEGRADED:
        words = f"{health.message}: {words}" if health.message else words
        return Health(health.status, health.reason, words, health.since, subject)
    status = HealthStatus.DEGRADED if lasted and trouble.is_fatal else HealthStatus.PROGRESSING
    return Health(status, trouble.reason, words, trouble.since or msgspec.UNSET, subject)


def find_trouble(
    workload: JsonObject,
    replica_sets: Iterable[JsonObject] = (),
    pods: Iterable[JsonObject] = (),
    events: Iterable[JsonObject] = (),
) -> Trouble | None:
    """What keeps the newest revision of a workload from coming up, or None.

    For Deployment, StatefulSet, DaemonSet, ReplicaSet, Job and Argo's Rollout. `replica_sets` and `pods` may hold foreign ones of the same
    namespace; `events` (of the workload and its pods) are optional and make words and hints better. A workload whose
    newest generation its controller has not seen yet has no trouble: nobody knows its newest revision.
    """
    kind = workload.get("kind")
    if kind != "Job" and not is_observed(workload):
        return None
    known_events = list(events)
    has_sets = kind in ("Deployment", "Rollout")
    replica_set = _newest_replica_set(workload, replica_sets) if has_sets else None
    if has_sets and replica_set is None:
        return _creation_trouble(workload, "", known_events)
    owner = replica_set or workload
    revision = _revision(workload, owner)
    creation = _creation_trouble(owner, revision, known_events)
    if creation:
        return creation
    own = [pod for pod in pods if _is_of_revision(pod, owner) and not metadata_of(pod).get("deletionTimestamp")]
    if kind == "DaemonSet":
        own = _of_newest_template(workload, own)
    found = list(_pod_troubles(own, revision, known_events, crashes=kind != "Job"))
    order = list(TroubleKind)
    return min(found, key=lambda trouble: (order.index(trouble.kind), trouble.container, trouble.image, trouble.pod), default=None)


def _newest_replica_set(deployment: JsonObject, replica_sets: Iterable[JsonObject]) -> JsonObject | None:
    """The one with the Deployment's own revision number; where that is not told, the one with the highest."""
    own = [each for each in replica_sets if _is_owned_by(each, deployment)]
    if deployment.get("kind") == "Rollout":
        current = status_of(deployment).get("currentPodHash")
        return next((each for each in own if mapping(metadata_of(each), "labels").get(ROLLOUT_HASH) == current), None)
    wanted = mapping(metadata_of(deployment), "annotations").get(_REVISION)
    if wanted is not None:
        own = [each for each in own if mapping(metadata_of(each), "annotations").get(_REVISION) == wanted]
    return max(own, key=lambda each: integer(mapping(metadata_of(each), "annotations"), _REVISION), default=None)


def _revision(workload: JsonObject, owner: JsonObject) -> str:
    if owner is not workload:
        return str(metadata_of(owner).get("name") or "")
    told = status_of(workload).get("updateRevision") or mapping(metadata_of(workload), "annotations").get(_TEMPLATE_GENERATION)
    return str(told or metadata_of(workload).get("generation") or "")


def _is_of_revision(pod: JsonObject, owner: JsonObject) -> bool:
    if not _is_owned_by(pod, owner):
        return False
    if owner.get("kind") == "StatefulSet":
        return mapping(metadata_of(pod), "labels").get("controller-revision-hash") == status_of(owner).get("updateRevision")
    return True


def _of_newest_template(daemon_set: JsonObject, pods: list[JsonObject]) -> list[JsonObject]:
    """A DaemonSet's pods carry the number of the template that they were made from, and nothing else that leads there."""
    told = integer(mapping(metadata_of(daemon_set), "annotations"), _TEMPLATE_GENERATION)
    numbers = [integer(mapping(metadata_of(pod), "labels"), "pod-template-generation") for pod in pods]
    newest = told or max(numbers, default=0)
    return [pod for pod, number in zip(pods, numbers, strict=True) if number == newest]


def _is_owned_by(obj: JsonObject, owner: JsonObject) -> bool:
    metadata = metadata_of(owner)
    for reference in sequence(metadata_of(obj), "ownerReferences"):
        if not isinstance(reference, dict) or not reference.get("controller"):
            continue
        if metadata.get("uid"):
            return bool(reference.get("uid") == metadata["uid"])
        return reference.get("kind") == owner.get("kind") and reference.get("name") == metadata.get("name")
    return False


def _creation_trouble(owner: JsonObject, revision: str, events: list[JsonObject]) -> Trouble | None:
    """Pods that the API server does not let in: quota, pod security, admission."""
    failure = condition_of(owner, "ReplicaFailure")
    if failure and failure.is_true:
        return Trouble(
            TroubleKind.CREATE,
            revision,
            failure.reason or "ReplicaFailure",
            failure.message,
            hint=_creation_hint(failure.message),
            since=failure.since,
        )
    if owner.get("kind") in ("StatefulSet", "DaemonSet", "Job"):
        # They have no such condition; their controllers only say it in events. A later success makes it history.
        about = [event for event in events if _is_about(event, owner) and event.get("reason") in ("FailedCreate", "SuccessfulCreate")]
        last = max(about, key=_time_of, default=None)
        if last is not None and last.get("reason") == "FailedCreate" and _lacks_pods(owner):
            words = str(last.get("message") or "")
            return Trouble(TroubleKind.CREATE, revision, "FailedCreate", words, hint=_creation_hint(words), since=_first_time_of(last))
    return None


def _lacks_pods(owner: JsonObject) -> bool:
    status = status_of(owner)
    if owner.get("kind") == "DaemonSet":
        return integer(status, "currentNumberScheduled") < integer(status, "desiredNumberScheduled")
    if owner.get("kind") == "Job":
        return integer(status, "active") + integer(status, "succeeded") == 0
    return integer(status, "replicas") < integer(spec_of(owner), "replicas", 1)


def _creation_hint(words: str) -> str:
    if "exceeded quota" in words:
        return "raise the ResourceQuota of the namespace or ask for less"
    if "PodSecurity" in words:
        return "meet the pod security level of the namespace or change its pod-security.kubernetes.io labels"
    if "must specify limits" in words or "failed quota" in words:
        return "the ResourceQuota of the namespace wants requests and limits on every container"
    return ""


def _pod_troubles(pods: list[JsonObject], revision: str, events: list[JsonObject], *, crashes: bool) -> Iterator[Trouble]:
    for pod in pods:
        name = str(metadata_of(pod).get("name") or "")
        for fault in container_faults(pod):
            if fault.kind is FaultKind.CRASH and not crashes:
                continue  # how often a Job's pod may crash is the Job's own business
            words = f"pod {name}, container {fault.container} ({fault.image}): {fault.reason}"
            yield Trouble(
                kind=TroubleKind(fault.kind.value),
                revision=revision,
                reason=fault.reason,
                message=f"{words}: {fault.message}" if fault.message else words,
                pod=name,
                container=fault.container,
                image=fault.image,
                hint=_pull_hint(pod, fault.image, fault.message, events) if fault.kind is FaultKind.PULL else "",
                since=fault.since or not_ready_since(pod),
            )
        unscheduled = scheduling_words(pod)
        if unscheduled:
            message = f"pod {name}: {unscheduled.message}" if unscheduled.message else f"pod {name} has no node yet"
            scheduled = condition_of(pod, "PodScheduled")
            yield Trouble(
                TroubleKind.UNSCHEDULABLE, revision, unscheduled.reason, message, pod=name, since=scheduled.since if scheduled else ""
            )


def _pull_hint(pod: JsonObject, image: str, message: str, events: list[JsonObject]) -> str:
    said = [str(event.get("message") or "") for event in events if _is_about(event, pod)]
    secrets = [str(each.get("name")) for each in sequence(spec_of(pod), "imagePullSecrets") if isinstance(each, dict)]
    namespace = str(metadata_of(pod).get("namespace") or "")
    return explain_pull(image, [message, *said], namespace=namespace, pull_secrets=secrets).hint


def _is_about(event: JsonObject, obj: JsonObject) -> bool:
    about, metadata = mapping(event, "involvedObject"), metadata_of(obj)
    if about.get("uid") and metadata.get("uid"):
        return bool(about["uid"] == metadata["uid"])
    return about.get("kind") == obj.get("kind", "Pod") and about.get("name") == metadata.get("name")


def _first_time_of(event: JsonObject) -> str:
    return str(event.get("firstTimestamp") or event.get("eventTime") or "")


def _time_of(event: JsonObject) -> str:
    """RFC 3339 in UTC sorts as text does; newer controllers write eventTime, and the series' last."""
    series = mapping(event, "series")
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")
