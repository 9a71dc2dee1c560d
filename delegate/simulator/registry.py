"""The cluster's state as the API sees it: the store, the served kinds, the clock and the allocations, in one place to hand around."""

import random
import uuid
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator import customs, decoding
from delegate.simulator.addresses import Addresses
from delegate.simulator.clocks import Clock, wall_clock
from delegate.simulator.hashing import ALPHABET
from delegate.simulator.kinds import Resource, built_in
from delegate.simulator.store import Store, Stored

LONGEST_GENERATED = 63 - 5


class Registry:
    """What exists. Reads only; `writes` and `deletions` change it."""

    def __init__(self, clock: Clock = wall_clock, *, seed: int | None = None) -> None:
        self.store = Store()
        self.clock = clock
        self.addresses = Addresses()
        self.random = random.Random(seed)  # noqa: S311  # names, not secrets
        self._served: dict[tuple[str, str], dict[str, Resource]] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        self._empty_status: dict[tuple[str, str, str], JsonObject] = {}
        self.events: dict[tuple[str, str, str], str] = {}
        self.groups: list[str] = []
        for resource in built_in():
            self._serve(resource)

    def _serve(self, resource: Resource) -> None:
        self._served.setdefault((resource.group, resource.version), {})[resource.plural] = resource
        if resource.version == resource.storage_version or (resource.group, resource.kind) not in self._by_kind:
            self._by_kind[resource.group, resource.kind] = resource
        if resource.group not in self.groups:
            self.groups.append(resource.group)

    def resource(self, group: str, version: str, plural: str) -> Resource | None:
        return self._served.get((group, version), {}).get(plural)

    def kind(self, group: str, kind: str) -> Resource:
        """The storage version of a kind that is known to be served."""
        return self._by_kind[group, kind]

    def find_kind(self, group: str, kind: str) -> Resource | None:
        return self._by_kind.get((group, kind))

    def versions(self, group: str) -> list[str]:
        """The versions of a group, the preferred one first."""
        found = [version for name, version in self._served if name == group]
        return sorted(found, key=customs.priority)

    def served(self, group: str, version: str) -> list[Resource]:
        return sorted(self._served.get((group, version), {}).values(), key=lambda item: item.plural)

    def all_resources(self) -> list[Resource]:
        """One resource for each stored kind."""
        return list({resource.storage: resource for resource in self._by_kind.values()}.values())

    def serve_definition(self, crd: JsonObject) -> None:
        """Starts (or renews) serving what a definition defines."""
        self.stop_definition(crd["metadata"]["name"])
        for resource in customs.resources_of(crd):
            self._serve(resource)

    def stop_definition(self, name: str) -> None:
        for place, resources in list(self._served.items()):
            for plural, resource in list(resources.items()):
                if resource.definition is not None and resource.definition.name == name:
                    del resources[plural]
                    self._by_kind.pop((resource.group, resource.kind), None)
            if not resources:
                del self._served[place]
        self.groups = [group for group in self.groups if any(name == group for name, _ in self._served)]

    def get(self, resource: Resource, namespace: str, name: str) -> Stored | None:
        return self.store.table(resource.storage).get(namespace, name)

    def items(self, resource: Resource, namespace: str | None = None) -> list[Stored]:
        return self.store.table(resource.storage).items(namespace)

    def empty_status(self, resource: Resource) -> JsonObject | None:
        """The status that a new object of a built-in kind starts with."""
        if resource.custom:
            return None
        key = (resource.group, resource.version, resource.kind)
        found = self._empty_status.get(key)
        if found is None:
            found = self._empty_status[key] = decoding.zero(resource.type).get("status", {})
        return dict(found)

    def now(self) -> str:
        return self.clock().strftime("%Y-%m-%dT%H:%M:%SZ")

    def new_uid(self) -> str:
        return str(uuid.uuid4())

    def generated(self, base: str) -> str:
        """A name after `generateName`: five characters that spell no words."""
        return base[:LONGEST_GENERATED] + "".join(self.random.choices(ALPHABET, k=5))


def labels_of(body: JsonObject) -> dict[str, Any]:
    return body["metadata"].get("labels") or {}


def annotations_of(body: JsonObject) -> dict[str, Any]:
    return body["metadata"].get("annotations") or {}
