"""StatefulSets: pods by ordinal, created and updated in order, with claims of their own (pkg/controller/statefulset)."""

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
)
from delegate.simulator.store import Change, StorageKey, Stored

SETS: StorageKey = ("apps", "statefulsets")
PODS: StorageKey = ("", "pods")
COMPONENT = "statefulset-controller"
REVISION_LABEL = "controller.kubernetes.io/hash"
NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"


class StatefulSetController(Controller):
    rank = 6
    watched = (SETS, PODS)

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        stored = change.stored
        if table == SETS:
            yield stored.namespace, stored.name
        else:
            yield from owner_key(stored.body, "StatefulSet")

    def sync(self, key: Key) -> float | None:
        stored = self.find("apps", "StatefulSet", key)
        if stored is None:
            return None
        self.adopt(*revisions.KIND, stored)
        self.adopt("", "Pod", stored)
        update = revisions.current(self, stored, REVISION_LABEL)
        named = (stored.body.get("status") or {}).get("currentRevision", "")
        current = next((item for item in revisions.of_owner(self, stored) if item.name == named), update)
        pods = self._pods(stored)
        plan = _Plan(self, stored, current, update, pods)
        status = plan.status()
        if not stored.body["metadata"].get("deletionTimestamp"):
            plan.act(status)
        plan.complete(status)
        status = {key: value for key, value in status.items() if value or key in ("replicas", "availableReplicas", "collisionCount")}
        self.update_status(stored, "apps", "StatefulSet", _ordered(status))
        in_use = {current.name, update.name} | {_revision_of(pod.body) for pod in pods.values()}
        revisions.clean_up(self, stored, in_use)
        ready = stored.body["spec"].get("minReadySeconds", 0)
        return float(ready) if ready and status.get("readyReplicas", 0) != status["availableReplicas"] else None

    def _pods(self, stored: Stored) -> dict[int, Stored]:
        found = {}
        for pod in self.owned("", "Pod", stored):
            name, _, ordinal = pod.name.rpartition("-")
            if name == stored.name and ordinal.isdigit():
                found[int(ordinal)] = pod
        return found


_ORDER = [
    "observedGeneration",
    "replicas",
    "readyReplicas",
    "currentReplicas",
    "updatedReplicas",
    "currentRevision",
    "updateRevision",
    "collisionCount",
    "availableReplicas",
]


def _ordered(status: JsonObject) -> JsonObject:
    return {key: status[key] for key in _ORDER if key in status} | {key: value for key, value in status.items() if key not in _ORDER}


def _revision_of(pod: JsonObject) -> str:
    return str((pod["metadata"].get("labels") or {}).get(revisions.HASH_LABEL, ""))


