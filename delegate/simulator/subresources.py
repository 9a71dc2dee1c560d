"""The subresources that are neither status, scale nor log: evictions, bindings, tokens, finalizing namespaces."""

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import delete_options, deletions, statuses
from delegate.simulator.controllers.base import condition_of
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry, labels_of
from delegate.simulator.requests import RequestInfo
from delegate.simulator.selectors import of_label_selector
from delegate.simulator.store import Stored
from delegate.simulator.storing import Options, Outcome
from delegate.simulator.tokens import Tokens
from delegate.simulator.writes import Write

STREAMS = frozenset({"attach", "exec", "portforward", "proxy"})


def no_stream(info: RequestInfo) -> statuses.StatusError:
    """What leads into a container, where there is none."""
    return statuses.StatusError(501, f"nothing runs in a simulated {info.plural.removesuffix('s')}: there is no {info.subresource}")


def create(registry: Registry, resource: Resource, info: RequestInfo, body: JsonObject, options: Options, *, tokens: Tokens) -> Outcome:
    stored = registry.get(resource, info.namespace, info.name)
    if stored is None:
        raise statuses.not_found(resource.plural, resource.group, info.name)
    match info.subresource:
        case "eviction":
            return evict(registry, resource, info, body, options)
        case "token":
            return tokens.request(stored, body)
        case "binding":
            changed = stored.copy()
            changed["spec"]["nodeName"] = (body.get("target") or {}).get("name", "")
            registry.store.commit(resource.storage, "MODIFIED", stored.namespace, stored.name, changed)
            return Outcome({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, created=True)
        case _:
            raise statuses.method_not_allowed()


def evict(registry: Registry, resource: Resource, info: RequestInfo, body: JsonObject, options: Options) -> Outcome:
    """Deletes a pod unless a budget forbids it (429 with the budget's numbers)."""
    stored = registry.get(resource, info.namespace, info.name)
    assert stored is not None
    delete = delete_options.from_body(body.get("deleteOptions"))
    if options.dry_run:
        delete = msgspec.structs.replace(delete, dry_run=True)
    if stored.body["status"].get("phase") == "Running" and not stored.body["metadata"].get("deletionTimestamp"):
        _check_budget(registry, stored, dry_run=delete.dry_run)
    deletions.delete(registry, resource, info.namespace, info.name, delete)
    return Outcome({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, created=True)


def _check_budget(registry: Registry, pod: Stored, *, dry_run: bool) -> None:
    """Takes one disruption from the pod's budget, or refuses."""
    labels = labels_of(pod.body)
    table = registry.store.table(("policy", "poddisruptionbudgets"))
    budgets = [item for item in table.items(pod.namespace) if of_label_selector(item.body["spec"].get("selector"))(labels)]
    if len(budgets) > 1:
        message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise statuses.StatusError(500, message, reason="InternalError")
    for budget in budgets:
        status = budget.body["status"]
        ready = condition_of(pod.body, "Ready")
        if (ready is None or ready["status"] != "True") and status["currentHealthy"] >= status["desiredHealthy"] > 0:
            return
        if status["disruptionsAllowed"] <= 0:
            needs, has = status["desiredHealthy"], status["currentHealthy"]
            text = f"The disruption budget {budget.name} needs {needs} healthy pods and has {has} currently"
            raise statuses.StatusError(
                429,
                "Cannot evict pod as it would violate the pod's disruption budget.",
                reason="TooManyRequests",
                details={"causes": [{"reason": "DisruptionBudget", "message": text}]},
            )
        if not dry_run:
            changed = budget.copy()
            changed["status"]["disruptionsAllowed"] -= 1
            registry.store.commit(table.key, "MODIFIED", budget.namespace, budget.name, changed)


def finalize(write: Write, body: JsonObject) -> Outcome:
    """PUT of a namespace's `finalize`: the one way to change its spec's finalizers."""
    live, resource = write.live(), write.resource
    changed = live.copy()
    changed["spec"] = body.get("spec") or {}
    if write.options.dry_run:
        return Outcome(changed)
    if deletions.is_released(resource, changed):
        deletions.remove(write.registry, resource, live, changed)
        return Outcome(changed)
    stored = write.registry.store.commit(resource.storage, "MODIFIED", live.namespace, live.name, changed)
    return Outcome(stored.body, stored=stored)
