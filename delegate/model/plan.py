"""What a sync would do: one frozen value, made before anything is written, and a hash that an approval can bind to."""

import hashlib
from collections.abc import Iterable

import msgspec

from delegate.model.applied import manifest_hash, mark_of
from delegate.model.changes import diff_bodies
from delegate.model.deferrals import Deferral
from delegate.model.hooks import Hook
from delegate.model.resources import JsonObject, Manifest, ResourceKey
from delegate.model.results import Action, Change, ErrorDetail, ResourceResult, Summary
from delegate.model.waves import wave_of


class PlannedChange(msgspec.Struct, frozen=True):
    """What would become of one object.

    `manifest` is what is applied (labelled, without the mark); None for a prune. `writes` is false where nothing has to be
    sent; an `unchanged` object may still be written, once, to renew its mark. `uid` and `resource_version` are those of the
    live object that the plan was made against, empty where there is none: a write that carries them can't come too late.
    `fields` is the hash of our fieldsV1 in the dry run's answer. `immutable` says that the object can't be changed in place;
    `recreates` that it is deleted and made anew. `awaits_kind`: its kind is not served yet, and something before it will bring it.
    `unified` is the difference as text, where that was asked for.
    """

    key: ResourceKey
    action: Action
    version: str
    manifest: Manifest | None = None
    writes: bool = False
    changes: tuple[Change, ...] = ()
    stage: str = ""
    wave: int = 0
    deferral: Deferral | None = None
    uid: str = ""
    resource_version: str = ""
    manifest_hash: str = ""
    fields: str = ""
    immutable: bool = False
    recreates: bool = False
    awaits_kind: bool = False
    unified: str = ""
    error: ErrorDetail | None = None

    @property
    def origin(self) -> str:
        return str(self.manifest.origin) if self.manifest else ""


class Plan(msgspec.Struct, frozen=True):
    """All changes in the order of writing, all prunes in the order of pruning, and what a reader should know.

    `hooks` are what would run around it, each by phase, wave, identity and content.
    """

    application: str
    revision: str = ""
    items: tuple[PlannedChange, ...] = ()
    prunes: tuple[PlannedChange, ...] = ()
    notices: tuple[str, ...] = ()
    hooks: tuple[tuple[str, ...], ...] = ()

    @property
    def has_writes(self) -> bool:
        return any(item.writes for item in self.items) or bool(self.prunes)

    @property
    def has_changes(self) -> bool:
        """Whether anything would differ afterwards, as `diff` answers it."""
        return any(item.action not in (Action.UNCHANGED, Action.SKIPPED) for item in self.items) or bool(self.prunes)


def plan_unchanged(manifest: Manifest, metadata: JsonObject, *, stage: str = "", wanted: str = "") -> PlannedChange:
    """An object whose metadata alone proves it synced: no dry run is needed."""
    return PlannedChange(
        key=manifest.key,
        action=Action.UNCHANGED,
        version=manifest.version,
        manifest=manifest,
        stage=stage,
        wave=wave_of(manifest),
        uid=str(metadata.get("uid") or ""),
        resource_version=str(metadata.get("resourceVersion") or ""),
        manifest_hash=wanted or manifest_hash(manifest.body),
    )


def plan_kept(manifest: Manifest, *, stage: str = "", wanted: str = "", action: Action = Action.UNCHANGED) -> PlannedChange:
    """An object that is left as it is, whatever it is."""
    wanted = wanted or manifest_hash(manifest.body)
    return PlannedChange(
        key=manifest.key,
        action=action,
        version=manifest.version,
        manifest=manifest,
        stage=stage,
        wave=wave_of(manifest),
        manifest_hash=wanted,
    )


def plan_change(
    manifest: Manifest, live: JsonObject | None, dry_run: JsonObject, fields: str, *, stage: str = "", wanted: str = ""
) -> PlannedChange:
    """What applying a labelled manifest does, from the live object (None: there is none) and the answer to its dry run.

    Where nothing would change, the write is spared if the live mark already stands for this manifest: a value that somebody
    else set back is no drift. Otherwise one write renews the mark, and the next plan needs no body.
    """
    metadata: JsonObject = (live or {}).get("metadata") or {}
    wanted = wanted or manifest_hash(manifest.body)
    changes = diff_bodies(live, dry_run) if live is not None else ()  # all of a new object is new: no list of leaves says it better
    action = Action.CREATED if live is None else Action.CONFIGURED if changes else Action.UNCHANGED
    mark = mark_of(metadata)
    return PlannedChange(
        key=manifest.key,
        action=action,
        version=manifest.version,
        manifest=manifest,
        writes=action is not Action.UNCHANGED or mark is None or mark.manifest != wanted,
        changes=changes,
        stage=stage,
        wave=wave_of(manifest),
        uid=str(metadata.get("uid") or ""),
        resource_version=str(metadata.get("resourceVersion") or ""),
        manifest_hash=wanted,
        fields=fields,
    )


