"""Hooks: objects that run around a sync and are no part of what is wanted. Argo CD's annotations mean here what they mean there.

A hook is no drift, is never pruned and is in no inventory. It runs in its phases, in each by wave, and the sync goes on once all of
a wave have ended well. Helm's hook annotations are read where no other says what an object is.
"""

import enum
import hashlib
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from delegate.foundation.errors import DelegateError
from delegate.model.errors import AnnotationError, located, raise_all
from delegate.model.health.rules import assess
from delegate.model.health.verdicts import Health, HealthStatus
from delegate.model.names import generated_name
from delegate.model.resources import JsonObject, Manifest
from delegate.model.waves import WAVE_ANNOTATIONS, wave_of

HOOK_OF_LABEL = "delegate.gitops/hook-of"
OPERATION_ANNOTATION = "delegate.gitops/operation"
FINALIZER = "delegate.gitops/hook"
"""Keeps a hook that was taken away by its own time to live readable until its outcome was seen."""

_HOOK = ("delegate.gitops/hook", "argocd.argoproj.io/hook")
_POLICY = ("delegate.gitops/hook-delete-policy", "argocd.argoproj.io/hook-delete-policy")
_HELM_HOOK, _HELM_POLICY, _HELM_WEIGHT = "helm.sh/hook", "helm.sh/hook-delete-policy", "helm.sh/hook-weight"


E = TypeVar("E", bound=enum.StrEnum)


class Phase(enum.StrEnum):
    PRE_SYNC = "PreSync"
    SYNC = "Sync"
    POST_SYNC = "PostSync"
    SYNC_FAIL = "SyncFail"
    PRE_DELETE = "PreDelete"
    POST_DELETE = "PostDelete"
    SKIP = "Skip"


class DeletePolicy(enum.StrEnum):
    BEFORE_CREATION = "BeforeHookCreation"
    SUCCEEDED = "HookSucceeded"
    FAILED = "HookFailed"


_FROM_HELM: Mapping[str, Phase | None] = {
    "pre-install": Phase.PRE_SYNC,
    "pre-upgrade": Phase.PRE_SYNC,
    "post-install": Phase.POST_SYNC,
    "post-upgrade": Phase.POST_SYNC,
    "pre-delete": Phase.PRE_DELETE,
    "post-delete": Phase.POST_DELETE,
    "crd-install": None,  # an ordinary object
    "pre-rollback": Phase.SKIP,
    "post-rollback": Phase.SKIP,
    "test": Phase.SKIP,
    "test-success": Phase.SKIP,
    "test-failure": Phase.SKIP,
}
_POLICIES_FROM_HELM = {
    "before-hook-creation": DeletePolicy.BEFORE_CREATION,
    "hook-succeeded": DeletePolicy.SUCCEEDED,
    "hook-failed": DeletePolicy.FAILED,
}


class Hook(msgspec.Struct, frozen=True):
    """A manifest in one of its phases. `index` is its place among the hooks of its set."""

    manifest: Manifest
    phase: Phase
    wave: int
    policies: frozenset[DeletePolicy]
    index: int = 0


class Hooked(msgspec.Struct, frozen=True):
    """A set taken apart: what is wanted, and what runs around it, in order of phase and wave."""

    ordinary: tuple[Manifest, ...]
    hooks: tuple[Hook, ...] = ()
    notices: tuple[str, ...] = ()

    def of_phase(self, phase: Phase) -> tuple[Hook, ...]:
        return tuple(hook for hook in self.hooks if hook.phase is phase)


def take_hooks_apart(manifests: Iterable[Manifest]) -> Hooked:
    """Raises the faults of all hook annotations of a set at once."""
    ordinary, hooks, notices, errors = list[Manifest](), list[Hook](), list[str](), list[DelegateError]()
    for manifest in manifests:
        try:
            phases = phases_of(manifest)
            if phases is None:
                ordinary.append(manifest)
                continue
            if Phase.SKIP in phases:
                notices.append(
                    f"{manifest.origin}: {manifest.key} is never applied: it is annotated Skip or a hook that a sync does not run"
                )
                continue
            wave, policies = _wave_of(manifest), policies_of(manifest)
            hooks += [Hook(manifest, phase, wave, policies) for phase in sorted(phases, key=list(Phase).index)]
        except AnnotationError as error:
            errors.append(error)
    raise_all(errors)
    hooks.sort(key=lambda hook: (list(Phase).index(hook.phase), hook.wave, hook.manifest.key))
    numbered = (msgspec.structs.replace(hook, index=index) for index, hook in enumerate(hooks))
    return Hooked(tuple(ordinary), tuple(numbered), tuple(notices))


