"""From a decoded object to a stored one: admission, strategy, validation, allocation, storage (registry `Store`)."""

from typing import TYPE_CHECKING

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import admission, conversion, deletions, immutability, statuses, strategies
from delegate.simulator.store import EventType, Stored
from delegate.simulator.validation import metadata as metadata_rules
from delegate.simulator.validation import objects
from delegate.simulator.validation.warnings import warnings

if TYPE_CHECKING:
    from delegate.simulator.kinds import Resource
    from delegate.simulator.writes import Write

_KEPT = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_SET_BY_SERVER = ("selfLink", "managedFields")


class Options(msgspec.Struct, frozen=True):
    """What a write's query parameters and headers say. `manager` is the field manager, or what the user agent begins with."""

    manager: str = "unknown"
    force: bool = False
    dry_run: bool = False
    validation: str = "Warn"
    subresource: str = ""
    user: str = ""


class Outcome(msgspec.Struct):
    """What a write answers: the body, whether it was created, and what is stored now (nothing for a dry run)."""

    body: JsonObject
    created: bool = False
    warnings: list[str] = []
    stored: Stored | None = None


def insert(write: "Write", body: JsonObject, managed: list[JsonObject]) -> Outcome:
    """Stores a new object."""
    registry, resource = write.registry, write.resource
    metadata = body["metadata"]
    _place(write, metadata)
    if write.permissions is not None:
        write.permissions.check_grant(resource, body, None)
    admission.admit_create(registry, resource, write.namespace, body)
    if metadata.get("resourceVersion"):
        raise statuses.internal("resourceVersion should not be set on objects to be created")
    body["metadata"] = metadata = _new_metadata(write, metadata, managed)
    strategies.prepare_create(resource, body, registry.empty_status(resource), now=metadata["creationTimestamp"])
    causes = metadata_rules.validate(resource, body) + objects.validate(resource, body)
    if causes:
        raise statuses.invalid(resource.kind, resource.group, metadata.get("name", ""), causes)
    if registry.get(resource, write.namespace, metadata["name"]) is not None:
        raise statuses.already_exists(resource.plural, resource.group, metadata["name"])
    write.warnings += warnings(resource, body)
    write.warnings += admission.validate(registry, resource, "CREATE", body)
    _allocate(write, body)
    if write.options.dry_run:
        return Outcome(body, created=True, warnings=write.warnings)
    stored = _commit(write, body, None)
    return Outcome(body, created=True, warnings=write.warnings, stored=stored)


def _place(write: "Write", metadata: JsonObject) -> None:
    """Settles namespace and name of a new object."""
    if (metadata.get("namespace") or write.namespace) != write.namespace:
        raise statuses.bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if write.namespace:
        metadata["namespace"] = write.namespace
    else:
        metadata.pop("namespace", None)
    if not metadata.get("name") and (write.resource.group, write.resource.kind) == ("", "LimitRange"):
        metadata["name"] = write.registry.new_uid()
    elif not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = write.registry.generated(metadata["generateName"])


def _new_metadata(write: "Write", metadata: JsonObject, managed: list[JsonObject]) -> JsonObject:
    made: JsonObject = {key: metadata[key] for key in ("name", "generateName", "namespace") if key in metadata}
    made["uid"] = write.registry.new_uid()
    made["creationTimestamp"] = write.registry.now()
    # An apply that creates may even say when the object goes; POST has taken that out.
    made |= {key: metadata[key] for key in ("generation", "deletionTimestamp", "deletionGracePeriodSeconds") if metadata.get(key)}
    made |= {key: value for key, value in metadata.items() if key not in _KEPT and key not in _SET_BY_SERVER}
    if managed:
        made["managedFields"] = managed
    return made


def update(write: "Write", live: Stored, body: JsonObject, managed: list[JsonObject]) -> Outcome:
    """Stores a changed object: preconditions, strategy, validation, and removal where the last finalizer went."""
    registry, resource = write.registry, write.resource
    old = _old(live, resource)
    _check_preconditions(write, live, body["metadata"])
    deletion = metadata_rules.validate_deletion_kept(body["metadata"], old["metadata"])
    body["metadata"] = _kept_metadata(old["metadata"], body["metadata"], managed)
    if write.permissions is not None:
        write.permissions.check_grant(resource, body, old)
    if write.options.subresource == "status":
        body = strategies.prepare_status_update(resource, body, old)
    else:
        strategies.prepare_update(resource, body, old)
        immutability.keep(resource, body, old)
        admission.admit_update(registry, resource, body)
    causes = deletion + metadata_rules.validate_update(body, old, custom=resource.custom)
    fixed, valid = immutability.check(resource, body, old, write.options.subresource), objects.validate(resource, body, old)
    causes += fixed + valid if immutability.comes_first(resource) else valid + fixed
    if causes:
        raise statuses.invalid(resource.kind, resource.group, live.name, causes)
    if write.options.subresource != "status":
        _allocate(write, body)
        if resource.kind == "Secret" or body["metadata"].get("generation") != old["metadata"].get("generation"):
            write.warnings += warnings(resource, body)
        write.warnings += admission.validate(registry, resource, "UPDATE", body, old)
    if body == old:
        return Outcome(old, warnings=write.warnings, stored=live)
    if write.options.dry_run:
        return Outcome(body, warnings=write.warnings)
    if deletions.is_released(resource, body):
        deletions.remove(registry, resource, live, body)
        return Outcome(body, warnings=write.warnings)
    stored = _commit(write, body, live)
    return Outcome(body, warnings=write.warnings, stored=stored)


def _old(live: Stored, resource: "Resource") -> JsonObject:
    return live.body if resource.version == resource.storage_version else conversion.convert(live.body, resource)


def _check_preconditions(write: "Write", live: Stored, metadata: JsonObject) -> None:
    resource = write.resource
    wanted = metadata.get("resourceVersion")
    if wanted and wanted != str(live.version):
        raise statuses.modified(resource.plural, resource.group, live.name)
    if metadata.get("uid", live.uid) != live.uid:
        if write.patched:
            cause = statuses.invalid_value("metadata.uid", metadata["uid"], immutability.IMMUTABLE)
            raise statuses.invalid(resource.kind, resource.group, live.name, [cause, cause])
        why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {live.uid}"
        raise statuses.conflict(resource.plural, resource.group, live.name, why)


def _kept_metadata(old: JsonObject, new: JsonObject, managed: list[JsonObject]) -> JsonObject:
    made = {key: old[key] for key in _KEPT if key in old}
    made |= {key: value for key, value in new.items() if key not in _KEPT and key not in _SET_BY_SERVER}
    if managed:
        made["managedFields"] = managed
    return made


def _allocate(write: "Write", body: JsonObject) -> None:
    resource = write.resource
    if (resource.group, resource.kind) != ("", "Service"):
        return
    causes = write.registry.addresses.allocate(body, keep=not write.options.dry_run)
    if causes:
        raise statuses.invalid(resource.kind, resource.group, body["metadata"]["name"], causes)


def _commit(write: "Write", body: JsonObject, live: Stored | None) -> Stored:
    """Stores a body in the storage version; the given one gets the new resourceVersion too."""
    resource, metadata = write.resource, body["metadata"]
    stored_body = body
    if resource.version != resource.storage_version:
        stored_body = conversion.to_storage(body, resource, live.body if live is not None else None)
    kind: EventType = "ADDED" if live is None else "MODIFIED"
    stored = write.registry.store.commit(resource.storage, kind, metadata.get("namespace", ""), metadata["name"], stored_body)
    metadata["resourceVersion"] = str(stored.version)
    return stored
