"""The order in which a set is written, and in which it is taken away.

Stages stand before a barrier each: what is in one exists, and does what later ones need of it, before the next begins.
First what others refer to (namespaces, definitions, classes, quotas, accounts, roles, bindings), then the sync waves,
last what can stand in the way of every other write (API services and admission webhooks). Inside a stage the kinds
have an order too, which `Stage.batches` shows: members of one batch may be written at once.

Prune is the mirror image: what stands in the way goes first, custom resources before their definitions, namespaces last.
"""

import enum
import re
from collections.abc import Iterable, Mapping
from itertools import groupby

import msgspec

from delegate.foundation.errors import DelegateError
from delegate.model.errors import AnnotationError, located, raise_all
from delegate.model.resources import GroupKind, Manifest, Origin, ResourceKey

WAVE_ANNOTATIONS = ("delegate.gitops/sync-wave", "argocd.argoproj.io/sync-wave")

_INTEGER = re.compile(r"[+-]?[0-9]{1,9}")


class StageKind(enum.StrEnum):
    """The stages in their order. There is one `wave` stage for each wave that occurs."""

    NAMESPACES = "namespaces"
    DEFINITIONS = "definitions"
    CLASSES = "classes"
    QUOTAS = "quotas"
    ACCOUNTS = "accounts"
    ROLES = "roles"
    BINDINGS = "bindings"
    WAVE = "wave"
    GATEKEEPERS = "gatekeepers"


_POSITION = {kind: position for position, kind in enumerate(StageKind)}
_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"
_STAGES = {
    GroupKind("", "Namespace"): StageKind.NAMESPACES,
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): StageKind.DEFINITIONS,
    GroupKind("", "ResourceQuota"): StageKind.QUOTAS,
    GroupKind("", "LimitRange"): StageKind.QUOTAS,
    GroupKind("", "ServiceAccount"): StageKind.ACCOUNTS,
    GroupKind(_RBAC, "ClusterRole"): StageKind.ROLES,
    GroupKind(_RBAC, "Role"): StageKind.ROLES,
    GroupKind(_RBAC, "ClusterRoleBinding"): StageKind.BINDINGS,
    GroupKind(_RBAC, "RoleBinding"): StageKind.BINDINGS,
    GroupKind("apiregistration.k8s.io", "APIService"): StageKind.GATEKEEPERS,
    GroupKind(_ADMISSION, "ValidatingAdmissionPolicy"): StageKind.GATEKEEPERS,
    GroupKind(_ADMISSION, "ValidatingAdmissionPolicyBinding"): StageKind.GATEKEEPERS,
    GroupKind(_ADMISSION, "MutatingAdmissionPolicy"): StageKind.GATEKEEPERS,
    GroupKind(_ADMISSION, "MutatingAdmissionPolicyBinding"): StageKind.GATEKEEPERS,
    GroupKind(_ADMISSION, "MutatingWebhookConfiguration"): StageKind.GATEKEEPERS,
    GroupKind(_ADMISSION, "ValidatingWebhookConfiguration"): StageKind.GATEKEEPERS,
}
_IN_ORDER = (
    # Inside the barriers.
    "Namespace",
    "CustomResourceDefinition",
    "PriorityClass",
    "ResourceQuota",
    "LimitRange",
    "ServiceAccount",
    "ClusterRole",
    "Role",
    "ClusterRoleBinding",
    "RoleBinding",
    # Inside a wave: what workloads read, what leads to them, the workloads, what acts on them, the way in.
    "Secret",
    "ConfigMap",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "Service",
    "Endpoints",
    "EndpointSlice",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "StatefulSet",
    "Job",
    "CronJob",
    "HorizontalPodAutoscaler",
    "Ingress",
)
_LAST = (
    "APIService",
    "ValidatingAdmissionPolicy",
    "MutatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
)
_RANK = {kind: rank for rank, kind in enumerate(_IN_ORDER)} | {kind: 1000 + rank for rank, kind in enumerate(_LAST)}
_RANK_OF_OTHERS = 100  # custom resources, after the kinds that every cluster knows


class Stage(msgspec.Struct, frozen=True):
    """Manifests that stand before one barrier, in order. `wave` is 0 but in a stage of kind `wave`."""

    kind: StageKind
    manifests: tuple[Manifest, ...]
    wave: int = 0

    @property
    def name(self) -> str:
        return f"wave {self.wave}" if self.kind is StageKind.WAVE else self.kind.value

    def batches(self) -> tuple[tuple[Manifest, ...], ...]:
        """The manifests in runs of equal rank: one run is written before the next, and inside a run all at once."""
        return tuple(tuple(run) for _, run in groupby(self.manifests, key=lambda manifest: rank_of(manifest.group_kind)))


