"""Who owns which field: managedFields, and how writes move ownership (apimachinery `managedfields`, merge `Updater`).

Everything here is a decision on values: the objects given are not changed.
"""

import json
from typing import Any, NamedTuple

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import fieldsets, merging, statuses
from delegate.simulator.fieldsets import FieldSet
from delegate.simulator.schemas import FieldType

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
BEFORE_FIRST_APPLY = "before-first-apply"
MOST_UPDATERS = 10
OLD_UPDATERS = "ancient-changes"
_NEVER_OWNED = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)


class Manager(NamedTuple):
    """The identity of an entry. Appliers have no apiVersion in it: they keep theirs whichever version they apply."""

    name: str
    operation: str
    api_version: str
    subresource: str

    def shown(self) -> str:
        text = json.dumps(self.name, ensure_ascii=False)
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        if self.operation == "Update":
            text += f" using {self.api_version}"
        return text


class Entry(msgspec.Struct, frozen=True):
    """What a manager owns, as of when. `ordered` says that the set is in the order in which it is written."""

    api_version: str
    time: str
    fields: FieldSet
    ordered: bool = False


Managers = dict[Manager, Entry]


class OwnedElsewhereError(Exception):
    """An apply without force meets fields of others: pairs of manager and path, in order."""

    def __init__(self, conflicts: list[tuple[Manager, tuple[str, ...]]]) -> None:
        super().__init__("conflict")
        self.conflicts = conflicts

    def status(self) -> statuses.StatusError:
        causes = [
            statuses.Cause("FieldManagerConflict", f"conflict with {manager.shown()}", merging.shown_path(path)).body()
            for manager, path in self.conflicts
        ]
        return statuses.StatusError(409, self._message(), reason="Conflict", details={"causes": causes})

    def _message(self) -> str:
        if len(self.conflicts) == 1:
            manager, path = self.conflicts[0]
            return f"Apply failed with 1 conflict: conflict with {manager.shown()}: {merging.shown_path(path)}"
        lines = []
        for manager in sorted({manager for manager, _ in self.conflicts}):
            lines.append(f"conflicts with {manager.shown()}:")
            lines += [f"- {merging.shown_path(path)}" for owner, path in self.conflicts if owner == manager]
        return f"Apply failed with {len(self.conflicts)} conflicts: " + "\n".join(lines)


def read(entries: Any) -> Managers | None:
    """The entries of an object's managedFields; None where they can't be understood."""
    found: Managers = {}
    for entry in entries or ():
        if not isinstance(entry, dict) or not isinstance(entry.get("fieldsV1", {}), dict):
            return None
        operation, version = entry.get("operation", ""), entry.get("apiVersion", "")
        if operation not in ("Apply", "Update") or not version:
            return None
        name = Manager(entry.get("manager", ""), operation, "" if operation == "Apply" else version, entry.get("subresource", ""))
        found[name] = Entry(version, entry.get("time") or "", entry.get("fieldsV1") or {}, ordered=True)
    return found


def write(managers: Managers) -> list[JsonObject]:
    """managedFields in the server's order: Apply before Update, then by time, manager, version and subresource."""
    entries = []
    ordered = sorted(
        managers.items(), key=lambda item: (item[0].operation, item[1].time, item[0].name, item[1].api_version, item[0].subresource)
    )
    for manager, entry in ordered:
        body: JsonObject = {"manager": manager.name, "operation": manager.operation, "apiVersion": entry.api_version}
        if entry.time:
            body["time"] = entry.time
        body |= {"fieldsType": "FieldsV1", "fieldsV1": entry.fields if entry.ordered else fieldsets.ordered(entry.fields)}
        if manager.subresource:
            body["subresource"] = manager.subresource
        entries.append(body)
    return entries


def strip(fields: FieldSet, subresource: str, *, has_status: bool, custom: bool) -> FieldSet:
    """A set without what nobody may own: identity, and the half of the object that the request can't write."""
    out = {key: node for key, node in fields.items() if key not in ("f:apiVersion", "f:kind")}
    metadata = out.get("f:metadata")
    if metadata is not None:
        kept = {key: node for key, node in metadata.items() if key != fieldsets.SELF and key[2:] not in _NEVER_OWNED}
        if subresource == "status":
            kept.pop("f:labels", None)
        if kept:
            out["f:metadata"] = kept
        else:
            del out["f:metadata"]
    return reach(out, subresource, has_status=has_status, custom=custom)


def reach(fields: FieldSet, subresource: str, *, has_status: bool, custom: bool) -> FieldSet:
    """The part of a set that a request to this subresource can change: the rest is put back (`GetResetFields`)."""
    if subresource == "status":
        return {key: node for key, node in fields.items() if (key == "f:status" if custom else key != "f:spec")}
    if has_status and subresource == "":
        return {key: node for key, node in fields.items() if key != "f:status"}
    return fields


class Rules(msgspec.Struct, frozen=True):
    """What an operation on one kind needs to know."""

    type: FieldType
    api_version: str
    subresource: str = ""
    has_status: bool = True
    custom: bool = False

    def owned(self, fields: FieldSet) -> FieldSet:
        return strip(fields, self.subresource, has_status=self.has_status, custom=self.custom)

    def reached(self, fields: FieldSet) -> FieldSet:
        return reach(fields, self.subresource, has_status=self.has_status, custom=self.custom)


