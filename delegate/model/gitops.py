"""Foreign owners of objects: whose declaration an object comes from, whether it sets it back, and how it is kept from that. Pure.

Argo CD names the Application in an annotation of each object, Flux its Kustomization or HelmRelease in labels. A pin turns off what sets
back (automated sync, reconciliation), and an annotation of the owner records whose it is, until when, and what stood there before.
"""

import datetime as dt
import json
from typing import NamedTuple

import msgspec

from delegate.foundation.quantities import parse_duration
from delegate.model.resources import GroupKind, JsonObject, ResourceKey
from delegate.model.strict import Strict

PIN_ANNOTATION = "delegate.gitops/pinned"
APPLICATION = GroupKind("argoproj.io", "Application")
KUSTOMIZATION = GroupKind("kustomize.toolkit.fluxcd.io", "Kustomization")
HELM_RELEASE = GroupKind("helm.toolkit.fluxcd.io", "HelmRelease")
GIT_REPOSITORY = GroupKind("source.toolkit.fluxcd.io", "GitRepository")
DEFAULT_ARGO_NAMESPACE = "argocd"
DEFAULT_PIN = "1h"

_WORDS = {APPLICATION: "the Argo CD Application", KUSTOMIZATION: "the Flux Kustomization", HELM_RELEASE: "the Flux HelmRelease"}
_TRACKING = "argocd.argoproj.io/tracking-id"
_INSTANCE = "app.kubernetes.io/instance"
_KEPT_OUT = "kustomize.toolkit.fluxcd.io/reconcile"
_SELF_HEAL_SECONDS = 5.0
"""How soon Argo CD answers a live change, unless its controller is told otherwise."""
_SHORTEST_WATCH_SECONDS = 10.0
_IN_CLUSTER = ("", "https://kubernetes.default.svc")


class GitOpsSpec(Strict, frozen=True):
    """What is agreed for a foreign owner. `pin`: it may be kept from setting back, at most `for` so long.

    `namespace`: where Argo CD's Applications are whose objects don't say it.
    """

    pin: bool = False
    duration: str = msgspec.field(default=DEFAULT_PIN, name="for")
    namespace: str = DEFAULT_ARGO_NAMESPACE

    @property
    def seconds(self) -> float:
        return parse_duration(self.duration)


class OwnerMark(NamedTuple):
    """What an object says of its owner. `sure`: it says it for nobody else; a label that others use as well is none such."""

    kind: GroupKind
    namespace: str
    name: str
    sure: bool = True

    def __str__(self) -> str:
        return f"{_WORDS[self.kind]} {self.namespace}/{self.name}"


class Pin(msgspec.Struct, frozen=True, rename="camel"):
    """Who keeps an owner from setting back, until when (RFC 3339), why, and what stood there before."""

    task: str
    application: str
    until: str
    reason: str
    was: JsonObject | bool | None = None

    def is_over(self, now: dt.datetime) -> bool:
        return dt.datetime.fromisoformat(self.until) <= now


def mark_of(key: ResourceKey, metadata: JsonObject, argo_namespace: str) -> OwnerMark | None:
    """Whose an object is; None for nobody's, and for one that its owner is told to leave alone."""
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    if str({**annotations, **labels}.get(_KEPT_OUT, "")).lower() == "disabled":
        return None
    for kind in (HELM_RELEASE, KUSTOMIZATION):
        if name := labels.get(f"{kind.group}/name"):
            return OwnerMark(kind, str(labels.get(f"{kind.group}/namespace") or key.namespace), str(name))
    if tracking := annotations.get(_TRACKING):
        return _tracked(key, str(tracking), argo_namespace)
    if instance := labels.get(_INSTANCE):
        return OwnerMark(APPLICATION, argo_namespace, str(instance), sure=False)
    return None


def _tracked(key: ResourceKey, tracking: str, argo_namespace: str) -> OwnerMark | None:
    """`APP:GROUP/KIND:NAMESPACE/NAME`; of another object where somebody copied it, and then it means nothing to Argo CD either."""
    application, _, rest = tracking.partition(":")
    if rest and rest != f"{key.group}/{key.kind}:{key.namespace}/{key.name}":
        return None
    namespace, _, name = application.rpartition("_")
    return OwnerMark(APPLICATION, namespace or argo_namespace, name)


def owns(mark: OwnerMark, owner: JsonObject, key: ResourceKey) -> bool:
    """Whether the owner that a mark names is that of the object: a mark that is not sure needs the owner's own word."""
    if mark.kind != APPLICATION:
        return True
    destination = (owner.get("spec") or {}).get("destination") or {}
    if destination.get("server", "") not in _IN_CLUSTER or destination.get("name", "in-cluster") not in ("", "in-cluster"):
        return False
    if mark.sure:
        return True
    listed = (owner.get("status") or {}).get("resources") or ()
    wanted = (key.group, key.kind, key.namespace, key.name)
    return any(tuple(each.get(field, "") for field in ("group", "kind", "namespace", "name")) == wanted for each in listed)


def sets_back(mark: OwnerMark, owner: JsonObject) -> bool:
    """Whether the owner brings what Git says by itself."""
    spec = owner.get("spec") or {}
    if mark.kind != APPLICATION:
        return spec.get("suspend") is not True
    automated = (spec.get("syncPolicy") or {}).get("automated")
    return automated is not None and automated.get("enabled") is not False


def at_work(mark: OwnerMark, owner: JsonObject) -> bool:
    """Whether it is writing right now: a pin would not stop that."""
    status = owner.get("status") or {}
    if mark.kind == APPLICATION:
        return bool(owner.get("operation")) or (status.get("operationState") or {}).get("phase") in ("Running", "Terminating")
    return any(each.get("type") == "Reconciling" and each.get("status") == "True" for each in status.get("conditions") or ())


