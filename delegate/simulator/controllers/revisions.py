"""ControllerRevisions: the templates that a StatefulSet or DaemonSet has had, numbered (controller/history)."""

import json
from typing import Any

from delegate.model.resources import JsonObject
from delegate.simulator.controllers.base import Controller, owner_reference
from delegate.simulator.hashing import revision_hash, template_hash
from delegate.simulator.store import Stored

KIND = ("apps", "ControllerRevision")
HASH_LABEL = "controller-revision-hash"


def _sorted(value: Any) -> Any:
    return json.loads(json.dumps(value, sort_keys=True))


def template_patch(body: JsonObject) -> JsonObject:
    """What a revision keeps: the template, to be put in place of another."""
    template = {"$patch": "replace", **_sorted(body["spec"]["template"])}
    return {"spec": {"template": template}}


def hash_of(owner: Stored, data: JsonObject) -> str:
    """A DaemonSet's revisions are named after the hash of its template, a StatefulSet's after that of what they keep."""
    collisions = (owner.body.get("status") or {}).get("collisionCount")
    if owner.body["kind"] == "DaemonSet":
        return template_hash(owner.body["spec"]["template"], collisions)
    return revision_hash(data, collisions or 0)


def number_of(revision: Stored) -> int:
    return int(revision.body.get("revision", 0))


def of_owner(controller: Controller, owner: Stored) -> list[Stored]:
    """The revisions of an object, oldest first."""
    return sorted(controller.owned(*KIND, owner), key=lambda item: (number_of(item), item.name))


def current(controller: Controller, owner: Stored, label: str, annotations: JsonObject | None = None) -> Stored:
    """The revision of the present template: found, made the newest again, or created."""
    data = template_patch(owner.body)
    held = of_owner(controller, owner)
    following = number_of(held[-1]) + 1 if held else 1
    same = [item for item in held if item.body.get("data") == data]
    if same:
        found = same[-1]
        if found is held[-1]:
            return found
        body = found.copy()
        body["revision"] = following
        return controller.update(found, *KIND, body)
    hashed = hash_of(owner, data)
    labels = {**(owner.body["spec"]["template"]["metadata"].get("labels") or {}), label: hashed}
    metadata: JsonObject = {"name": f"{owner.name}-{hashed}", "labels": labels, "ownerReferences": [owner_reference(owner)]}
    if annotations:
        metadata["annotations"] = annotations
    return controller.create(*KIND, owner.namespace, {"metadata": metadata, "data": data, "revision": following})


def clean_up(controller: Controller, owner: Stored, in_use: set[str]) -> None:
    """Deletes the oldest revisions that nothing uses, beyond the history limit."""
    idle = [item for item in of_owner(controller, owner) if item.name not in in_use]
    excess = len(idle) - int(owner.body["spec"].get("revisionHistoryLimit", 10))
    for item in idle[: max(excess, 0)]:
        controller.delete(item, *KIND)


def template_of(revision: Stored) -> JsonObject:
    template: JsonObject = dict(revision.copy()["data"]["spec"]["template"])
    template.pop("$patch", None)
    return template
