"""What is wanted in the cluster: a rendered set, normalized, with its namespaces settled, labelled, hashed and in order. Pure."""

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from delegate.foundation.errors import DelegateError
from delegate.model.applied import label_member, manifest_hash
from delegate.model.autoscaling import scaled_by_others
from delegate.model.errors import AnnotationError, located, raise_all
from delegate.model.hooks import Hook, operation_of, take_hooks_apart
from delegate.model.inventory import InventoryEntry, application_applyset_id, entry_of
from delegate.model.names import generated_name
from delegate.model.normalization import normalize_manifests
from delegate.model.ownership import IgnoredDifference, OwnershipRule, ownership_of
from delegate.model.resources import GroupKind, Manifest, ResourceKey
from delegate.model.scoping import scopes_of_definitions, settle_namespaces
from delegate.model.selection import Selection
from delegate.model.sync_options import SyncOptionSet, options_of
from delegate.model.treatment import Treatment
from delegate.model.waves import Stage, order_manifests

LOCAL_NAMESPACE = "default"
_NAMESPACE = GroupKind("", "Namespace")
_PLAIN = Treatment()


class Rules(msgspec.Struct, frozen=True):
    """What a task says of the objects of its set: which are meant, whose their fields are, the options of those that have none.

    `predecessors` are the managers that they are taken over from. `last_wins`: of an object that is there twice the last one counts.
    """

    selection: Selection = Selection()
    ignored: tuple[IgnoredDifference, ...] = ()
    ownership: tuple[OwnershipRule, ...] = ()
    options: SyncOptionSet = SyncOptionSet()
    predecessors: frozenset[str] = frozenset()
    last_wins: bool = False


class DesiredSet(msgspec.Struct, frozen=True):
    """`namespace` holds the records of the Application; `applyset` is the id that its members carry.

    The manifests of the stages are labelled as members: they are what is hashed, dry-run and applied. Hooks are no members.
    `spared` are wanted and not meant by this run; `treatments` holds those that aren't treated like any other.
    """

    application: str
    revision: str
    namespace: str
    applyset: str
    stages: tuple[Stage, ...]
    defined_kinds: frozenset[GroupKind]
    notices: tuple[str, ...]
    hooks: tuple[Hook, ...] = ()
    spared: tuple[InventoryEntry, ...] = ()
    treatments: Mapping[ResourceKey, Treatment] = {}

    def treatment_of(self, manifest: Manifest) -> Treatment:
        return self.treatments.get(manifest.key, _PLAIN)

    def hash_of(self, manifest: Manifest) -> str:
        """What the applied mark of a member stands for."""
        return self.treatment_of(manifest).hash_with(manifest_hash(manifest.body))

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces that the set itself brings."""
        return frozenset(manifest.name for manifest in self.manifests if manifest.group_kind == _NAMESPACE)

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        return tuple(manifest for stage in self.stages for manifest in stage.manifests)

    @property
    def whole(self) -> tuple[Manifest, ...]:
        """All that a release keeps: members and hooks."""
        hooks = {id(hook.manifest): hook.manifest for hook in self.hooks}
        return (*self.manifests, *hooks.values())

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
    rules: Rules | None = None,
) -> DesiredSet:
    """Raises every fault of the set at once, with file and line."""
    normalized = normalize_manifests(manifests)
    written = take_hooks_apart(normalized.manifests)
    named, naming_notices = _name_generated(written.ordinary)
    hooks = {id(hook.manifest): hook.manifest for hook in written.hooks}  # one manifest may be a hook of several phases
    rules = rules or Rules()
    settled = settle_namespaces(
        [*named, *hooks.values()],
        scopes=scopes,
        destination_namespace=destination_namespace,
        unavailable_groups=unavailable_groups,
        last_wins=rules.last_wins,
    )
    hooked = take_hooks_apart(settled.manifests)
    namespace = destination_namespace or LOCAL_NAMESPACE
    applyset = application_applyset_id(application, namespace)
    members = [Manifest(label_member(manifest.body, applyset), manifest.origin) for manifest in hooked.ordinary]
    treatments, treatment_notices = _treat(members, rules)
    meant = [member for member in members if member.key in rules.selection]
    return DesiredSet(
        application=application,
        revision=revision,
        namespace=namespace,
        applyset=applyset,
        stages=order_manifests(meant),
        defined_kinds=frozenset(scopes_of_definitions(settled.manifests)),
        notices=(
            *normalized.notices,
            *written.notices,
            *naming_notices,
            *settled.notices,
            *treatment_notices,
            *_selection_notices(rules.selection, members, hooked.hooks),
        ),
        hooks=hooked.hooks if rules.selection.is_whole else (),
        spared=tuple(entry_of(member) for member in members if member.key not in rules.selection),
        treatments=treatments,
    )


def _treat(members: Iterable[Manifest], rules: Rules) -> tuple[dict[ResourceKey, Treatment], list[str]]:
    """The treatment of each member that is not treated like any other, and what there is to say. Raises all faults at once."""
    members = tuple(members)
    treatments, notices, errors = dict[ResourceKey, Treatment](), list[str](), list[DelegateError]()
    for member in members:
        options, words = options_of(member.metadata, rules.options)
        notices += [f"{member.origin}: {member.key}: {word}" for word in words]
        try:
            treatment = Treatment(ownership_of(member, rules.ignored, rules.ownership), options, rules.predecessors)
        except ValueError as error:
            errors.append(located(AnnotationError, member, str(error)))
            continue
        if treatment != _PLAIN:
            treatments[member.key] = treatment
    raise_all(errors)
    for target, scaler in scaled_by_others(members):
        ownership = treatments.get(target.key, _PLAIN).ownership
        if ownership.mode_at(("spec", "replicas"), target.body) is None and not ownership.expressions and not ownership.managers:
            notices.append(f"{target.origin}: {target.key}: spec.replicas is also driven by {scaler.key}; leave it out of the manifest")
    return treatments, notices


def _selection_notices(selection: Selection, members: list[Manifest], hooks: tuple[Hook, ...]) -> list[str]:
    if selection.is_whole:
        return []
    keys = [member.key for member in members]
    selected = sum(key in selection for key in keys)
    notices = [f"{selected} of {len(keys)} objects are synced: the others are left out, and not looked at"]
    notices += [f"options.resources: no object is {pattern.kind} {pattern.name}" for pattern in selection.unmatched(keys)]
    return notices + (["hooks are not run: not the whole set is synced"] if hooks else [])


def _name_generated(manifests: tuple[Manifest, ...]) -> tuple[list[Manifest], list[str]]:
    """Gives each generateName a name made of its content: unchanged content is the same object at the next sync."""
    named, notices = list[Manifest](), list[str]()
    for manifest in manifests:
        if manifest.name or not manifest.generate_name:
            named.append(manifest)
            continue
        digest = hashlib.sha256(msgspec.json.encode(manifest.body, order="deterministic")).hexdigest()[:8]
        name = generated_name(manifest.generate_name, digest)
        metadata = {key: value for key, value in manifest.metadata.items() if key != "generateName"} | {"name": name}
        named.append(Manifest({**manifest.body, "metadata": metadata}, manifest.origin))
        notices.append(f"{manifest.origin}: {manifest.kind} with generateName {manifest.generate_name!r} is named {name!r} by its content")
    return named, notices
