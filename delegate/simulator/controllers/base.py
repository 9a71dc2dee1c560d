"""What every controller is made of: keys to look at, one synchronous step per key, and writes in the controller manager's name."""

import datetime as dt
import json
from collections.abc import Iterable
from typing import Any, ClassVar

from delegate.model.resources import JsonObject
from delegate.simulator import deletions, statuses
from delegate.simulator.deletions import DeleteOptions
from delegate.simulator.kinds import Resource
from delegate.simulator.registry import Registry
from delegate.simulator.selectors import of_label_selector
from delegate.simulator.store import Change, StorageKey, Stored
from delegate.simulator.storing import Options
from delegate.simulator.writes import Write

MANAGER = "kube-controller-manager"
TIME = "%Y-%m-%dT%H:%M:%SZ"
REMEMBERED_EVENTS = 10_000
"""Events that are counted up instead of written again."""

Key = tuple[str, str]
"""Namespace and name of what a controller is to look at."""


class Controller:
    """One controller. `rank` orders the work: the lower one acts first on what has changed, equal ones in the order of the changes, so
    that what is written does not depend on timing."""

    rank: ClassVar[int] = 5
    watched: ClassVar[tuple[StorageKey, ...]] = ()

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.store = registry.store

    def rank_of(self, table: StorageKey, change: Change) -> int:
        """The rank of the work that a change makes."""
        return self.rank

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        """What has to be looked at after a change in a watched table."""
        raise NotImplementedError

    def sync(self, key: Key) -> float | None:
        """Brings one key in line; seconds after which to look again, if at all. Must not wait."""
        raise NotImplementedError

    def start(self) -> Iterable[tuple[Key, float]]:
        """Keys to look at without any change, and in how many seconds."""
        return ()

    def resource(self, group: str, kind: str) -> Resource:
        return self.registry.kind(group, kind)

    def find(self, group: str, kind: str, key: Key) -> Stored | None:
        return self.registry.get(self.resource(group, kind), *key)

    def owned(self, group: str, kind: str, owner: Stored) -> list[Stored]:
        """The objects of a kind in the owner's namespace that it controls."""
        table = self.resource(group, kind).storage
        return [
            item
            for place, item in self.store.dependents(owner.uid)
            if place == table and (found := controller_of(item.body)) and found["uid"] == owner.uid
        ]

    def adopt(self, group: str, kind: str, owner: Stored) -> None:
        """Takes in what the owner's selector matches and nobody controls, when the owner is looked at for the first time.

        Controllers look for orphans each time; what they find later than that nobody has asked for here.
        """
        metadata, status = owner.body["metadata"], owner.body.get("status") or {}
        if metadata.get("deletionTimestamp") or status.get("observedGeneration"):
            return
        matches = of_label_selector(owner.body["spec"]["selector"])
        for item in list(self.registry.items(self.resource(group, kind), owner.namespace)):
            orphan = item.body["metadata"]
            if controller_of(item.body) or orphan.get("deletionTimestamp") or not matches(orphan.get("labels") or {}):
                continue
            body = item.copy()
            body["metadata"]["ownerReferences"] = [*(orphan.get("ownerReferences") or ()), owner_reference(owner)]
            self.update(item, group, kind, body)

    def create(self, group: str, kind: str, namespace: str, body: JsonObject) -> Stored:
        resource = self.resource(group, kind)
        whole = {"apiVersion": resource.api_version, "kind": kind, **body}
        stored = Write(self.registry, resource, namespace, options=Options(manager=MANAGER)).create(whole).stored
        assert stored is not None
        return stored

    def update(self, stored: Stored, group: str, kind: str, body: JsonObject, *, status: bool = False) -> Stored:
        """Replaces an object (or its status) with a changed copy; raises a conflict where it has moved on."""
        resource = self.resource(group, kind)
        options = Options(manager=MANAGER, subresource="status" if status else "")
        return Write(self.registry, resource, stored.namespace, stored.name, options=options).replace(body).stored or stored

    def update_status(self, stored: Stored, group: str, kind: str, status: JsonObject) -> Stored:
        """Writes a status where it differs from what is stored."""
        if stored.body.get("status") == status:
            return stored
        body = stored.copy()
        body["status"] = status
        return self.update(stored, group, kind, body, status=True)

    def delete(self, stored: Stored, group: str, kind: str, propagation: str = "Background") -> None:
        options = DeleteOptions(propagation=propagation, uid=stored.uid)
        try:
            deletions.delete(self.registry, self.resource(group, kind), stored.namespace, stored.name, options)
        except statuses.StatusError as error:
            if error.status != 404:
                raise

    def record(self, about: Stored, component: str, kind: str, reason: str, message: str) -> None:
        """Writes an Event about an object, or counts one that is there already."""
        namespace = about.namespace or "default"
        events = self.registry.store.table(("", "events"))
        said = self.registry.events
        held = events.get(namespace, said.get((about.uid, reason, message), ""))
        if held is not None:
            changed = held.copy()
            changed["count"] = changed.get("count", 1) + 1
            changed["lastTimestamp"] = self.registry.now()
            self.update(held, "", "Event", changed)
            return
        involved = {
            "kind": about.body["kind"],
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
            "apiVersion": about.body["apiVersion"],
            "resourceVersion": str(about.version),
        }
        stamp = self.registry.clock().timestamp()
        name = f"{about.name}.{int(stamp * 1e9):x}"
        while events.get(namespace, name) is not None:
            stamp += 1e-6
            name = f"{about.name}.{int(stamp * 1e9):x}"
        body = {
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {key: value for key, value in involved.items() if value},
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "firstTimestamp": self.registry.now(),
            "lastTimestamp": self.registry.now(),
            "count": 1,
            "type": kind,
            "reportingComponent": component,
        }
        try:
            self.create("", "Event", namespace, body)
        except statuses.StatusError:
            return  # events are a courtesy: a terminating namespace takes none
        if len(said) >= REMEMBERED_EVENTS:
            said.clear()
        said[about.uid, reason, message] = name

    def seconds_since(self, text: str) -> float:
        return (self.registry.clock() - moment(text)).total_seconds()


def moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def controller_of(body: JsonObject) -> JsonObject | None:
    """The owner reference of the one controller, if there is one."""
    for owner in body["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            found: JsonObject = owner
            return found
    return None


def owner_key(body: JsonObject, kind: str) -> Iterable[Key]:
    """The key of the controller of an object, where that is of a kind."""
    owner = controller_of(body)
    if owner is not None and owner["kind"] == kind:
        yield body["metadata"].get("namespace", ""), owner["name"]


def owner_reference(owner: Stored) -> JsonObject:
    return {
        "apiVersion": owner.body["apiVersion"],
        "kind": owner.body["kind"],
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_from_template(template: JsonObject, owner: Stored, name: str = "") -> JsonObject:
    """A Pod as a controller creates it from its template."""
    given = template.get("metadata") or {}
    metadata: JsonObject = {"name": name} if name else {"generateName": f"{owner.name}-"}
    for key in ("labels", "annotations", "finalizers"):
        if given.get(key):
            metadata[key] = dict(given[key]) if key != "finalizers" else list(given[key])
    metadata["ownerReferences"] = [owner_reference(owner)]
    return {"metadata": metadata, "spec": json.loads(json.dumps(template["spec"]))}


def is_active(pod: JsonObject) -> bool:
    """Neither finished nor being deleted."""
    return (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed") and not pod["metadata"].get("deletionTimestamp")


def is_finished(pod: JsonObject) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def condition_of(body: JsonObject, kind: str) -> JsonObject | None:
    for condition in (body.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            found: JsonObject = condition
            return found
    return None


def is_ready(pod: JsonObject) -> bool:
    condition = condition_of(pod, "Ready")
    return condition is not None and condition["status"] == "True"


def is_available(pod: JsonObject, min_ready_seconds: int, now: dt.datetime) -> bool:
    condition = condition_of(pod, "Ready")
    if condition is None or condition["status"] != "True":
        return False
    return min_ready_seconds == 0 or (now - moment(condition["lastTransitionTime"])).total_seconds() >= min_ready_seconds


def scaled(value: Any, total: int, *, up: bool) -> int:
    """A number, or a percentage of a total."""
    if isinstance(value, str) and value.endswith("%"):
        share = int(value[:-1]) * total
        return -(-share // 100) if up else share // 100
    return int(value or 0)