def plan_deferred(manifest: Manifest, deferral: Deferral | None, *, stage: str = "", wanted: str = "") -> PlannedChange:
    """An object that can't be dry-run before another member of the set exists. It is counted as one to create.

    Without a deferral it awaits its kind, which something before it will bring.
    """
    return PlannedChange(
        key=manifest.key,
        action=Action.CREATED,
        version=manifest.version,
        manifest=manifest,
        writes=True,
        stage=stage,
        wave=wave_of(manifest),
        deferral=deferral,
        awaits_kind=deferral is None,
        manifest_hash=wanted or manifest_hash(manifest.body),
    )


def plan_failed(manifest: Manifest, error: ErrorDetail, *, stage: str = "", immutable: bool = False) -> PlannedChange:
    """An object whose dry run was refused for a reason that nothing in the set explains."""
    return PlannedChange(
        key=manifest.key,
        action=Action.FAILED,
        version=manifest.version,
        manifest=manifest,
        stage=stage,
        wave=wave_of(manifest),
        manifest_hash=manifest_hash(manifest.body),
        immutable=immutable,
        error=error,
    )


def plan_prune(key: ResourceKey, version: str, uid: str, *, wave: int = 0) -> PlannedChange:
    """An object that is owned and no longer wanted."""
    return PlannedChange(key=key, action=Action.PRUNED, version=version, writes=True, wave=wave, uid=uid)


def planned_hooks(hooks: Iterable[Hook]) -> tuple[tuple[str, ...], ...]:
    """What `Plan.hooks` says of them."""
    return tuple((hook.phase.value, str(hook.wave), *hook.manifest.key, manifest_hash(hook.manifest.body)) for hook in hooks)


def plan_hash(plan: Plan) -> str:
    """64 hex digits that stand for what a plan does, for an approval to bind to.

    Equal for plans that do the same to the same objects, whenever and by whomever they are made and from whichever commit:
    neither times nor resourceVersions are in it, nor the revision. The uid of each live object is, and the values that would
    change: an object that was changed or made anew in the meantime needs a new approval, and so does a hook.
    """
    document = [
        plan.application,
        sorted(_identity(item) for item in plan.items),
        sorted(_identity(prune) for prune in plan.prunes),
        sorted(plan.hooks),
    ]
    return hashlib.sha256(_canonical.encode(document)).hexdigest()


_canonical = msgspec.json.Encoder(order="deterministic")


def _identity(item: PlannedChange) -> tuple[str, ...]:
    error = item.error.code if item.error else ""
    changes = _canonical.encode(item.changes).decode()
    needs = str(item.deferral.needs) if item.deferral else ""
    how = "recreates" if item.recreates else str(item.writes)
    return (*item.key, item.version, item.action.value, how, item.manifest_hash, item.uid, changes, needs, error)


def result_of(item: PlannedChange) -> ResourceResult:
    """A planned change as a result shows it before anything is done."""
    return ResourceResult(
        group=item.key.group,
        kind=item.key.kind,
        namespace=item.key.namespace,
        name=item.key.name,
        action=item.action,
        wave=item.wave,
        changes=item.changes,
        origin=item.origin,
        unified=item.unified,
        error=item.error,
    )


def summarize(actions: Iterable[Action]) -> Summary:
    """How many objects met which fate."""
    counted = list(actions)
    return Summary(
        created=counted.count(Action.CREATED),
        configured=counted.count(Action.CONFIGURED),
        unchanged=counted.count(Action.UNCHANGED),
        pruned=counted.count(Action.PRUNED),
        failed=counted.count(Action.FAILED),
        skipped=counted.count(Action.SKIPPED),
    )


def describe_summary(summary: Summary) -> str:
    """A summary in a line: `12 resources, 2 changed, 1 failed`. Changed are the created and the configured ones."""
    total = sum(getattr(summary, name) for name in summary.__struct_fields__)
    changed = summary.created + summary.configured
    words = [f"{total} resource{'' if total == 1 else 's'}", f"{changed} changed"]
    words += [f"{count} {name}" for name in ("pruned", "failed", "skipped") if (count := getattr(summary, name))]
    return ", ".join(words)
