"""PodDisruptionBudgets: how many of the selected pods may go at once (pkg/controller/disruption)."""

from collections.abc import Iterable

from delegate.model.resources import JsonObject
from delegate.simulator.controllers.base import Controller, Key, condition_of, controller_of, is_active, is_ready, scaled
from delegate.simulator.selectors import of_label_selector
from delegate.simulator.store import Change, StorageKey, Stored

BUDGETS: StorageKey = ("policy", "poddisruptionbudgets")
PODS: StorageKey = ("", "pods")


class BudgetController(Controller):
    rank = 7
    watched = (BUDGETS, PODS)

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        stored = change.stored
        if table == BUDGETS:
            yield stored.namespace, stored.name
            return
        for budget in self.store.table(BUDGETS).items(stored.namespace):
            if of_label_selector(budget.body["spec"].get("selector"))(stored.body["metadata"].get("labels") or {}):
                yield budget.namespace, budget.name

    def sync(self, key: Key) -> float | None:
        stored = self.find("policy", "PodDisruptionBudget", key)
        if stored is None:
            return None
        matches = of_label_selector(stored.body["spec"].get("selector"))
        pods = [pod for pod in self.store.table(PODS).items(key[0]) if matches(pod.body["metadata"].get("labels") or {})]
        pods = [pod for pod in pods if is_active(pod.body)]
        expected = self._expected(stored, pods)
        desired = self._desired(stored.body["spec"], expected)
        healthy = sum(is_ready(pod.body) for pod in pods)
        allowed = max(healthy - desired, 0) if expected > 0 else 0
        generation = stored.body["metadata"]["generation"]
        status = {
            "observedGeneration": generation,
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": [self._condition(stored.body, allowed, generation)],
        }
        self.update_status(stored, "policy", "PodDisruptionBudget", status)
        return None

    def _condition(self, body: JsonObject, allowed: int, generation: int) -> JsonObject:
        state, reason = ("True", "SufficientPods") if allowed > 0 else ("False", "InsufficientPods")
        held = condition_of(body, "DisruptionAllowed")
        at = held["lastTransitionTime"] if held is not None and held["status"] == state else self.registry.now()
        return {
            "type": "DisruptionAllowed",
            "status": state,
            "observedGeneration": generation,
            "lastTransitionTime": at,
            "reason": reason,
            "message": "",
        }

    def _expected(self, stored: Stored, pods: list[Stored]) -> int:
        """How many pods there should be: those that are, for a whole number of them; else what their controllers want."""
        spec = stored.body["spec"]
        if isinstance(spec.get("minAvailable"), int):
            return len(pods)
        wanted = {}
        for pod in pods:
            owner = controller_of(pod.body)
            if owner is not None:
                found = self.store.by_uid(owner["uid"])
                if found is not None:
                    wanted[owner["uid"]] = int(found[1].body["spec"].get("replicas", 1))
        return sum(wanted.values()) or len(pods)

    def _desired(self, spec: JsonObject, expected: int) -> int:
        if "maxUnavailable" in spec:
            return max(expected - scaled(spec["maxUnavailable"], expected, up=True), 0)
        return scaled(spec.get("minAvailable", 1), expected, up=True)
