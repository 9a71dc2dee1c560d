"""Pod: what its containers wait for, and how they ended."""

import enum
from collections.abc import Iterator

import msgspec

from delegate.model.health.conditions import Circumstances, condition_of, integer, mapping, sequence, spec_of, status_of
from delegate.model.health.verdicts import HEALTHY, Health, HealthStatus, Subject, degraded, progressing
from delegate.model.resources import JsonObject


class FaultKind(enum.StrEnum):
    """What keeps a container from running. The reasons that a kubelet gives go to and fro inside one kind."""

    PULL = "pull"
    CONFIG = "config"
    CRASH = "crash"


_PULL_REASONS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
# One restart is a start-up race with what it depends on; a container that runs after its second is in a crash loop.
_RESTARTS_OF_A_LOOP = 2


class ContainerFault(msgspec.Struct, frozen=True):
    """A container that can't run: the kubelet's reason and words; `since` where it says when a run ended."""

    kind: FaultKind
    container: str
    image: str
    reason: str
    message: str
    since: str = ""


def assess_pod(obj: JsonObject, _circumstances: Circumstances) -> Health:
    """By phase; a container that can't start or crashes is Degraded at once, one that can't be scheduled is Progressing."""
    status = status_of(obj)
    phase = status.get("phase")
    if phase == "Succeeded":
        return HEALTHY
    if phase == "Failed":
        return degraded(str(status.get("reason") or "PodFailed"), str(status.get("message") or "") or _ending(obj))
    fault = next(container_faults(obj), None)
    if fault:
        words = f"container {fault.container} ({fault.image}): {fault.message}".rstrip(": ")
        subject = Subject(str(mapping(obj, "metadata").get("name") or ""), fault.container, fault.image)
        return Health(HealthStatus.DEGRADED, fault.reason, words, fault.since or not_ready_since(obj) or msgspec.UNSET, subject)
    unscheduled = scheduling_words(obj)
    if unscheduled:
        return unscheduled
    if phase != "Running":
        return progressing("PodPending" if phase == "Pending" else "PhaseUnknown", str(status.get("message") or ""))
    if spec_of(obj).get("restartPolicy", "Always") != "Always":
        return progressing("PodRunning", "runs until it ends")
    ready = condition_of(obj, "Ready")
    if ready and ready.status == "True":
        return HEALTHY
    return progressing(ready.reason if ready and ready.reason else "PodNotReady", ready.message if ready else "")


def scheduling_words(obj: JsonObject) -> Health | None:
    """Progressing with the scheduler's words, for a pod that has no node yet."""
    scheduled = condition_of(obj, "PodScheduled")
    if scheduled and scheduled.status == "False":
        return progressing(scheduled.reason or "Unschedulable", scheduled.message)
    return None


def not_ready_since(pod: JsonObject) -> str:
    """A kubelet does not say since when it fails to pull; the pod is not ready since then at the latest."""
    ready = condition_of(pod, "ContainersReady") or condition_of(pod, "Ready")
    return ready.since if ready and ready.status != "True" else ""


def container_faults(obj: JsonObject) -> Iterator[ContainerFault]:
    """The containers of a pod that can't be pulled, created or kept running, init containers first."""
    images = {
        str(container.get("name")): str(container.get("image") or "")
        for field in ("initContainers", "containers")
        for container in sequence(spec_of(obj), field)
        if isinstance(container, dict)
    }
    status = status_of(obj)
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in sequence(status, field):
            if isinstance(container, dict):
                name = str(container.get("name") or "")
                fault = _fault(container, name, images.get(name) or str(container.get("image") or ""))
                if fault:
                    yield fault


def _fault(container: JsonObject, name: str, image: str) -> ContainerFault | None:
    state = mapping(container, "state")
    waiting, last = mapping(state, "waiting"), mapping(mapping(container, "lastState"), "terminated")
    reason, message = str(waiting.get("reason") or ""), str(waiting.get("message") or "")
    restarts = integer(container, "restartCount")
    if reason in _PULL_REASONS:
        return ContainerFault(FaultKind.PULL, name, image, reason, message)
    if reason == "CrashLoopBackOff":
        return ContainerFault(FaultKind.CRASH, name, image, reason, "; ".join(filter(None, (_exit_words(last), message))), _end(last))
    if reason.startswith("Err") or reason.endswith(("Error", "BackOff")):
        return ContainerFault(FaultKind.CONFIG, name, image, reason, message)
    ended = mapping(state, "terminated")
    if restarts and integer(ended, "exitCode"):
        return ContainerFault(FaultKind.CRASH, name, image, str(ended.get("reason") or "Error"), _exit_words(ended), _end(ended))
    runs_unready = isinstance(state.get("running"), dict) and not container.get("ready")
    if runs_unready and restarts >= _RESTARTS_OF_A_LOOP and integer(last, "exitCode"):
        return ContainerFault(FaultKind.CRASH, name, image, str(last.get("reason") or "Error"), _exit_words(last), _end(last))
    return None


def _exit_words(terminated: JsonObject) -> str:
    if not terminated:
        return ""
    words = f"exited with {integer(terminated, 'exitCode')}"
    reason = str(terminated.get("reason") or "")
    return f"{words} ({reason})" if reason and reason != "Error" else words


def _end(terminated: JsonObject) -> str:
    return str(terminated.get("finishedAt") or "")


def _ending(obj: JsonObject) -> str:
    """How the containers of a failed pod ended, in words."""
    endings = []
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in sequence(status_of(obj), field):
            ended = mapping(mapping(container, "state"), "terminated") if isinstance(container, dict) else {}
            if integer(ended, "exitCode"):
                endings.append(f"container {container.get('name')} {_exit_words(ended)}")
    return "; ".join(endings)
