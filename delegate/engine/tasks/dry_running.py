"""Plans one object by asking the server: what an apply of it would do, whose fields it would take, and whether it can be done at all.

The body that is dry-run is the one that will be sent: fields that are left to others (`model.ownership`) are out of it.
"""

from collections.abc import Awaitable, Callable, Sequence

import msgspec
import structlog

from delegate.engine.clusters.client import ApiClient
from delegate.engine.clusters.errors import FieldConflict, FieldManagerConflictError, ImmutableFieldError, NotFoundError
from delegate.engine.tasks.errors import ChangedSincePlanError
from delegate.engine.tasks.querying import PathQueries
from delegate.foundation.errors import DelegateError
from delegate.model.applied import PENDING_FIELDS, fields_hash, our_entry, with_pending_mark
from delegate.model.autoscaling import has_metrics, is_scaled, with_metrics_ordered
from delegate.model.changes import diff_bodies
from delegate.model.contests import Contest, standing
from delegate.model.fieldsets import resolve_conflict, resolve_pointer
from delegate.model.names import throwaway_name
from delegate.model.ownership import Mode, Settled, leave_conflicts, settle, settle_new
from delegate.model.plan import PlannedChange, plan_change, plan_kept
from delegate.model.resources import GroupKind, JsonObject, Manifest, ResourceKey, ResourceType
from delegate.model.results import Action, Change
from delegate.model.sync_options import is_never_recreated, may_recreate
from delegate.model.takeover import CLIENT_SIDE_MANAGERS, can_take_over, handed_over, removed_by_takeover
from delegate.model.treatment import Treatment
from delegate.model.unified import unified_diff

log = structlog.get_logger(__name__)
_LOOKS = 6  # a controller may write its status between a dry run and a look; hardly six times in a row
_SECRET = GroupKind("", "Secret")
_STATEFUL_SET = GroupKind("apps", "StatefulSet")


RefuseForeign = Callable[[ResourceKey, JsonObject], Awaitable[None]]
"""Raises where an object's metadata says that it is another Application's."""


class Finding(msgspec.Struct, frozen=True):
    """A planned object, the error behind a refusal, and the managers that a forced apply would take fields from.

    `force`: the write has to be forced, as the dry run was. `put_off` is the refusal that a deferral explains for now.
    `hand_over`: the managedFields to write first, see `model.takeover`.
    `contest` stands where a field is not taken back, for somebody keeps changing it. `notes` are for the reader of the plan.
    """

    change: PlannedChange
    error: DelegateError | None = None
    put_off: DelegateError | None = None
    taken_from: tuple[str, ...] = ()
    hand_over: list[JsonObject] | None = None
    contest: Contest | None = None
    force: bool = False
    notes: tuple[str, ...] = ()


class DryRunner:
    """Dry-runs objects of one set. `contests` are those that the Application's record knows of."""

    def __init__(
        self,
        client: ApiClient,
        queries: PathQueries,
        *,
        force: bool,
        replace: bool,
        contests: dict[ResourceKey, Contest],
        shows: bool = False,
    ) -> None:
        self._client = client
        self._queries = queries
        self._force = force
        self._replace = replace
        self._contests = contests
        self._shows = shows

    async def run(
        self,
        manifest: Manifest,
        resource_type: ResourceType,
        treatment: Treatment,
        *,
        stage: str,
        wanted: str,
        ours: bool,
        refuse_foreign: RefuseForeign,
    ) -> Finding:
        """Raises ClusterError where the server refuses, ChangedSincePlanError where the object never holds still."""
        dry_run = _DryRun(self, manifest, resource_type, treatment, refuse_foreign, stage=stage, wanted=wanted, ours=ours)
        for _ in range(_LOOKS):
            finding = await dry_run.look()
            if finding is not None:
                return finding
        raise ChangedSincePlanError(
            f"{manifest.key} changes faster than it can be planned", hint="find out who keeps writing it", object=str(manifest.key)
        )

    async def live(self, resource_type: ResourceType, key: ResourceKey) -> JsonObject | None:
        try:
            return await self._client.get(resource_type, key.namespace, key.name)
        except NotFoundError:
            return None

    async def apply(self, resource_type: ResourceType, body: JsonObject, *, force: bool, metadata_only: bool) -> JsonObject:
        return await self._client.apply(resource_type, body, dry_run=True, force=force, metadata_only=metadata_only)

    async def settled(self, manifest: Manifest, live: JsonObject, treatment: Treatment) -> Settled:
        found = await self._queries.find(manifest, treatment.ownership.expressions)
        return settle(manifest.body, live, treatment.ownership, found=found)

    def shown(self, change: PlannedChange, before: JsonObject | None, after: JsonObject) -> PlannedChange:
        """The change with its difference as text, where this run is there to show it."""
        if not self._shows or change.action is Action.UNCHANGED:
            return change
        return msgspec.structs.replace(change, unified=unified_diff(before, after, str(change.key)))

    def truce(self, key: ResourceKey, wanted: str, managers: tuple[str, ...]) -> Contest | None:
        return None if self._force else standing(self._contests.get(key), wanted, managers, self._client.clock.now().timestamp())

    @property
    def force(self) -> bool:
        return self._force

    def may_recreate(self, manifest: Manifest, treatment: Treatment) -> bool:
        options = msgspec.structs.replace(treatment.options, recreate=self._replace or treatment.options.recreate)
        return may_recreate(manifest.group_kind, options)