def without_entries(body: JsonObject) -> JsonObject:
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return body
    return {**body, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def update(live: JsonObject, new: JsonObject, managers: Managers, manager: Manager, rules: Rules, *, now: str) -> Managers:
    """Who owns what after `manager` wrote `new` over `live` (any write but an apply)."""
    difference = merging.compare(without_entries(live), without_entries(new), rules.type)
    changed = rules.reached(difference.changed())
    after: Managers = {}
    lost = fieldsets.union(changed, rules.reached(difference.removed))
    for name, entry in managers.items():
        if not lost or not fieldsets.intersection(entry.fields, lost):
            after[name] = entry
        elif fields := fieldsets.difference(entry.fields, lost):
            after[name] = Entry(entry.api_version, entry.time, fields)
    taken = rules.owned(changed)
    if taken:
        mine = after.get(manager)
        after[manager] = Entry(rules.api_version, now, fieldsets.union(mine.fields, taken) if mine else taken)
        _cap(after)
    return after


def _cap(managers: Managers) -> None:
    """At most ten entries of updaters: the oldest are merged into one (`CapManagersManager`)."""
    updaters = sorted((item for item in managers.items() if item[0].operation == "Update"), key=lambda item: item[1].time)
    while len(updaters) > MOST_UPDATERS:
        name, entry = updaters.pop(0)
        del managers[name]
        bucket = Manager(OLD_UPDATERS, "Update", entry.api_version, "")
        held = managers.get(bucket)
        managers[bucket] = Entry(entry.api_version, entry.time, fieldsets.union(held.fields, entry.fields) if held else entry.fields)
        updaters = sorted((item for item in managers.items() if item[0].operation == "Update"), key=lambda item: item[1].time)


class Applier(msgspec.Struct, frozen=True):
    """Who applies what kind of object, when, and whether fields of others may be taken."""

    manager: Manager
    rules: Rules
    now: str
    force: bool = False


def apply(live: JsonObject | None, config: JsonObject, managers: Managers, applier: Applier) -> tuple[JsonObject | None, Managers]:
    """The object after `config` was applied, None where the object itself is unchanged, and who owns what then.

    Raises `TypingError` for a config that doesn't fit the schema, `OwnedElsewhereError` for conflicts.
    """
    rules, manager = applier.rules, applier.manager
    whole = merging.field_set(config, rules.type)
    fields = rules.owned(whole)
    if live is None:
        return config, {manager: Entry(rules.api_version, applier.now, fields)}
    last = managers.get(manager)
    live = without_entries(live)
    merged = merging.merge(live, config, rules.type)
    after = dict(managers)
    after[manager] = Entry(rules.api_version, last.time if last else "", fields)
    if last is not None and not fieldsets.is_subset(last.fields, fields):
        merged = _prune(merged, [whole, *(entry.fields for entry in after.values())], last.fields, rules)
    if merged is not live:
        after = _take(live, merged, after, applier)
    after = {name: entry for name, entry in after.items() if entry.fields}
    if merged is live or merged == live:
        return None, after
    if manager in after:
        after[manager] = Entry(rules.api_version, applier.now, fields)
    return merged, after


def _take(live: JsonObject, merged: JsonObject, managers: Managers, applier: Applier) -> Managers:
    manager = applier.manager
    difference = merging.compare(live, merged, applier.rules.type)
    changed, removed = applier.rules.reached(difference.changed()), applier.rules.reached(difference.removed)
    conflicts = {
        name: found
        for name, entry in managers.items()
        if name != manager and changed and (found := fieldsets.intersection(entry.fields, changed))
    }
    if conflicts and not applier.force:
        raise OwnedElsewhereError([(name, path) for name in sorted(conflicts) for path in fieldsets.paths(conflicts[name])])
    after = {}
    for name, entry in managers.items():
        fields = entry.fields
        if name != manager:
            if name in conflicts:
                fields = fieldsets.difference(fields, conflicts[name])
            if removed:
                fields = fieldsets.difference(fields, removed)
        after[name] = Entry(entry.api_version, entry.time, fields)
    return after


def _prune(merged: JsonObject, owned: list[FieldSet], last: FieldSet, rules: Rules) -> JsonObject:
    """Removes what the applier gave up and nobody else owns; items that others or nobody own come back."""
    type_ = rules.type
    pruned = merging.remove(merged, merging.with_named_members(last, type_), type_)
    everyone: FieldSet = {}
    for fields in owned:
        everyone = fieldsets.union(everyone, fields)

    def named(value: JsonObject) -> FieldSet:
        return merging.with_named_members(merging.field_set(value, type_, duplicates=True), type_)

    whole = named(merged)
    kept = fieldsets.union(named(pruned or {}), merging.with_named_members(everyone, type_))
    pruned = merging.remove(merged, fieldsets.difference(whole, kept), type_)
    dropped = fieldsets.difference(whole, named(pruned or {}))
    gone = fieldsets.intersection(dropped, merging.with_named_members(last, type_))
    result: JsonObject = merging.remove(merged, gone, type_) or {}
    return result


def allowed_by_last_applied(live: JsonObject, rules: Rules) -> FieldSet:
    """The fields that kubectl's client-side apply set and that still hold what it set: `kubectl apply --server-side` may take those."""
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    if not text:
        return {}
    try:
        applied = json.loads(text)
        if not isinstance(applied, dict) or applied.get("apiVersion") != rules.api_version:
            return {}
        fields = merging.field_set(applied, rules.type)
        difference = merging.compare(applied, live, rules.type)
    except (ValueError, merging.TypingError):
        return {}
    return fieldsets.difference(fieldsets.difference(fields, difference.changed()), difference.removed)
