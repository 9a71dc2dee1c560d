"""The smoke test of a canary: what it may be, and the Job that runs a command of the new version before that gets any load. Pure.

The Job's pod carries labels of ours alone, so that no Service selects it and no set adopts it. What the new version reads (environment,
configuration, volumes, account) it reads as well; what keeps a server running (probes, ports, sidecars) it has not.
"""

import copy
from collections.abc import Iterable, Sequence

from delegate.foundation.quantities import parse_duration
from delegate.model.inventory import APPLICATION_LABEL
from delegate.model.resources import JsonObject
from delegate.model.rollouts.errors import CanarySpecError
from delegate.model.rollouts.journals import JOURNAL_LABEL
from delegate.model.strict import Strict
from delegate.model.verification.checks import Fault, faults_of_names

_LONGEST_NAME = 63
_LONGEST_WORDS = 400
_GRACE_SECONDS = 30
"""The Job ends itself later than we give up, for the case that nobody is there to delete it."""
_OF_THE_CONTAINER = ("name", "env", "envFrom", "volumeMounts", "resources", "securityContext", "imagePullPolicy", "workingDir")
_OF_THE_POD = (
    "serviceAccountName",
    "automountServiceAccountToken",
    "imagePullSecrets",
    "securityContext",
    "volumes",
    "nodeSelector",
    "tolerations",
    "affinity",
    "dnsPolicy",
    "dnsConfig",
    "hostAliases",
    "priorityClassName",
    "runtimeClassName",
)
_UNSTARTABLE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError")


class SmokeTest(Strict, frozen=True):
    """What the new version has to pass before it gets any load: a `command` in a Job, or checks (`verify`) of its first pod.

    `image` empty: the new version's own, that of its container `container` or its first one.
    """

    command: tuple[str, ...] = ()
    image: str = ""
    container: str = ""
    timeout: str = "2m"
    verify: tuple[str, ...] = ()

    @property
    def timeout_seconds(self) -> float:
        return parse_duration(self.timeout)


def faults_of_smoke_test(test: SmokeTest, *, known: Sequence[str], routed: bool) -> Iterable[Fault]:
    """Field (below smokeTest), words, hint. `known`: the checks that there are; `routed`: whether a router keeps load from new pods."""
    if bool(test.command or test.image) == bool(test.verify):
        yield "command", "a smoke test is a command, with or without an image of its own, or checks to verify", "give one of the two"
    try:
        if test.timeout_seconds <= 0:
            yield "timeout", "it leaves no time", "write a number and a unit, such as 2m"
    except ValueError as error:
        yield "timeout", str(error), "write a number and a unit, such as 2m"
    yield from faults_of_names("verify", test.verify, known)
    if test.verify and not routed:
        words = "without a router the new pods get load as soon as they are ready, so they can't be looked at before"
        yield "verify", words, "give a command, or route by gatewayAPI, istio or nginx"


def smoke_job_name(canary: str, release: str) -> str:
    """By the release: whoever comes after a crash finds the Job of this one, and of no other."""
    ending = f"-smoke-{release[:10]}"
    return canary[: _LONGEST_NAME - len(ending)].rstrip("-.") + ending


def container_of(template: JsonObject, test: SmokeTest) -> JsonObject:
    """The one that the test stands in for. Raises CanarySpecError."""
    containers: list[JsonObject] = template["spec"]["containers"]
    for each in containers:
        if test.container in ("", each["name"]):
            return each
    raise CanarySpecError(
        f"spec.smokeTest.container: the new version has no container {test.container!r}",
        hint=f"it has {', '.join(str(each['name']) for each in containers)}",
    )


def with_variable(template: JsonObject, name: str, value: str) -> JsonObject:
    """A copy in whose containers the environment says so."""
    changed = copy.deepcopy(template)
    for container in changed["spec"]["containers"]:
        kept = [each for each in container.get("env") or () if each.get("name") != name]
        container["env"] = [*kept, {"name": name, "value": value}]
    return changed


def smoke_job(template: JsonObject, test: SmokeTest, *, name: str, namespace: str, application: str, owner: JsonObject) -> JsonObject:
    """Raises CanarySpecError where the template has no such container. `owner`: the ConfigMap of the journal that will hold its outcome.

    It has no time to live: however long nobody was there to read it, its outcome is there. Whoever deletes the journal takes it along.
    """
    spec, found = template["spec"], container_of(template, test)
    container = {field: copy.deepcopy(found[field]) for field in _OF_THE_CONTAINER if field in found}
    container |= {"image": test.image or found["image"], "terminationMessagePolicy": "FallbackToLogsOnError"}
    if test.command:
        container["command"] = list(test.command)
    labels = {APPLICATION_LABEL: application, JOURNAL_LABEL: "smoke-test"}
    pod = {field: copy.deepcopy(spec[field]) for field in _OF_THE_POD if field in spec}
    if claims := _claims_of(container, pod):
        pod["volumes"] = [*(pod.get("volumes") or ()), *({"name": name, "emptyDir": {}} for name in claims)]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [reference]},
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": int(test.timeout_seconds) + _GRACE_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": {**pod, "restartPolicy": "Never", "containers": [container]}},
        },
    }


def _claims_of(container: JsonObject, pod: JsonObject) -> list[str]:
    """What is mounted that no volume of the template is: a StatefulSet's claims are its pods' own, so a test gets empty ones."""
    volumes = {each["name"] for each in pod.get("volumes") or ()}
    return [name for name in dict.fromkeys(each["name"] for each in container.get("volumeMounts") or ()) if name not in volumes]


def has_passed(job: JsonObject) -> bool | None:
    """None while it runs."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            return bool(condition["type"] == "Complete")
    return None


def failure_of(job: JsonObject, pods: Iterable[JsonObject]) -> str:
    """Why it failed, in the words of its pod: exit code and what it printed last; else in the Job's own."""
    for pod in pods:
        for status in (pod.get("status") or {}).get("containerStatuses") or ():
            ended = (status.get("state") or {}).get("terminated")
            if ended and ended.get("exitCode"):
                said = str(ended.get("message") or "").strip()[-_LONGEST_WORDS:]
                return f"it ended with {ended['exitCode']}" + (f": {said}" if said else "")
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Failed" and condition.get("status") == "True":
            return f"{condition.get('reason', 'Failed')}: {condition.get('message', '')}".rstrip(": ")
    return "nobody says why"


def what_keeps_it(pods: Iterable[JsonObject]) -> str:
    """Why its pod can't start; empty while it may."""
    for pod in pods:
        for status in (pod.get("status") or {}).get("containerStatuses") or ():
            waiting = (status.get("state") or {}).get("waiting") or {}
            if waiting.get("reason") in _UNSTARTABLE:
                return f"{waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
    return ""
