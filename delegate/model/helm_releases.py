"""Helm's own releases by their records: what they are, and which of them a rollback means. Pure.

A record is a Secret of the type helm.sh/release.v1: its state in labels, and the release as JSON, gzipped unless it is old, in base64 (and
in base64 once more, as all data of Secrets). Helm itself goes back to the number before, also where that one failed.
"""

import base64
import binascii
import datetime as dt
import zlib
from collections.abc import Sequence

import msgspec

from delegate.model.errors import CorruptReleaseError, NoReleaseError, ReleaseBusyError
from delegate.model.resources import JsonObject

RECORD_SELECTOR = "owner=helm,name={name}"
_LARGEST = 64 * 2**20
_GZIP = b"\x1f\x8b"
_PENDING = "pending-"
_DEPLOYED, _SUPERSEDED, _FAILED = "deployed", "superseded", "failed"


class HelmRecord(msgspec.Struct, frozen=True):
    """One revision of a release, by its labels. `modified`: seconds since 1970."""

    version: int
    status: str
    modified: float
    writers: str
    secret: JsonObject

    @property
    def is_pending(self) -> bool:
        return self.status.startswith(_PENDING)

    def __str__(self) -> str:
        return f"{self.version} ({self.status})"


class HelmChoice(msgspec.Struct, frozen=True):
    """The revision to go back to, that which runs now, and what there is to say. `pending`: one that an interrupted Helm has left."""

    target: HelmRecord
    current: HelmRecord
    pending: HelmRecord | None = None
    notices: tuple[str, ...] = ()


def read_records(secrets: Sequence[JsonObject]) -> tuple[HelmRecord, ...]:
    """By version, the newest first. What is no record is none of Helm's."""
    records = []
    for secret in secrets:
        metadata = secret.get("metadata") or {}
        labels = metadata.get("labels") or {}
        version, modified = str(labels.get("version", "")), str(labels.get("modifiedAt") or labels.get("createdAt") or "0")
        if not (version.isascii() and version.isdigit()):
            continue
        writers = ", ".join(dict.fromkeys(str(entry.get("manager")) for entry in metadata.get("managedFields") or ()))
        at = float(modified) if modified.isascii() and modified.isdigit() and len(modified) < 12 else 0.0
        records.append(HelmRecord(int(version), str(labels.get("status", "")), at, writers or "nobody named", secret))
    return tuple(sorted(records, key=lambda record: -record.version))


def choose_record(records: Sequence[HelmRecord], name: str, revision: int, *, now: float, unlock_after: float | None) -> HelmChoice:
    """By state, never by subtraction: a revision that failed is none to go back to.

    Raises NoReleaseError, which says what there is; for one that is pending longer than `unlock_after` seconds the choice goes on.
    """
    if not records:
        raise NoReleaseError(f"Helm has no release {name!r} there", hint="check the name and the destination's namespace")
    there = ", ".join(str(record) for record in records[:10])
    newest = records[0]
    pending = newest if newest.is_pending else None
    if pending is not None and (unlock_after is None or now - pending.modified < unlock_after):
        since = dt.datetime.fromtimestamp(pending.modified, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        raise ReleaseBusyError(
            f"revision {pending} of {name!r} is at work since {since}, written by {pending.writers}",
            hint="wait for it; or, once nobody is at work on it: helmRelease: {unlockAfter: 1h} takes one that is older for dead",
        )
    deployed = [record for record in records if record.status == _DEPLOYED]
    current = deployed[0] if deployed else newest
    notices = []
    if len(deployed) > 1:
        others = ", ".join(str(record.version) for record in deployed[1:])
        notices.append(f"Helm calls several revisions deployed: {current.version} is the newest, {others} are left as they are")
    if revision:
        found = [record for record in records if record.version == revision]
        if not found:
            raise NoReleaseError(f"release {name!r} has no revision {revision}", hint=f"there are {there}")
    elif newest.version > current.version:
        found = [current]  # what came after it failed, and half of it may be there
    else:
        found = [record for record in records if record.status == _SUPERSEDED and record.version < current.version]
    if not found:
        raise NoReleaseError(f"no revision of {name!r} before {current.version} has ever worked", hint=f"there are {there}")
    target = found[0]
    if target.status not in (_DEPLOYED, _SUPERSEDED):
        raise NoReleaseError(f"revision {target} of {name!r} has never worked", hint=f"name one that has: there are {there}")
    return HelmChoice(target, newest if newest.version > current.version else current, pending, tuple(notices))


def manifest_of(record: HelmRecord) -> str:
    """The objects of a revision, as YAML. Raises CorruptReleaseError."""
    return str(_decode(record).get("manifest", ""))


def as_failed(record: HelmRecord) -> JsonObject:
    """The Secret of a record that was left pending, saying that it failed. Raises CorruptReleaseError."""
    payload = _decode(record)
    payload["info"] = {**payload.get("info", {}), "status": _FAILED, "description": "nobody was at work on it any more"}
    compressor = zlib.compressobj(wbits=31)
    packed = compressor.compress(msgspec.json.encode(payload)) + compressor.flush()
    data = base64.b64encode(base64.b64encode(packed)).decode()
    metadata = record.secret["metadata"]
    labels = {**metadata["labels"], "status": _FAILED}
    return {**record.secret, "metadata": {**metadata, "labels": labels}, "data": {**record.secret["data"], "release": data}}


def _decode(record: HelmRecord) -> JsonObject:
    try:
        return msgspec.json.decode(_payload(record), type=JsonObject)
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise _corrupt(record) from None  # the decoder's words may hold values


def _payload(record: HelmRecord) -> bytes:
    try:
        packed = base64.b64decode(base64.b64decode((record.secret.get("data") or {})["release"], validate=True), validate=True)
        if not packed.startswith(_GZIP):
            return packed
        unpacker = zlib.decompressobj(wbits=31)
        unpacked = unpacker.decompress(packed, _LARGEST)
    except (KeyError, TypeError, binascii.Error, zlib.error):
        raise _corrupt(record) from None
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise _corrupt(record)
    return unpacked


def _corrupt(record: HelmRecord) -> CorruptReleaseError:
    metadata = record.secret.get("metadata") or {}
    place = f"Secret {metadata.get('namespace')}/{metadata.get('name')}"
    return CorruptReleaseError(f"{place} holds no release that can be read", hint="name another revision", object=place)
