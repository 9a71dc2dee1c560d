"""The set of the new version: a second Deployment beside the stable one, and who would see its pods."""

import copy
from collections.abc import Iterable, Mapping

import msgspec

from delegate.model.inventory import APPLICATION_LABEL
from delegate.model.resources import JsonObject
from delegate.model.rollouts.errors import OverlapError, UpdateRuleError
from delegate.model.rollouts.journals import JOURNAL_LABEL

TRACK_LABEL = "delegate.gitops/track"
FENCE_ANNOTATION = "delegate.gitops/fence"
_CANARY = "canary"
_LONGEST_VALUE = 63
_LONGEST_NAME = 63


def canary_name(workload: str) -> str:
    return f"{workload[: _LONGEST_NAME - len(_CANARY) - 1]}-{_CANARY}"


def label_selector(labels: Mapping[str, str]) -> str:
    """As lists of the API take it."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def restarts_of(pods: Iterable[JsonObject]) -> int:
    """How often containers of these pods have been restarted."""
    return sum(int(status.get("restartCount") or 0) for pod in pods for status in (pod.get("status") or {}).get("containerStatuses") or ())


def selects(selector: JsonObject, labels: Mapping[str, str]) -> bool:
    """Whether a label selector (`matchLabels`, `matchExpressions`) matches labels. An empty one matches everything."""
    wanted: JsonObject = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions") or ())


def _holds(expression: JsonObject, labels: Mapping[str, str]) -> bool:
    key, values = str(expression.get("key")), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


class Tracks(msgspec.Struct, frozen=True):
    """The labels of the new pods and the selector of their set. `overlaps`: the stable set's selector matches them too."""

    labels: dict[str, str]
    selector: dict[str, str]
    services: tuple[str, ...]
    overlaps: bool


OWN_TRACKS = Tracks({}, {}, (), overlaps=False)
"""Of new pods inside the stable set: nothing tells them apart but their revision."""


