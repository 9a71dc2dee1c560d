"""A canary of a source: what it renders for the workload and its configuration, and promotion by a sync of the whole.

Until promotion nothing of the set is written but a workload that takes its new version inside: the new pods read copies of the new
configuration, named after their content, while the stable ones keep what they have.
"""

import copy
from collections.abc import Iterable
from typing import Protocol

import msgspec

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import NotFoundError
from delegate.engine.tasks.canarying_plans import Inside
from delegate.engine.tasks.canarying_sets import CONFIG_TYPES
from delegate.engine.tasks.contexts import AttemptContext
from delegate.engine.tasks.dry_running import Finding
from delegate.engine.tasks.preparing import Ground as SyncGround
from delegate.engine.tasks.preparing import Parts, Preparation
from delegate.engine.tasks.reports import Report
from delegate.engine.tasks.sync import SyncRun
from delegate.model.inventory import APPLICATION_LABEL
from delegate.model.resource_types import VERSIONED
from delegate.model.resources import JsonObject, Manifest
from delegate.model.results import Action
from delegate.model.rollouts.errors import CanarySpecError
from delegate.model.rollouts.journals import JOURNAL_LABEL
from delegate.model.rollouts.partitions import partition_of
from delegate.model.rollouts.specs import CanarySpec, WorkloadReference
from delegate.model.rollouts.versions import Reference, config_copy, config_references, content_of, with_copies
from delegate.model.tasks import Task, TaskKind


class SourceVersion(msgspec.Struct, frozen=True):
    """`template` reads the `copies`; `kept` are copies of what the stable version reads, with the names that it reads them by.

    `affected`: whether the workload differs at all. `inside` is there where the workload takes its new version inside.
    """

    revision: str
    template: JsonObject
    copies: tuple[JsonObject, ...]
    kept: tuple[tuple[str, JsonObject], ...]
    affected: bool
    inside: Inside | None = None


def sync_task_of(task: Task, spec: CanarySpec) -> Task:
    """The sync that promotes. It leaves alone which pods a Service leads to that the canary switches: that comes back with the load."""
    left = [{"kind": "Service", "name": name, "jsonPointers": ["/spec/selector"]} for name in spec.switched_services]
    wanted = {"source": msgspec.to_builtins(spec.source), **({"ignoreDifferences": left} if left else {})}
    return msgspec.structs.replace(task, kind=TaskKind.SYNC, spec=wanted, supersedes=False)


class Bringer(Protocol):
    """Who brings a new version that is more than images. `goes_back`: it is one that was good before, and no storm keeps it away."""

    goes_back: bool

    async def look(self, namespace: str) -> SourceVersion:
        """What it is for the workload and its configuration. Raises DelegateError."""

    async def promote(self) -> str:
        """Makes the whole of it the stable one, under a Lease of its own; in words. May be called again. Raises DelegateError."""


class SourceBringer:
    """The canary's `source`."""

    goes_back = False

    def __init__(self, task: Task, spec: CanarySpec, context: AttemptContext, parts: Parts) -> None:
        self._task = sync_task_of(task, spec)
        self._spec = spec
        self._context = context
        self._parts = parts

    async def look(self, namespace: str) -> SourceVersion:
        """Renders, plans and gates the source, and picks out what is the workload's. Raises DelegateError."""
        report = Report(self._task, self._context)
        preparation = Preparation(self._task, self._task.sync_spec(), self._context, self._parts, report)
        ground = await preparation.prepare()
        preparation.gate(ground)
        return await version_of(ground, self._task.application, self._spec.workload, namespace, report.revision)

    async def promote(self) -> str:
        run = SyncRun(self._task, self._context, self._parts)
        await run.execute()
        return run.conclude().message


