"""Releases: what an Application was at a time, whole enough to be put back without its source.

A release is written by a sync that changes something: before the first write as `applying`, afterwards with how it ended. It holds
every object as it was applied, hooks included, compressed and in pieces of what a Secret can hold; a Secret, for there may be Secrets
among the objects.
"""

import base64
import binascii
import enum
import gzip
import hashlib
import zlib
from collections.abc import Iterable, Sequence

import msgspec

from delegate.model.errors import CorruptReleaseError
from delegate.model.inventory import APPLICATION_LABEL, inventory_name
from delegate.model.ownership import IgnoredDifference, OwnershipRule
from delegate.model.resources import JsonObject, Manifest, Origin
from delegate.model.results import Summary

RELEASE_TYPE = "delegate.gitops/release"
RELEASE_LABEL = "delegate.gitops/release"
PART_LABEL = "delegate.gitops/release-part"
DETAILS_ANNOTATION = "delegate.gitops/release-details"
DEFAULT_LIMIT = 10

_PART_BYTES = 600_000
"""Under the 1 MiB that a Secret may hold, as base64 and with room for the rest of a request."""

_LARGEST_SET_BYTES = 256 * 2**20
_DATA_KEY = "set"


class ReleaseOutcome(enum.StrEnum):
    APPLYING = "applying"
    HEALTHY = "healthy"  # everything of it became healthy
    APPLIED = "applied"  # that was not waited for, or did not come in time
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # its sync ended without a word


class Release(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One of an Application's releases, without its objects. `number` counts from 1; `content` is the hash of the set.

    `verified` is set by who has evidence that it is good, beyond health; `bad` once it was rolled back from. `restores` is the
    number of the release that it put back. `ignored` and `ownership` are the rules that it was applied by. Times are ISO 8601 in UTC.
    """

    number: int
    revision: str = ""
    content: str = ""
    operation: str = ""
    plan: str = ""
    outcome: ReleaseOutcome = ReleaseOutcome.APPLYING
    verified: bool = False
    began: str = ""
    ended: str = ""
    message: str = ""
    objects: int = 0
    parts: int = 1
    summary: Summary = Summary()
    task: str = ""
    restores: int = 0
    bad: bool = False
    ignored: tuple[IgnoredDifference, ...] = ()
    ownership: tuple[OwnershipRule, ...] = ()

    @property
    def is_good(self) -> bool:
        return not self.bad and (self.verified or self.outcome is ReleaseOutcome.HEALTHY)


class _Written(msgspec.Struct, frozen=True, array_like=True):
    body: JsonObject
    file: str
    line: int
    document: int


def encode_set(manifests: Iterable[Manifest]) -> list[bytes]:
    """The objects of a release in pieces; the same bytes for the same objects."""
    written = [_Written(each.body, each.origin.file, each.origin.line, each.origin.document) for each in manifests]
    data = gzip.compress(msgspec.json.encode(written), compresslevel=6, mtime=0)
    return [data[start : start + _PART_BYTES] for start in range(0, len(data), _PART_BYTES)]


def decode_set(parts: Sequence[bytes]) -> list[Manifest]:
    """What `encode_set` took. Raises CorruptReleaseError."""
    try:
        unfolding = zlib.decompressobj(wbits=31)
        text = unfolding.decompress(b"".join(parts), _LARGEST_SET_BYTES)
        if not unfolding.eof:
            raise CorruptReleaseError("the set of a release is cut short or far too large")
        written = msgspec.json.decode(text, type=list[_Written])
    except (zlib.error, msgspec.DecodeError) as error:
        raise CorruptReleaseError(f"the set of a release can't be read: {error}") from error
    return [Manifest(each.body, Origin(each.file, each.line, each.document)) for each in written]


def content_hash(parts: Sequence[bytes]) -> str:
    return hashlib.sha256(b"".join(parts)).hexdigest()


def release_name(application: str, number: int, part: int = 0) -> str:
    """Names of an Application's other records can't be among these: theirs have no dot after the Application's name."""
    name = f"{inventory_name(application)}.r{number}"
    return f"{name}.{part}" if part else name


def release_secret(application: str, namespace: str, release: Release, part: int, data: bytes) -> JsonObject:
    """The Secret that holds one piece of a release; the first carries its details."""
    labels = {APPLICATION_LABEL: application, RELEASE_LABEL: str(release.number), PART_LABEL: str(part)}
    metadata: JsonObject = {"name": release_name(application, release.number, part), "namespace": namespace, "labels": labels}
    if part == 0:
        metadata["annotations"] = {DETAILS_ANNOTATION: details_of(release)}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": RELEASE_TYPE,
        "data": {_DATA_KEY: base64.b64encode(data).decode()},
    }


def details_of(release: Release) -> str:
    return msgspec.json.encode(release).decode()


def read_release(metadata: JsonObject) -> Release:
    """The release whose first Secret has this metadata. Raises CorruptReleaseError."""
    text = (metadata.get("annotations") or {}).get(DETAILS_ANNOTATION, "")
    try:
        return msgspec.json.decode(text, type=Release)
    except msgspec.DecodeError as error:
        raise CorruptReleaseError(
            f"Secret {metadata.get('namespace', '')}/{metadata.get('name', '')} holds no release that can be read: {error}",
            hint="delete it: the other releases are not touched by that",
        ) from error


def read_part(secret: JsonObject) -> bytes:
    """Raises CorruptReleaseError."""
    try:
        return base64.b64decode((secret.get("data") or {})[_DATA_KEY], validate=True)
    except (KeyError, binascii.Error) as error:
        raise CorruptReleaseError(f"Secret {secret['metadata']['name']} holds no part of a release") from error


def next_number(releases: Iterable[Release]) -> int:
    return max((release.number for release in releases), default=0) + 1


def outdated(releases: Iterable[Release], limit: int) -> list[Release]:
    """What a history of so many releases has no room for: the oldest, but never the last good one nor the last verified one."""
    newest_first = sorted(releases, key=lambda release: -release.number)
    good = next((release.number for release in newest_first if release.is_good), 0)
    verified = next((release.number for release in newest_first if release.verified), 0)
    return [release for release in newest_first[max(1, limit) :] if release.number not in (good, verified)]
