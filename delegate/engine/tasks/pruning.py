"""Takes away what an Application owns and no longer wants, in mirrored order, and forgets nothing that could not be removed."""

import asyncio
from collections.abc import Callable

import msgspec
import structlog

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.discovery import Discovery
from delegate.engine.clusters.errors import NotFoundError, RecreatedObjectError, UnknownKindError
from delegate.engine.records.leases import WriteLease
from delegate.engine.tasks.concurrency import for_each
from delegate.engine.tasks.errors import PruneIncompleteError
from delegate.engine.tasks.observing import observe_members
from delegate.foundation.errors import DelegateError
from delegate.model.applied import PART_OF_LABEL
from delegate.model.inventory import InventoryEntry
from delegate.model.plan import PlannedChange, plan_prune
from delegate.model.resources import GroupKind, JsonObject, Manifest, ResourceKey, ResourceType
from delegate.model.schemas import served_types
from delegate.model.sync_options import Consent, Propagation, SyncOptionSet, options_of
from delegate.model.waves import order_for_prune

log = structlog.get_logger(__name__)
_POLL_SECONDS = 0.2
_DEFINITION = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
_CONFIRM_HINT = "sync once with options {confirm: true} to delete them all"


class Leftovers(msgspec.Struct, frozen=True):
    """What is owned and no longer wanted: to prune, already gone (or no longer ours), and to keep, with the reasons.

    `ignored` are those whose own annotation says that being there still is no difference.
    """

    prunes: tuple[PlannedChange, ...] = ()
    gone: tuple[ResourceKey, ...] = ()
    notices: tuple[str, ...] = ()
    types: dict[ResourceKey, ResourceType] = {}
    propagations: dict[ResourceKey, Propagation] = {}
    kept: tuple[ResourceKey, ...] = ()
    ignored: frozenset[ResourceKey] = frozenset()

    @property
    def extraneous(self) -> list[ResourceKey]:
        """What makes an Application OutOfSync while it is still there."""
        return [key for key in (*self.kept, *(prune.key for prune in self.prunes)) if key not in self.ignored]


class Removal(msgspec.Struct, frozen=True):
    """On what terms objects may go. `ends`: the Application itself does, not only what it no longer wants."""

    confirmed: bool = False
    ends: bool = False
    options: SyncOptionSet = SyncOptionSet()

    def reason_to_keep(self, own: SyncOptionSet) -> str:
        consent, word = (own.delete, "Delete") if self.ends else (own.prune, "Prune")
        if consent is Consent.NO:
            return f"it is annotated {word}=false"
        if consent is Consent.CONFIRM and not self.confirmed:
            return f"it is annotated {word}=confirm; sync once with options {{confirm: true}}"
        return ""


async def find_leftovers(
    client: ApiClient, discovery: Discovery, applyset: str, stale: tuple[InventoryEntry, ...], removal: Removal
) -> Leftovers:
    """Looks at each stale entry of the inventory. What can't be read now is neither pruned nor forgotten."""
    types, gone, notices = dict[ResourceKey, ResourceType](), list[ResourceKey](), list[str]()
    for entry in stale:
        try:
            types[entry.key] = await discovery.resource_for(entry.group_kind)
        except UnknownKindError:
            gone.append(entry.key)  # without its definition no object of a kind is left
        except DelegateError as error:
            notices.append(f"{entry.key} is kept for now: {error.message}")
    observed = await observe_members(client, types, applyset)
    notices += [f"{key} is kept for now: {error.message}" for key, error in observed.unreadable.items()]
    prunes: dict[ResourceKey, PlannedChange] = {}
    waves = {entry.key: entry.wave for entry in stale}
    propagations, kept, ignored = dict[ResourceKey, Propagation](), list[ResourceKey](), set[ResourceKey]()
    for entry in stale:
        key = entry.key
        if key not in types or key in observed.unreadable:
            continue
        metadata = observed.metadata.get(key) or await _unlabelled(client, types[key], key)
        reason = _reason_to_leave(key, metadata, applyset)
        if metadata is None or reason:
            gone.append(key)
            notices += [reason] if reason else []
            continue
        own, _ = options_of(metadata, removal.options)
        ignored |= {key} if own.extraneous else set()
        to_keep = removal.reason_to_keep(own)
        if not to_keep and key.group_kind == _DEFINITION and not removal.confirmed:
            to_keep = await _reason_to_keep_definition(client, types[key], key, applyset)
        if to_keep:
            kept.append(key)
            notices.append(f"{key} is no longer wanted and is kept: {to_keep}")
        else:
            prunes[key] = plan_prune(key, entry.version, str(metadata["uid"]), wave=entry.wave)
            propagations[key] = own.propagation
    ordered = tuple(prunes[key] for stage in order_for_prune(prunes, waves) for key in stage.keys)
    return Leftovers(ordered, tuple(gone), tuple(notices), types, propagations, tuple(kept), frozenset(ignored))