class _DryRun:
    """The looks at one object, each wiser than the one before."""

    def __init__(
        self,
        runner: DryRunner,
        manifest: Manifest,
        resource_type: ResourceType,
        treatment: Treatment,
        refuse_foreign: RefuseForeign,
        *,
        stage: str,
        wanted: str,
        ours: bool,
    ) -> None:
        self._runner = runner
        self._refuse_foreign = refuse_foreign
        self._manifest = manifest
        self._type = resource_type
        self._treatment = treatment
        self._stage = stage
        self._wanted = wanted
        self._ours = ours
        self._is_new = not ours  # as far as we know; of a new object the metadata is all that a plan needs
        self._force = runner.force and not treatment.merges
        self._taken_from: tuple[str, ...] = ()
        self._left: dict[str, str] = {}
        self._contest: Contest | None = None
        self._notes: tuple[str, ...] = ()

    async def look(self) -> Finding | None:
        """None where something was learned that asks for another look."""
        live = None
        sent = self._manifest
        if self._treatment.settles:
            live = await self._runner.live(self._type, self._manifest.key)
            self._is_new = live is None
            sent = await self._settled(live)
        elif has_metrics(self._manifest.group_kind, self._manifest.body):
            live = await self._runner.live(self._type, self._manifest.key)
        if live is not None:
            sent = Manifest(with_metrics_ordered(sent.group_kind, sent.body, live), sent.origin)
        if self._left:
            body, _ = leave_conflicts(sent.body, self._left)
            sent = Manifest(body, sent.origin)
        try:
            answer = await self._runner.apply(
                self._type, with_pending_mark(sent.body, self._wanted), force=self._force, metadata_only=self._is_new
            )
        except (FieldManagerConflictError, ImmutableFieldError) as error:
            await self._look_whose(live)
            if isinstance(error, ImmutableFieldError):
                return await self._recreation(sent, error)
            return self._after_conflict(error, sent)
        if answer["metadata"].get("resourceVersion"):  # the answer to a dry run that would create has none
            if self._is_new:
                self._is_new = False  # it is there, only not ours: its body is needed
                return None
            live = live or await self._runner.live(self._type, self._manifest.key)
            if live is None or live["metadata"]["resourceVersion"] != answer["metadata"]["resourceVersion"]:
                return None  # changed between the two looks: the dry run has to be that of what we compare it with
            await self._look_whose(live)
        return self._finding(sent, live, answer)

    async def _look_whose(self, live: JsonObject | None) -> None:
        """Before anything is concluded of an object that isn't known to be ours. Raises OwnedElsewhereError."""
        if self._ours:
            return
        live = live or await self._runner.live(self._type, self._manifest.key)
        if live is not None:
            await self._refuse_foreign(self._manifest.key, live["metadata"])

    async def _settled(self, live: JsonObject | None) -> Manifest:
        if live is None:
            return Manifest(settle_new(self._manifest.body, self._treatment.ownership), self._manifest.origin)
        settled = await self._runner.settled(self._manifest, live, self._treatment)
        self._notes = tuple(f"{self._manifest.key}: nothing is ignored by {rule}: it matches no field" for rule in settled.unused)
        return Manifest(settled.body, self._manifest.origin)

    def _finding(self, sent: Manifest, live: JsonObject | None, answer: JsonObject) -> Finding:
        entry = our_entry(answer["metadata"]) or {}
        # While something is left to who fights for it, the object isn't as wanted, and is looked at again each time.
        fields = fields_hash(entry) if self._contest is None else PENDING_FIELDS
        change = plan_change(sent, live, answer, fields, stage=self._stage, wanted=self._wanted)
        change = self._runner.shown(change, live, sent.body if live is None else answer)
        notes = (*self._notes, *(f"{sent.key}: {field} is left to {manager}" for field, manager in self._left.items()))
        takes = self._treatment.takes
        if live is None or not can_take_over(live["metadata"], takes):
            return Finding(change, taken_from=self._taken_from, contest=self._contest, force=self._force, notes=notes)
        removed = removed_by_takeover(live, entry.get("fieldsV1") or {}, secret=sent.group_kind == _SECRET, takes=takes)
        change = msgspec.structs.replace(change, changes=(*change.changes, *removed), action=Action.CONFIGURED, writes=True)
        hand_over = handed_over(live["metadata"], takes)
        return Finding(change, taken_from=self._taken_from, contest=self._contest, force=self._force, hand_over=hand_over, notes=notes)

    def _after_conflict(self, error: FieldManagerConflictError, sent: Manifest) -> Finding | None:
        """What others set is left to them or taken, as the object's treatment says; where nothing does, only what was ours is taken."""
        left, taken = dict[str, str](), list[str]()
        for conflict in error.conflicts:
            mode = self._mode_at(conflict, sent)
            if mode is Mode.MERGE:
                left[conflict.field] = conflict.manager
            elif mode is Mode.OVERRIDE or self._runner.force or self._ours or self._is_predecessor(conflict.manager):
                taken.append(conflict.manager)
            else:
                error.hint += f"; or, where it was {conflict.manager}'s before, say so: syncPolicy.takeOverFrom: [{conflict.manager}]"
                raise error
        managers = tuple(dict.fromkeys(taken))
        truce = self._runner.truce(sent.key, self._wanted, managers) if managers else None
        if truce is not None and set(managers) <= set(truce.managers):
            return self._at_truce(truce, error)
        if truce is not None and self._contest is None:
            # Others are no part of the contest: what they changed is put right, what is fought over is left out.
            self._contest = truce
            self._left |= {conflict.field: conflict.manager for conflict in error.conflicts if conflict.manager in truce.managers}
            self._notes += (_words_of(truce, [conflict.field for conflict in error.conflicts if conflict.manager in truce.managers]),)
            return None
        if self._force or not (left.keys() - self._left.keys() or managers):
            raise error
        self._left |= left
        if managers:
            self._taken_from, self._force = managers, not left  # a force that came with these would take what is to be left
        return None

    def _is_predecessor(self, manager: str) -> bool:
        return manager in CLIENT_SIDE_MANAGERS or manager in self._treatment.predecessors

    def _mode_at(self, conflict: FieldConflict, sent: Manifest) -> Mode | None:
        if is_scaled(conflict.manager, conflict.subresource, conflict.field) and not self._runner.force:
            return Mode.MERGE
        path = resolve_conflict(conflict.field, sent.body)
        ownership = self._treatment.ownership
        return ownership.mode if path is None else ownership.mode_at(path, sent.body)

    def _at_truce(self, contest: Contest, error: FieldManagerConflictError) -> Finding:
        change = plan_kept(self._manifest, stage=self._stage, wanted=self._wanted)
        return Finding(change, contest=contest, notes=(_words_of(contest, error.fields),))

    async def _recreation(self, sent: Manifest, error: ImmutableFieldError) -> Finding:
        """The plan to delete an object and make it anew: only where it may be, and where the new one would be accepted."""
        if not self._runner.may_recreate(sent, self._treatment):
            error.hint = _recreation_hint(sent, error)
            raise error
        live = await self._runner.live(self._type, sent.key)
        if live is None:
            raise error
        try:
            answer = await self._runner.apply(self._type, _throwaway(sent.body, self._wanted), force=False, metadata_only=False)
        except DelegateError as refusal:
            refusal.message = refusal.message.replace(throwaway_name(sent.name), sent.name)
            refusal.hint = refusal.hint.replace(throwaway_name(sent.name), sent.name)
            raise
        anew = {**answer, "metadata": {**answer["metadata"], "name": sent.name, "generation": live["metadata"].get("generation")}}
        entry = our_entry(answer["metadata"]) or {}
        change = plan_change(sent, live, anew, fields_hash(entry), stage=self._stage, wanted=self._wanted)
        change = msgspec.structs.replace(
            change, action=Action.CONFIGURED, writes=True, changes=_meant(diff_bodies(live, anew), sent.body), recreates=True
        )
        change = self._runner.shown(change, live, anew)
        fields = ", ".join(dict.fromkeys(cause.field for cause in error.causes))
        how = "its pods and claims stay" if sent.group_kind == _STATEFUL_SET else "it is gone for a moment"
        return Finding(change, notes=(f"{sent.key} is deleted and made anew, for {fields} can't be changed in place; {how}",))


