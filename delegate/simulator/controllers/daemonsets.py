"""DaemonSets: one pod for each node that fits, replaced a few at a time (pkg/controller/daemon)."""

from collections.abc import Iterable

from delegate.model.resources import JsonObject
from delegate.simulator.controllers import revisions
from delegate.simulator.controllers.base import (
    Controller,
    Key,
    is_available,
    is_finished,
    is_ready,
    owner_key,
    pod_from_template,
    scaled,
)
from delegate.simulator.defaults.workloads import TEMPLATE_GENERATION
from delegate.simulator.store import Change, StorageKey, Stored

SETS: StorageKey = ("apps", "daemonsets")
PODS: StorageKey = ("", "pods")
NODES: StorageKey = ("", "nodes")
COMPONENT = "daemonset-controller"
_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


class DaemonSetController(Controller):
    rank = 6
    watched = (SETS, PODS, NODES)

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        stored = change.stored
        if table == SETS:
            yield stored.namespace, stored.name
        elif table == PODS:
            yield from owner_key(stored.body, "DaemonSet")
        elif change.type != "MODIFIED" or change.before is None or change.before.body["spec"] != stored.body["spec"]:
            for item in self.store.table(SETS).items():
                yield item.namespace, item.name

    def sync(self, key: Key) -> float | None:
        stored = self.find("apps", "DaemonSet", key)
        if stored is None:
            return None
        self.adopt(*revisions.KIND, stored)
        self.adopt("", "Pod", stored)
        generation = (stored.body["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "1")
        revision = revisions.current(self, stored, revisions.HASH_LABEL, {TEMPLATE_GENERATION: generation})
        hashed = str(revision.body["metadata"]["labels"][revisions.HASH_LABEL])
        pods = self.owned("", "Pod", stored)
        nodes = [node for node in self.registry.items(self.resource("", "Node")) if _fits(stored.body, node.body)]
        if not stored.body["metadata"].get("deletionTimestamp"):
            self._place(stored, nodes, pods, hashed)
            self._roll(stored, nodes, pods, hashed)
        status = self._status(stored, nodes, pods, hashed)
        self.update_status(stored, "apps", "DaemonSet", status)
        revisions.clean_up(self, stored, {revision.name})
        ready = stored.body["spec"].get("minReadySeconds", 0)
        return float(ready) if ready and status.get("numberReady", 0) != status.get("numberAvailable", 0) else None

    def _place(self, stored: Stored, nodes: list[Stored], pods: list[Stored], hashed: str) -> None:
        names = {node.name for node in nodes}
        held = {_node_of(pod.body) for pod in pods}
        for pod in pods:
            gone = _node_of(pod.body) not in names or is_finished(pod.body)
            if gone and not pod.body["metadata"].get("deletionTimestamp"):
                self.delete(pod, "", "Pod")
                self.record(stored, COMPONENT, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")
        for node in nodes:
            if node.name not in held:
                pod = self.create("", "Pod", stored.namespace, self._pod(stored, node.name, hashed))
                self.record(stored, COMPONENT, "Normal", "SuccessfulCreate", f"Created pod: {pod.name}")

    def _pod(self, stored: Stored, node: str, hashed: str) -> JsonObject:
        body = pod_from_template(stored.copy()["spec"]["template"], stored)
        generation = (stored.body["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "1")
        labels = {revisions.HASH_LABEL: hashed, "pod-template-generation": generation}
        body["metadata"]["labels"] = {**(body["metadata"].get("labels") or {}), **labels}
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        affinity = body["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
        tolerations = body["spec"].setdefault("tolerations", [])
        for name, effect in _TOLERATED:
            wanted = {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
            if wanted not in tolerations:
                tolerations.append(wanted)
        return body

    def _roll(self, stored: Stored, nodes: list[Stored], pods: list[Stored], hashed: str) -> None:
        """Deletes outdated pods, as many at once as may be unavailable."""
        strategy = stored.body["spec"]["updateStrategy"]
        if strategy.get("type") != "RollingUpdate":
            return
        allowed = max(scaled((strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1), len(nodes), up=True), 1)
        live = [pod for pod in pods if not pod.body["metadata"].get("deletionTimestamp")]
        outdated = [pod for pod in live if (pod.body["metadata"].get("labels") or {}).get(revisions.HASH_LABEL) != hashed]
        if not outdated:
            return
        unavailable = len(nodes) - sum(self._available(stored, pod) for pod in live)
        for pod in sorted(outdated, key=lambda item: self._available(stored, item)):
            if self._available(stored, pod):
                if unavailable >= allowed:
                    return
                unavailable += 1
            self.delete(pod, "", "Pod")
            self.record(stored, COMPONENT, "Normal", "SuccessfulDelete", f"Deleted pod: {pod.name}")

    def _available(self, stored: Stored, pod: Stored) -> bool:
        return is_available(pod.body, stored.body["spec"].get("minReadySeconds", 0), self.registry.clock())

    def _status(self, stored: Stored, nodes: list[Stored], pods: list[Stored], hashed: str) -> JsonObject:
        names = {node.name for node in nodes}
        placed = [pod for pod in pods if _node_of(pod.body) in names]
        available = sum(self._available(stored, pod) for pod in placed)
        updated = sum((pod.body["metadata"].get("labels") or {}).get(revisions.HASH_LABEL) == hashed for pod in placed)
        status: JsonObject = {
            "currentNumberScheduled": len({_node_of(pod.body) for pod in placed}),
            "numberMisscheduled": len([pod for pod in pods if _node_of(pod.body) not in names]),
            "desiredNumberScheduled": len(nodes),
            "numberReady": sum(is_ready(pod.body) for pod in placed),
            "observedGeneration": stored.body["metadata"]["generation"],
        }
        more = {"updatedNumberScheduled": updated, "numberAvailable": available, "numberUnavailable": len(nodes) - available}
        return status | {key: value for key, value in more.items() if value}


def _node_of(pod: JsonObject) -> str:
    """The node that a pod is on or meant for."""
    name = pod["spec"].get("nodeName")
    if name:
        return str(name)
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""


def _fits(daemon_set: JsonObject, node: JsonObject) -> bool:
    """By node selector and name; taints are not looked at."""
    spec = daemon_set["spec"]["template"]["spec"]
    labels = node["metadata"].get("labels") or {}
    wanted = spec.get("nodeSelector") or {}
    named = spec.get("nodeName")
    return all(labels.get(key) == value for key, value in wanted.items()) and named in (None, node["metadata"]["name"])