async def _reason_to_keep_definition(client: ApiClient, definitions: ResourceType, key: ResourceKey, applyset: str) -> str:
    """A definition takes every object of its kind along, also those of others: they are looked for."""
    try:
        served = served_types(Manifest(await client.get(definitions, "", key.name)))
        for kind in served[:1]:
            others = await client.list(kind, "", labels=f"{PART_OF_LABEL}!={applyset}", metadata_only=True)
            if others.items:
                first = others.items[0]["metadata"]
                place = "/".join(part for part in (first.get("namespace"), first["name"]) if part)
                return f"{len(others.items)} objects of its kind are not ours, {place} among them; {_CONFIRM_HINT}"
    except NotFoundError:
        return ""
    except DelegateError as error:
        return f"it can't be told whether others have objects of its kind: {error.message}; {_CONFIRM_HINT}"
    return ""


async def _unlabelled(client: ApiClient, resource_type: ResourceType, key: ResourceKey) -> JsonObject | None:
    """The metadata of an object that no ApplySet lists; None where it doesn't exist."""
    try:
        body = await client.get_metadata(resource_type, key.namespace, key.name)
    except NotFoundError:
        return None
    metadata: JsonObject = body["metadata"]
    return metadata


def _reason_to_leave(key: ResourceKey, metadata: JsonObject | None, applyset: str) -> str:
    if metadata is None:
        return ""
    owner = (metadata.get("labels") or {}).get(PART_OF_LABEL)
    if owner == applyset:
        return ""
    whose = f"its label {PART_OF_LABEL} names another owner" if owner else f"somebody took its label {PART_OF_LABEL} off"
    return f"{key} is no longer ours and is left alone: {whose}"


class Pruner:
    """Deletes planned prunes stage by stage. `on_gone` hears of each object that is really gone.

    While something of a stage is still there, the next is not begun: a definition would take along what its controller has still to
    see to, and that controller may be next itself.
    """

    def __init__(self, client: ApiClient, leftovers: Leftovers, authority: WriteLease, *, on_gone: Callable[[PlannedChange], None]) -> None:
        self._client = client
        self._leftovers = leftovers
        self._authority = authority
        self._on_gone = on_gone

    async def prune(self, deadline: float) -> dict[ResourceKey, DelegateError]:
        """The survivors and why; empty where everything is gone. `deadline` (loop time) bounds the waits for finalizers."""
        by_key = {prune.key: prune for prune in self._leftovers.prunes}
        survivors: dict[ResourceKey, DelegateError] = {}
        for stage in order_for_prune(by_key, {key: prune.wave for key, prune in by_key.items()}):
            if survivors:
                in_the_way = next(iter(survivors))
                survivors |= {key: _kept_until(key, in_the_way) for key in stage.keys}
                continue
            outcomes = await for_each(stage.keys, lambda key: self._remove(by_key[key], deadline))
            survivors |= {key: error for key, error in zip(stage.keys, outcomes, strict=True) if error is not None}
        return survivors

    async def _remove(self, prune: PlannedChange, deadline: float) -> DelegateError | None:
        key = prune.key
        self._authority.check()
        try:
            propagation = self._leftovers.propagations.get(key, "Background")
            await self._client.delete(self._leftovers.types[key], key.namespace, key.name, uid=prune.uid, propagation=propagation)
            await self._await_gone(prune, deadline)
        except (NotFoundError, RecreatedObjectError):
            pass  # gone, or another object of that name: either way ours is no more
        except DelegateError as error:
            log.warning("prune.survivor", object=str(key), error=error.message)
            return error
        self._on_gone(prune)
        return None

    async def _await_gone(self, prune: PlannedChange, deadline: float) -> None:
        key = prune.key
        while True:
            body = await self._client.get_metadata(self._leftovers.types[key], key.namespace, key.name)
            metadata = body["metadata"]
            if metadata.get("uid") != prune.uid:
                return
            if asyncio.get_running_loop().time() > deadline:
                finalizers = ", ".join(metadata.get("finalizers") or ()) or "none"
                raise PruneIncompleteError(
                    f"{key} is being deleted since {metadata.get('deletionTimestamp')} and waits for its finalizers: {finalizers}",
                    hint="whoever owns the finalizers has to let it go; the next sync looks again",
                    object=str(key),
                )
            await asyncio.sleep(_POLL_SECONDS)


def _kept_until(key: ResourceKey, survivor: ResourceKey) -> PruneIncompleteError:
    return PruneIncompleteError(f"{key} is kept until {survivor} is gone, which comes before it", object=str(key))
