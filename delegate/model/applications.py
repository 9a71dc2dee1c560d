"""Argo CD's `Application` documents, read as sync tasks. Pure.

What such a document says and what has no meaning here is named in a notice of the task, so that nobody takes it for
done; fields that nobody knows are named too, with the nearest known one.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from delegate.foundation.quantities import parse_duration
from delegate.model.resources import JsonObject
from delegate.model.sources import HelmOptions, KustomizeOptions, KustomizePatch, Source, SourceType

_TOP = frozenset({"apiVersion", "kind", "metadata", "spec"})
_METADATA = frozenset({"name"})
_SPEC = frozenset(
    {
        "project",
        "source",
        "sources",
        "sourceHydrator",
        "destination",
        "syncPolicy",
        "ignoreDifferences",
        "revisionHistoryLimit",
    }
)
_DESTINATION = frozenset({"name", "server", "namespace"})
_SYNC_POLICY = frozenset({"automated", "syncOptions", "retry", "managedNamespaceMetadata"})
_RETRY = frozenset({"limit", "backoff"})
_BACKOFF = frozenset({"duration", "maxDuration"})
_IGNORED_DIFFERENCE = frozenset({"group", "kind", "name", "namespace", "jsonPointers", "jqPathExpressions", "managedFieldsManagers"})
_APPROVED = ("delegate.gitops/deletion-approved", "argocd.argoproj.io/deletion-approved")
_OUR_ANNOTATIONS = "delegate.gitops/"
_PREDECESSORS = "delegate.gitops/take-over-from"
_DIRECTORY = frozenset({"recurse", "include", "exclude"})

_ABSENT: Mapping[str, str] = {
    "operation": "an operation is another task here",
    "status": "",
    "metadata.annotations": "",
    "metadata.creationTimestamp": "",
    "metadata.finalizers": "",
    "metadata.generation": "",
    "metadata.labels": "",
    "metadata.managedFields": "",
    "metadata.namespace": "",
    "metadata.ownerReferences": "",
    "metadata.resourceVersion": "",
    "metadata.uid": "",
    "spec.info": "",
    "spec.syncPolicy.automated.allowEmpty": "an empty set prunes nothing unless forced",
    "spec.syncPolicy.automated.enabled": "a task runs once, when it is submitted",
    "spec.syncPolicy.automated.selfHeal": "a task runs once, when it is submitted",
    "spec.syncPolicy.retry.refresh": "each attempt resolves its revision anew",
    "spec.syncPolicy.retry.backoff.factor": "waits double, with jitter",
    "directory.disableExtensionFilter": "only .yaml, .yml and .json files are read",
    "directory.jsonnet": "jsonnet files are not read",
    "helm.version": "",
    "kustomize.apiVersions": "",
    "kustomize.kubeVersion": "",
    "kustomize.version": "",
}
"""What Argo CD knows and we don't do, with what happens instead where that could surprise."""


