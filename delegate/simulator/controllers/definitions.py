"""CustomResourceDefinitions: names are accepted, kinds established a moment later, and cleaned up after."""

from collections.abc import Iterable

from delegate.model.resources import JsonObject
from delegate.simulator import deletions, strategies
from delegate.simulator.controllers.base import Controller, Key, condition_of
from delegate.simulator.registry import Registry
from delegate.simulator.store import Change, StorageKey, Stored

DEFINITIONS: StorageKey = ("apiextensions.k8s.io", "customresourcedefinitions")
ESTABLISHING_SECONDS = 0.1
"""Between the names' acceptance and the first request that is served; the real server takes longer, so that nobody relies on less."""


class DefinitionController(Controller):
    rank = 2
    watched = (DEFINITIONS,)

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self._accepted_at: dict[str, float] = {}

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        yield "", change.stored.name

    def sync(self, key: Key) -> float | None:
        stored = self.store.table(DEFINITIONS).get(*key)
        if stored is None:
            self.registry.stop_definition(key[1])
            return None
        if stored.body["metadata"].get("deletionTimestamp"):
            return self._finalize(stored)
        accepted = condition_of(stored.body, "NamesAccepted")
        if accepted is None:
            self._accept(stored)
            return ESTABLISHING_SECONDS
        if condition_of(stored.body, "Established") is None:
            waited = self.registry.clock().timestamp() - self._accepted_at.get(key[1], 0.0)
            if waited < ESTABLISHING_SECONDS:
                return ESTABLISHING_SECONDS - waited
            stored = self._establish(stored)
        self._follow_names(stored)
        self.registry.serve_definition(stored.body)
        return None

    def _names(self, body: JsonObject) -> JsonObject:
        names = body["spec"]["names"]
        return {key: names[key] for key in ("plural", "singular", "shortNames", "kind", "listKind", "categories") if names.get(key)}

    def _condition(self, kind: str, reason: str, message: str) -> JsonObject:
        return {"type": kind, "status": "True", "lastTransitionTime": self.registry.now(), "reason": reason, "message": message}

    def _accept(self, stored: Stored) -> None:
        body = stored.copy()
        status = body["status"]
        status["acceptedNames"] = self._names(body)
        others = [item for item in status.get("conditions") or () if item["type"] != "NamesAccepted"]
        status["conditions"] = [*others, self._condition("NamesAccepted", "NoConflicts", "no conflicts found")]
        self._accepted_at[stored.name] = self.registry.clock().timestamp()
        self._write(stored, body)

    def _establish(self, stored: Stored) -> Stored:
        body = stored.copy()
        condition = self._condition("Established", "InitialNamesAccepted", "the initial names have been accepted")
        body["status"]["conditions"].append(condition)
        return self._write(stored, body)

    def _follow_names(self, stored: Stored) -> None:
        names = self._names(stored.body)
        if stored.body["status"].get("acceptedNames") != names:
            body = stored.copy()
            body["status"]["acceptedNames"] = names
            self._write(stored, body)

    def _write(self, stored: Stored, body: JsonObject) -> Stored:
        return self.store.commit(DEFINITIONS, "MODIFIED", "", stored.name, body)

    def _finalize(self, stored: Stored) -> float | None:
        finalizers = stored.body["metadata"].get("finalizers") or []
        if strategies.CRD_CLEANUP not in finalizers:
            return None
        group, plural = stored.body["spec"]["group"], stored.body["spec"]["names"]["plural"]
        table = self.store.table((group, plural))
        resource = self.registry.find_kind(group, stored.body["spec"]["names"]["kind"])
        for item in list(table.items()):
            if resource is not None and not item.body["metadata"].get("deletionTimestamp"):
                deletions.delete(self.registry, resource, item.namespace, item.name, deletions.DeleteOptions())
        if table.count:
            return 0.5
        body = stored.copy()
        body["metadata"]["finalizers"] = [item for item in finalizers if item != strategies.CRD_CLEANUP]
        if not body["metadata"]["finalizers"]:
            del body["metadata"]["finalizers"]
        definition = self.resource("apiextensions.k8s.io", "CustomResourceDefinition")
        if deletions.is_released(definition, body):
            deletions.remove(self.registry, definition, stored, body)
        else:
            self._write(stored, body)
        self.registry.stop_definition(stored.name)
        return None