def watch_seconds(mark: OwnerMark, owner: JsonObject) -> float:
    """Two of the owner's intervals."""
    interval = _SELF_HEAL_SECONDS
    if mark.kind != APPLICATION:
        try:
            interval = parse_duration(str((owner.get("spec") or {}).get("interval", "")))
        except ValueError:
            interval = 0.0
    return max(_SHORTEST_WATCH_SECONDS, 2 * interval)


def watch_without_owner() -> float:
    """For somebody who may set it back and has left no mark."""
    return _SHORTEST_WATCH_SECONDS


def pin_of(owner: JsonObject) -> Pin | None:
    """None where there is none, or none that can be read."""
    text = ((owner.get("metadata") or {}).get("annotations") or {}).get(PIN_ANNOTATION)
    if not text:
        return None
    try:
        pin = msgspec.json.decode(text, type=Pin)
        dt.datetime.fromisoformat(pin.until)
    except (msgspec.DecodeError, msgspec.ValidationError, ValueError):
        return None
    return pin


def setting_of(mark: OwnerMark, owner: JsonObject) -> JsonObject | bool | None:
    """What a pin replaces, as it stands."""
    spec = owner.get("spec") or {}
    setting: JsonObject | bool | None = (spec.get("syncPolicy") or {}).get("automated") if mark.kind == APPLICATION else spec.get("suspend")
    return setting


def pinning(mark: OwnerMark, owner: JsonObject, pin: Pin) -> JsonObject:
    """The merge patch that pins; refused by the server where the owner has changed since it was read."""
    return _patch(mark, owner, None if mark.kind == APPLICATION else True, msgspec.json.encode(pin).decode())


def unpinning(mark: OwnerMark, owner: JsonObject, pin: Pin) -> JsonObject:
    """The merge patch that gives back what stood there before; what somebody has put there meanwhile stays."""
    return _patch(mark, owner, setting_of(mark, owner) if sets_back(mark, owner) else pin.was, None)


def _patch(mark: OwnerMark, owner: JsonObject, setting: JsonObject | bool | None, annotation: str | None) -> JsonObject:
    spec: JsonObject = {"syncPolicy": {"automated": setting}} if mark.kind == APPLICATION else {"suspend": setting}
    metadata = {"resourceVersion": owner["metadata"]["resourceVersion"], "annotations": {PIN_ANNOTATION: annotation}}
    return {"metadata": metadata, "spec": spec}


def how_to_unpin(mark: OwnerMark, pin: Pin) -> str:
    """The command for people."""
    spec = {"syncPolicy": {"automated": pin.was}} if mark.kind == APPLICATION else {"suspend": pin.was}
    patch = json.dumps({"metadata": {"annotations": {PIN_ANNOTATION: None}}, "spec": spec}, separators=(",", ":"))
    resource = f"{mark.kind.kind.lower()}s.{mark.kind.group}"
    return f"kubectl -n {mark.namespace} patch {resource} {mark.name} --type merge -p '{patch}'"


def maker_of(owner: JsonObject) -> str:
    """Who makes the owner itself, and may set a pin back; empty where nobody says so."""
    metadata = owner.get("metadata") or {}
    for reference in metadata.get("ownerReferences") or ():
        return f"{reference.get('kind')} {reference.get('name')}"
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    if tracking := annotations.get(_TRACKING):
        return f"the Argo CD Application {str(tracking).partition(':')[0]}"
    for kind in (HELM_RELEASE, KUSTOMIZATION):
        if name := labels.get(f"{kind.group}/name"):
            return f"{_WORDS[kind]} {name}"
    return ""


def has_caught_up(mark: OwnerMark, owner: JsonObject, source: JsonObject | None, commit: str) -> bool:
    """Whether the owner has seen that Git is taken back, so that what it would bring is what runs.

    Argo CD compares also where it does not sync, and Synced is its word that both are the same. Flux says which commit its source has.
    """
    status = owner.get("status") or {}
    if mark.kind == APPLICATION:
        asked = "argocd.argoproj.io/refresh" in ((owner.get("metadata") or {}).get("annotations") or {})
        return not asked and (status.get("sync") or {}).get("status") == "Synced"
    artifact = (((source or {}).get("status") or {}).get("artifact") or {}).get("revision", "")
    return bool(commit) and commit in str(artifact)


def source_of(mark: OwnerMark, owner: JsonObject) -> tuple[str, str] | None:
    """Namespace and name of the GitRepository that a Kustomization reads; None for others."""
    reference = (owner.get("spec") or {}).get("sourceRef") or {}
    if mark.kind != KUSTOMIZATION or reference.get("kind") != GIT_REPOSITORY.kind:
        return None
    return str(reference.get("namespace") or mark.namespace), str(reference.get("name", ""))


def refreshing(mark: OwnerMark, now: dt.datetime) -> JsonObject:
    """The merge patch that asks an owner, or its source, to look at Git now."""
    if mark.kind == APPLICATION:
        return {"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}
    return {"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": now.isoformat()}}}


def last_writer(metadata: JsonObject, field: str, ours: str) -> str:
    """Who of others has written `spec.<field>` last, as managedFields say."""
    found = []
    for entry in metadata.get("managedFields") or ():
        fields = ((entry.get("fieldsV1") or {}).get("f:spec") or {}).get(f"f:{field}")
        if fields is not None and entry.get("manager") != ours:
            found.append((str(entry.get("time", "")), str(entry.get("manager", ""))))
    return max(found)[1] if found else ""