class NotAnApplicationError(ValueError):
    """A document of Argo CD's that is no Application, or one whose parts have the wrong shape. `field` says which."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


def read_application(document: Mapping[str, Any]) -> JsonObject:
    """The task document that an Application means. Its options, sources and destination are checked by whoever reads that.

    Raises NotAnApplicationError.
    """
    if document.get("kind") != "Application":
        raise NotAnApplicationError(f"{document.get('kind')!r} of {document.get('apiVersion')!r} is no task; use its Application")
    reading = _Reading()
    metadata = reading.part(document, "metadata")
    spec = reading.part(document, "spec")
    reading.pick(document, _TOP, "")
    annotations = reading.part(metadata, "annotations", "metadata.")
    ours = {name: value for name, value in annotations.items() if str(name).startswith(_OUR_ANNOTATIONS)}
    approved = any(annotations.get(name) for name in _APPROVED)
    all_known = annotations.keys() <= {*ours, *_APPROVED}
    reading.pick(metadata, _METADATA | {"annotations"} if all_known else _METADATA, "metadata")
    reading.pick(spec, _SPEC, "spec")
    policy = reading.part(spec, "syncPolicy", "spec.")
    automated = reading.part(policy, "automated", "spec.syncPolicy.")
    reading.pick(policy, _SYNC_POLICY, "spec.syncPolicy")
    reading.pick(automated, frozenset({"prune"}), "spec.syncPolicy.automated")
    destination = reading.pick(reading.part(spec, "destination", "spec."), _DESTINATION, "spec.destination")
    wanted: JsonObject = {**_sources(spec, reading), "syncPolicy": _sync_policy(policy, reading)}
    predecessors = [name.strip() for name in str(annotations.get(_PREDECESSORS) or "").split(",") if name.strip()]
    if predecessors:
        wanted["syncPolicy"]["takeOverFrom"] = predecessors
    if spec.get("ignoreDifferences"):
        wanted["ignoreDifferences"] = _ignored_differences(spec["ignoreDifferences"], reading)
    if spec.get("project"):
        wanted["project"] = spec["project"]
    if spec.get("revisionHistoryLimit") is not None:
        wanted["revisionHistoryLimit"] = max(1, _integer(spec["revisionHistoryLimit"], "spec.revisionHistoryLimit"))
    retry = _retry(reading.part(policy, "retry", "spec.syncPolicy."), reading)
    return {
        "kind": "sync",
        "application": metadata.get("name", ""),
        "destination": destination,
        "spec": wanted,
        "options": {"prune": bool(automated.get("prune", False))} | ({"confirm": True} if approved else {}),
        **({"retry": retry} if retry else {}),
        **({"annotations": ours} if ours else {}),
        "notices": reading.notices(),
    }


def _sync_policy(policy: Mapping[str, Any], reading: "_Reading") -> JsonObject:
    wanted: JsonObject = {"syncOptions": policy.get("syncOptions") or []}
    managed = reading.part(policy, "managedNamespaceMetadata", "spec.syncPolicy.")
    if managed:
        place = "spec.syncPolicy.managedNamespaceMetadata"
        wanted["managedNamespaceMetadata"] = reading.pick(managed, frozenset({"labels", "annotations"}), place)
    return wanted


def _ignored_differences(written: object, reading: "_Reading") -> list[JsonObject]:
    if not isinstance(written, list):
        raise NotAnApplicationError("is no list", "spec.ignoreDifferences")
    places = [f"spec.ignoreDifferences[{index}]" for index in range(len(written))]
    return [reading.pick(reading.mapping(each, place), _IGNORED_DIFFERENCE, place) for each, place in zip(written, places, strict=True)]


def _retry(written: Mapping[str, Any], reading: "_Reading") -> JsonObject:
    """What is tried again here are the steps of a sync, each so often; a negative limit means: without end."""
    picked = reading.pick(written, _RETRY, "spec.syncPolicy.retry")
    backoff = reading.pick(reading.part(picked, "backoff", "spec.syncPolicy.retry."), _BACKOFF, "spec.syncPolicy.retry.backoff")
    retry: JsonObject = {}
    if "limit" in picked:
        limit = _integer(picked["limit"], "spec.syncPolicy.retry.limit")
        retry["maxAttempts"] = 100 if limit < 0 else min(100, limit + 1)
    for name, field in (("duration", "baseMs"), ("maxDuration", "maxMs")):
        if name in backoff:
            try:
                retry[field] = max(1, round(parse_duration(str(backoff[name])) * 1000))
            except ValueError as error:
                raise NotAnApplicationError(str(error), f"spec.syncPolicy.retry.backoff.{name}") from error
    return retry


def _integer(value: object, field: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise NotAnApplicationError("is no integer", field)
    return value


def _sources(spec: Mapping[str, Any], reading: "_Reading") -> JsonObject:
    several = spec.get("sources") or []
    if not isinstance(several, list):
        raise NotAnApplicationError("is no list", "spec.sources")
    if several:
        if spec.get("source"):
            reading.note("spec.source has no effect beside spec.sources")
        found = [
            _source(reading.mapping(each, f"spec.sources[{index}]"), f"spec.sources[{index}]", reading)
            for index, each in enumerate(several)
        ]
        return {"sources": found}
    hydrator = reading.part(spec, "sourceHydrator", "spec.")
    if hydrator:
        dry = reading.part(hydrator, "drySource", "spec.sourceHydrator.")
        wet = reading.part(hydrator, "syncSource", "spec.sourceHydrator.")
        reading.note("spec.sourceHydrator: nothing is hydrated here; the branch that hydrated manifests are in is synced")
        url = wet.get("repoURL") or dry.get("repoURL", "")
        return {
            "source": _source({"repoURL": url, "targetRevision": wet.get("targetBranch"), "path": wet.get("path")}, "spec.source", reading)
        }
    return {"source": _source(reading.part(spec, "source", "spec."), "spec.source", reading)}


def _source(written: Mapping[str, Any], place: str, reading: "_Reading") -> JsonObject:
    if written.get("plugin") is not None:
        raise NotAnApplicationError("config management plugins are not run here", f"{place}.plugin")
    known = _names(Source) - {"type"}
    source = reading.pick(written, known, place)
    directory = source.pop("directory", None)
    for name, options in (("helm", HelmOptions), ("kustomize", KustomizeOptions)):
        if isinstance(source.get(name), dict):
            source[name] = reading.pick(source[name], _names(options), f"{place}.{name}", name)
    kustomize = source.get("kustomize")
    if isinstance(kustomize, dict) and isinstance(kustomize.get("patches"), list):
        kustomize["patches"] = [
            reading.pick(patch, _names(KustomizePatch), f"{place}.kustomize.patches[{index}]") if isinstance(patch, dict) else patch
            for index, patch in enumerate(kustomize["patches"])
        ]
    if directory is None:
        return source | {"directory": {"recurse": False}}
    picked = reading.pick(reading.mapping(directory, f"{place}.directory"), _DIRECTORY, f"{place}.directory", "directory")
    return source | {"directory": {"recurse": False, **picked}, "type": SourceType.DIRECTORY.value}


class _Reading:
    """Takes documents apart, and keeps in mind what was left over."""

    def __init__(self) -> None:
        self._ignored: list[str] = []
        self._notes: list[str] = []

    def note(self, words: str) -> None:
        self._notes.append(words)

    def mapping(self, value: object, place: str) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise NotAnApplicationError("is no mapping", place)
        return value

    def part(self, of: Mapping[str, Any], name: str, above: str = "") -> Mapping[str, Any]:
        """A member that is a mapping; an empty one where it is absent or null."""
        value = of.get(name)
        return {} if value is None else self.mapping(value, above + name)

    def pick(self, of: Mapping[str, Any], known: Iterable[str], place: str, table: str = "") -> JsonObject:
        """The members that are known; null ones are none. The rest is kept in mind."""
        known = frozenset(known)
        for name, value in of.items():
            if name not in known and value is not None:
                self._leave_out(f"{place}.{name}" if place else str(name), f"{table or place}.{name}".lstrip("."), str(name), known)
        return {name: value for name, value in of.items() if name in known and value is not None}

    def notices(self) -> list[str]:
        """In one line what has no meaning here, then what needs words of its own."""
        ignored = [f"these fields have no effect here: {', '.join(self._ignored)}"] if self._ignored else []
        return ignored + self._notes

    def _leave_out(self, place: str, key: str, name: str, known: frozenset[str]) -> None:
        instead = _ABSENT.get(key)
        if instead is None:
            nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
            self._notes.append(f"{place} is not known and has no effect" + (f"; did you mean `{nearest[0]}`?" if nearest else ""))
        elif instead:
            self._notes.append(f"{place} has no effect here: {instead}")
        else:
            self._ignored.append(place)


def _names(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind))