async def version_of(ground: SyncGround, application: str, wanted: WorkloadReference, namespace: str, revision: str) -> SourceVersion:
    """What a planned set is for the workload and its configuration. Raises DelegateError."""
    changed = {finding.change.key for finding in ground.findings if finding.change.action is not Action.UNCHANGED}
    workload = _workload_of(ground.desired.manifests, wanted.kind, wanted.name, namespace)
    template: JsonObject = workload.body["spec"]["template"]
    applied = None
    if wanted.kind != "Deployment":
        applied = _refuse_strange(next(each for each in ground.findings if each.change.key == workload.key), workload)
        template = await _synced_template(ground.client, wanted.kind, applied)
    references = config_references(template)
    labels = {APPLICATION_LABEL: application, JOURNAL_LABEL: "config"}
    copies: dict[Reference, JsonObject] = {}
    kept = []
    for manifest in ground.desired.manifests:
        reference = (manifest.kind, manifest.name)
        if reference not in references or manifest.key not in changed or manifest.key.namespace != namespace:
            continue
        live = await _live(ground.client, manifest, namespace)
        if live is not None and content_of(live) == content_of(manifest.body):
            continue
        copies[reference] = config_copy(manifest.body, namespace, labels)
        if live is not None:
            kept.append((manifest.name, config_copy({**live, "kind": manifest.kind}, namespace, labels)))
    names = {reference: str(body["metadata"]["name"]) for reference, body in copies.items()}
    inside = None
    if applied is not None:
        body = {**applied, "spec": {**applied["spec"], "template": with_copies(applied["spec"]["template"], names)}}
        inside = Inside(body, synced=template)
    return SourceVersion(
        revision=revision,
        inside=inside,
        template=with_copies(template, names),
        copies=tuple(copies.values()),
        kept=tuple(kept),
        affected=bool(copies) or (workload.key in changed and _template_changes(ground.findings, workload)),
    )


def _workload_of(manifests: tuple[Manifest, ...], kind: str, name: str, namespace: str) -> Manifest:
    wanted = (VERSIONED[kind].group, kind, name, namespace)
    for manifest in manifests:
        if (manifest.group, manifest.kind, manifest.name, manifest.key.namespace) == wanted:
            return manifest
    raise CanarySpecError(f"the source renders no {kind} {namespace}/{name}", hint="name a workload that it holds")


def _refuse_strange(finding: Finding, workload: Manifest) -> JsonObject:
    """What a sync would apply of a workload that takes its new version inside. Raises CanarySpecError where a sync would do more to it."""
    change, place = finding.change, f"{workload.kind} {workload.key.namespace}/{workload.name}"
    if change.recreates:
        raise CanarySpecError(f"a sync of this source deletes {place} and makes it anew", hint="sync it: no version of it can stand beside")
    if finding.hand_over is not None or change.manifest is None:
        raise CanarySpecError(f"{place} has fields that a first sync takes over from others", hint="sync it once, then bring new versions")
    body = change.manifest.body
    strategy = body["spec"].get("updateStrategy") or {}
    if workload.kind == "StatefulSet" and (partition_of(strategy) or strategy.get("type") == "OnDelete"):
        raise CanarySpecError(f"the source gives {place} an update strategy of its own hand", hint="take partition and OnDelete out of it")
    return body


async def _synced_template(client: ApiClient, kind: str, body: JsonObject) -> JsonObject:
    """The pod template that a sync would leave: with the server's defaults, and what others own of it."""
    answer = await client.apply(VERSIONED[kind], body, dry_run=True, force=True)
    template: JsonObject = copy.deepcopy(answer["spec"]["template"])
    return template


def _template_changes(findings: Iterable[Finding], workload: Manifest) -> bool:
    changes = (each for finding in findings if finding.change.key == workload.key for each in finding.change.changes)
    return any(each.path.startswith("/spec/template") for each in changes)


async def _live(client: ApiClient, manifest: Manifest, namespace: str) -> JsonObject | None:
    try:
        return await client.get(CONFIG_TYPES[manifest.kind], namespace, manifest.name)
    except NotFoundError:
        return None
