"""Keeps an Application's releases in Secrets beside its inventory."""

import msgspec
import structlog

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import AlreadyExistsError, NotFoundError
from delegate.engine.records.errors import UnknownReleaseError
from delegate.model.errors import CorruptReleaseError
from delegate.model.inventory import APPLICATION_LABEL
from delegate.model.releases import (
    DETAILS_ANNOTATION,
    PART_LABEL,
    RELEASE_LABEL,
    Release,
    ReleaseOutcome,
    content_hash,
    decode_set,
    details_of,
    encode_set,
    next_number,
    outdated,
    read_part,
    read_release,
    release_name,
    release_secret,
)
from delegate.model.resource_types import SECRETS
from delegate.model.resources import JsonObject, Manifest

log = structlog.get_logger(__name__)


class ReleaseStore:
    """The releases of one Application, in the namespace of its records."""

    def __init__(self, client: ApiClient, application: str, namespace: str) -> None:
        self._client = client
        self._application = application
        self._namespace = namespace
        self._last_seen: list[Release] = []

    async def known(self) -> list[Release]:
        """Newest first; one that can't be read is left out and logged. Raises ClusterError."""
        labels = f"{APPLICATION_LABEL}={self._application},{PART_LABEL}=0"
        found = await self._client.list(SECRETS, self._namespace, labels=labels, metadata_only=True)
        releases = []
        for item in found.items:
            try:
                releases.append(read_release(item["metadata"]))
            except CorruptReleaseError as error:
                log.warning("release.unreadable", application=self._application, error=error.message)
        self._last_seen = sorted(releases, key=lambda release: -release.number)
        return self._last_seen

    async def load(self, number: int) -> tuple[Release, list[Manifest]]:
        """A release with its objects. Raises UnknownReleaseError, CorruptReleaseError, ClusterError."""
        first = await self._part(number, 0)
        release = read_release(first["metadata"])
        rest = [await self._part(number, part) for part in range(1, release.parts)]
        parts = [read_part(secret) for secret in (first, *rest)]
        if content_hash(parts) != release.content:
            raise CorruptReleaseError(f"release {number} of {self._application} is not as it was written", hint="choose another one")
        return release, decode_set(parts)

    async def begin(self, release: Release, manifests: list[Manifest]) -> Release:
        """Writes a release before its sync writes anything else; an earlier attempt's of the same operation is gone on with.

        `number`, `content`, `parts` and `objects` are filled in.
        """
        known = await self.known()
        parts = encode_set(manifests)
        wanted = msgspec.structs.replace(release, content=content_hash(parts), parts=len(parts), objects=len(manifests))
        for old in known:
            if old.operation == wanted.operation and old.content == wanted.content:
                return old
            if old.outcome is ReleaseOutcome.APPLYING:
                await self.finish(msgspec.structs.replace(old, outcome=ReleaseOutcome.INTERRUPTED, ended=release.began))
        wanted = msgspec.structs.replace(wanted, number=next_number(known))
        # The first part last: without it the others are no release, and are written over by the next attempt.
        for part in (*range(1, len(parts)), 0):
            await self._write(release_secret(self._application, self._namespace, wanted, part, parts[part]))
        self._last_seen = [wanted, *known]
        return wanted

    async def finish(self, release: Release) -> None:
        """Records how a release ended, or that it was verified. One that somebody deleted stays deleted."""
        patch = {"metadata": {"annotations": {DETAILS_ANNOTATION: details_of(release)}}}
        try:
            await self._client.patch(SECRETS, self._namespace, release_name(self._application, release.number), patch)
        except NotFoundError:
            log.info("release.gone", application=self._application, release=release.number)

    async def forget_outdated(self, ended: Release, limit: int) -> None:
        """Deletes what the history has no room for, of what was seen when the release began."""
        seen = [ended if release.number == ended.number else release for release in self._last_seen]
        for release in outdated(seen, limit):
            await self._remove(release)

    async def remove_all(self) -> None:
        for release in await self.known():
            await self._remove(release)

    async def _remove(self, release: Release) -> None:
        for part in range(release.parts):
            name = release_name(self._application, release.number, part)
            try:
                found = await self._client.get_metadata(SECRETS, self._namespace, name)
                await self._client.delete(SECRETS, self._namespace, name, uid=found["metadata"]["uid"])
            except NotFoundError:
                continue

    async def _write(self, secret: JsonObject) -> None:
        try:
            await self._client.create(SECRETS, secret)
        except AlreadyExistsError:
            # Of an attempt that died before its first part was there.
            name = str(secret["metadata"]["name"])
            live = await self._client.get_metadata(SECRETS, self._namespace, name)
            ours = (live["metadata"].get("labels") or {}).get(RELEASE_LABEL) == secret["metadata"]["labels"][RELEASE_LABEL]
            if not ours:
                raise
            metadata = {**secret["metadata"], "resourceVersion": live["metadata"]["resourceVersion"]}
            await self._client.replace(SECRETS, {**secret, "metadata": metadata})

    async def _part(self, number: int, part: int) -> JsonObject:
        name = release_name(self._application, number, part)
        try:
            return await self._client.get(SECRETS, self._namespace, name)
        except NotFoundError as error:
            raise UnknownReleaseError(
                f"{self._application} has no release {number} in namespace {self._namespace}",
                hint="it may be older than the history is long; look at the releases that there are",
            ) from error
