"""Sync options, as Argo CD writes them (`Prune=false`): of an Application, and in annotations of single objects.

What is always so here (server-side apply, the prune after everything is healthy, nothing sent to what is as wanted) is accepted and
changes nothing. What has no meaning here is named in a notice, with the nearest known option where it looks like a slip.
"""

import difflib
import enum
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from delegate.model.resources import GroupKind, JsonObject

Propagation = Literal["Background", "Foreground", "Orphan"]

OPTIONS_ANNOTATIONS = ("delegate.gitops/sync-options", "argocd.argoproj.io/sync-options")
COMPARE_ANNOTATIONS = ("delegate.gitops/compare-options", "argocd.argoproj.io/compare-options")
_HELM_POLICY = "helm.sh/resource-policy"

_NEVER_RECREATED = frozenset(
    {
        GroupKind("", "Namespace"),
        GroupKind("", "PersistentVolume"),
        GroupKind("", "PersistentVolumeClaim"),
        GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"),
    }
)
_PROPAGATIONS: Mapping[str, Propagation] = {"foreground": "Foreground", "background": "Background", "orphan": "Orphan"}
_ALWAYS_SO = frozenset(
    {
        "ApplyOutOfSyncOnly=true",
        "ClientSideApplyMigration=true",
        "FailOnSharedResource=true",
        "IncludeMutationWebhook=true",
        "PruneLast=true",
        "RespectIgnoreDifferences=true",
        "ServerSideApply=true",
        "ServerSideDiff=true",
        "Validate=true",
    }
)
_WITHOUT_MEANING: Mapping[str, str] = {
    "ApplyOutOfSyncOnly=false": "what is as wanted is never sent again",
    "ClientSideApplyMigration=false": "an object that is adopted is always taken over whole",
    "FailOnSharedResource=false": "an object belongs to one Application",
    "PruneLast=false": "what is no longer wanted always goes last, after everything is healthy",
    "RespectIgnoreDifferences=false": "what is ignored when comparing is ignored when applying too",
    "ServerSideApply=false": "objects are always applied by the server",
    "IncludeMutationWebhook=false": "what webhooks change is part of a dry run",
    "ServerSideDiff=false": "differences are always those of the server's dry run",
    "Validate=false": "the server validates what it is given",
}
_KNOWN = (
    "CreateNamespace=true",
    "Delete=confirm",
    "Delete=false",
    "Force=true",
    "Prune=confirm",
    "Prune=false",
    "PrunePropagationPolicy=",
    "Replace=true",
    "SkipDryRunOnMissingResource=true",
)


class Consent(enum.StrEnum):
    """Whether an object may be taken away."""

    YES = "yes"
    NO = "no"
    CONFIRM = "confirm"  # once somebody has said so


class SyncOptionSet(msgspec.Struct, frozen=True):
    """`recreate`: an object may be deleted and made anew where a field can't be changed in place.

    `prune` speaks of an object that is no longer wanted, `delete` of the end of its Application. `awaits_kind`: an object whose kind
    is not served yet is tried once everything before it is healthy. `extraneous`: no longer wanted, it makes nothing OutOfSync.
    """

    create_namespace: bool = False
    prune: Consent = Consent.YES
    delete: Consent = Consent.YES
    recreate: bool = False
    awaits_kind: bool = False
    extraneous: bool = False
    propagation: Propagation = "Background"


def read_sync_options(words: Iterable[str], defaults: SyncOptionSet | None = None) -> tuple[SyncOptionSet, tuple[str, ...]]:
    """The options that the words name over the defaults, and a notice for each that has no meaning here."""
    options, notices = defaults or SyncOptionSet(), list[str]()
    for word in (each.strip().replace(" ", "") for each in words):
        changed = _changed(options, word)
        if changed is not None:
            options = changed
        elif word in _WITHOUT_MEANING:
            notices.append(f"the sync option {word} has no effect: {_WITHOUT_MEANING[word]}")
        elif word and word not in _ALWAYS_SO:
            nearest = difflib.get_close_matches(word, (*_KNOWN, *_ALWAYS_SO, *_WITHOUT_MEANING), n=1, cutoff=0.7)
            notices.append(f"the sync option {word} is not known and has no effect" + (f"; did you mean {nearest[0]}?" if nearest else ""))
    return options, tuple(notices)


def options_of(metadata: JsonObject, defaults: SyncOptionSet | None = None) -> tuple[SyncOptionSet, tuple[str, ...]]:
    """The options of one object, wanted or live, by its metadata; those of its Application where it says nothing."""
    annotations = metadata.get("annotations")
    if not isinstance(annotations, dict):
        return defaults or SyncOptionSet(), ()
    if str(annotations.get(_HELM_POLICY, "")).strip() == "keep":
        defaults = msgspec.structs.replace(defaults or SyncOptionSet(), prune=Consent.NO, delete=Consent.NO)
    names = (*OPTIONS_ANNOTATIONS, *COMPARE_ANNOTATIONS)
    # Ours are read last: they win over Argo CD's.
    words = [word for name in reversed(names) for word in str(annotations.get(name, "")).split(",")]
    return read_sync_options(words, defaults)


def may_recreate(group_kind: GroupKind, options: SyncOptionSet) -> bool:
    """Whether an object may be deleted and made anew: never one that takes the data or the objects of others along."""
    return options.recreate and group_kind not in _NEVER_RECREATED


def is_never_recreated(group_kind: GroupKind) -> bool:
    return group_kind in _NEVER_RECREATED


def _changed(options: SyncOptionSet, word: str) -> SyncOptionSet | None:
    name, _, value = word.partition("=")
    match name, value:
        case "CreateNamespace", "true" | "false":
            return msgspec.structs.replace(options, create_namespace=value == "true")
        case "Prune", "true" | "false" | "confirm":
            return msgspec.structs.replace(options, prune=_consent(value))
        case "Delete", "true" | "false" | "confirm":
            return msgspec.structs.replace(options, delete=_consent(value))
        case ("Replace", "true" | "false") | ("Force", "true" | "false"):
            return msgspec.structs.replace(options, recreate=value == "true")
        case "SkipDryRunOnMissingResource", "true" | "false":
            return msgspec.structs.replace(options, awaits_kind=value == "true")
        case "IgnoreExtraneous", "" | "true" | "false":
            return msgspec.structs.replace(options, extraneous=value != "false")
        case "PrunePropagationPolicy", _ if value.lower() in _PROPAGATIONS:
            return msgspec.structs.replace(options, propagation=_PROPAGATIONS[value.lower()])
    return None


def _consent(value: str) -> Consent:
    return {"true": Consent.YES, "false": Consent.NO}.get(value, Consent.CONFIRM)