def phases_of(manifest: Manifest) -> frozenset[Phase] | None:
    """The phases that a manifest is a hook of, or None for an ordinary object."""
    if not manifest.annotations:
        return None
    for name in _HOOK:
        words = _words(manifest, name)
        if words:
            return frozenset(_named(Phase, word, name, manifest) for word in words)
    found = set()
    for word in _words(manifest, _HELM_HOOK):
        if word not in _FROM_HELM:
            raise located(AnnotationError, manifest, f"{_HELM_HOOK}: {word!r} is no hook", hint=f"known are {', '.join(_FROM_HELM)}")
        phase = _FROM_HELM[word]
        if phase is None:
            return None
        found.add(phase)
    if len(found) > 1:
        found.discard(Phase.SKIP)  # one of its hooks is run, those that a sync has not are not
    return frozenset(found) or None


def policies_of(manifest: Manifest) -> frozenset[DeletePolicy]:
    """When a hook is deleted: before its next creation where it doesn't say."""
    for name in _POLICY:
        words = _words(manifest, name)
        if words:
            return frozenset(_named(DeletePolicy, word, name, manifest) for word in words)
    found = {_POLICIES_FROM_HELM[word] for word in _words(manifest, _HELM_POLICY) if word in _POLICIES_FROM_HELM}
    return frozenset(found) or frozenset({DeletePolicy.BEFORE_CREATION})


def operation_of(manifests: Iterable[str], application: str, revision: str) -> str:
    """What tells one sync from another by its content: 16 hex digits over the hashes of all that it applies and runs."""
    digest = hashlib.sha256("\n".join((application, revision, *sorted(manifests))).encode())
    return digest.hexdigest()[:16]


def hook_body(hook: Hook, applyset: str, operation: str) -> JsonObject:
    """What is created for a hook in one operation. A generateName becomes a name that the same operation makes again."""
    metadata = dict(hook.manifest.metadata)
    prefix = str(metadata.pop("generateName", ""))
    if not metadata.get("name"):
        digest = hashlib.sha256(f"{operation}.{hook.phase}.{hook.index}".encode()).hexdigest()[:8]
        metadata["name"] = generated_name(prefix, digest)
    metadata["labels"] = {**(metadata.get("labels") or {}), HOOK_OF_LABEL: applyset}
    metadata["annotations"] = {**(metadata.get("annotations") or {}), OPERATION_ANNOTATION: f"{operation}.{hook.phase}"}
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), FINALIZER]
    return {**hook.manifest.body, "metadata": metadata}


def belongs_to(metadata: JsonObject, hook: Hook, operation: str) -> bool:
    """Whether a live object is this hook's run of this very operation, by whichever attempt it was created."""
    return bool((metadata.get("annotations") or {}).get(OPERATION_ANNOTATION) == f"{operation}.{hook.phase}")


def operation_named_by(metadata: JsonObject) -> str:
    """The operation that a live hook ran in; empty where it doesn't say."""
    return str((metadata.get("annotations") or {}).get(OPERATION_ANNOTATION) or "").rpartition(".")[0]


def hook_outcome(body: JsonObject | None) -> Health | None:
    """How a hook has ended: Healthy, Degraded, Missing, or None while it runs. Jobs and Pods end by themselves, others once healthy."""
    deleted = body is not None and bool(body["metadata"].get("deletionTimestamp"))
    if body is not None:
        # Our finalizer keeps one that is being deleted: its deletion says nothing about how it ended.
        body = {**body, "metadata": {key: value for key, value in body["metadata"].items() if key != "deletionTimestamp"}}
    health = assess(body)
    if body is not None and body.get("kind") == "Pod" and body.get("apiVersion") == "v1":
        phase = (body.get("status") or {}).get("phase")
        if phase in ("Succeeded", "Failed"):
            return Health(HealthStatus.HEALTHY) if phase == "Succeeded" else Health(HealthStatus.DEGRADED, "PodFailed", health.message)
        return _LOST if deleted and not body["metadata"].get("deletionGracePeriodSeconds") else None
    ended = (HealthStatus.HEALTHY, HealthStatus.DEGRADED, HealthStatus.MISSING)
    if health.status in ended:
        return health
    # A Job that is being deleted starts no pod any more: without one that still runs it never ends.
    lost = deleted and body is not None and body.get("kind") == "Job" and not (body.get("status") or {}).get("active")
    return _LOST if lost else None


_LOST = Health(HealthStatus.MISSING, "Deleted", "it was deleted before it ended")


def _wave_of(manifest: Manifest) -> int:
    if any(name in manifest.annotations for name in WAVE_ANNOTATIONS):
        return wave_of(manifest)
    weight = str(manifest.annotations.get(_HELM_WEIGHT, "0"))
    try:
        return int(weight)
    except ValueError:
        raise located(AnnotationError, manifest, f"{_HELM_WEIGHT}: {weight!r} is no integer", hint='write one in quotes, as "5"') from None


def _words(manifest: Manifest, annotation: str) -> list[str]:
    return [word for word in (part.strip() for part in str(manifest.annotations.get(annotation, "")).split(",")) if word]


def _named(kind: type[E], word: str, annotation: str, manifest: Manifest) -> E:
    try:
        return kind(word)
    except ValueError:
        known = ", ".join(member.value for member in kind)
        raise located(AnnotationError, manifest, f"{annotation}: {word!r} is not known", hint=f"known are {known}") from None
