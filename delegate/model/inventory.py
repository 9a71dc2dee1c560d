"""What an Application owns in a cluster, and the ConfigMap that remembers it.

The record is written ahead: as `intended` (all that was owned and all that is wanted) before the first create, as
`confirmed` once the writes and the prune are through. What a prune could not remove stays in it, so nothing that we
created is ever forgotten, whenever the process dies. A ConfigMap that holds one is an ApplySet parent (KEP-3659), so
that other tools see whose the members are and keep off.
"""

import base64
import binascii
import enum
import gzip
import hashlib
import zlib
from collections.abc import Iterable
from typing import Any

import msgspec

from delegate.model.applied import PART_OF_LABEL
from delegate.model.contests import Contest
from delegate.model.errors import CorruptInventoryError, ForeignInventoryError, InventoryTooLargeError
from delegate.model.resources import GroupKind, JsonObject, Manifest, ResourceKey

APPLYSET_ID_LABEL = "applyset.kubernetes.io/id"
TOOLING_ANNOTATION = "applyset.kubernetes.io/tooling"
GROUP_KINDS_ANNOTATION = "applyset.kubernetes.io/contains-group-kinds"
NAMESPACES_ANNOTATION = "applyset.kubernetes.io/additional-namespaces"
APPLICATION_LABEL = "delegate.gitops/application"
TOOLING = "delegate/v1"

_DATA_KEY = "inventory.json.gz"
_FORMAT = 1
_LARGEST_DOCUMENT_BYTES = 64 * 2**20  # a bound on what a few compressed bytes may unfold into
_LARGEST_RECORD_BYTES = 700_000  # as base64 under the 1 MiB that a ConfigMap may hold


class InventoryState(enum.StrEnum):
    INTENDED = "intended"
    CONFIRMED = "confirmed"


class InventoryEntry(msgspec.Struct, frozen=True, array_like=True, order=True):
    """One owned object. `uid` is empty until the cluster has told it; the version is how it was last applied."""

    group: str
    kind: str
    namespace: str
    name: str
    version: str
    uid: str = ""
    wave: int = 0

    @property
    def key(self) -> ResourceKey:
        return ResourceKey(self.group, self.kind, self.namespace, self.name)

    @property
    def group_kind(self) -> GroupKind:
        return GroupKind(self.group, self.kind)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


class Inventory(msgspec.Struct, frozen=True):
    """The entries, sorted, one a key; the fence of the attempt that wrote them; the revision that they belong to.

    `operation` names the sync that wrote it: an attempt that finds one unconfirmed goes on with it. `contests` are the fields that
    somebody else keeps changing.
    """

    entries: tuple[InventoryEntry, ...] = ()
    fence: int = 0
    state: InventoryState = InventoryState.CONFIRMED
    revision: str = ""
    operation: str = ""
    contests: tuple[Contest, ...] = ()

    def __post_init__(self) -> None:
        if len({entry.key for entry in self.entries}) != len(self.entries):
            raise ValueError("an inventory holds each object once")
        ordered = tuple(sorted(self.entries))
        if ordered != self.entries:
            msgspec.structs.force_setattr(self, "entries", ordered)

    def keys(self) -> frozenset[ResourceKey]:
        return frozenset(entry.key for entry in self.entries)

    def group_kinds(self) -> frozenset[GroupKind]:
        return frozenset(entry.group_kind for entry in self.entries)


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    format: int
    state: InventoryState
    fence: int
    revision: str
    entries: tuple[InventoryEntry, ...]
    operation: str = ""
    contests: tuple[Contest, ...] = ()


def entry_of(manifest: Manifest, uid: str = "", wave: int = 0) -> InventoryEntry:
    """The entry of a manifest whose namespace is settled."""
    key = manifest.key
    return InventoryEntry(key.group, key.kind, key.namespace, key.name, manifest.version, uid, wave)


def intended(
    previous: Inventory,
    wanted: Iterable[InventoryEntry],
    *,
    fence: int,
    revision: str,
    operation: str = "",
    contests: tuple[Contest, ...] = (),
) -> Inventory:
    """What to write before the first create: all that was owned and all that is wanted. Known uids are kept."""
    entries = {entry.key: entry for entry in previous.entries}
    for entry in wanted:
        known = entries.get(entry.key)
        keeps_uid = known is not None and not entry.uid
        entries[entry.key] = msgspec.structs.replace(entry, uid=known.uid) if known is not None and keeps_uid else entry
    return Inventory(tuple(entries.values()), fence, InventoryState.INTENDED, revision, operation, contests)


def confirmed(written: Inventory, applied: Iterable[InventoryEntry], gone: Iterable[ResourceKey]) -> Inventory:
    """What to write once the work is done, from what was intended.

    `applied` carries the uids that the writes answered; `gone` names what was pruned or was found missing. Everything
    else stays: an object whose write failed may exist after all, and one that could not be pruned is still ours.
    """
    entries = {entry.key: entry for entry in written.entries}
    entries |= {entry.key: entry for entry in applied}
    for key in gone:
        entries.pop(key, None)
    return msgspec.structs.replace(written, entries=tuple(entries.values()), state=InventoryState.CONFIRMED)


def to_prune(previous: Inventory, wanted: Iterable[InventoryEntry]) -> tuple[InventoryEntry, ...]:
    """What was owned and is no longer wanted, sorted.

    An object that is now written under another group (an Ingress that left `extensions`) is the same object by its uid
    and is not pruned: pass `wanted` with the uids of the live objects where they are known.
    """
    wanted = tuple(wanted)
    keys = {entry.key for entry in wanted}
    uids = {entry.uid for entry in wanted if entry.uid}
    return tuple(entry for entry in previous.entries if entry.key not in keys and entry.uid not in uids)