def _words_of(contest: Contest, fields: Sequence[str]) -> str:
    words = f"{contest.key}: {', '.join(contest.managers)} keeps setting {', '.join(fields)}, {contest.count} times by now"
    hint = "it is left alone for a while; leave the field out of the manifest, ignore it, or sync once with options {force: true}"
    return f"{words}: {hint}"


def _meant(changes: tuple[Change, ...], body: JsonObject) -> tuple[Change, ...]:
    """The changes that the manifest means: a server draws some values of a new object anew each time it is asked."""
    return tuple(change for change in changes if change.after is msgspec.UNSET or resolve_pointer(change.path, body))


def _throwaway(body: JsonObject, wanted: str) -> JsonObject:
    """The object under a name that nothing has: what a server says to that, it says to one that is made anew."""
    marked = with_pending_mark(body, wanted)
    metadata: JsonObject = marked["metadata"]
    return {**marked, "metadata": {**metadata, "name": throwaway_name(metadata["name"])}}


def _recreation_hint(manifest: Manifest, error: ImmutableFieldError) -> str:
    fields = ", ".join(dict.fromkeys(cause.field for cause in error.causes))
    if is_never_recreated(manifest.group_kind):
        return f"{fields} can't be changed in place, and a {manifest.kind} is never deleted for a change: set it back, or use another name"
    return (
        f"{fields} can't be changed in place: set it back, use another name, or let the object be deleted and made anew "
        "(annotate it with delegate.gitops/sync-options: Replace=true, or sync once with options {replace: true})"
    )
