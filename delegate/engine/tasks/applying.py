"""Writes a plan, stage by stage, each object guarded against having changed since it was planned.

A write to an existing object carries the uid and resourceVersion that the plan was made against, so that one which arrives
late is answered 409. Such an object is planned again and written if its plan is still the same: controllers write status all
the time. Nothing is written once the attempt's authority has ended.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import structlog

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.discovery import Discovery
from delegate.engine.clusters.errors import (
    InvalidError,
    NotFoundError,
    RecreatedObjectError,
    SchemaError,
    StaleObjectError,
    UnknownKindError,
)
from delegate.engine.records.guarding import apply_guarded, apply_new
from delegate.engine.records.leases import WriteLease
from delegate.engine.tasks.concurrency import for_each
from delegate.engine.tasks.dry_running import Finding
from delegate.engine.tasks.errors import ChangedSincePlanError, UnhealthyError
from delegate.engine.tasks.observing import await_gone
from delegate.engine.tasks.planning import Place, Planner
from delegate.foundation.errors import DelegateError
from delegate.model.applied import Mark, with_mark
from delegate.model.errors import raise_all
from delegate.model.health.rules import assess
from delegate.model.health.verdicts import HealthStatus
from delegate.model.plan import PlannedChange
from delegate.model.resources import GroupKind, JsonObject, Manifest, ResourceKey, ResourceType
from delegate.model.results import Action
from delegate.model.sync_options import Propagation
from delegate.model.waves import Stage, StageKind, is_builtin_group

log = structlog.get_logger(__name__)
_TRIES = 5
_BARRIER_SECONDS = 60.0
_POLL_SECONDS = 0.1
_KIND_POLL_SECONDS = 1.0
_STATEFUL_SET = GroupKind("apps", "StatefulSet")
_SCHEMA_SECONDS = 5.0
_HASTY = (SchemaError, InvalidError, UnknownKindError)
_WAVES = (StageKind.WAVE, StageKind.GATEKEEPERS)


BetweenWaves = Callable[[Stage | None, Stage | None], Awaitable[None]]
"""Awaited before each wave, with the one before it and itself; before what comes after all waves, with None."""


class Applier:
    """Applies findings. `on_written` hears of each object that was written, `on_failed` of each that could not be."""

    def __init__(
        self,
        client: ApiClient,
        discovery: Discovery,
        planner: Planner,
        authority: WriteLease,
        *,
        on_written: Callable[[PlannedChange, JsonObject], None],
        on_failed: Callable[[PlannedChange, DelegateError], None],
    ) -> None:
        self._client = client
        self._discovery = discovery
        self._planner = planner
        self._authority = authority
        self._on_written = on_written
        self._on_failed = on_failed
        self._findings: dict[ResourceKey, Finding] = {}

    async def apply_stages(self, stages: tuple[Stage, ...], findings: Iterable[Finding], *, between_waves: BetweenWaves) -> None:
        """Writes all stages in order. Raises the faults of the first batch that has any; later ones are not begun."""
        self._findings = {finding.change.key: finding for finding in findings}
        settled_rest, wave = False, None
        for position, stage in enumerate(stages):
            if stage.kind in _WAVES and not settled_rest:
                settled_rest = True
                await self._settle_deferred(stages[position:])
            elif stage.kind not in _WAVES:
                await self._settle_deferred((stage,))
            if stage.kind in _WAVES:
                await between_waves(wave, stage if stage.kind is StageKind.WAVE else None)
                wave = stage if stage.kind is StageKind.WAVE else None
            await self._apply_stage(stage)
            await self._pass_barrier(stage)

    async def _settle_deferred(self, stages: tuple[Stage, ...]) -> None:
        """Dry-runs what had to wait for earlier stages, before anything of these is written."""
        owed = [
            (stage, manifest)
            for stage in stages
            for manifest in stage.manifests
            if self._findings[manifest.key].change.deferral is not None
        ]
        found = await self._plan_owed(owed, stages) if owed else []
        errors = []
        for finding in found:
            if finding.error is not None:
                errors.append(finding.error)
                self._on_failed(finding.change, finding.error)
            elif self._is_stuck(finding.change, stages):
                errors.append(finding.put_off or _still_missing(finding.change))
                self._on_failed(finding.change, errors[-1])
            self._findings[finding.change.key] = finding
        raise_all(errors)

    async def _plan_owed(self, owed: list[Place], stages: tuple[Stage, ...]) -> list[Finding]:
        """A server takes a moment to judge by a definition that it has just accepted; its first no may be by the old one."""
        deadline = asyncio.get_running_loop().time() + _SCHEMA_SECONDS
        while True:
            found = await self._planner.plan_owed(owed)
            hasty = [
                each
                for each in found
                if isinstance(each.error, SchemaError | InvalidError | UnknownKindError) or self._is_stuck(each.change, stages)
            ]
            custom = any(not is_builtin_group(each.change.key.group) for each in hasty)
            if not custom or asyncio.get_running_loop().time() > deadline:
                return found
            await asyncio.sleep(_POLL_SECONDS)

    @staticmethod
    def _is_stuck(change: PlannedChange, stages: tuple[Stage, ...]) -> bool:
        """Whether an object still waits for something that is not among what is about to be written."""
        needs = change.deferral.needs if change.deferral else None
        return needs is not None and all(manifest.key != needs for stage in stages for manifest in stage.manifests)

    async def _apply_stage(self, stage: Stage) -> None:
        for batch in stage.batches():
            errors: list[DelegateError] = []

            async def write(key: ResourceKey, errors: list[DelegateError] = errors) -> None:
                finding = self._findings[key]
                try:
                    await self._write(stage, finding)
                except DelegateError as error:
                    errors.append(error)
                    self._on_failed(finding.change, error)

            await for_each((manifest.key for manifest in batch), write)
            raise_all(errors)

    async def _write(self, stage: Stage, finding: Finding) -> None:
        first = finding.change
        wanted = next(manifest for manifest in stage.manifests if manifest.key == first.key)
        for _ in range(_TRIES):
            if finding.change.awaits_kind:
                await self._await_kind(wanted)
            if finding.change.awaits_kind or finding.change.deferral is not None:
                finding = await self._planner.plan_one(stage, wanted)
                first = finding.change
            if finding.error is not None or finding.put_off is not None:
                raise finding.error or finding.put_off or _still_missing(finding.change)
            change = finding.change
            if not change.writes:
                self._on_written(change, {})
                return
            self._authority.check()
            assert change.manifest is not None
            try:
                answer = await self._send(finding)
            except (StaleObjectError, RecreatedObjectError, NotFoundError) as error:
                log.info("apply.object_changed_since_plan", object=str(change.key), code=error.code)
                await self._authority.verify()
                finding = await self._planner.plan_one(stage, wanted)
                if _is_another_plan(first, finding.change):
                    raise ChangedSincePlanError(
                        f"{change.key} was changed by somebody else while it was being synced",
                        hint="sync again: the next plan shows what it is now",
                        object=str(change.key),
                        file=change.manifest.origin.file,
                        line=change.manifest.origin.line or None,
                    ) from error
                continue
            self._on_written(change, answer)
            return
        raise ChangedSincePlanError(f"{first.key} changes faster than it can be written", hint="find out who keeps writing it")

    async def _send(self, finding: Finding) -> JsonObject:
        change = finding.change
        assert change.manifest is not None
        resource_type = await self._planner.type_of(change.manifest)
        body = with_mark(change.manifest.body, Mark(change.manifest_hash, change.fields))
        force = finding.force
        try:
            if change.recreates:
                await self._remove(resource_type, change)
            if not change.uid or change.recreates:
                return await apply_new(self._client, resource_type, body, force=force, metadata_only=True)
            uid, version = change.uid, change.resource_version
            if finding.hand_over is not None:
                version = await self._hand_over(resource_type, change, finding.hand_over)
            return await apply_guarded(
                self._client, resource_type, body, uid=uid, resource_version=version, force=force, metadata_only=True
            )
        except DelegateError as error:
            error.file = error.file or change.manifest.origin.file
            error.line = error.line or change.manifest.origin.line or None
            error.object = error.object or str(change.key)
            raise

    async def _remove(self, resource_type: ResourceType, change: PlannedChange) -> None:
        """Deletes what was planned to be made anew, and waits until it is gone. The pods and claims of a StatefulSet stay."""
        propagation: Propagation = "Orphan" if change.key.group_kind == _STATEFUL_SET else "Foreground"
        await self._client.delete(
            resource_type,
            change.key.namespace,
            change.key.name,
            uid=change.uid,
            resource_version=change.resource_version,
            propagation=propagation,
        )
        await await_gone(self._client, resource_type, change.key)
        self._authority.check()

    async def _await_kind(self, manifest: Manifest) -> None:
        """Waits until a kind is served that something before it brings; when it never is, the plan says so."""
        deadline = asyncio.get_running_loop().time() + _BARRIER_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            self._planner.forget_type(manifest)
            try:
                await self._planner.type_of(manifest)
            except UnknownKindError:
                await asyncio.sleep(_KIND_POLL_SECONDS)
            else:
                return

    async def _hand_over(self, resource_type: ResourceType, change: PlannedChange, fields: list[JsonObject]) -> str:
        """Makes the fields of client-side apply ours, and answers the object's new resourceVersion."""
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": change.uid},
            {"op": "replace", "path": "/metadata/managedFields", "value": fields},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": change.resource_version},
        ]
        answer = await self._client.patch(resource_type, change.key.namespace, change.key.name, patch, kind="json")
        return str(answer["metadata"]["resourceVersion"])

    async def _pass_barrier(self, stage: Stage) -> None:
        """Waits until what others refer to can be referred to: namespaces active, definitions established."""
        if stage.kind is StageKind.NAMESPACES:
            await for_each((manifest.key for manifest in stage.manifests), self._await_healthy)
        elif stage.kind is StageKind.DEFINITIONS:
            written = [manifest for manifest in stage.manifests if self._findings[manifest.key].change.writes]
            await for_each((manifest.key for manifest in written), self._await_healthy)
            for manifest in written:
                self._discovery.invalidate(str(manifest.body["spec"]["group"]))

    async def _await_healthy(self, key: ResourceKey) -> None:
        if not self._findings[key].change.writes:
            return
        manifest = self._findings[key].change.manifest
        assert manifest is not None
        resource_type = await self._planner.type_of(manifest)
        deadline = asyncio.get_running_loop().time() + _BARRIER_SECONDS
        while True:
            health = assess(await self._client.get(resource_type, key.namespace, key.name))
            if health.status is HealthStatus.HEALTHY:
                return
            late = asyncio.get_running_loop().time() > deadline
            if late or health.status is HealthStatus.DEGRADED:
                words = f"{key} is {health.status.value} {health.reason}".rstrip()
                raise UnhealthyError(f"{words}: {health.message or 'it did not get ready in time'}", object=str(key))
            await asyncio.sleep(_POLL_SECONDS)


def _is_another_plan(first: PlannedChange, now: PlannedChange) -> bool:
    if now.action is Action.FAILED:
        return False  # its own error says it better
    return (first.action, first.changes) != (now.action, now.changes) and now.action is not Action.UNCHANGED


def _still_missing(change: PlannedChange) -> DelegateError:
    assert change.deferral is not None
    return UnhealthyError(
        f"{change.key} can't be applied: {change.deferral.needs} is in the set and still does not serve it",
        object=str(change.key),
    )