def encode_inventory(inventory: Inventory) -> bytes:
    """Gzipped JSON, the same bytes for the same inventory. Raises InventoryTooLargeError past what a ConfigMap holds."""
    document = _Document(
        _FORMAT, inventory.state, inventory.fence, inventory.revision, inventory.entries, inventory.operation, inventory.contests
    )
    data = gzip.compress(msgspec.json.encode(document), compresslevel=9, mtime=0)
    if len(data) > _LARGEST_RECORD_BYTES:
        raise InventoryTooLargeError(
            f"the record of {len(inventory.entries)} objects takes {len(data)} bytes; a ConfigMap holds {_LARGEST_RECORD_BYTES}",
            hint="split the Application into several",
        )
    return data


def decode_inventory(data: bytes) -> Inventory:
    """The inventory that `encode_inventory` wrote. Raises CorruptInventoryError."""
    try:
        unfolding = zlib.decompressobj(wbits=31)
        text = unfolding.decompress(data, _LARGEST_DOCUMENT_BYTES)
        if not unfolding.eof:
            raise CorruptInventoryError("the inventory is cut short or far too large", hint=_CORRUPT_HINT)
        document = msgspec.json.decode(text, type=_Document)
        if document.format != _FORMAT:
            raise CorruptInventoryError(
                f"the inventory has format {document.format}; this version reads {_FORMAT}", hint="use a newer delegate"
            )
        return Inventory(document.entries, document.fence, document.state, document.revision, document.operation, document.contests)
    except (zlib.error, msgspec.DecodeError, ValueError) as error:
        raise CorruptInventoryError(f"the inventory can't be read: {error}", hint=_CORRUPT_HINT) from error


_CORRUPT_HINT = (
    "restore the ConfigMap from a backup; or delete it, and objects that are no longer wanted have to be removed by hand "
    f"(they carry the label {PART_OF_LABEL})"
)


def inventory_name(application: str) -> str:
    """The name of the ConfigMap, and of the Lease beside it."""
    return f"delegate-{application}"


def applyset_id(name: str, namespace: str, kind: str = "ConfigMap", group: str = "") -> str:
    """The id of an ApplySet by its parent, as KEP-3659 defines it: 55 characters, fit for a label."""
    digest = hashlib.sha256(f"{name}.{namespace}.{kind}.{group}".encode()).digest()
    return f"applyset-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}-v1"


def application_applyset_id(application: str, namespace: str) -> str:
    """The id that the members of an Application carry, by the namespace that its inventory lives in."""
    return applyset_id(inventory_name(application), namespace)


def inventory_config_map(application: str, namespace: str, inventory: Inventory) -> JsonObject:
    """The ConfigMap that holds an inventory. Raises InventoryTooLargeError.

    It carries no resourceVersion: whoever replaces an existing one adds the one that it has read.
    """
    name = inventory_name(application)
    kinds = sorted(f"{kind}.{group}" if group else kind for group, kind in inventory.group_kinds())
    namespaces = sorted({entry.namespace for entry in inventory.entries} - {"", namespace})
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {APPLYSET_ID_LABEL: applyset_id(name, namespace), APPLICATION_LABEL: application},
            "annotations": {
                TOOLING_ANNOTATION: TOOLING,
                GROUP_KINDS_ANNOTATION: ",".join(kinds),
                NAMESPACES_ANNOTATION: ",".join(namespaces),
            },
        },
        "data": {"summary": _summary(inventory)},
        "binaryData": {_DATA_KEY: base64.b64encode(encode_inventory(inventory)).decode()},
    }


def read_inventory(config_map: JsonObject) -> Inventory:
    """The inventory in a ConfigMap. Raises ForeignInventoryError (another tool's parent) or CorruptInventoryError."""
    metadata: dict[str, Any] = config_map.get("metadata") or {}
    place = f"ConfigMap {metadata.get('namespace', '')}/{metadata.get('name', '')}"
    tooling = str((metadata.get("annotations") or {}).get(TOOLING_ANNOTATION, ""))
    if tooling.partition("/")[0] != TOOLING.partition("/")[0]:
        owner = f"belongs to {tooling!r}" if tooling else f"carries no {TOOLING_ANNOTATION} annotation"
        raise ForeignInventoryError(
            f"{place} {owner}, so it is no inventory of ours",
            hint="rename the Application, or remove the ConfigMap",
            object=place,
        )
    if tooling != TOOLING:
        raise ForeignInventoryError(
            f"{place} was written by {tooling!r}; this version reads {TOOLING!r}", hint="use a newer delegate", object=place
        )
    try:
        data = base64.b64decode((config_map.get("binaryData") or {})[_DATA_KEY], validate=True)
        return decode_inventory(data)
    except (KeyError, binascii.Error) as error:
        raise CorruptInventoryError(f"{place} holds no {_DATA_KEY} that can be read", hint=_CORRUPT_HINT, object=place) from error
    except CorruptInventoryError as error:
        error.object = place
        raise


def _summary(inventory: Inventory) -> str:
    revision = f", revision {inventory.revision}" if inventory.revision else ""
    return f"{len(inventory.entries)} objects, {inventory.state.value} by fence {inventory.fence}{revision}"
