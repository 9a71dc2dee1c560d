"""Versioned objects in memory, with a log of changes that watches read from.

One version counter for everything, as etcd has. A stored body is never changed in place: whoever wants to change an object decodes
its bytes. Each table keeps its last changes; who asks for older ones is told that they have expired.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import msgspec

from delegate.model.resources import JsonObject

LOGGED_CHANGES = 10_000
"""Changes that a table remembers for watches."""

EventType = Literal["ADDED", "MODIFIED", "DELETED"]
StorageKey = tuple[str, str]


class Place(NamedTuple):
    """Where an object is."""

    table: StorageKey
    namespace: str
    name: str


class Stored:
    """An object at one version, and its JSON."""

    __slots__ = ("body", "name", "namespace", "raw", "version")

    def __init__(self, namespace: str, name: str, body: JsonObject, version: int) -> None:
        self.namespace = namespace
        self.name = name
        self.body = body
        self.version = version
        self.raw = msgspec.json.encode(body)

    def copy(self) -> JsonObject:
        """A body that the caller may change."""
        decoded: JsonObject = msgspec.json.decode(self.raw)
        return decoded

    @property
    def uid(self) -> str:
        return str(self.body["metadata"].get("uid", ""))


class Change:
    """One entry of a table's log."""

    __slots__ = ("before", "stored", "type", "version")

    def __init__(self, type_: EventType, version: int, stored: Stored, before: Stored | None) -> None:
        self.type = type_
        self.version = version
        self.stored = stored
        self.before = before


class Table:
    """All objects of one kind."""

    def __init__(self, key: StorageKey) -> None:
        self.key = key
        self.namespaces: dict[str, dict[str, Stored]] = {}
        self.log: deque[Change] = deque(maxlen=LOGGED_CHANGES)
        self.forgotten = 0
        self.count = 0
        self._waiting: set[asyncio.Future[None]] = set()
        self._sorted: dict[str, list[Stored]] = {}

    def get(self, namespace: str, name: str) -> Stored | None:
        found = self.namespaces.get(namespace)
        return found.get(name) if found else None

    def items(self, namespace: str | None = None) -> list[Stored]:
        """Objects in the order of their keys; of one namespace, or of all."""
        if namespace is None:
            return [item for place in sorted(self.namespaces, key=lambda name: name + "/") for item in self.items(place)]
        found = self._sorted.get(namespace)
        if found is None:
            held = self.namespaces.get(namespace, {})
            found = self._sorted[namespace] = [held[name] for name in sorted(held)]
        return found

    def put(self, change: Change) -> None:
        stored = change.stored
        held = self.namespaces.setdefault(stored.namespace, {})
        if change.type == "DELETED":
            del held[stored.name]
            self.count -= 1
            if not held:
                del self.namespaces[stored.namespace]
        else:
            self.count += change.type == "ADDED"
            held[stored.name] = stored
        self._sorted.pop(stored.namespace, None)
        if len(self.log) == LOGGED_CHANGES:
            self.forgotten = self.log[0].version
        self.log.append(change)
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        self._waiting.clear()

    def changes_after(self, version: int) -> list[Change]:
        found = []
        for change in reversed(self.log):
            if change.version <= version:
                break
            found.append(change)
        found.reverse()
        return found

    def forget(self, version: int) -> None:
        """Drops the log up to a version: watches from before it are answered that it has expired."""
        while self.log and self.log[0].version <= version:
            self.log.popleft()
        self.forgotten = max(self.forgotten, version)

    async def changed(self) -> None:
        """Waits for the next change."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)


def _owner_uids(body: JsonObject) -> tuple[str, ...]:
    owners = body["metadata"].get("ownerReferences")
    return tuple(owner.get("uid", "") for owner in owners) if owners else ()


class Store:
    """Every table, and the version counter."""

    def __init__(self) -> None:
        self.version = 1
        self.tables: dict[StorageKey, Table] = {}
        self.listeners: list[Callable[[StorageKey, Change], None]] = []
        self._dependents: dict[str, dict[str, Place]] = {}
        self._places: dict[str, Place] = {}

    def table(self, key: StorageKey) -> Table:
        found = self.tables.get(key)
        if found is None:
            found = self.tables[key] = Table(key)
        return found

    def commit(self, key: StorageKey, type_: EventType, namespace: str, name: str, body: JsonObject) -> Stored:
        """Stores a body under the next version (which it is given), or removes the object; the caller gives the body away."""
        table = self.table(key)
        before = table.get(namespace, name)
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        stored = Stored(namespace, name, body, self.version)
        change = Change(type_, self.version, stored, before)
        table.put(change)
        self._index(key, change)
        for listener in self.listeners:
            listener(key, change)
        return stored

    def put_back(self, key: StorageKey, change: Change) -> None:
        """Takes in an object as it was at its version, without anyone being told."""
        self.table(key).put(change)
        self._index(key, change)
        self.version = max(self.version, change.version)

    def _index(self, key: StorageKey, change: Change) -> None:
        """Keeps who owns what, and where an object is by its uid."""
        stored, before = change.stored, change.before
        owners = _owner_uids(stored.body) if change.type != "DELETED" else ()
        held = _owner_uids(before.body) if before is not None else ()
        for uid in held:
            if uid not in owners:
                found = self._dependents.get(uid)
                if found is not None:
                    found.pop(stored.uid, None)
                    if not found:
                        del self._dependents[uid]
        place = Place(key, stored.namespace, stored.name)
        for uid in owners:
            self._dependents.setdefault(uid, {})[stored.uid] = place
        if change.type == "DELETED":
            self._places.pop(stored.uid, None)
        elif change.type == "ADDED":
            self._places[stored.uid] = place

    def by_uid(self, uid: str) -> tuple[StorageKey, Stored] | None:
        """The object with a uid, wherever it is."""
        place = self._places.get(uid)
        return self._at(uid, place) if place is not None else None

    def dependents(self, uid: str) -> list[tuple[StorageKey, Stored]]:
        """The objects that name a uid among their owners."""
        found = (self._at(own, place) for own, place in list(self._dependents.get(uid, {}).items()))
        return [item for item in found if item is not None]

    def _at(self, uid: str, place: Place) -> tuple[StorageKey, Stored] | None:
        stored = self.table(place.table).get(place.namespace, place.name)
        return (place.table, stored) if stored is not None and stored.uid == uid else None

    def everything(self) -> Iterator[tuple[StorageKey, Stored]]:
        for key, table in self.tables.items():
            for stored in table.items():
                yield key, stored
