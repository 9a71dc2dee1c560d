"""What is wanted in the cluster: a rendered set, normalized, with its namespaces settled, labelled, hashed and in order. Pure."""

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from delegate.model.applied import label_member, manifest_hash
from delegate.model.hooks import Hook, operation_of, take_hooks_apart
from delegate.model.inventory import InventoryEntry, application_applyset_id, entry_of
from delegate.model.normalization import normalize_manifests
from delegate.model.resources import GroupKind, Manifest
from delegate.model.scoping import scopes_of_definitions, settle_namespaces
from delegate.model.waves import Stage, order_manifests

LOCAL_NAMESPACE = "default"
_NAMESPACE = GroupKind("", "Namespace")


class DesiredSet(msgspec.Struct, frozen=True):
    """`namespace` holds the records of the Application; `applyset` is the id that its members carry.

    The manifests of the stages are labelled as members: they are what is hashed, dry-run and applied. Hooks are no members.
    """

    application: str
    revision: str
    namespace: str
    applyset: str
    stages: tuple[Stage, ...]
    defined_kinds: frozenset[GroupKind]
    notices: tuple[str, ...]
    hooks: tuple[Hook, ...] = ()

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces that the set itself brings."""
        return frozenset(manifest.name for manifest in self.manifests if manifest.group_kind == _NAMESPACE)

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        return tuple(manifest for stage in self.stages for manifest in stage.manifests)

    @property
    def content(self) -> str:
        """What tells a sync of this set from one of another, hooks included."""
        hashes = [manifest_hash(each.body) for each in (*self.manifests, *(hook.manifest for hook in self.hooks))]
        return operation_of(hashes, self.application, self.revision)

    def entries(self) -> tuple[InventoryEntry, ...]:
        return tuple(entry_of(manifest, wave=stage.wave) for stage in self.stages for manifest in stage.manifests)


def prepare_desired(
    manifests: Iterable[Manifest],
    *,
    application: str,
    revision: str,
    destination_namespace: str,
    scopes: Mapping[GroupKind, bool],
    unavailable_groups: Mapping[str, str],
) -> DesiredSet:
    """Raises every fault of the set at once, with file and line."""
    normalized = normalize_manifests(manifests)
    written = take_hooks_apart(normalized.manifests)
    named, naming_notices = _name_generated(written.ordinary)
    hooks = {id(hook.manifest): hook.manifest for hook in written.hooks}  # one manifest may be a hook of several phases
    settled = settle_namespaces(
        [*named, *hooks.values()], scopes=scopes, destination_namespace=destination_namespace, unavailable_groups=unavailable_groups
    )
    hooked = take_hooks_apart(settled.manifests)
    namespace = destination_namespace or LOCAL_NAMESPACE
    applyset = application_applyset_id(application, namespace)
    members = [Manifest(label_member(manifest.body, applyset), manifest.origin) for manifest in hooked.ordinary]
    return DesiredSet(
        application=application,
        revision=revision,
        namespace=namespace,
        applyset=applyset,
        stages=order_manifests(members),
        defined_kinds=frozenset(scopes_of_definitions(settled.manifests)),
        notices=(*normalized.notices, *written.notices, *naming_notices, *settled.notices),
        hooks=hooked.hooks,
    )


def _name_generated(manifests: tuple[Manifest, ...]) -> tuple[list[Manifest], list[str]]:
    """Gives each generateName a name made of its content: unchanged content is the same object at the next sync."""
    named, notices = list[Manifest](), list[str]()
    for manifest in manifests:
        if manifest.name or not manifest.generate_name:
            named.append(manifest)
            continue
        digest = hashlib.sha256(msgspec.json.encode(manifest.body, order="deterministic")).hexdigest()[:8]
        name = f"{manifest.generate_name}{digest}"
        metadata = {key: value for key, value in manifest.metadata.items() if key != "generateName"} | {"name": name}
        named.append(Manifest({**manifest.body, "metadata": metadata}, manifest.origin))
        notices.append(f"{manifest.origin}: {manifest.kind} with generateName {manifest.generate_name!r} is named {name!r} by its content")
    return named, notices
