"""Settles the namespace of every manifest of a set, once the scopes of their kinds are known, and their identity with it.

The scope of a kind comes from the cluster's discovery or, before its definition is established, from the definition in
the set. What is cluster-scoped loses its namespace, what is namespaced gets the destination's where it names none, and
no object may be in the set twice.
"""

from collections.abc import Iterable, Mapping

import msgspec

from delegate.foundation.errors import DelegateError
from delegate.model.errors import (
    DuplicateObjectError,
    MissingNamespaceError,
    UnavailableGroupError,
    UnknownKindError,
    located,
    raise_all,
)
from delegate.model.removals import describe_removal
from delegate.model.resources import GroupKind, Manifest, ResourceKey
from delegate.model.schemas import check_custom_resource, definitions_by_kind


class SettledSet(msgspec.Struct, frozen=True):
    """The manifests in the order given, each with its final identity, and what was changed on the way, in words."""

    manifests: tuple[Manifest, ...]
    notices: tuple[str, ...] = ()


def scopes_of_definitions(manifests: Iterable[Manifest]) -> dict[GroupKind, bool]:
    """Which kinds the definitions in a set bring, and whether each is namespaced. A malformed one brings none."""
    return {kind: definition.body["spec"]["scope"] == "Namespaced" for kind, definition in definitions_by_kind(manifests).items()}


def settle_namespaces(
    manifests: Iterable[Manifest],
    *,
    scopes: Mapping[GroupKind, bool],
    destination_namespace: str,
    unavailable_groups: Mapping[str, str] | None = None,
    last_wins: bool = False,
) -> SettledSet:
    """Gives every manifest its final namespace.

    `scopes` says of each kind that the cluster serves whether it is namespaced; kinds that only a definition of the set
    brings are found here, and as no server can check them yet, their objects are checked against that definition.
    `unavailable_groups` are the groups whose discovery failed, with the server's words. `last_wins`: of an object that is there
    twice the last one counts, which is told; else that is a fault. Raises all faults of the set at
    once: MissingNamespaceError, DuplicateObjectError, UnknownKindError, UnavailableGroupError, SchemaMismatchError.
    """
    manifests = tuple(manifests)
    definitions = {kind: definition for kind, definition in definitions_by_kind(manifests).items() if kind not in scopes}
    known = {**scopes_of_definitions(manifests), **scopes}
    settled, notices, errors = list[Manifest](), list[str](), list[DelegateError]()
    for manifest in manifests:
        namespaced = known.get(manifest.group_kind)
        if namespaced is None:
            errors.append(_unknown(manifest, unavailable_groups or {}))
        elif namespaced and not (manifest.namespace or destination_namespace):
            errors.append(
                located(
                    MissingNamespaceError,
                    manifest,
                    f"{manifest.group_kind} {_name(manifest)} names no namespace and the task has no destination.namespace",
                    hint="add metadata.namespace to the manifest or destination.namespace to the task",
                )
            )
        elif namespaced:
            settled.append(manifest if manifest.namespace else _with_namespace(manifest, destination_namespace))
        else:
            if manifest.namespace:
                notices.append(
                    f"{manifest.origin}: {manifest.group_kind} {_name(manifest)} is cluster-scoped; "
                    f"its namespace {manifest.namespace!r} was left out"
                )
            settled.append(_with_namespace(manifest, ""))
        if manifest.group_kind in definitions:
            errors += check_custom_resource(manifest, definitions[manifest.group_kind])
    duplicates = list(_duplicates(settled))
    if last_wins:
        notices += [f"{error.message}: the last one counts" for error in duplicates]
        named = {manifest.key: manifest for manifest in settled if manifest.name}
        settled = [manifest for manifest in settled if named.get(manifest.key, manifest) is manifest]
    else:
        errors += duplicates
    raise_all(errors)
    return SettledSet(tuple(settled), tuple(notices))


def _unknown(manifest: Manifest, unavailable_groups: Mapping[str, str]) -> DelegateError:
    if manifest.group in unavailable_groups:
        return UnavailableGroupError(
            f"the cluster can't tell what {manifest.group} serves: {unavailable_groups[manifest.group]}",
            hint=f"look at the APIService of {manifest.group} and what it points to",
            file=manifest.origin.file,
            line=manifest.origin.line or None,
            object=str(manifest.key),
        )
    return located(
        UnknownKindError,
        manifest,
        f"neither the cluster nor a definition in the set knows {manifest.kind} of {manifest.api_version}",
        hint=describe_removal(manifest.api_version, manifest.kind)
        or "install its CustomResourceDefinition first, add it to the set, or correct apiVersion and kind",
    )


def _duplicates(manifests: Iterable[Manifest]) -> Iterable[DelegateError]:
    seen: dict[ResourceKey, Manifest] = {}
    for manifest in manifests:
        if not manifest.name:
            continue  # each generateName makes an object of its own
        first = seen.setdefault(manifest.key, manifest)
        if first is not manifest:
            yield located(
                DuplicateObjectError,
                manifest,
                f"{manifest.key} is in the set twice: {first.origin} and {manifest.origin}",
                hint="remove one of them, or say syncPolicy.duplicates: lastWins; the version of an apiVersion makes no difference",
            )


def _with_namespace(manifest: Manifest, namespace: str) -> Manifest:
    metadata = manifest.metadata
    if metadata.get("namespace") == namespace or (not namespace and "namespace" not in metadata):
        return manifest
    rest = {name: value for name, value in metadata.items() if name != "namespace"}
    if namespace:
        rest["namespace"] = namespace
    return Manifest({**manifest.body, "metadata": rest}, manifest.origin)


def _name(manifest: Manifest) -> str:
    return manifest.name or f"{manifest.generate_name}*"
