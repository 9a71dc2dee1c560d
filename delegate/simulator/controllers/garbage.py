"""Garbage collection by owner: dependents of a missing owner go; foreground waits for them; orphaning lets them go free."""

from collections.abc import Iterable

from delegate.model.resources import JsonObject
from delegate.simulator import deletions, statuses
from delegate.simulator.controllers.base import Controller, Key
from delegate.simulator.deletions import FOREGROUND, ORPHAN, DeleteOptions
from delegate.simulator.kinds import Resource
from delegate.simulator.store import Change, StorageKey, Stored


class GarbageController(Controller):
    """Keys are uids: `("owner", uid)` when an owner changed, `("dependent", uid)` when a dependent did."""

    rank = 4

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        stored = change.stored
        owners = stored.body["metadata"].get("ownerReferences") or ()
        if change.type == "DELETED":
            for owner in owners:
                yield "owner", owner.get("uid", "")
            yield "owner", stored.uid
            return
        before = change.before.body["metadata"].get("ownerReferences") or () if change.before is not None else ()
        if owners and before != owners:
            yield "dependent", stored.uid
        if stored.body["metadata"].get("deletionTimestamp"):
            yield "owner", stored.uid

    def sync(self, key: Key) -> float | None:
        kind, uid = key
        found = self.store.by_uid(uid)
        if kind == "dependent":
            if found is not None:
                self._check(*found)
            return None
        if found is None:
            for table, stored in self.store.dependents(uid):
                self._check(table, stored)
            return None
        finalizers = found[1].body["metadata"].get("finalizers") or ()
        if FOREGROUND in finalizers:
            self._foreground(*found)
        elif ORPHAN in finalizers:
            self._orphan(*found)
        return None

    def _resource(self, table: StorageKey) -> Resource | None:
        return next((item for item in self.registry.all_resources() if item.storage == table), None)

    def _check(self, table: StorageKey, stored: Stored) -> None:
        """Deletes a dependent whose owners are all gone; drops references to missing ones where another is there."""
        owners = stored.body["metadata"].get("ownerReferences") or []
        present = [owner for owner in owners if self._exists(owner, stored.namespace)]
        if len(present) == len(owners):
            return
        if present:
            body = stored.copy()
            body["metadata"]["ownerReferences"] = present
            self.store.commit(table, "MODIFIED", stored.namespace, stored.name, body)
            return
        resource = self._resource(table)
        if resource is not None and not stored.body["metadata"].get("deletionTimestamp"):
            self._delete(resource, stored, "Background")

    def _exists(self, owner: JsonObject, namespace: str) -> bool:
        found = self.store.by_uid(owner.get("uid", ""))
        return found is not None and found[1].namespace in ("", namespace)

    def _delete(self, resource: Resource, stored: Stored, propagation: str) -> None:
        try:
            deletions.delete(self.registry, resource, stored.namespace, stored.name, DeleteOptions(propagation=propagation, uid=stored.uid))
        except statuses.StatusError as error:
            if error.status != 404:
                raise

    def _foreground(self, table: StorageKey, owner: Stored) -> None:
        for place, stored in self.store.dependents(owner.uid):
            resource = self._resource(place)
            if resource is not None and not stored.body["metadata"].get("deletionTimestamp"):
                self._delete(resource, stored, "Foreground")
        if not any(
            item.get("uid") == owner.uid and item.get("blockOwnerDeletion")
            for _, stored in self.store.dependents(owner.uid)
            for item in stored.body["metadata"].get("ownerReferences") or ()
        ):
            self._release(table, owner, FOREGROUND)

    def _orphan(self, table: StorageKey, owner: Stored) -> None:
        for place, stored in self.store.dependents(owner.uid):
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
