"""Task documents: what is wanted, as people and programs write it, and its strict reading.

A document is checked whole before anybody acts on it. An Argo CD `Application` is taken as a sync task.
"""

import difflib
import enum
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Self, TypeVar, get_args

import msgspec

from delegate.foundation.errors import Category, DelegateError, ErrorGroup
from delegate.foundation.quantities import parse_duration
from delegate.model.applications import NotAnApplicationError, read_application
from delegate.model.guards import PruneGuard
from delegate.model.ownership import IgnoredDifference, OwnershipRule
from delegate.model.releases import DEFAULT_LIMIT
from delegate.model.resources import JsonObject
from delegate.model.rollbacks import GitMode, HelmTarget, RollbackMode, RollbackSpec
from delegate.model.rollouts.specs import CanarySpec, faults_of_canary
from delegate.model.selection import Selection, read_selection
from delegate.model.sources import Source, faults_of_sources
from delegate.model.strict import Strict
from delegate.model.updates.requests import GitUpdateSpec, faults_of_update
from delegate.model.verification.checks import Check, VerifySpec, faults_of_verification


class TaskDocumentError(DelegateError):
    """A task document that can't be meant. Nothing was done.

    `field` is the way to the field (`spec.source.repoURL`) for who knows on which line it stands; empty for the document.
    """

    default_code = "input.task_document"
    category = Category.INPUT
    field: str = ""

    def at(self, field: str) -> Self:
        self.field = field
        return self


class TaskKind(enum.StrEnum):
    SYNC = "sync"
    DIFF = "diff"
    CANARY = "canary"
    VERIFY = "verify"
    ROLLBACK = "rollback"
    GIT_UPDATE = "git-update"


WINDING_KINDS = frozenset({TaskKind.CANARY.value})
"""Those that take back what they did when they are cancelled or out of time: an attempt that is lost leaves it standing."""


class Destination(Strict, frozen=True):
    """The cluster by `name` (or `server` address) and the namespace of objects that name none."""

    name: str = ""
    server: str = ""
    namespace: str = ""