def tracks_of(stable: JsonObject, services: Iterable[JsonObject], *, separate: bool) -> Tracks:
    """Labels by which the new pods are told from the old ones.

    Pods alone share the load behind the Services that select the stable ones, so the new pods have what those select by, and differ in
    another label of the stable selector where there is one. With `separate` (a router has a Service of its own for each set) no Service of
    the stable pods may select the new ones. Raises OverlapError where that can't be.
    """
    spec = stable.get("spec") or {}
    selector = spec.get("selector") or {}
    matched: dict[str, str] = selector.get("matchLabels") or {}
    old = {str(key): str(value) for key, value in (((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}).items()}
    fronts = [each for each in services if _selector_of(each) and selects({"matchLabels": _selector_of(each)}, old)]
    used = {key for each in fronts for key in _selector_of(each)}
    free = sorted(key for key in matched if separate or key not in used)
    labels = {**old, TRACK_LABEL: _CANARY}
    for key in free if separate else free[:1]:
        labels[key] = _marked(matched[key])
    own = {**{key: labels[key] for key in matched if key in labels}, TRACK_LABEL: _CANARY}
    if separate:
        stable_name = _name_of(stable)
        caught = [_name_of(each) for each in fronts if selects({"matchLabels": _selector_of(each)}, labels)]
        if caught or selects(selector, labels):
            raise OverlapError(
                f"new pods get load past the router: both versions have the labels that {', '.join(caught) or stable_name} selects by",
                hint="let the Deployment select its pods by a label that the Service selects by too",
            )
    return Tracks(labels, own, tuple(_name_of(each) for each in fronts), selects(selector, labels))


def check_overlap(stable: str, tracks: Tracks, autoscalers: Iterable[str]) -> None:
    """Raises OverlapError where an autoscaler of the stable set would count the new pods as its own."""
    scaled_by = ", ".join(autoscalers)
    if tracks.overlaps and scaled_by:
        raise OverlapError(
            f"the autoscaler {scaled_by} would count the new pods: the selector of Deployment {stable} matches them too",
            hint="give the Deployment a label of its own in its selector (such as track: stable) that its Service does not select by",
        )


def check_surge(stable: JsonObject) -> None:
    """Raises UpdateRuleError where the Deployment's own rule lets no pod stand beside the old ones: a volume or a port may be why."""
    strategy = (stable.get("spec") or {}).get("strategy") or {}
    surge = (strategy.get("rollingUpdate") or {}).get("maxSurge")
    if strategy.get("type") == "Recreate" or surge in (0, "0", "0%"):
        rule = "strategy Recreate" if strategy.get("type") == "Recreate" else f"maxSurge {surge}"
        raise UpdateRuleError(
            f"Deployment {_name_of(stable)} lets no pod stand beside its old ones ({rule}): a new one could only take an old one's place",
            hint="allow a surge (strategy RollingUpdate with a maxSurge of 1 or more) where both versions may run at once",
        )


def canary_deployment(
    stable: JsonObject,
    template: JsonObject,
    tracks: Tracks,
    *,
    application: str,
    count: int,
    min_ready_seconds: float,
    fence: int,
) -> JsonObject:
    """The second Deployment: the new template under the new labels, `count` pods, everything else as the stable one has it."""
    metadata, spec = stable["metadata"], stable["spec"]
    template = copy.deepcopy(template)
    template_metadata = {key: value for key, value in (template.get("metadata") or {}).items() if key in ("annotations",) and value}
    template["metadata"] = {**template_metadata, "labels": dict(tracks.labels)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": canary_name(metadata["name"]),
            "namespace": metadata["namespace"],
            "labels": {APPLICATION_LABEL: application, JOURNAL_LABEL: _CANARY},
            "annotations": {FENCE_ANNOTATION: str(fence)},
        },
        "spec": {
            "replicas": count,
            "minReadySeconds": max(int(spec.get("minReadySeconds") or 0), -int(-min_ready_seconds // 1)),
            "revisionHistoryLimit": 0,
            "selector": {"matchLabels": dict(tracks.selector)},
            "template": template,
        },
    }


def fence_of(body: JsonObject) -> int:
    text = str(((body.get("metadata") or {}).get("annotations") or {}).get(FENCE_ANNOTATION, "0"))
    return int(text) if text.isdigit() else 0


def wanted_replicas(body: JsonObject) -> int:
    replicas = (body.get("spec") or {}).get("replicas")
    return 1 if replicas is None else int(replicas)


def available(body: JsonObject) -> int:
    """Ready pods that stayed ready long enough; 0 where the controller has not seen the newest wish."""
    status = body.get("status") or {}
    observed = int(status.get("observedGeneration") or 0) >= int((body.get("metadata") or {}).get("generation") or 0)
    return int(status.get("availableReplicas") or 0) if observed else 0


def serving(body: JsonObject) -> int:
    """Ready pods as the controller last saw them, for however short a time and of whatever wish."""
    return int((body.get("status") or {}).get("readyReplicas") or 0)


def is_rolled_out(body: JsonObject) -> bool:
    """Whether all that is wanted runs, in its newest version, and nothing else."""
    status, wanted = body.get("status") or {}, wanted_replicas(body)
    counts = [int(status.get(field) or 0) for field in ("replicas", "updatedReplicas", "availableReplicas")]
    return available(body) == wanted and counts == [wanted] * 3


def _marked(value: str) -> str:
    return f"{value[: _LONGEST_VALUE - len(_CANARY) - 1].rstrip('-_.')}-{_CANARY}" if value else _CANARY


def _selector_of(service: JsonObject) -> dict[str, str]:
    found: dict[str, str] = (service.get("spec") or {}).get("selector") or {}
    return found


def _name_of(body: JsonObject) -> str:
    return str((body.get("metadata") or {}).get("name") or "")
