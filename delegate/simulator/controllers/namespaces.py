"""Namespaces that terminate: their content goes first, what holds it is told in conditions."""

from collections.abc import Iterable

from delegate.model.resources import JsonObject
from delegate.simulator import deletions, statuses
from delegate.simulator.aggregation import remote
from delegate.simulator.controllers.base import Controller, Key
from delegate.simulator.deletions import DeleteOptions
from delegate.simulator.registry import Registry
from delegate.simulator.store import Change, StorageKey, Stored

NAMESPACES: StorageKey = ("", "namespaces")
RETRY_SECONDS = 1.0
GRACE_SECONDS = 5.0
"""The real controller lets a namespace rest this long, so that all API servers have seen that it terminates."""


class NamespaceController(Controller):
    rank = 3

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self._noticed: dict[str, float] = {}

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        if table == NAMESPACES:
            if change.stored.body["metadata"].get("deletionTimestamp"):
                yield "", change.stored.name
        elif change.type == "DELETED" and change.stored.namespace:
            yield "", change.stored.namespace

    def sync(self, key: Key) -> float | None:
        stored = self.store.table(NAMESPACES).get(*key)
        if stored is None or not stored.body["metadata"].get("deletionTimestamp"):
            return None
        rested = self.registry.clock().timestamp() - self._noticed.setdefault(stored.uid, self.registry.clock().timestamp())
        if rested < GRACE_SECONDS:
            return GRACE_SECONDS - rested
        left = self._delete_content(key[1])
        stored = self.store.table(NAMESPACES).get(*key)
        assert stored is not None
        if left or remote(self.registry):
            self.update_status(stored, "", "Namespace", self._status(stored.body, left))
            return RETRY_SECONDS
        body = stored.copy()
        body["spec"]["finalizers"] = [item for item in body["spec"].get("finalizers", []) if item != "kubernetes"]
        if not body["spec"]["finalizers"]:
            del body["spec"]["finalizers"]
        resource = self.resource("", "Namespace")
        if deletions.is_released(resource, body):
            self._noticed.pop(stored.uid, None)
            deletions.remove(self.registry, resource, stored, body)
        elif body != stored.body:
            self.store.commit(NAMESPACES, "MODIFIED", "", stored.name, body)
        return None

    def _delete_content(self, namespace: str) -> list[tuple[str, Stored]]:
        """Asks for the deletion of everything inside; what is still there afterwards."""
        left = []
        for resource in self.registry.all_resources():
            if not resource.namespaced or "delete" not in resource.verbs:
                continue
            for item in list(self.registry.items(resource, namespace)):
                if not item.body["metadata"].get("deletionTimestamp"):
                    options = DeleteOptions(propagation="Background", grace_seconds=None)
                    try:
                        deletions.delete(self.registry, resource, namespace, item.name, options)
                    except statuses.StatusError:
                        continue
            left += [(f"{resource.plural}.{resource.group}", item) for item in self.registry.items(resource, namespace)]
        return left

    def _discovered(self) -> tuple[str, str, str]:
        """What can't be looked through, because another server is to serve it and doesn't, keeps every namespace."""
        failed = remote(self.registry)
        if not failed:
            return "False", "ResourcesDiscovered", "All resources successfully discovered"
        stale = ", ".join(sorted(f"{item}: stale GroupVersion discovery: {item}" for item in failed))
        text = f"Discovery failed for some groups, {len(failed)} failing: unable to retrieve the complete list of server APIs: {stale}"
        return "True", "DiscoveryFailed", text

    def _status(self, body: JsonObject, left: list[tuple[str, Stored]]) -> JsonObject:
        kinds: dict[str, int] = {}
        holders: dict[str, int] = {}
        for name, item in left:
            kinds[name] = kinds.get(name, 0) + 1
            for finalizer in item.body["metadata"].get("finalizers") or ():
                holders[finalizer] = holders.get(finalizer, 0) + 1
        content = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(kinds.items()))
        held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(holders.items()))
        found = [
            ("NamespaceDeletionDiscoveryFailure", *self._discovered()),
            ("NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
            (
                "NamespaceDeletionContentFailure",
                "False",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            ("NamespaceContentRemaining", "True", "SomeResourcesRemain", f"Some resources are remaining: {content}"),
        ]
        if not kinds:
            found[-1] = ("NamespaceContentRemaining", "False", "ContentRemoved", "All content successfully removed")
        if held:
            found.append(
                (
                    "NamespaceFinalizersRemaining",
                    "True",
                    "SomeFinalizersRemain",
                    f"Some content in the namespace has finalizers remaining: {held}",
                )
            )
        else:
            found.append(("NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers", "All content-preserving finalizers finished"))
        before = {item["type"]: item for item in (body.get("status") or {}).get("conditions") or ()}
        conditions = []
        for kind, state, reason, message in found:
            held_before = before.get(kind)
            at = held_before["lastTransitionTime"] if held_before and held_before["status"] == state else self.registry.now()
            conditions.append({"type": kind, "status": state, "lastTransitionTime": at, "reason": reason, "message": message})
        return {"phase": "Terminating", "conditions": conditions}
