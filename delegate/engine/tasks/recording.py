"""The records of one sync: the inventory as it was last written, and the release that it makes."""

import asyncio
import datetime as dt
from collections.abc import Iterable

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import ClusterError, ForbiddenError
from delegate.engine.records.inventories import InventoryStore, StoredInventory
from delegate.engine.records.releases import ReleaseStore
from delegate.engine.tasks.errors import KnownBadError
from delegate.model.inventory import InventoryEntry, confirmed
from delegate.model.releases import Release, ReleaseOutcome, content_hash, encode_set
from delegate.model.resources import Manifest, ResourceKey


class InventoryKeeper:
    """The inventory as it was last written in this sync."""

    def __init__(self, store: InventoryStore, stored: StoredInventory) -> None:
        self._store = store
        self._stored = stored

    @property
    def stored(self) -> StoredInventory:
        return self._stored

    async def confirm(self, applied: Iterable[InventoryEntry], gone: Iterable[ResourceKey]) -> None:
        self._stored = await self._store.write(self._stored, confirmed(self._stored.inventory, applied, gone))


async def refuse_known_bad(client: ApiClient, application: str, namespace: str, manifests: Iterable[Manifest]) -> None:
    """Raises KnownBadError where this very set was rolled back from. Who may not read releases has none."""
    try:
        bad = [release for release in await ReleaseStore(client, application, namespace).known() if release.bad]
    except ForbiddenError:
        return
    if not bad:
        return
    content = await asyncio.to_thread(lambda: content_hash(encode_set(manifests)))
    for release in bad:
        if release.content == content:
            raise KnownBadError(
                f"this is what release {release.number} was, and that was rolled back from",
                hint="change what was wrong with it in the source; or take it all the same: options {force: true}",
            )


async def mark_verified(client: ApiClient, application: str, namespace: str) -> int:
    """Records that what runs now was verified, with its number; 0 where nothing is recorded, or what is was rolled back from."""
    store = ReleaseStore(client, application, namespace)
    known = await store.known()
    if not known or known[0].bad or known[0].outcome in (ReleaseOutcome.FAILED, ReleaseOutcome.APPLYING):
        return 0
    await store.finish(msgspec.structs.replace(known[0], verified=True))
    return known[0].number


class ReleaseKeeper:
    """The release of this sync. `notices` say why there is none, where it could not be kept."""

    def __init__(self, client: ApiClient, application: str, namespace: str, *, limit: int) -> None:
        self._store = ReleaseStore(client, application, namespace)
        self._client = client
        self._limit = limit
        self._release: Release | None = None
        self.notices: list[str] = []

    @property
    def number(self) -> int:
        return self._release.number if self._release else 0

    async def begin(self, release: Release, manifests: Iterable[Manifest]) -> None:
        """Before the first write. Who may not write Secrets has no history, and is told; nothing else depends on it."""
        try:
            began = msgspec.structs.replace(release, began=self._now())
            self._release = await self._store.begin(began, await asyncio.to_thread(list, manifests))
        except ForbiddenError as error:
            self.notices.append(f"no release is recorded, so there is nothing to roll back to: {error.message}")

    async def end(self, outcome: ReleaseOutcome, message: str = "") -> None:
        """Best effort: what was applied stays applied, whether or not this is written."""
        if self._release is None:
            return
        ended = msgspec.structs.replace(self._release, outcome=outcome, message=message[:500], ended=self._now())
        try:
            await self._store.finish(ended)
            await self._store.forget_outdated(ended, self._limit)
        except ClusterError as error:
            self.notices.append(f"how release {ended.number} ended is not recorded: {error.message}")

    def _now(self) -> str:
        return self._client.clock.now().astimezone(dt.UTC).isoformat(timespec="seconds")
