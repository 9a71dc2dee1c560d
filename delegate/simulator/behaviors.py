"""How simulated pods behave, by rule: an annotation, else a word that is an image's tag, else they come up.

Annotation `simulator.delegate.dev/behavior` (on the pod or its template):

- `run` (default): ready after a moment; pods of Jobs complete instead
- `complete`, `fail`: ends with exit code 0 or 1 after a moment
- `crash`: starts and dies, over and over (CrashLoopBackOff); image tags `crash`
- `broken`: the image can't be pulled (ImagePullBackOff); image tags `broken`
- `unschedulable`: fits no node; image tags `unschedulable`
- `never-ready`: runs, but never becomes ready; image tags `never-ready`
- `hang`: runs for ever, also in a Job

`fail`, `hang` and `complete` work as image tags too. Annotation `simulator.delegate.dev/ready-after` (seconds) says when a pod
becomes ready or ends; `simulator.delegate.dev/log` what its containers print.
"""

from typing import Literal, get_args

from delegate.model.resources import JsonObject

Behavior = Literal["run", "complete", "fail", "crash", "broken", "unschedulable", "never-ready", "hang"]
BEHAVIOR = "simulator.delegate.dev/behavior"
READY_AFTER = "simulator.delegate.dev/ready-after"
LOG = "simulator.delegate.dev/log"
READY_SECONDS = 0.2
JOB_SECONDS = 0.4


def behavior_of(pod: JsonObject) -> Behavior:
    annotated = (pod["metadata"].get("annotations") or {}).get(BEHAVIOR)
    named = [annotated] if annotated else [_tag(container.get("image", "")) for container in pod["spec"].get("containers") or ()]
    for word in named:
        for known in get_args(Behavior):
            if word == known:
                found: Behavior = known
                return found
    return "run" if pod["spec"].get("restartPolicy", "Always") == "Always" else "complete"


def _tag(image: str) -> str:
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def seconds_of(pod: JsonObject) -> float:
    """How long a pod takes until it is ready or over."""
    text = (pod["metadata"].get("annotations") or {}).get(READY_AFTER, "")
    try:
        return max(float(text), 0.0)
    except ValueError:
        return READY_SECONDS if behavior_of(pod) == "run" else JOB_SECONDS