class NamespaceMetadata(Strict, frozen=True):
    """What the destination namespace of an Application carries that creates it."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    def missing_from(self, metadata: JsonObject) -> JsonObject:
        """What of it the metadata of a live namespace has not, or otherwise."""
        owed: JsonObject = {}
        for part, wanted in (("labels", self.labels), ("annotations", self.annotations)):
            live = metadata.get(part) or {}
            missing = {name: value for name, value in wanted.items() if live.get(name) != value}
            owed |= {part: missing} if missing else {}
        return owed


class Duplicates(enum.StrEnum):
    """What is to be done with an object that is in the set twice."""

    FAIL = "fail"
    LAST_WINS = "lastWins"


class Shared(enum.StrEnum):
    """What is to be done with an object that another Application owns."""

    FAIL = "fail"
    ADOPT = "adopt"
    IGNORE = "ignore"


class SyncPolicy(Strict, frozen=True):
    """`suspend`: nothing is written until it is taken away; what would be is shown.

    `take_over_from` names managers that had the objects before, such as `argocd-controller`.
    """

    sync_options: tuple[str, ...] = ()
    prune_guard: PruneGuard = PruneGuard()
    managed_namespace_metadata: NamespaceMetadata = NamespaceMetadata()
    suspend: bool = False
    take_over_from: tuple[str, ...] = ()
    duplicates: Duplicates = Duplicates.FAIL
    shared: Shared = Shared.FAIL


class OnSyncFailure(enum.StrEnum):
    """What becomes of a release that fails: it stays as it is, or the last good one is put back, once."""

    KEEP = "keep"
    ROLLBACK = "rollback"


class SyncSpec(Strict, frozen=True):
    """One `source`, or several `sources` whose objects are one set. `project` may want more of sources than they say themselves.

    `verification`: checks that have to pass after the sync. `onFailure`: what follows where they don't, or where it never gets healthy.
    """

    source: Source = Source()
    sources: tuple[Source, ...] = ()
    sync_policy: SyncPolicy = SyncPolicy()
    ignore_differences: tuple[IgnoredDifference, ...] = ()
    ownership: tuple[OwnershipRule, ...] = ()
    revision_history_limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = DEFAULT_LIMIT
    project: str = ""
    verification: tuple[Check, ...] = ()
    on_failure: OnSyncFailure = OnSyncFailure.KEEP

    @property
    def all_sources(self) -> tuple[Source, ...]:
        return self.sources or (self.source,)


class Deletion(enum.StrEnum):
    """The end of an Application: its objects go with it, or stay and belong to nobody."""

    CASCADE = "cascade"
    ORPHAN = "orphan"


class SyncOptions(Strict, frozen=True):
    """Choices of one run; they win over the Application's sync policy. None means: as the sync policy says.

    `confirm` says yes to what wants to be confirmed: large prunes, and objects that say `Prune=confirm` or `Delete=confirm`.
    """

    prune: bool | None = None
    wait: bool = True
    fail_if_times_out: bool = True
    fail_fast_after: str = "60s"
    dry_run: bool = False
    force: bool = False
    replace: bool = False
    resources: tuple[str, ...] = ()
    confirm: bool = False
    delete: Deletion | None = None


class RetryPolicy(Strict, frozen=True):
    """Overrides of the delegate's retry settings for this task; absent values keep the delegate's."""

    max_attempts: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    base_ms: Annotated[int, msgspec.Meta(ge=1, le=600_000)] | None = None
    max_ms: Annotated[int, msgspec.Meta(ge=1, le=3_600_000)] | None = None
    max_retry_duration: str = ""


class TaskSignature(Strict, frozen=True):
    """Who vouches for the rest of the document: see `protocol.signatures`. The task gets `id` and no other; after `expires` (RFC 3339) no
    delegate begins it."""

    id: str
    expires: str
    key: str
    value: str


class Task(Strict, frozen=True):
    """A task document, read. `spec` stays opaque here: each kind reads its own.

    `annotations` are those of the Application that mean something here (`delegate.gitops/...`).
    `notices` are for whoever reads the result: what the document said that has no meaning here. Of tasks with one `concurrency_key` only
    so many run at once as the manager allows, by default one.
    """

    kind: TaskKind
    application: str
    destination: Destination = Destination()
    selector: dict[str, str] = {}
    environment: str = ""
    timeout: str = "15m"
    priority: Annotated[int, msgspec.Meta(ge=-1000, le=1000)] = 0
    concurrency_key: Annotated[str, msgspec.Meta(max_length=100)] = ""
    retry: RetryPolicy = RetryPolicy()
    supersedes: bool = False
    spec: JsonObject = {}
    options: SyncOptions = SyncOptions()
    approved_plan: str = ""
    annotations: dict[str, str] = {}
    notices: tuple[str, ...] = ()
    signature: TaskSignature | None = None

    @property
    def timeout_seconds(self) -> float:
        return parse_duration(self.timeout)

    def sync_spec(self) -> SyncSpec:
        """The spec of a sync or diff task. Raises TaskDocumentError."""
        return _convert(self.spec, SyncSpec, "spec")

    def verify_spec(self) -> VerifySpec:
        """The spec of a verify task. Raises TaskDocumentError."""
        return _convert(self.spec, VerifySpec, "spec")

    @property
    def selection(self) -> Selection:
        """The objects that this run is about."""
        return read_selection(self.options.resources)

    def rollback_spec(self) -> RollbackSpec:
        """The spec of a rollback task. Raises TaskDocumentError."""
        return _convert(self.spec, RollbackSpec, "spec")

    def document(self) -> JsonObject:
        """The task as the JSON object that `read_task` reads back."""
        return dict(msgspec.to_builtins(self))


_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,51}[a-z0-9])?")
_HELM_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,51}[a-z0-9])?")
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `([^`]*)`(?: - at `\$(.*)`)?")
_PLACE = re.compile(r" - at `(?:key in )?\$?(.*)`$")
T = TypeVar("T")


def read_task(document: object, file: str = "") -> Task:
    """A task from a decoded document (a task document or an Argo CD Application).

    Raises TaskDocumentError (or a group of them) that names the field, and the nearest known one where it's unknown.
    """
    if not isinstance(document, dict):
        raise TaskDocumentError("a task document is a mapping with at least `kind` and `application`", file=file)
    if str(document.get("apiVersion", "")).startswith("argoproj.io/"):
        try:
            document = read_application(document)
        except NotAnApplicationError as fault:
            words = f"{fault.field}: {fault}" if fault.field else str(fault)
            raise TaskDocumentError(words, file=file).at(fault.field) from fault
    task = _convert(document, Task, "", file)
    errors = list(_faults(task))
    if errors:
        for error in errors:
            error.file = file
        raise errors[0] if len(errors) == 1 else ErrorGroup(list[DelegateError](errors))
    return task


def _faults(task: Task) -> Iterable[TaskDocumentError]:
    if not _NAME.fullmatch(task.application):
        yield TaskDocumentError(
            f"application: {task.application!r} is no name; use up to 53 lower-case letters, digits, `-` and `.`, "
            "beginning and ending with a letter or digit"
        ).at("application")
    for field, text in (
        ("timeout", task.timeout),
        ("options.failFastAfter", task.options.fail_fast_after),
        ("retry.maxRetryDuration", task.retry.max_retry_duration),
    ):
        if not text:
            continue
        try:
            parse_duration(text)
        except ValueError as error:
            yield TaskDocumentError(f"{field}: {error}").at(field)
    try:
        read_selection(task.options.resources)
    except ValueError as error:
        yield TaskDocumentError(f"options.resources: {error}").at("options.resources")
    if task.kind in (TaskKind.SYNC, TaskKind.DIFF):
        try:
            yield from _faults_of_sync(task.sync_spec())
        except TaskDocumentError as error:
            yield error
    if task.kind is TaskKind.ROLLBACK:
        try:
            yield from _faults_of_rollback(task.rollback_spec())
        except TaskDocumentError as error:
            yield error
    if task.kind is TaskKind.VERIFY:
        yield from _faults_of(task, VerifySpec, lambda spec: [*faults_of_verification(spec)] or _faults_of_time(task, spec))
    if task.kind is TaskKind.CANARY:
        yield from _faults_of(task, CanarySpec, faults_of_canary)
    if task.kind is TaskKind.GIT_UPDATE:
        yield from _faults_of(task, GitUpdateSpec, faults_of_update)


def _faults_of(task: Task, wanted: type[T], faults: Callable[[T], Iterable[tuple[str, str, str]]]) -> Iterable[TaskDocumentError]:
    """Of a spec that a run reads as `wanted`: misspelt fields, or what `faults` finds (field below the spec, words, hint)."""
    try:
        found = [*faults(_convert(task.spec, wanted, "spec"))]
    except TaskDocumentError as error:
        yield error
        return
    for field, words, hint in found:
        yield TaskDocumentError(f"spec.{field}: {words}", hint=hint).at(f"spec.{field}")


def _faults_of_time(task: Task, spec: VerifySpec) -> Iterable[tuple[str, str, str]]:
    """Evidence that would have to last longer than the task may: it would always end without enough of it."""
    if spec.window is not None:
        return
    try:
        longest = min(task.timeout_seconds, parse_duration(spec.deadline or task.timeout))
    except ValueError:
        return  # a fault of its own
    for number, check in enumerate(spec.verification):
        if check.for_seconds + parse_duration(check.initial_delay) >= longest:
            words = f"{check.duration} of evidence, after {check.initial_delay}, never fit into the {longest:g} s that the whole may take"
            yield f"verification[{number}].for", words, "give the task a longer timeout"


def _faults_of_sync(spec: SyncSpec) -> Iterable[TaskDocumentError]:
    yield from _faults_of_sources(spec)
    if spec.verification:
        for field, words, hint in faults_of_verification(VerifySpec(verification=spec.verification)):
            yield TaskDocumentError(f"spec.{field}: {words}", hint=hint).at(f"spec.{field}")


def _faults_of_sources(spec: SyncSpec) -> Iterable[TaskDocumentError]:
    if spec.sources and spec.source != Source():
        yield TaskDocumentError("spec has both `source` and `sources`", hint="move the one into the others").at("spec.source")
    for field, words, hint in faults_of_sources(spec.all_sources):
        place = f"spec.sources{field}" if spec.sources else f"spec.source{field.removeprefix('[0]')}"
        yield TaskDocumentError(f"{place}: {words}", hint=hint).at(place)


def _faults_of_rollback(spec: RollbackSpec) -> Iterable[TaskDocumentError]:
    if spec.workload is not None and spec.helm_release is not None:
        yield TaskDocumentError("spec has both `workload` and `helmRelease`", hint="take one of them").at("spec.workload")
    if spec.helm_release is not None:
        yield from _faults_of_helm_target(spec.helm_release)
    if spec.workload is not None:
        if spec.workload.kind not in ("Deployment", "StatefulSet", "DaemonSet"):
            words = f"spec.workload.kind: {spec.workload.kind!r} has no revisions; Deployment, StatefulSet and DaemonSet have"
            yield TaskDocumentError(words).at("spec.workload.kind")
        if not spec.workload.name:
            yield TaskDocumentError("spec.workload.name: which one?").at("spec.workload.name")
    if spec.routing is not None and spec.mode is not RollbackMode.GRACEFUL:
        words = f"spec.routing: mode {spec.mode} shifts no load"
        yield TaskDocumentError(words, hint="say mode: graceful, or leave routing out").at("spec.routing")
    times = (("watch", spec.watch), ("gitops.for", spec.gitops.duration), ("drain", spec.drain), ("minReady", spec.min_ready))
    for field, text in times:
        try:
            parse_duration(text or "0s")
        except ValueError as error:
            yield TaskDocumentError(f"spec.{field}: {error}").at(f"spec.{field}")
    if spec.git.mode is not GitMode.NONE and not spec.git.commit:
        yield TaskDocumentError("spec.git.commit: which commit is to be taken back?").at("spec.git.commit")
    if spec.git.mode is not GitMode.NONE and not spec.git.repo_url:
        yield TaskDocumentError("spec.git.repoURL: in which repository?").at("spec.git.repoURL")


def _faults_of_helm_target(target: HelmTarget) -> Iterable[TaskDocumentError]:
    if not _HELM_NAME.fullmatch(target.name):
        yield TaskDocumentError("spec.helmRelease.name: which release?", hint="helm list shows them").at("spec.helmRelease.name")
    if target.revision < 0:
        yield TaskDocumentError("spec.helmRelease.revision: they count from 1").at("spec.helmRelease.revision")
    if target.unlock_after:
        try:
            parse_duration(target.unlock_after)
        except ValueError as error:
            yield TaskDocumentError(f"spec.helmRelease.unlockAfter: {error}").at("spec.helmRelease.unlockAfter")


def _convert(value: object, wanted: type[T], where: str, file: str = "") -> T:
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        raise _explain(error, wanted, where, file) from error


def _explain(error: msgspec.ValidationError, wanted: type, where: str, file: str) -> TaskDocumentError:
    text = str(error)
    unknown = _UNKNOWN_FIELD.search(text)
    if unknown is None:
        place = _PLACE.search(text)
        field = (where + (place[1] if place else "")).lstrip(".")
        words = _PLACE.sub("", text)
        return TaskDocumentError(f"{field}: {words}" if field else words, file=file).at(field)
    field = (where + (unknown[2] or "")).strip(".")
    nearest = difflib.get_close_matches(unknown[1], _field_names(wanted), n=1, cutoff=0.5)
    hint = f"did you mean `{nearest[0]}`?" if nearest else f"remove `{unknown[1]}`"
    place_words = f" in {field}" if field else ""
    error_place = f"{field}.{unknown[1]}" if field else unknown[1]
    return TaskDocumentError(f"unknown field `{unknown[1]}`{place_words}", hint=hint, file=file).at(error_place)


def _field_names(wanted: type) -> list[str]:
    names: list[str] = []
    for field in msgspec.structs.fields(wanted):
        names.append(field.encode_name)
        for kind in (field.type, *get_args(field.type)):
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                names += _field_names(kind)
    return names
