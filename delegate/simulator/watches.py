"""Watches: changes after a version, initial events, bookmarks, and the ways a watch ends."""

import asyncio
from collections.abc import AsyncIterator, Mapping

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import listing, statuses, tables, writes
from delegate.simulator.kinds import Resource
from delegate.simulator.reads import Form, partial, raw_object, selection_of, too_large
from delegate.simulator.registry import Registry
from delegate.simulator.requests import truthy
from delegate.simulator.store import Change, Stored, Table

BOOKMARK_SECONDS = 60.0
LONGEST_SECONDS = 3600.0


class Watch:
    """One open watch; `lines` yields its events as JSON lines until its time is over."""

    def __init__(self, registry: Registry, resource: Resource, namespace: str | None, query: Mapping[str, str], form: Form) -> None:
        listing.check_watch(query)
        self._registry = registry
        self._resource = resource
        self._namespace = namespace
        self._form = form
        self._include = query.get("includeObject", "")
        self._selection = selection_of(resource, query)
        self._bookmarks = truthy(query.get("allowWatchBookmarks"))
        self._initial = listing.wants_initial_events(query)
        self._seconds = min(float(listing.number(query, "timeoutSeconds")) or LONGEST_SECONDS, LONGEST_SECONDS)
        self._table: Table = registry.store.table(resource.storage)
        self._start = query.get("resourceVersion", "")
        self._columns_told = False
        self._dropped = False
        self._check_start()

    def _check_start(self) -> None:
        if int(self._start or 0) > self._registry.store.version:
            raise too_large(int(self._start), self._registry.store.version)

    def drop(self) -> None:
        """Ends the watch at its next event, as a broken connection would."""
        self._dropped = True

    async def lines(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        end = loop.time() + self._seconds
        next_bookmark = loop.time() + min(BOOKMARK_SECONDS, max(self._seconds - 2, self._seconds / 2))
        seen = self._registry.store.version
        begins = self._start in ("", "0")
        if self._initial or (begins and self._initial is None):
            existing = self._existing()
            if existing:
                yield b"".join(existing)
            if self._initial and self._bookmarks:
                yield self._bookmark(seen, end_of_initial=True)
        elif not begins:
            seen = int(self._start)
            if seen < self._table.forgotten:
                yield self._too_old(seen)
                return
        while not self._dropped:
            changes = self._table.changes_after(seen)
            if changes:
                seen = changes[-1].version
                found = [line for change in changes if (line := self._line(change)) is not None]
                if found:
                    yield b"".join(found)
                continue
            now = loop.time()
            if now >= end:
                return
            if self._bookmarks and now >= next_bookmark:
                next_bookmark = now + BOOKMARK_SECONDS
                yield self._bookmark(self._registry.store.version, end_of_initial=False)
            until = min(end, next_bookmark) if self._bookmarks else end
            try:
                async with asyncio.timeout_at(until):
                    await self._table.changed()
            except TimeoutError:
                continue

    def _existing(self) -> list[bytes]:
        items = self._table.items(self._namespace)
        return [self._event("ADDED", item) for item in items if self._matches(item)]

    def _matches(self, stored: Stored) -> bool:
        if self._namespace is not None and stored.namespace != self._namespace:
            return False
        return self._selection.everything or self._selection.matches(writes.as_version(stored, self._resource))

    def _line(self, change: Change) -> bytes | None:
        """The event that a change is for this watch: an object that leaves the selection is deleted, as it was before."""
        before = change.before is not None and change.type != "ADDED" and self._matches(change.before)
        after = change.type != "DELETED" and self._matches(change.stored)
        if after:
            return self._event("MODIFIED" if before else "ADDED", change.stored)
        if not before:
            return None
        if change.type == "DELETED":
            return self._event("DELETED", change.stored)
        assert change.before is not None
        body = change.before.copy()
        body["metadata"]["resourceVersion"] = str(change.version)
        return self._event("DELETED", Stored(change.before.namespace, change.before.name, body, change.version))

    def _event(self, kind: str, stored: Stored) -> bytes:
        if self._form.partial:
            raw = msgspec.json.encode(partial(writes.as_version(stored, self._resource), self._form.version))
        elif self._form.table:
            body = writes.as_version(stored, self._resource)
            made = tables.table_of(self._resource, [body], str(stored.version), self._registry.now(), self._include)
            if self._columns_told:
                made["columnDefinitions"] = None
            self._columns_told = True
            raw = msgspec.json.encode(made)
        else:
            raw = raw_object(stored, self._resource)
        return b'{"type":"' + kind.encode() + b'","object":' + raw + b"}\n"

    def _bookmark(self, version: int, *, end_of_initial: bool) -> bytes:
        metadata: JsonObject = {"resourceVersion": str(version)}
        if end_of_initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        body: JsonObject = {"kind": self._resource.kind, "apiVersion": self._resource.api_version, "metadata": metadata}
        if self._form.partial:
            body = partial(body, self._form.version)
        return msgspec.json.encode({"type": "BOOKMARK", "object": body}) + b"\n"

    def _too_old(self, version: int) -> bytes:
        message = f"too old resource version: {version} ({self._table.forgotten})"
        status = statuses.StatusError(410, message, reason="Expired").body()
        return msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"
