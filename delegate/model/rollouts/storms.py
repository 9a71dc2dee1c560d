"""What canaries of one group know of each other: which were convicted, which are taken back now, and whether more may begin. Pure.

A dependency that fails makes everything look bad at once. Then no wave of aborts is the second outage, nobody begins anew, and what the
stable version suffers from as well is not the release's fault.
"""

import datetime as dt
import re
from collections.abc import Iterable
from typing import Annotated

import msgspec

from delegate.foundation.quantities import parse_duration
from delegate.model.resources import JsonObject
from delegate.model.rollouts.errors import CorruptJournalError
from delegate.model.strict import Strict

GROUP_LABEL = "delegate.gitops/canary-group"
DEFAULT_GROUP = "canaries"
CLEARED_ANNOTATION = "delegate.gitops/cleared"
"""On a canary's journal: which known bad version is cleared (its digest, or `all`)."""
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9.]{0,100}[a-z0-9])?")
_DATA_KEY = "group.json"
_MOST_CONVICTIONS = 100
_MOST_BAD = 20


class StormSpec(Strict, frozen=True):
    """The bounds of one canary's group, which is that of its namespace unless it is named.

    `abortsAtOnce`: so many of the group are taken back side by side, in the order of their convictions. From the `stopAfter`th workload on
    that is convicted `within` such a time no canary of the group begins. `perHour`: after so many convictions of this workload in an hour
    none of its begins.
    """

    group: str = DEFAULT_GROUP
    aborts_at_once: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 3
    stop_after: Annotated[int, msgspec.Meta(ge=2, le=1000)] = 5
    within: str = "120s"
    per_hour: Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = None

    @property
    def window(self) -> dt.timedelta:
        return dt.timedelta(seconds=parse_duration(self.within))


def faults_of_storm(spec: StormSpec) -> Iterable[tuple[str, str, str]]:
    if not _GROUP.fullmatch(spec.group):
        yield "storm.group", f"{spec.group!r} is no name of a group", "use lower-case letters, digits, `-` and `.`"
    try:
        parse_duration(spec.within)
    except ValueError as error:
        yield "storm.within", str(error), "write a number and a unit, such as 120s"


class BadVersion(msgspec.Struct, frozen=True, rename="camel"):
    """A version that was convicted: the digest of its template, when (RFC 3339), by which task and why."""

    digest: str
    at: str
    task: str
    reason: str


class Conviction(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One canary that was convicted. `shared`: the stable version fails as well, so nothing is taken back. `until`: whoever has not been
    heard of by then has died."""

    workload: str
    task: str
    at: str
    until: str
    shared: bool = False
    begun: bool = False
    ended: bool = False


class Group(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`stopped` says why no canary begins; `alarmed`: when the last alarm of the group was raised."""

    convictions: tuple[Conviction, ...] = ()
    stopped: str = ""
    alarmed: str = ""


def convicted(group: Group, conviction: Conviction, spec: StormSpec, now: dt.datetime) -> Group:
    """With one more, each canary once. The group is stopped where they are too many in too short a time."""
    others = tuple(each for each in group.convictions if not _same(each, conviction))
    known = next((each for each in group.convictions if _same(each, conviction)), None)
    if known is not None:  # by an attempt before: its place in the order is kept
        conviction = msgspec.structs.replace(conviction, at=known.at)
    kept = sorted((*others, conviction), key=lambda each: each.at)[-_MOST_CONVICTIONS:]
    recent = sorted({each.workload for each in kept if now - _time(each.at) <= spec.window})
    stopped = group.stopped
    if not stopped and len(recent) >= spec.stop_after:
        stopped = f"{len(recent)} workloads were convicted within {spec.within}: {', '.join(recent)}"
    return msgspec.structs.replace(group, convictions=tuple(kept), stopped=stopped)


def with_alarm(group: Group, before: Group, spec: StormSpec, now: dt.datetime) -> tuple[Group, bool]:
    """Whether this change of a group is worth an alarm: one for each storm, however many are in it, and one where it is stopped."""
    shared = any(each.shared and now - _time(each.at) <= spec.window for each in group.convictions)
    fresh = not group.alarmed or now - _time(group.alarmed) > spec.window
    due = bool(group.stopped and not before.stopped) or (shared and fresh)
    return (msgspec.structs.replace(group, alarmed=now.isoformat()), True) if due else (group, False)


def may_abort(group: Group, workload: str, task: str, spec: StormSpec, now: dt.datetime) -> bool:
    """Whether it is this one's turn: fewer than go at once were convicted before and are still at it."""
    before = 0
    for each in group.convictions:
        if each.workload == workload and each.task == task:
            return each.begun or before < spec.aborts_at_once
        before += not each.shared and not each.ended and _time(each.until) > now
    return True


def changed(group: Group, workload: str, task: str, **changes: object) -> Group:
    """With these fields of one conviction changed."""
    told = tuple(
        msgspec.structs.replace(each, **changes) if (each.workload, each.task) == (workload, task) else each for each in group.convictions
    )
    return msgspec.structs.replace(group, convictions=told)


def find(group: Group, workload: str, task: str) -> Conviction | None:
    return next((each for each in group.convictions if (each.workload, each.task) == (workload, task)), None)


def with_bad(known: Iterable[BadVersion], bad: BadVersion) -> tuple[BadVersion, ...]:
    return (*(each for each in known if each.digest != bad.digest), bad)[-_MOST_BAD:]


def without_cleared(known: Iterable[BadVersion], journal_map: JsonObject) -> tuple[BadVersion, ...]:
    """Those that nobody has cleared, by an annotation of the journal."""
    annotations = (journal_map.get("metadata") or {}).get("annotations") or {}
    cleared = str(annotations.get(CLEARED_ANNOTATION, ""))
    return () if cleared == "all" else tuple(each for each in known if not cleared or not each.digest.startswith(cleared))


def still_bad(known: Iterable[BadVersion], journal_map: JsonObject, *, but: str) -> tuple[BadVersion, ...]:
    """Those that are not cleared, but for one that is tried all the same."""
    return tuple(each for each in without_cleared(known, journal_map) if each.digest != but)


def convictions_of_late(known: Iterable[BadVersion], now: dt.datetime) -> int:
    return sum(1 for each in known if now - _time(each.at) <= dt.timedelta(hours=1))


def group_name(group: str) -> str:
    """No journal and no inventory has such a name."""
    return f"delegate.canary-group.{group}"


def group_config_map(namespace: str, name: str, group: Group) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": group_name(name),
            "namespace": namespace,
            "labels": {GROUP_LABEL: "group"},
        },
        "data": {_DATA_KEY: msgspec.json.encode(group).decode(), "stopped": group.stopped},
    }


def read_group(config_map: JsonObject) -> Group:
    """Raises CorruptJournalError."""
    metadata = config_map.get("metadata") or {}
    try:
        return msgspec.json.decode((config_map.get("data") or {}).get(_DATA_KEY, ""), type=Group)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        place = f"ConfigMap {metadata.get('namespace')}/{metadata.get('name')}"
        raise CorruptJournalError(f"{place} tells nothing of a group of canaries: {error}", hint="delete it", object=place) from error


def _same(one: Conviction, other: Conviction) -> bool:
    return (one.workload, one.task) == (other.workload, other.task)


def _time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)