class PruneStage(msgspec.Struct, frozen=True):
    """Objects to take away before those of the next stage.

    Custom resources are a stage before the rest of their wave: what acts on their finalizers may be among that.
    """

    kind: StageKind
    keys: tuple[ResourceKey, ...]
    wave: int = 0


def wave_of(manifest: Manifest) -> int:
    """The sync wave that a manifest is annotated with, 0 without. Raises AnnotationError where it is no integer."""
    for name in WAVE_ANNOTATIONS:
        text: object = manifest.annotations.get(name)  # as decoded: people forget the quotes
        if text is None:
            continue
        if not isinstance(text, str) or not _INTEGER.fullmatch(text):
            raise located(
                AnnotationError,
                manifest,
                f"{name}: {text!r} is no wave",
                hint='write an integer in quotes, such as "5" or "-1"',
            )
        return int(text)
    return 0


def stage_of(group_kind: GroupKind) -> StageKind:
    """The stage that a kind belongs to. Classes are told by their name: PriorityClass, StorageClass, GatewayClass."""
    stage = _STAGES.get(group_kind)
    if stage is not None:
        return stage
    is_class = group_kind.kind.endswith("Class") and group_kind.kind != "Class"
    return StageKind.CLASSES if is_class else StageKind.WAVE


def rank_of(group_kind: GroupKind) -> int:
    """The place of a kind among others of one stage; the lower one is written first."""
    return _RANK.get(group_kind.kind, _RANK_OF_OTHERS) if is_builtin_group(group_kind.group) else _RANK_OF_OTHERS


def is_builtin_group(group: str) -> bool:
    """Whether a group is one that Kubernetes itself keeps: the core, `apps` and the like, and those under k8s.io."""
    return "." not in group or group.endswith(".k8s.io")


def is_workload(group_kind: GroupKind) -> bool:
    """Whether objects of a kind run pods. Nothing of the kind is written while a dry run is still owed."""
    return group_kind in _WORKLOADS


_WORKLOADS = frozenset(
    {
        GroupKind("", "Pod"),
        GroupKind("", "ReplicationController"),
        GroupKind("apps", "DaemonSet"),
        GroupKind("apps", "Deployment"),
        GroupKind("apps", "ReplicaSet"),
        GroupKind("apps", "StatefulSet"),
        GroupKind("batch", "CronJob"),
        GroupKind("batch", "Job"),
    }
)


def order_manifests(manifests: Iterable[Manifest]) -> tuple[Stage, ...]:
    """The set in stages; empty stages are left out. The order is total and does not depend on the order of the input.

    Kinds that stand before a barrier do so whatever their wave. API services and admission configuration come last of all,
    unless one is annotated with a wave: then it comes last inside that wave. Raises all wave errors of the set.
    """
    placed, errors = [], list[DelegateError]()
    for manifest in manifests:
        try:
            placed.append((_place(manifest), manifest))
        except AnnotationError as error:
            errors.append(error)
    raise_all(errors)
    placed.sort(key=lambda each: each[0])
    return tuple(
        Stage(kind=_kind_at(position), manifests=tuple(manifest for _, manifest in run), wave=wave)
        for (position, wave), run in groupby(placed, key=lambda each: each[0][:2])
    )


def order_for_prune(keys: Iterable[ResourceKey], waves: Mapping[ResourceKey, int] | None = None) -> tuple[PruneStage, ...]:
    """Objects to prune in the mirrored order of their creation, highest wave first. Unknown waves count as 0."""
    known = waves or {}
    placed = sorted(((_prune_place(key, known), key) for key in keys), reverse=True)
    return tuple(
        PruneStage(kind=_kind_at(position), keys=tuple(key for _, key in run), wave=wave)
        for (position, wave, _), run in groupby(placed, key=lambda each: each[0][:3])
    )


_Place = tuple[int, int, int, ResourceKey, str, Origin]


def _place(manifest: Manifest) -> _Place:
    kind, wave = stage_of(manifest.group_kind), wave_of(manifest)
    if kind is StageKind.GATEKEEPERS and any(name in manifest.annotations for name in WAVE_ANNOTATIONS):
        kind = StageKind.WAVE
    wave = wave if kind is StageKind.WAVE else 0
    return (_POSITION[kind], wave, rank_of(manifest.group_kind), manifest.key, manifest.version, manifest.origin)


def _prune_place(key: ResourceKey, waves: Mapping[ResourceKey, int]) -> tuple[int, int, bool, int]:
    kind = stage_of(key.group_kind)
    wave = waves.get(key, 0) if kind is StageKind.WAVE else 0
    return (_POSITION[kind], wave, not is_builtin_group(key.group), rank_of(key.group_kind))


def _kind_at(position: int) -> StageKind:
    return tuple(StageKind)[position]
