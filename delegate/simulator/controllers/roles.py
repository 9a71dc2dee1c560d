"""Aggregated ClusterRoles: their rules are those of the roles that they select."""

from collections.abc import Iterable

from delegate.model.resources import JsonObject
from delegate.simulator.controllers.base import Controller, Key
from delegate.simulator.selectors import of_label_selector
from delegate.simulator.store import Change, StorageKey

ROLES: StorageKey = ("rbac.authorization.k8s.io", "clusterroles")


class RoleController(Controller):
    rank = 3
    watched = (ROLES,)

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        for stored in self.store.table(ROLES).items():
            if stored.body.get("aggregationRule"):
                yield "", stored.name

    def sync(self, key: Key) -> float | None:
        stored = self.store.table(ROLES).get(*key)
        if stored is None or not stored.body.get("aggregationRule"):
            return None
        matchers = [of_label_selector(item) for item in stored.body["aggregationRule"].get("clusterRoleSelectors") or ()]
        rules: list[JsonObject] = []
        for role in self.store.table(ROLES).items():
            labels = role.body["metadata"].get("labels") or {}
            if role.name != stored.name and any(matches(labels) for matches in matchers):
                rules += [rule for rule in role.body.get("rules") or () if rule not in rules]
        if rules != (stored.body.get("rules") or []):
            body = stored.copy()
            body["rules"] = rules
            self.update(stored, "rbac.authorization.k8s.io", "ClusterRole", body)
        return None
