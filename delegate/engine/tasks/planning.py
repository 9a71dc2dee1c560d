"""Makes the plan of a set against a cluster: what metadata does not prove synced is dry-run, all of it, before any write.

Faults are collected, not raised one by one: a plan shows everything that is wrong with a set.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.discovery import Discovery
from delegate.engine.clusters.errors import ImmutableFieldError, InvalidError, NotFoundError, SchemaError, UnknownKindError
from delegate.engine.tasks.concurrency import for_each
from delegate.engine.tasks.desired import DesiredSet
from delegate.engine.tasks.dry_running import DryRunner, Finding
from delegate.engine.tasks.errors import OwnedElsewhereError
from delegate.engine.tasks.observing import Observed, await_gone, observe_members
from delegate.foundation.errors import Category, DelegateError
from delegate.model.applied import PART_OF_LABEL, MarkState, is_synced, mark_state
from delegate.model.deferrals import Members, Refusal, explain_deferral, members_of, refusal_of
from delegate.model.hooks import Hook, hook_body
from delegate.model.inventory import APPLICATION_LABEL, APPLYSET_ID_LABEL
from delegate.model.names import throwaway_name
from delegate.model.ownership import Mode
from delegate.model.plan import plan_deferred, plan_failed, plan_kept, plan_unchanged
from delegate.model.resources import GroupKind, JsonObject, Manifest, ResourceKey, ResourceType
from delegate.model.results import Action, describe_error
from delegate.model.schemas import served_types
from delegate.model.takeover import can_take_over, is_of_others
from delegate.model.tasks import Shared
from delegate.model.waves import Stage

_NAMESPACE = GroupKind("", "Namespace")
_STAND_IN = "default"
_SECRET = GroupKind("", "Secret")
_CONFIG_MAP = GroupKind("", "ConfigMap")

Place = tuple[Stage, Manifest]
"""An object of the set and the stage that it is written in."""


class Planner:
    """Plans objects of one set.

    `force`: fields that others own are taken also where the object isn't ours yet. `shared`: what becomes of objects of other
    Applications. `created_namespace` doesn't exist and will be made by us before anything else. `looks_at` are the kinds whose
    health is looked at where nothing has to be written.
    """

    def __init__(
        self,
        client: ApiClient,
        discovery: Discovery,
        desired: DesiredSet,
        dry_runner: DryRunner,
        *,
        force: bool = False,
        shared: Shared = Shared.FAIL,
        created_namespace: str = "",
        looks_at: Callable[[GroupKind], bool] | None = None,
    ) -> None:
        self._client = client
        self._discovery = discovery
        self._desired = desired
        self._dry_runner = dry_runner
        self._force = force
        self._shared = shared
        self._looks_at = looks_at
        self._created_namespace = created_namespace
        members = members_of(desired.manifests)
        created = frozenset({ResourceKey("", "Namespace", "", created_namespace)} if created_namespace else ())
        self._members = Members(members.objects | created, members.definitions)
        self._changing: frozenset[ResourceKey] = frozenset()
        self._observed = Observed({}, {})
        self._missing_namespaces: frozenset[str] = frozenset()
        self._owners: dict[str, tuple[str, bool]] = {}
        self._types: dict[tuple[GroupKind, str], ResourceType | DelegateError] = {}

    async def plan_all(self) -> list[Finding]:
        """Every object of the set, in the order of writing."""
        places = [(stage, manifest) for stage in self._desired.stages for manifest in stage.manifests]
        self._missing_namespaces = await self._find_missing_namespaces()
        await self._observe(places)
        self._changing = self._changing_definitions()
        return await for_each(places, lambda place: self.plan_one(*place, known=True))

    async def hook_faults(self) -> tuple[DelegateError, ...]:
        """What the server has against the hooks of the set, found before anything is written. Call after `plan_all`."""
        manifests = {id(hook.manifest): hook for hook in self._desired.hooks}
        found = await for_each(manifests.values(), self._check_hook)
        return tuple(error for error in found if error is not None)

    async def _check_hook(self, hook: Hook) -> DelegateError | None:
        if hook.manifest.namespace in self._missing_namespaces:
            return None
        body = hook_body(hook, self._desired.applyset, "check")
        # Under a name of its own: the hook of an earlier sync may still be there, and is deleted before this one is created.
        name = throwaway_name(body["metadata"]["name"])
        metadata = {**body["metadata"], "name": name}
        try:
            await self._client.apply(await self.type_of(hook.manifest), {**body, "metadata": metadata}, dry_run=True)
        except DelegateError as error:
            if explain_deferral(refusal_of(error), hook.manifest, self._members, self._changing) is not None:
                return None
            error.message = error.message.replace(name, hook.manifest.name or hook.manifest.generate_name)
            error.hint = error.hint.replace(name, hook.manifest.name or hook.manifest.generate_name)
            error.file, error.line = hook.manifest.origin.file, hook.manifest.origin.line or None
            error.object = str(hook.manifest.key)
            return error
        return None

    async def plan_owed(self, places: Sequence[Place]) -> list[Finding]:
        """Objects that were deferred, now that what they waited for should exist."""
        self._missing_namespaces, self._changing = frozenset(), frozenset()
        self._types = {**self.types, **self._own_types()}
        await self._observe(places)
        return await for_each(places, lambda place: self.plan_one(*place, known=True))

    def _own_types(self) -> dict[tuple[GroupKind, str], ResourceType]:
        """The kinds that definitions of the set bring: served once established, some seconds before discovery lists them."""
        own = [found for definition in self._members.definitions.values() for found in served_types(definition)]
        return {(found.group_kind, found.version): found for found in own}

    async def _observe(self, places: Sequence[Place]) -> None:
        types = await self._known_types(manifest for _, manifest in places)
        looks_at = {} if self._looks_at is None else {"whole": self._looks_at}
        self._observed = await observe_members(self._client, types, self._desired.applyset, **looks_at)

    def take_seen(self) -> Mapping[ResourceKey, JsonObject]:
        """The objects that were read whole, once: they are many, and soon out of date."""
        seen = self._observed.bodies
        self._observed = msgspec.structs.replace(self._observed, bodies={})
        return seen

    @property
    def types(self) -> Mapping[tuple[GroupKind, str], ResourceType]:
        """How the kinds of the set are served, by kind and version, as far as they are."""
        return {kind: found for kind, found in self._types.items() if isinstance(found, ResourceType)}

    async def plan_one(self, stage: Stage, manifest: Manifest, *, known: bool = False) -> Finding:
        """One object. `known`: what was observed counts; otherwise the object is looked at afresh."""
        try:
            return await self._plan(stage, manifest, known=known)
        except OwnedElsewhereError as error:
            if self._shared is not Shared.IGNORE:
                return self._refused(stage, manifest, error)
            kept = plan_kept(manifest, stage=stage.name, wanted=self._desired.hash_of(manifest), action=Action.SKIPPED)
            return Finding(kept, notes=(f"{error.message}, and is left to it",))
        except DelegateError as error:
            return self._refused(stage, manifest, error)

    async def _plan(self, stage: Stage, manifest: Manifest, *, known: bool) -> Finding:
        key, wanted, treatment = manifest.key, self._desired.hash_of(manifest), self._desired.treatment_of(manifest)
        if known and manifest.namespace in self._missing_namespaces:
            refusal = Refusal("dependency.namespace_not_found", "Namespace", manifest.namespace)
            deferral = explain_deferral(refusal, manifest, self._members)
            if deferral is not None:
                await self._check_elsewhere(manifest)
                return Finding(plan_deferred(manifest, deferral, stage=stage.name, wanted=wanted))
        if treatment.ownership.mode is Mode.IGNORE:
            kept = plan_kept(manifest, stage=stage.name, wanted=wanted, action=Action.SKIPPED)
            return Finding(kept, notes=(f"{key} is never applied: its ownership is ignore",))
        resource_type = await self.type_of(manifest)
        if known and key in self._observed.unreadable:
            raise self._observed.unreadable[key]
        metadata = self._observed.metadata.get(key) if known else await self._look_again(resource_type, key)
        if metadata is not None:
            await self._refuse_foreign(key, metadata)
            state = mark_state(metadata, wanted)
            shared = (treatment.overrides or treatment.predecessors) and can_take_over(metadata, treatment.takes)
            if state is MarkState.SYNCED and not shared:
                return Finding(
                    plan_unchanged(manifest, metadata, stage=stage.name, wanted=wanted), notes=tuple(_added_by_others(manifest, metadata))
                )
            if state is MarkState.TERMINATING:
                await await_gone(self._client, resource_type, key)
        ours = metadata is not None
        if treatment.ownership.mode is Mode.CREATE_ONLY and (ours or await self._dry_runner.live(resource_type, key) is not None):
            kept = plan_kept(manifest, stage=stage.name, wanted=wanted)
            return Finding(kept, notes=(f"{key} exists and is left as it is: its ownership is create-only",))
        return await self._dry_runner.run(
            manifest, resource_type, treatment, stage=stage.name, wanted=wanted, ours=ours, refuse_foreign=self._refuse_foreign
        )

    async def _check_elsewhere(self, manifest: Manifest) -> None:
        """Dry-runs an object whose namespace is still to come in one that exists, under a name that nothing has.

        What is wrong with the object itself is wrong there too: raises SchemaError or InvalidError. Any other refusal may be that
        namespace's own, and says nothing.
        """
        name = throwaway_name(manifest.name)
        try:
            resource_type = await self.type_of(manifest)
            metadata = {**manifest.metadata, "name": name, "namespace": _STAND_IN}
            await self._client.apply(resource_type, {**manifest.body, "metadata": metadata}, dry_run=True, metadata_only=True)
        except ImmutableFieldError:
            return
        except (SchemaError, InvalidError) as error:
            error.message = error.message.replace(name, manifest.name)
            error.object = str(manifest.key)
            raise
        except DelegateError:
            return

    def _refused(self, stage: Stage, manifest: Manifest, error: DelegateError) -> Finding:
        wanted = self._desired.hash_of(manifest)
        deferral = explain_deferral(refusal_of(error), manifest, self._members, self._changing)
        if deferral is not None:
            return Finding(plan_deferred(manifest, deferral, stage=stage.name, wanted=wanted), put_off=error)
        if isinstance(error, UnknownKindError) and self._desired.treatment_of(manifest).options.awaits_kind:
            note = f"{manifest.key} is tried once its kind is served: {error.message}"
            return Finding(plan_deferred(manifest, None, stage=stage.name, wanted=wanted), notes=(note,))
        error.file = error.file or manifest.origin.file
        error.line = error.line or manifest.origin.line or None
        error.object = error.object or str(manifest.key)
        immutable = isinstance(error, ImmutableFieldError)
        return Finding(plan_failed(manifest, describe_error(error)[0], stage=stage.name, immutable=immutable), error)

    def _changing_definitions(self) -> frozenset[ResourceKey]:
        """The definitions of the set that the cluster does not have as they are wanted."""
        changing = set()
        for definition in self._members.definitions.values():
            metadata = self._observed.metadata.get(definition.key)
            if metadata is None or not is_synced(metadata, self._desired.hash_of(definition)):
                changing.add(definition.key)
        return frozenset(changing)

    async def _known_types(self, manifests: Iterable[Manifest]) -> dict[ResourceKey, ResourceType]:
        """The types of all objects whose kind is served. Each kind is asked for once, also one that isn't."""
        types = {}
        for manifest in manifests:
            if manifest.namespace not in self._missing_namespaces:
                with contextlib.suppress(DelegateError):
                    types[manifest.key] = await self.type_of(manifest)
        return types

    def forget_type(self, manifest: Manifest) -> None:
        """Lets the next question for its kind ask the server again."""
        self._types.pop((manifest.group_kind, manifest.version), None)
        self._discovery.invalidate(manifest.group)

    async def type_of(self, manifest: Manifest) -> ResourceType:
        """How an object's kind is served. Raises UnknownKindError, GroupUnavailableError; a kind is asked for once."""
        kind = (manifest.group_kind, manifest.version)
        if kind not in self._types:
            try:
                self._types[kind] = await self._discovery.resource_for(*kind)
            except DelegateError as error:
                self._types[kind] = error
        found = self._types[kind]
        if isinstance(found, DelegateError):
            raise found
        return found

    async def _find_missing_namespaces(self) -> frozenset[str]:
        """Of the namespaces that the set brings, those that the cluster does not have yet: their objects need no try."""
        created = frozenset({self._created_namespace} if self._created_namespace else ())
        if not self._desired.namespaces:
            return created
        namespace_type = await self._discovery.resource_for(_NAMESPACE)

        async def is_missing(name: str) -> bool:
            try:
                found = await self._client.get_metadata(namespace_type, "", name)
                if not found["metadata"].get("deletionTimestamp"):
                    return False
                await await_gone(self._client, namespace_type, ResourceKey("", "Namespace", "", name))
                return True
            except NotFoundError:
                return True
            except DelegateError as error:
                if error.category is not Category.PERMISSION:
                    raise
            return False

        names = sorted(self._desired.namespaces)
        missing = await for_each(names, is_missing)
        return created | {name for name, gone in zip(names, missing, strict=True) if gone}

    async def _look_again(self, resource_type: ResourceType, key: ResourceKey) -> JsonObject | None:
        try:
            body = await self._client.get_metadata(resource_type, key.namespace, key.name)
        except NotFoundError:
            return None
        metadata: JsonObject = body["metadata"]
        return metadata if PART_OF_LABEL in (metadata.get("labels") or {}) else None

    async def _refuse_foreign(self, key: ResourceKey, metadata: JsonObject) -> None:
        """Raises where another Application owns an object. One whose record is gone owns nothing any more, for who says force."""
        owner = (metadata.get("labels") or {}).get(PART_OF_LABEL)
        if owner in (None, self._desired.applyset):
            return
        words, is_gone = await self._owner(str(owner))
        if (is_gone and self._force) or self._shared is Shared.ADOPT:
            return
        handing_over = (
            "sync once with options {force: true} to adopt it"
            if is_gone
            else "take it out of one of the two, or say syncPolicy.shared: adopt, or ignore"
        )
        raise OwnedElsewhereError(f"{key} belongs to {words}", hint=handing_over, object=str(key))

    async def _owner(self, applyset: str) -> tuple[str, bool]:
        """The Application behind an ApplySet id in words, as far as its record may be read, and whether that is known to be gone."""
        if applyset not in self._owners:
            self._owners[applyset] = await self._find_owner(applyset)
        return self._owners[applyset]

    async def _find_owner(self, applyset: str) -> tuple[str, bool]:
        try:
            config_maps = await self._discovery.resource_for(GroupKind("", "ConfigMap"))
            found = await self._client.list(config_maps, "", labels=f"{APPLYSET_ID_LABEL}={applyset}", metadata_only=True)
        except DelegateError:
            return f"the ApplySet {applyset}", False
        for item in found.items:
            metadata = item["metadata"]
            application = (metadata.get("labels") or {}).get(APPLICATION_LABEL)
            if application:
                return f"the Application {application!r}", False
            return f"the ApplySet of ConfigMap {metadata['namespace']}/{metadata['name']}", False
        return f"the ApplySet {applyset}, whose record is gone", True


def _added_by_others(manifest: Manifest, metadata: JsonObject) -> Iterator[str]:
    """Keys that somebody put beside ours, in the kinds that are nothing but keys: no drift of what we state, and worth a word."""
    if manifest.group_kind not in (_SECRET, _CONFIG_MAP):
        return
    for entry in metadata.get("managedFields") or ():
        if is_of_others(entry):
            fields = entry.get("fieldsV1") or {}
            names = {name[2:] for part in ("f:data", "f:binaryData") for name in fields.get(part) or () if name.startswith("f:")}
            added = sorted(names - {*(manifest.body.get("data") or ()), *(manifest.body.get("binaryData") or ())})
            if added:
                hint = "annotate it with delegate.gitops/ownership: override to have them taken away"
                yield f"{manifest.key}: {entry.get('manager')} added {', '.join(added)}; {hint}"
