"""Deployments: one ReplicaSet for each template, rolled over within surge and unavailability (pkg/controller/deployment)."""

from collections.abc import Iterable

from delegate.model.resources import JsonObject
from delegate.simulator import statuses
from delegate.simulator.controllers import rollouts
from delegate.simulator.controllers.base import Controller, Key, condition_of, is_finished, owner_key, owner_reference
from delegate.simulator.controllers.rollouts import replicas_of
from delegate.simulator.hashing import template_hash
from delegate.simulator.store import Change, StorageKey, Stored

DEPLOYMENTS: StorageKey = ("apps", "deployments")
SETS: StorageKey = ("apps", "replicasets")
COMPONENT = "deployment-controller"


def _counted(body: JsonObject) -> JsonObject:
    return {key: value for key, value in (body.get("status") or {}).items() if key != "observedGeneration" and value}


class DeploymentController(Controller):
    rank = 6
    watched = (DEPLOYMENTS, SETS)

    def rank_of(self, table: StorageKey, change: Change) -> int:
        """The order in which the real controllers hear of each other's work, so that the same versions of a status come about.

        What a ReplicaSet counts comes first: each count becomes a version. What a Deployment wrote itself, and growth that it asked
        for, comes last: its second write in one round is refused as outdated, and it tries again a little later.
        """
        old, new = change.before.body if change.before is not None else None, change.stored.body
        if old is None or change.type != "MODIFIED":
            return self.rank
        if table == SETS:
            if _counted(old) != _counted(new):
                return self.rank - 1
            return self.rank if new["spec"].get("replicas", 0) < old["spec"].get("replicas", 0) else self.rank + 1
        same = old["metadata"].get("generation") == new["metadata"].get("generation")
        return self.rank + 1 if same else self.rank

    def keys(self, table: StorageKey, change: Change) -> Iterable[Key]:
        stored = change.stored
        if table == DEPLOYMENTS:
            yield stored.namespace, stored.name
        else:
            yield from owner_key(stored.body, "Deployment")

    def sync(self, key: Key) -> float | None:
        stored = self.find("apps", "Deployment", key)
        if stored is None:
            return None
        self.adopt("apps", "ReplicaSet", stored)
        sets = self.owned("apps", "ReplicaSet", stored)
        body = stored.body
        if body["metadata"].get("deletionTimestamp"):
            return self._write_status(stored, sets, rollouts.split(body, sets)[0], rollout=False)
        if self._note_pause(stored):
            stored = self.find("apps", "Deployment", key)
            assert stored is not None
            body = stored.body
        if body["spec"].get("paused") or self._is_scaling(body, sets):
            return self._scale_only(stored, sets)
        if body["spec"]["strategy"].get("type") == "Recreate":
            return self._recreate(stored, sets)
        return self._roll(stored, sets)

    def _note_pause(self, stored: Stored) -> bool:
        """Says in the Progressing condition that a Deployment was paused or resumed."""
        spec = stored.body["spec"]
        if not rollouts.has_deadline(spec):
            return False
        held = condition_of(stored.body, "Progressing")
        if held is not None and held["reason"] == "ProgressDeadlineExceeded":
            return False
        said = held is not None and held["reason"] == "DeploymentPaused"
        if bool(spec.get("paused")) == said:
            return False
        status = stored.copy().get("status") or {}
        reason, text = (
            ("DeploymentPaused", "Deployment is paused") if spec.get("paused") else ("DeploymentResumed", "Deployment is resumed")
        )
        rollouts.set_condition(status, rollouts.condition(self.registry.now(), "Progressing", "Unknown", reason, text))
        self.update_status(stored, "apps", "Deployment", status)
        return True

    def _is_scaling(self, body: JsonObject, sets: list[Stored]) -> bool:
        for item in rollouts.active(sets):
            desired = (item.body["metadata"].get("annotations") or {}).get(rollouts.DESIRED, "")
            if desired.isdigit() and int(desired) != body["spec"]["replicas"]:
                return True
        return False

    def _all(self, stored: Stored) -> list[Stored]:
        return self.owned("apps", "ReplicaSet", stored)

    def _scale_only(self, stored: Stored, sets: list[Stored]) -> float | None:
        new, old, written = self._new_set(stored, sets, create=False)
        if written:
            return None
        self._scale(stored.body, new, old)
        if stored.body["spec"].get("paused"):
            self._clean_up(stored, old)
        return self._write_status(stored, [*old, *([new] if new else [])], new, rollout=False)

    def _roll(self, stored: Stored, sets: list[Stored]) -> float | None:
        new, old, written = self._new_set(stored, sets, create=True)
        if new is None:
            return None
        whole = [*old, new]
        if self._grow_new(stored, new, whole) or self._shrink_old(stored, new, old):
            return None if written else self._write_status(stored, whole, new, rollout=True)
        if rollouts.is_complete(stored.body, stored.body.get("status") or {}):
            self._clean_up(stored, old)
        return None if written else self._write_status(stored, whole, new, rollout=True)

    def _recreate(self, stored: Stored, sets: list[Stored]) -> float | None:
        new, old, written = self._new_set(stored, sets, create=False)
        whole = [*old, *([new] if new else [])]
        shrunk = [self._resize(stored, item, 0) for item in rollouts.active(old)]
        if any(shrunk) or self._old_pods_run(old):
            return None if written else self._write_status(stored, whole, new, rollout=True)
        if new is None:
            new, old, written = self._new_set(stored, sets, create=True)
            if new is None:
                return None
            whole = [*old, new]
        self._grow_new(stored, new, whole)
        if rollouts.is_complete(stored.body, stored.body.get("status") or {}):
            self._clean_up(stored, old)
        return None if written else self._write_status(stored, whole, new, rollout=True)

    def _old_pods_run(self, old: list[Stored]) -> bool:
        return any(not is_finished(pod.body) for item in old for pod in self.owned("", "Pod", item))

    def _new_set(self, stored: Stored, sets: list[Stored], *, create: bool) -> tuple[Stored | None, list[Stored], bool]:
        """The ReplicaSet of the current template and the others; whether the Deployment itself was written meanwhile."""
        body = stored.body
        new, old = rollouts.split(body, sets)
        revision = str(max((rollouts.revision_of(item.body) for item in old), default=0) + 1)
        if new is not None:
            return self._existing(stored, new, old, revision)
        if not create:
            return None, old, False
        return self._created(stored, old, revision)

    def _existing(self, stored: Stored, new: Stored, old: list[Stored], revision: str) -> tuple[Stored, list[Stored], bool]:
        body = stored.body
        held = new.body["metadata"].get("annotations") or {}
        annotations = rollouts.annotations_for(body, held, revision, exists=True)
        wanted, has = body["spec"].get("minReadySeconds", 0), new.body["spec"].get("minReadySeconds", 0)
        if annotations != held or wanted != has:
            copy = new.copy()
            copy["metadata"]["annotations"] = annotations
            copy["spec"]["minReadySeconds"] = wanted
            return self.update(new, "apps", "ReplicaSet", copy), old, False
        status = stored.copy().get("status") or {}
        needs = (body["metadata"].get("annotations") or {}).get(rollouts.REVISION) != annotations[rollouts.REVISION]
        if rollouts.has_deadline(body["spec"]) and condition_of(body, "Progressing") is None:
            text = f'Found new replica set "{new.name}"'
            rollouts.set_condition(status, rollouts.condition(self.registry.now(), "Progressing", "True", "FoundNewReplicaSet", text))
            needs = True
        if needs:
            self._write(stored, status, annotations[rollouts.REVISION])
        return new, old, needs

    def _created(self, stored: Stored, old: list[Stored], revision: str) -> tuple[Stored | None, list[Stored], bool]:
        body = stored.body
        template = stored.copy()["spec"]["template"]
        hashed = template_hash(template, (body.get("status") or {}).get("collisionCount"))
        labels = {**(template["metadata"].get("labels") or {}), rollouts.HASH_LABEL: hashed}
        template["metadata"]["labels"] = labels
        selector = stored.copy()["spec"]["selector"]
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), rollouts.HASH_LABEL: hashed}
        size = rollouts.new_set_size(body, sum(replicas_of(item) for item in old), 0)
        made = {
            "metadata": {
                "name": f"{stored.name}-{hashed}",
                "labels": labels,
                "annotations": rollouts.annotations_for(body, {}, revision, exists=False),
                "ownerReferences": [owner_reference(stored)],
            },
            "spec": {
                "replicas": size,
                "minReadySeconds": body["spec"].get("minReadySeconds", 0),
                "selector": selector,
                "template": template,
            },
        }
        status = stored.copy().get("status") or {}
        try:
            new = self.create("apps", "ReplicaSet", stored.namespace, made)
        except statuses.StatusError as error:
            if error.reason == "AlreadyExists":
                status["collisionCount"] = status.get("collisionCount", 0) + 1
                self._write(stored, status, "")
                return None, old, True
            if rollouts.has_deadline(body["spec"]):
                text = f'Failed to create new replica set "{made["metadata"]["name"]}": {error.message}'
                failed = rollouts.condition(self.registry.now(), "Progressing", "False", "ReplicaSetCreateError", text)
                rollouts.set_condition(status, failed)
                self._write(stored, status, "")
            raise
        if size > 0:
            self.record(stored, COMPONENT, "Normal", "ScalingReplicaSet", f"Scaled up replica set {new.name} from 0 to {size}")
        if rollouts.has_deadline(body["spec"]):
            text = f'Created new replica set "{new.name}"'
            made_condition = rollouts.condition(self.registry.now(), "Progressing", "True", "NewReplicaSetCreated", text)
            rollouts.set_condition(status, made_condition)
        self._write(stored, status, revision)
        return new, old, True

    def _write(self, stored: Stored, status: JsonObject, revision: str) -> None:
        """One write of status and revision together, as the controller makes it."""
        body = stored.copy()
        if revision:
            body["metadata"].setdefault("annotations", {})[rollouts.REVISION] = revision
        body["status"] = status
        self.update(stored, "apps", "Deployment", body, status=True)

    def _grow_new(self, stored: Stored, new: Stored, whole: list[Stored]) -> bool:
        wanted, size = stored.body["spec"]["replicas"], replicas_of(new)
        if size == wanted:
            return False
        if size > wanted:
            return self._resize(stored, new, wanted)
        return self._resize(stored, new, rollouts.new_set_size(stored.body, sum(replicas_of(item) for item in whole), size))

    def _shrink_old(self, stored: Stored, new: Stored, old: list[Stored]) -> bool:
        sizes = {item.name: replicas_of(item) for item in rollouts.by_age(rollouts.active(old))}
        if not sizes:
            return False
        by_name = {item.name: item for item in old}
        least = stored.body["spec"]["replicas"] - rollouts.bounds(stored.body)[1]
        new_available = (new.body.get("status") or {}).get("availableReplicas", 0)
        spare = sum(sizes.values()) + replicas_of(new) - least - (replicas_of(new) - new_available)
        if spare <= 0:
            return False
        available = {name: (by_name[name].body.get("status") or {}).get("availableReplicas", 0) for name in sizes}
        shrunk = False
        left = spare
        for name, size in list(sizes.items()):
            unhealthy = min(left, size - available[name])
            if unhealthy > 0:
                self._resize(stored, by_name[name], size - unhealthy)
                by_name[name] = self.find("apps", "ReplicaSet", (stored.namespace, name)) or by_name[name]
                sizes[name] = size - unhealthy
                left -= unhealthy
                shrunk = True
        excess = sum(available.values()) + new_available - least
        for name, size in sizes.items():
            count = min(size, excess)
            if count > 0:
                shrunk = self._resize(stored, by_name[name], size - count) or shrunk
                excess -= count
        return shrunk

    def _scale(self, body: JsonObject, new: Stored | None, old: list[Stored]) -> None:
        """Follows a changed size: the one active ReplicaSet, or all of them in proportion."""
        stored = self.find("apps", "Deployment", (body["metadata"]["namespace"], body["metadata"]["name"]))
        assert stored is not None
        wanted = body["spec"]["replicas"]
        whole = [*old, *([new] if new else [])]
        running = rollouts.active(whole)
        if len(running) <= 1:
            only = running[0] if running else new or max(old, key=lambda item: item.body["metadata"]["creationTimestamp"], default=None)
            if only is not None and replicas_of(only) != wanted:
                self._resize(stored, only, wanted)
            return
        if new is not None and self._is_saturated(body, new):
            for item in rollouts.active(old):
                self._resize(stored, item, 0)
            return
        if body["spec"]["strategy"].get("type") == "RollingUpdate":
            for name, size in rollouts.proportions(body, running).items():
                self._resize(stored, next(item for item in running if item.name == name), size)

    def _is_saturated(self, body: JsonObject, new: Stored) -> bool:
        desired = (new.body["metadata"].get("annotations") or {}).get(rollouts.DESIRED, "")
        wanted = body["spec"]["replicas"]
        available = (new.body.get("status") or {}).get("availableReplicas", 0)
        return bool(replicas_of(new) == wanted and desired == str(wanted) and available == wanted)

    def _resize(self, stored: Stored, item: Stored, size: int) -> bool:
        """Sets a ReplicaSet's size and notes the Deployment's; True where the size changed."""
        before = replicas_of(item)
        annotations = item.body["metadata"].get("annotations") or {}
        noted = {**annotations, **rollouts.sizes(stored.body)}
        if size == before and noted == annotations:
            return False
        copy = item.copy()
        copy["spec"]["replicas"] = size
        copy["metadata"]["annotations"] = noted
        self.update(item, "apps", "ReplicaSet", copy)
        if size == before:
            return False
        way = "up" if size > before else "down"
        self.record(stored, COMPONENT, "Normal", "ScalingReplicaSet", f"Scaled {way} replica set {item.name} from {before} to {size}")
        return True

    def _clean_up(self, stored: Stored, old: list[Stored]) -> None:
        """Deletes the oldest ReplicaSets beyond the revision history limit."""
        kept = [item for item in old if not item.body["metadata"].get("deletionTimestamp")]
        excess = len(kept) - stored.body["spec"].get("revisionHistoryLimit", 10)
        for item in sorted(kept, key=lambda found: rollouts.revision_of(found.body))[: max(excess, 0)]:
            status = item.body.get("status") or {}
            if status.get("replicas") or replicas_of(item) or item.body["metadata"]["generation"] > status.get("observedGeneration", 0):
                continue
            self.delete(item, "apps", "ReplicaSet")

    def _write_status(self, stored: Stored, sets: list[Stored], new: Stored | None, *, rollout: bool) -> float | None:
        body = stored.body
        status = rollouts.status_of(body, sets, new, self.registry.now())
        if rollout:
            self._judge_progress(body, status, sets, new)
        if status != (body.get("status") or {}):
            self.update_status(stored, "apps", "Deployment", status)
            return None
        return self._until_deadline(body, status) if rollout else None

    def _judge_progress(self, body: JsonObject, status: JsonObject, sets: list[Stored], new: Stored | None) -> None:
        now = self.registry.now()
        named = f'ReplicaSet "{new.name}"' if new is not None else f'Deployment "{body["metadata"]["name"]}"'
        deadline = rollouts.has_deadline(body["spec"])
        if not deadline:
            rollouts.drop_condition(status, "Progressing")
        held = condition_of(body, "Progressing")
        done = (
            status.get("replicas", 0) == status.get("updatedReplicas", 0)
            and held is not None
            and held["reason"] == "NewReplicaSetAvailable"
        )
        if deadline and not done:
            if rollouts.is_complete(body, status):
                text = f"{named} has successfully progressed."
                rollouts.set_condition(status, rollouts.condition(now, "Progressing", "True", "NewReplicaSetAvailable", text))
            elif rollouts.has_progressed(body.get("status") or {}, status):
                made = rollouts.condition(now, "Progressing", "True", "ReplicaSetUpdated", f"{named} is progressing.")
                if held is not None:
                    if held["status"] == "True":
                        made["lastTransitionTime"] = held["lastTransitionTime"]
                    rollouts.drop_condition(status, "Progressing")
                rollouts.set_condition(status, made)
            elif rollouts.has_timed_out(body, status, self.registry.clock()):
                text = f"{named} has timed out progressing."
                made = rollouts.condition(now, "Progressing", "False", "ProgressDeadlineExceeded", text)
                rollouts.set_condition(status, made)
        failure = self._failure(sets, new)
        if failure is not None:
            rollouts.set_condition(status, failure)
        else:
            rollouts.drop_condition(status, "ReplicaFailure")

    def _failure(self, sets: list[Stored], new: Stored | None) -> JsonObject | None:
        for item in ([new] if new is not None else []) + sets:
            found = condition_of(item.body, "ReplicaFailure")
            if found is not None:
                at = found["lastTransitionTime"]
                return {
                    "type": "ReplicaFailure",
                    "status": found["status"],
                    "lastUpdateTime": at,
                    "lastTransitionTime": at,
                    "reason": found.get("reason", ""),
                    "message": found.get("message", ""),
                }
        return None

    def _until_deadline(self, body: JsonObject, status: JsonObject) -> float | None:
        held = condition_of(body, "Progressing")
        if not rollouts.has_deadline(body["spec"]) or held is None or rollouts.is_complete(body, status):
            return None
        if held["reason"] in ("ProgressDeadlineExceeded", "NewReplicaSetAvailable", "DeploymentPaused"):
            return None
        left = float(body["spec"]["progressDeadlineSeconds"]) - self.seconds_since(held["lastUpdateTime"])
        return max(left, 0.0) + 1.0
