"""ResourceQuotas: the status says what is used of what is allowed (counts of objects)."""

from collections.abc import Iterable

from delegate.simulator import admission
from delegate.simulator.controllers.base import Controller, Key
from delegate.simulator.store import Change, StorageKey

QUOTAS: StorageKey = ("", "resourcequotas")


class QuotaController(Controller):
    rank = 8

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        if table == QUOTAS:
            yield change.stored.namespace, change.stored.name
        elif change.type != "MODIFIED" and change.stored.namespace:
            for quota in self.store.table(QUOTAS).items(change.stored.namespace):
                yield quota.namespace, quota.name

    def sync(self, key: Key) -> float | None:
        stored = self.find("", "ResourceQuota", key)
        if stored is None:
            return None
        hard = (stored.body.get("spec") or {}).get("hard") or {}
        used = {name: str(count) for name in hard if (count := admission.used(self.registry, key[0], name)) is not None}
        self.update_status(stored, "", "ResourceQuota", {"hard": hard, "used": used} if hard else {})
        return None
