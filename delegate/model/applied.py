"""The applied mark: proof, from an object's metadata alone, that it is as it was last applied.

Every applied object carries `delegate.gitops/applied: <hash of the manifest>.<hash of our fieldsV1>`. The first part is
taken from the normalized manifest with its part-of label, without the mark; the second from the managedFields entry that a
dry run of the same apply answers with. The dry run is sent with a mark whose second part is zeros: the entry lists the
annotation's key and not its value, so it is the entry that the real apply leaves behind.

The entry keeps its content while nobody changes a field that we applied, and shrinks as soon as somebody does, by any
kind of write. Its time says nothing and is left out. What this can't see by design is a field that we never applied.
"""

import enum
import hashlib
import re

import msgspec

from delegate.model.resources import JsonObject

FIELD_MANAGER = "delegate"
CANARY_MANAGER = "delegate-canary"
"""Our own hand while a canary is under way."""
APPLIED_ANNOTATION = "delegate.gitops/applied"
PART_OF_LABEL = "applyset.kubernetes.io/part-of"

_HASH_CHARACTERS = 32  # 128 bits: no accident, and far from what anybody could make collide on purpose by writing manifests
_MARK = re.compile(r"([0-9a-f]{32})\.([0-9a-f]{32})")
_canonical = msgspec.json.Encoder(order="deterministic")


class Mark(msgspec.Struct, frozen=True):
    """Both hashes of an applied mark; `str()` is the annotation's value."""

    manifest: str
    fields: str

    def __str__(self) -> str:
        return f"{self.manifest}.{self.fields}"


class MarkState(enum.StrEnum):
    """What metadata tells of an object against what is wanted of it. Only `synced` needs no look at the body."""

    SYNCED = "synced"
    MANIFEST_CHANGED = "manifest_changed"  # something else is wanted now than what was applied last
    FIELDS_CHANGED = "fields_changed"  # somebody wrote a field that we applied, or wiped the managedFields
    UNMARKED = "unmarked"  # not applied by us, or the mark was taken off
    TERMINATING = "terminating"


def label_member(body: JsonObject, applyset_id: str) -> JsonObject:
    """A copy of a body that says which ApplySet it is part of. What is hashed, dry-run and applied starts from it."""
    metadata = body.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), PART_OF_LABEL: applyset_id}
    return {**body, "metadata": {**metadata, "labels": labels}}


def manifest_hash(body: JsonObject) -> str:
    """The hash of a labelled body: 32 hex digits, blind to the order of keys and to a mark that it may already carry."""
    return _digest(without_mark(body))


def fields_hash(entry: JsonObject) -> str:
    """The hash of a managedFields entry's `fieldsV1`: 32 hex digits, blind to its time and to the order of keys."""
    return _digest(entry.get("fieldsV1") or {})


def our_entry(metadata: JsonObject, manager: str = FIELD_MANAGER) -> JsonObject | None:
    """The managedFields entry of our server-side applies. The server keeps at most one a manager and subresource."""
    for entry in metadata.get("managedFields") or ():
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"):
            return dict(entry)
    return None


def mark_of(metadata: JsonObject) -> Mark | None:
    """The mark that an object carries, or None where it carries none that we could have written."""
    match = _MARK.fullmatch(str((metadata.get("annotations") or {}).get(APPLIED_ANNOTATION, "")))
    return Mark(match[1], match[2]) if match else None


def with_mark(body: JsonObject, mark: Mark) -> JsonObject:
    """A copy of a body that carries a mark, ready to be applied."""
    metadata = body.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), APPLIED_ANNOTATION: str(mark)}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


PENDING_FIELDS = "0" * _HASH_CHARACTERS
"""What a mark says whose object isn't as wanted yet: no metadata proves that one synced."""


def with_pending_mark(body: JsonObject, wanted: str = "") -> JsonObject:
    """A copy of a body for its dry run: it carries the mark's key and first part, the second is not known yet.

    The first part is `wanted` where rules beyond the manifest say how it is applied, else the body's own hash.
    """
    return with_mark(body, Mark(wanted or manifest_hash(body), PENDING_FIELDS))


def without_mark(body: JsonObject) -> JsonObject:
    """A body without its mark; the same object where it carries none. An empty annotations map goes too."""
    metadata = body.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if APPLIED_ANNOTATION not in annotations and (annotations or "annotations" not in metadata):
        return body
    rest = {name: value for name, value in annotations.items() if name != APPLIED_ANNOTATION}
    metadata = {name: value for name, value in metadata.items() if name != "annotations"}
    return {**body, "metadata": {**metadata, "annotations": rest} if rest else metadata}


def mark_after(dry_run: JsonObject, body: JsonObject, manager: str = FIELD_MANAGER) -> Mark:
    """The mark for the real apply of a body, from the answer to its dry run."""
    entry = our_entry(dry_run.get("metadata") or {}, manager) or {}
    return Mark(manifest_hash(body), fields_hash(entry))


def mark_state(metadata: JsonObject, desired_hash: str, manager: str = FIELD_MANAGER) -> MarkState:
    """How a live object stands to a wanted manifest, by its metadata alone (a PartialObjectMetadata's will do)."""
    if metadata.get("deletionTimestamp"):
        return MarkState.TERMINATING
    mark = mark_of(metadata)
    if mark is None:
        return MarkState.UNMARKED
    if mark.manifest != desired_hash:
        return MarkState.MANIFEST_CHANGED
    entry = our_entry(metadata, manager)
    if entry is None or fields_hash(entry) != mark.fields:
        return MarkState.FIELDS_CHANGED
    return MarkState.SYNCED


def is_synced(metadata: JsonObject, desired_hash: str, manager: str = FIELD_MANAGER) -> bool:
    """Whether a live object is as wanted, by its metadata alone. A no means: look at its body."""
    return mark_state(metadata, desired_hash, manager) is MarkState.SYNCED


def _digest(document: object) -> str:
    return hashlib.sha256(_canonical.encode(document)).hexdigest()[:_HASH_CHARACTERS]
