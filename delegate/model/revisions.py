"""Revisions that workloads keep of themselves. Numbers are compared as numbers: as text, 9 would be later than 11."""

import copy
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from delegate.model.applied import PART_OF_LABEL
from delegate.model.changes import diff_bodies
from delegate.model.errors import NoReleaseError
from delegate.model.resources import JsonObject
from delegate.model.results import Change

REVISION_ANNOTATION = "deployment.kubernetes.io/revision"
UNDONE_ANNOTATION = "delegate.gitops/rolled-back"
_HASH_LABEL = "pod-template-hash"
_HELM = "meta.helm.sh/release-name"


class Revision(msgspec.Struct, frozen=True):
    """A pod template that a workload has had."""

    number: int
    template: JsonObject

    def changes_from(self, template: JsonObject) -> tuple[Change, ...]:
        """What differs from a template to this one; nothing where they are the same."""
        return diff_bodies({"spec": {"template": template}}, {"spec": {"template": self.template}})


def template_of(workload: JsonObject) -> JsonObject:
    return _without_hash(workload["spec"]["template"])


def revisions_of(workload: JsonObject, kept: Iterable[JsonObject]) -> list[Revision]:
    """Those of the objects that belong to a workload, as revisions, newest first."""
    uid = workload["metadata"]["uid"]
    found = []
    for body in kept:
        owners = body["metadata"].get("ownerReferences") or ()
        if any(owner.get("uid") == uid and owner.get("controller") for owner in owners):
            revision = _read(body)
            if revision is not None:
                found.append(revision)
    return sorted(found, key=lambda revision: -revision.number)


def _read(body: JsonObject) -> Revision | None:
    if "revision" in body and isinstance(body.get("data"), dict):
        template = ((body["data"].get("spec") or {}).get("template")) or {}
        return Revision(int(body["revision"]), {key: value for key, value in template.items() if key != "$patch"})
    number = str((body["metadata"].get("annotations") or {}).get(REVISION_ANNOTATION, ""))
    return Revision(int(number), _without_hash(body["spec"]["template"])) if number.isdigit() else None


def choose_revision(workload: JsonObject, revisions: Sequence[Revision], wanted: int) -> Revision:
    """The revision of that number; for 0 the newest whose template is another than what is wanted now. Raises NoReleaseError."""
    name = f"{workload['kind']} {workload['metadata'].get('namespace')}/{workload['metadata']['name']}"
    if (workload["spec"].get("paused")) is True:
        raise NoReleaseError(f"{name} is paused: nothing would be rolled out", hint="resume it first: kubectl rollout resume")
    if (workload["spec"].get("updateStrategy") or {}).get("type") == "OnDelete":
        raise NoReleaseError(
            f"{name} replaces its pods only as somebody deletes them (OnDelete): a rollback would move nothing",
            hint="set updateStrategy.type to RollingUpdate first",
        )
    there = ", ".join(str(revision.number) for revision in revisions) or "none"
    if wanted:
        for revision in revisions:
            if revision.number == wanted:
                return revision
        raise NoReleaseError(f"{name} has no revision {wanted}", hint=f"there are {there}")
    present = template_of(workload)
    for revision in revisions:
        if revision.changes_from(present):
            return revision
    limit = workload["spec"].get("revisionHistoryLimit", 10)
    hint = "its revisionHistoryLimit is 0: it keeps none" if limit == 0 else "it has not been changed since it was created"
    raise NoReleaseError(f"{name} has no earlier revision to go back to (there are {there})", hint=hint)


def undo_patch(workload: JsonObject, revision: Revision, task: str) -> list[JsonObject]:
    """A JSON patch that puts a template in place, refused where the workload has changed since it was read.

    It says whose rollback it was: an attempt that comes after it would otherwise take what was left for the revision before.
    """
    metadata = workload["metadata"]
    noted = {**(metadata.get("annotations") or {}), UNDONE_ANNOTATION: f"{task} {_digest(revision.template)}"}
    return [
        {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
        {"op": "replace", "path": "/spec/template", "value": revision.template},
        {"op": "add", "path": "/metadata/annotations", "value": noted},
    ]


def resumed_revision(workload: JsonObject, revisions: Sequence[Revision], task: str) -> Revision | None:
    """What an earlier attempt of this task has put in place; None where there was none."""
    noted = str((workload["metadata"].get("annotations") or {}).get(UNDONE_ANNOTATION, ""))
    by, _, digest = noted.partition(" ")
    return next((each for each in revisions if by == task and _digest(each.template) == digest), None)


def _digest(template: JsonObject) -> str:
    return hashlib.sha256(msgspec.json.encode(template, order="deterministic")).hexdigest()[:20]


def owner_in_words(metadata: JsonObject) -> tuple[str, str]:
    """Whose declaration with a history of its own a workload comes from, and the way back there; empty where nobody's.

    For owners that bring what Git says see `model.gitops`.
    """
    if (metadata.get("labels") or {}).get(PART_OF_LABEL):
        return "an Application of ours", "roll that back: a rollback task without spec.workload"
    release = (metadata.get("annotations") or {}).get(_HELM)
    if release:
        return f"a Helm release ({release})", f"roll that back: spec.helmRelease {{name: {release}}}"
    return "", ""


def _without_hash(template: JsonObject) -> JsonObject:
    made: dict[str, Any] = copy.deepcopy(template)
    labels = (made.get("metadata") or {}).get("labels")
    if isinstance(labels, dict):
        labels.pop(_HASH_LABEL, None)
    return made
