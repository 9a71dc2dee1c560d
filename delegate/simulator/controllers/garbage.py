"""Garbage collection by owner: dependents of a missing owner go; foreground waits for them; orphaning lets them go free."""

from collections.abc import Iterable, Iterator

from delegate.model.resources import JsonObject
from delegate.simulator import deletions, statuses
from delegate.simulator.controllers.base import Controller, Key
from delegate.simulator.deletions import FOREGROUND, ORPHAN, DeleteOptions
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry
from delegate.simulator.store import Change, StorageKey, Stored


class GarbageController(Controller):
    """Keys are uids of owners: `("owner", uid)` when an owner changed, `("dependent", uid)` when a dependent did."""

    rank = 4

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self._dependents: dict[str, dict[str, tuple[StorageKey, str, str]]] = {}
        self._places: dict[str, tuple[StorageKey, str, str]] = {}

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        stored = change.stored
        uid = stored.uid
        owners = stored.body["metadata"].get("ownerReferences") or ()
        if change.type == "DELETED":
            self._places.pop(uid, None)
            for owner in owners:
                held = self._dependents.get(owner.get("uid", ""))
                if held is not None:
                    held.pop(uid, None)
                yield "owner", owner.get("uid", "")
            if uid in self._dependents:
                yield "owner", uid
            return
        self._places[uid] = (table, stored.namespace, stored.name)
        before = change.before.body["metadata"].get("ownerReferences") or () if change.before is not None else ()
        if before != owners:
            for owner in before:
                self._dependents.get(owner.get("uid", ""), {}).pop(uid, None)
            for owner in owners:
                self._dependents.setdefault(owner.get("uid", ""), {})[uid] = (table, stored.namespace, stored.name)
            if owners:
                yield "dependent", uid
        if stored.body["metadata"].get("deletionTimestamp"):
            yield "owner", uid

    def sync(self, key: Key) -> float | None:
        kind, uid = key
        if kind == "dependent":
            self._check(uid)
            return None
        place = self._places.get(uid)
        stored = self.store.table(place[0]).get(place[1], place[2]) if place else None
        if stored is None or stored.uid != uid:
            for dependent in list(self._dependents.get(uid, {})):
                self._check(dependent)
            self._dependents.pop(uid, None) if not self._dependents.get(uid) else None
            return None
        assert place is not None
        finalizers = stored.body["metadata"].get("finalizers") or ()
        if FOREGROUND in finalizers:
            self._foreground(place[0], stored)
        elif ORPHAN in finalizers:
            self._orphan(place[0], stored)
        return None

    def _resource(self, table: StorageKey) -> Resource | None:
        return next((item for item in self.registry.all_resources() if item.storage == table), None)

    def _held_by(self, uid: str) -> Iterator[tuple[StorageKey, Stored]]:
        for table, namespace, name in list(self._dependents.get(uid, {}).values()):
            stored = self.store.table(table).get(namespace, name)
            if stored is not None:
                yield table, stored

    def _check(self, uid: str) -> None:
        """Deletes a dependent whose owners are all gone; drops references to missing ones where another is there."""
        place = self._places.get(uid)
        stored = self.store.table(place[0]).get(place[1], place[2]) if place else None
        if place is None or stored is None:
            return
        owners = stored.body["metadata"].get("ownerReferences") or []
        present = [owner for owner in owners if self._exists(owner, stored.namespace)]
        if not owners or len(present) == len(owners):
            return
        if present:
            body = stored.copy()
            body["metadata"]["ownerReferences"] = present
            self.store.commit(place[0], "MODIFIED", stored.namespace, stored.name, body)
            return
        if stored.body["metadata"].get("deletionTimestamp"):
            return
        resource = self._resource(place[0])
        if resource is not None:
            self._delete(resource, stored, "Background")

    def _exists(self, owner: JsonObject, namespace: str) -> bool:
        place = self._places.get(owner.get("uid", ""))
        if place is None:
            return False
        return not place[1] or place[1] == namespace

    def _delete(self, resource: Resource, stored: Stored, propagation: str) -> None:
        try:
            deletions.delete(self.registry, resource, stored.namespace, stored.name, DeleteOptions(propagation=propagation, uid=stored.uid))
        except statuses.StatusError as error:
            if error.status != 404:
                raise

    def _foreground(self, table: StorageKey, owner: Stored) -> None:
        blocking = False
        for place, stored in self._held_by(owner.uid):
            reference = next((item for item in stored.body["metadata"]["ownerReferences"] if item.get("uid") == owner.uid), {})
            blocking = blocking or bool(reference.get("blockOwnerDeletion"))
            resource = self._resource(place)
            if resource is not None and not stored.body["metadata"].get("deletionTimestamp"):
                self._delete(resource, stored, "Foreground")
        if not any(
            item.get("uid") == owner.uid and item.get("blockOwnerDeletion")
            for _, stored in self._held_by(owner.uid)
            for item in stored.body["metadata"].get("ownerReferences") or ()
        ):
            self._release(table, owner, FOREGROUND)

    def _orphan(self, table: StorageKey, owner: Stored) -> None:
        for place, stored in self._held_by(owner.uid):
            body = stored.copy()
            left = [item for item in body["metadata"]["ownerReferences"] if item.get("uid") != owner.uid]
            if left:
                body["metadata"]["ownerReferences"] = left
            else:
                del body["metadata"]["ownerReferences"]
            self.store.commit(place, "MODIFIED", stored.namespace, stored.name, body)
        self._release(table, owner, ORPHAN)

    def _release(self, table: StorageKey, owner: Stored, finalizer: str) -> None:
        stored = self.store.table(table).get(owner.namespace, owner.name)
        resource = self._resource(table)
        if stored is None or resource is None or stored.uid != owner.uid:
            return
        body = stored.copy()
        left = [item for item in body["metadata"].get("finalizers") or () if item != finalizer]
        if left:
            body["metadata"]["finalizers"] = left
        else:
            body["metadata"].pop("finalizers", None)
        if deletions.is_released(resource, body):
            deletions.remove(self.registry, resource, stored, body)
        else:
            self.store.commit(table, "MODIFIED", stored.namespace, stored.name, body)
