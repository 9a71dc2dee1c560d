"""Refusals of a dry run that another member of the set explains.

What can be dry-run is, before the first write. An object that names something which the set itself is about to create is
refused by then: its namespace, its definition, its account, a class, a role. Such a refusal is no fault; the object is
dry-run once that member exists, and before any workload is written. Nothing else is deferred: a wrong guess here would
turn a refusal that costs nothing into one in the middle of the writes.
"""

import re
from collections.abc import Collection, Iterable

import msgspec

from delegate.foundation.errors import DelegateError
from delegate.model.resources import GroupKind, Manifest, ResourceKey
from delegate.model.schemas import check_custom_resource, definitions_by_kind
from delegate.model.waves import StageKind, stage_of

_UNKNOWN_KIND_CODES = frozenset({"dependency.unknown_kind", "input.unknown_kind"})
_SCHEMA_CODE = "input.schema"
_UNFIT_CODES = frozenset({_SCHEMA_CODE, "input.invalid"})
_DEFERRABLE_STAGES = frozenset({StageKind.NAMESPACES, StageKind.CLASSES, StageKind.ACCOUNTS, StageKind.ROLES})
_MISSING = re.compile(
    r"""(?P<kind>[A-Za-z]+)(?:\.[a-z0-9.-]+)?\ ["']?(?P<name>[A-Za-z0-9:._-]+)["']?\ (?:was\ )?not\ found
      | no\ (?P<class_kind>[A-Za-z]+)\ with\ name\ ["']?(?P<class_name>[A-Za-z0-9._-]+?)["']?\ was\ found""",
    re.VERBOSE,
)


class Refusal(msgspec.Struct, frozen=True):
    """How a dry run was refused: the error's code, what the answer says is missing (as far as it does), and its words."""

    code: str
    missing_kind: str = ""
    missing_name: str = ""
    message: str = ""


class Deferral(msgspec.Struct, frozen=True):
    """Which member of the set has to exist first, and that in words for the plan."""

    needs: ResourceKey
    reason: str


class Members(msgspec.Struct, frozen=True):
    """What of a set others may wait for: its objects of the early stages, and the definition of each kind that it brings."""

    objects: frozenset[ResourceKey]
    definitions: dict[GroupKind, Manifest]


def members_of(manifests: Iterable[Manifest]) -> Members:
    """The members of a set with settled namespaces that a refusal may be explained by."""
    manifests = tuple(manifests)
    early = frozenset(manifest.key for manifest in manifests if stage_of(manifest.group_kind) in _DEFERRABLE_STAGES)
    return Members(early, definitions_by_kind(manifests))


def refusal_of(error: DelegateError) -> Refusal:
    """The refusal behind an error of the cluster client, whichever class it has."""
    return Refusal(
        code=error.code,
        missing_kind=str(getattr(error, "missing_kind", "")),
        missing_name=str(getattr(error, "missing_name", "")),
        message=error.message,
    )


def explain_deferral(refusal: Refusal, manifest: Manifest, members: Members, changing: Collection[ResourceKey] = ()) -> Deferral | None:
    """The member of the set that explains why a manifest was refused, or None: then the refusal is a fault.

    A custom resource that doesn't fit the schema that the cluster knows is explained by a definition in the set where it
    fits that one, or where the definition is known to be among `changing`, the members that the plan creates or configures.
    """
    definition = members.definitions.get(manifest.group_kind)
    if definition and (refusal.code in _UNKNOWN_KIND_CODES or _changes_schema(refusal, manifest, definition, changing)):
        return _waits_for(definition.key)
    names = [(refusal.missing_kind, refusal.missing_name)] if refusal.missing_kind else _missing_in(refusal.message)
    for kind, name in names:
        for key in sorted(members.objects):
            if key != manifest.key and key.name == name and _is_called(key.kind, kind) and _is_seen_from(manifest, key):
                return _waits_for(key)
    return None


def _changes_schema(refusal: Refusal, manifest: Manifest, definition: Manifest, changing: Collection[ResourceKey]) -> bool:
    if definition.key in changing:
        return refusal.code in _UNFIT_CODES
    # An undeclared field or a wrong type, and none by the definition in the set: that one is another than the cluster's.
    return refusal.code == _SCHEMA_CODE and not check_custom_resource(manifest, definition)


def _waits_for(key: ResourceKey) -> Deferral:
    return Deferral(key, f"is checked once {key} exists")


def _missing_in(message: str) -> list[tuple[str, str]]:
    return [(match["kind"] or match["class_kind"], match["name"] or match["class_name"]) for match in _MISSING.finditer(message)]


def _is_called(kind: str, word: str) -> bool:
    """Whether a message means a kind by a word: `ServiceAccount`, `serviceaccount`, `serviceaccounts`, `priorityclasses`."""
    word, kind = word.lower().partition(".")[0], kind.lower()
    return word in (kind, f"{kind}s", f"{kind}es")


def _is_seen_from(manifest: Manifest, key: ResourceKey) -> bool:
    """Cluster-scoped members are seen by all, the others from their own namespace."""
    return not key.namespace or key.namespace == manifest.namespace