class _Plan:
    """One look at one StatefulSet: what its status is, and the next step."""

    def __init__(self, controller: Controller, stored: Stored, current: Stored, update: Stored, pods: dict[int, Stored]) -> None:
        self.controller = controller
        self.stored = stored
        self.current = current
        self.update = update
        self.pods = pods
        spec = stored.body["spec"]
        self.spec = spec
        self.first = int((spec.get("ordinals") or {}).get("start", 0))
        self.wanted = range(self.first, self.first + spec["replicas"])
        self.ordered = spec.get("podManagementPolicy") == "OrderedReady"
        self.partition = int((spec["updateStrategy"].get("rollingUpdate") or {}).get("partition", 0))

    def _is_healthy(self, pod: Stored) -> bool:
        return is_ready(pod.body) and not pod.body["metadata"].get("deletionTimestamp")

    def _available(self, pod: Stored) -> bool:
        return is_available(pod.body, self.spec.get("minReadySeconds", 0), self.controller.registry.clock())

    def status(self) -> JsonObject:
        pods = list(self.pods.values())
        live = [pod for pod in pods if not pod.body["metadata"].get("deletionTimestamp")]
        return {
            "observedGeneration": self.stored.body["metadata"]["generation"],
            "replicas": len(pods),
            "readyReplicas": sum(is_ready(pod.body) for pod in pods),
            "currentReplicas": sum(_revision_of(pod.body) == self.current.name for pod in live),
            "updatedReplicas": sum(_revision_of(pod.body) == self.update.name for pod in live),
            "currentRevision": self.current.name,
            "updateRevision": self.update.name,
            "collisionCount": (self.stored.body.get("status") or {}).get("collisionCount", 0),
            "availableReplicas": sum(self._available(pod) for pod in pods),
        }

    def act(self, status: JsonObject) -> None:
        """Creates missing pods in order, removes those too many, then replaces outdated ones from the highest ordinal down."""
        if not self._create_missing(status) or not self._remove_excess():
            return
        if self.spec["updateStrategy"].get("type") == "OnDelete":
            return
        for ordinal in sorted((item for item in self.wanted if item >= self.partition), reverse=True):
            pod = self.pods.get(ordinal)
            if pod is None:
                return
            if _revision_of(pod.body) != self.update.name and not pod.body["metadata"].get("deletionTimestamp"):
                self._delete(pod)
                status["currentReplicas"] -= 1
                return
            if not self._is_healthy(pod):
                return

    def _create_missing(self, status: JsonObject) -> bool:
        """False where one has to wait for a pod before going on."""
        for ordinal in self.wanted:
            pod = self.pods.get(ordinal)
            if pod is not None and is_finished(pod.body) and not pod.body["metadata"].get("deletionTimestamp"):
                self._delete(pod)
                return False
            if pod is None:
                self._create(ordinal)
                if self.ordered:
                    return False
                continue
            if self.ordered and not (self._is_healthy(pod) and self._available(pod)):
                return False
        return True

    def _remove_excess(self) -> bool:
        excess = sorted((ordinal for ordinal in self.pods if ordinal not in self.wanted), reverse=True)
        for ordinal in excess:
            pod = self.pods[ordinal]
            if not pod.body["metadata"].get("deletionTimestamp"):
                self._delete(pod)
            if self.ordered:
                return False
        return not excess

    def _delete(self, pod: Stored) -> None:
        self.controller.delete(pod, "", "Pod")
        message = f"Delete Pod {pod.name} in StatefulSet {self.stored.name} successful"
        self.controller.record(self.stored, COMPONENT, "Normal", "SuccessfulDelete", message)

    def _create(self, ordinal: int) -> None:
        name = f"{self.stored.name}-{ordinal}"
        outdated = ordinal < self.partition and self.current.name != self.update.name
        revision = self.current if outdated else self.update
        body = pod_from_template(revisions.template_of(revision), self.stored, name)
        body["metadata"]["generateName"] = f"{self.stored.name}-"
        labels = {INDEX_LABEL: str(ordinal), revisions.HASH_LABEL: revision.name, NAME_LABEL: name}
        body["metadata"]["labels"] = {**(body["metadata"].get("labels") or {}), **labels}
        body["spec"]["hostname"] = name
        if self.spec.get("serviceName"):
            body["spec"]["subdomain"] = self.spec["serviceName"]
        self._add_claims(body, name)
        self.controller.create("", "Pod", self.stored.namespace, body)
        message = f"Create Pod {name} in StatefulSet {self.stored.name} successful"
        self.controller.record(self.stored, COMPONENT, "Normal", "SuccessfulCreate", message)

    def _add_claims(self, body: JsonObject, name: str) -> None:
        """A claim for each template, which the pod mounts and keeps over its lives."""
        templates = self.spec.get("volumeClaimTemplates") or ()
        volumes = [
            item for item in body["spec"].get("volumes") or () if item["name"] not in {each["metadata"]["name"] for each in templates}
        ]
        for template in templates:
            claim = f"{template['metadata']['name']}-{name}"
            volumes.append({"name": template["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim}})
            if self.controller.find("", "PersistentVolumeClaim", (self.stored.namespace, claim)) is None:
                labels = self.spec["selector"].get("matchLabels") or {}
                metadata = {**template["metadata"], "name": claim, "labels": {**(template["metadata"].get("labels") or {}), **labels}}
                self.controller.create("", "PersistentVolumeClaim", self.stored.namespace, {"metadata": metadata, "spec": template["spec"]})
        if volumes:
            body["spec"]["volumes"] = volumes

    def complete(self, status: JsonObject) -> None:
        """Makes the update revision the current one when every pod has it."""
        if (
            self.spec["updateStrategy"].get("type") == "RollingUpdate"
            and status["updatedReplicas"] == status["replicas"] == status["readyReplicas"] == self.spec["replicas"]
        ):
            status["currentReplicas"] = status["updatedReplicas"]
            status["currentRevision"] = self.update.name
