"""Create, replace, patch and apply: from a request's body to a stored object (apiserver `handlers`, registry `Store`).

The steps are the real server's, in its order: decode and default, ownership, admission, strategy, validation, storage.
"""

from typing import Any

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import (
    admission,
    conversion,
    customs,
    decoding,
    deletions,
    fieldsets,
    immutability,
    merging,
    ownership,
    patches,
    statuses,
    strategies,
)
from delegate.simulator.defaults import apply_defaults
from delegate.simulator.kinds import Resource
from delegate.simulator.ownership import Manager, Rules
from delegate.simulator.registry import Registry
from delegate.simulator.store import Stored
from delegate.simulator.validation import metadata as metadata_rules
from delegate.simulator.validation import objects

APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


class Options(msgspec.Struct, frozen=True):
    """What a write's query parameters and headers say. `manager` is the field manager, or what the user agent begins with."""

    manager: str = "unknown"
    force: bool = False
    dry_run: bool = False
    validation: str = "Warn"
    subresource: str = ""
    user: str = ""


class Outcome(msgspec.Struct):
    """What a write answers: the body, and whether it was created."""

    body: JsonObject
    created: bool = False
    warnings: list[str] = []
    stored: Stored | None = None


def rules_for(resource: Resource, subresource: str = "") -> Rules:
    return Rules(resource.type, resource.api_version, subresource, has_status=strategies.has_status(resource), custom=resource.custom)


def decode(
    registry: Registry, resource: Resource, body: JsonObject, options: Options, warnings: list[str], *, report: bool = True
) -> JsonObject:
    """The object as the server holds it: unknown fields dropped (warned of, or refused when strict), defaults filled in."""
    unknown: list[str] = []
    if not isinstance(body.get("metadata", {}), dict | None):
        raise decoding.refused(body, resource.version, "json: cannot unmarshal string into Go struct field .metadata of type v1.ObjectMeta")
    if resource.definition is None:
        decoded = decoding.decode(body, resource.type, resource.version, unknown)
        decoded = {"kind": resource.kind, "apiVersion": resource.api_version, **_without_identity(decoded)}
        if (resource.group, resource.kind) == ("", "Secret"):
            strategies.move_string_data(decoded)
        apply_defaults(resource.group, resource.kind, decoded)
    else:
        decoded = _decode_custom(resource, body, unknown)
    if unknown and report:
        if options.validation == "Strict":
            named = ", ".join(f'unknown field "{field}"' for field in unknown)
            raise decoding.refused({"kind": resource.kind}, resource.version, f"strict decoding error: {named}")
        if options.validation == "Warn":
            warnings += [f'unknown field "{field}"' for field in unknown]
    return decoded


def _without_identity(body: JsonObject) -> JsonObject:
    return {key: value for key, value in body.items() if key not in ("kind", "apiVersion")}


def _decode_custom(resource: Resource, body: JsonObject, unknown: list[str]) -> JsonObject:
    assert resource.definition is not None
    schema = resource.definition.schema
    metadata = decoding.decode(body.get("metadata") or {}, resource.type.fields["metadata"], resource.version, unknown)
    decoded = customs.prune({key: value for key, value in body.items() if key != "metadata"}, schema, unknown)
    decoded = msgspec.json.decode(msgspec.json.encode(decoded))
    filled: JsonObject = customs.fill_defaults(decoded, schema)
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **_without_identity(filled)}


def check_identity(resource: Resource, body: JsonObject) -> None:
    version, kind = body.get("apiVersion"), body.get("kind")
    if version and version != resource.api_version:
        raise statuses.bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )
    if kind and kind != resource.kind:
        raise decoding.refused(body, resource.version, f'no kind "{kind}" is registered for version "{resource.api_version}"')


def create(registry: Registry, resource: Resource, namespace: str, body: JsonObject, options: Options, *, name: str = "") -> Outcome:
    """POST. `name` is set where the path names the object."""
    check_identity(resource, body)
    warnings: list[str] = []
    decoded = decode(registry, resource, body, options, warnings)
    if name and not decoded["metadata"].get("name"):
        decoded["metadata"]["name"] = name
    manager = Manager(options.manager, "Update", resource.api_version, options.subresource)
    decoded["metadata"].pop("managedFields", None)
    empty: JsonObject = {} if resource.custom else decoding.zero(resource.type)
    managers = ownership.update(empty, _unprepared(resource, decoded), {}, manager, rules_for(resource), registry.now())
    return _insert(registry, resource, namespace, decoded, ownership.write(managers), options, warnings)


def _unprepared(resource: Resource, decoded: JsonObject) -> JsonObject:
    return decoded


def _insert(
    registry: Registry,
    resource: Resource,
    namespace: str,
    body: JsonObject,
    managed: list[JsonObject],
    options: Options,
    warnings: list[str],
) -> Outcome:
    metadata = body["metadata"]
    if metadata.get("namespace", namespace) != namespace:
        raise statuses.bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if resource.namespaced:
        metadata["namespace"] = namespace
    else:
        metadata.pop("namespace", None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = registry.generated(metadata["generateName"])
    admission.admit_create(registry, resource, namespace, body, options.user)
    if metadata.get("resourceVersion"):
        raise statuses.internal("resourceVersion should not be set on objects to be created")
    body["metadata"] = metadata = _new_metadata(registry, metadata, managed)
    strategies.prepare_create(resource, body, registry.empty_status(resource))
    causes = metadata_rules.validate(resource, body) + objects.validate(resource, body)
    if causes:
        raise statuses.invalid(resource.kind, resource.group, metadata.get("name", ""), causes)
    if registry.get(resource, namespace if resource.namespaced else "", metadata["name"]) is not None:
        raise statuses.already_exists(resource.plural, resource.group, metadata["name"])
    warnings = warnings + objects.warnings(resource, body)
    admission.check_quota(registry, resource, namespace, body)
    if (resource.group, resource.kind) == ("", "Service"):
        causes = registry.addresses.allocate(body, keep=not options.dry_run)
        if causes:
            raise statuses.invalid(resource.kind, resource.group, metadata["name"], causes)
    if options.dry_run:
        return Outcome(body, created=True, warnings=warnings)
    stored = registry.store.commit(resource.storage, "ADDED", metadata.get("namespace", ""), metadata["name"], body)
    return Outcome(body, created=True, warnings=warnings, stored=stored)


_ORDER = ("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp")


def _new_metadata(registry: Registry, metadata: JsonObject, managed: list[JsonObject]) -> JsonObject:
    made = {key: metadata[key] for key in ("name", "generateName", "namespace") if key in metadata}
    made["uid"] = registry.new_uid()
    made["creationTimestamp"] = registry.now()
    dropped = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields", "generation")
    for key, value in metadata.items():
        if key not in made and key not in dropped:
            made[key] = value
    if managed:
        made["managedFields"] = managed
    return made


def replace(registry: Registry, resource: Resource, namespace: str, name: str, body: JsonObject, options: Options) -> Outcome:
    """PUT."""
    check_identity(resource, body)
    warnings: list[str] = []
    decoded = decode(registry, resource, body, options, warnings)
    _check_name(decoded, name, namespace, resource)
    live = registry.get(resource, namespace, name)
    if live is None:
        raise statuses.not_found(resource.plural, resource.group, name)
    if resource.custom and not decoded["metadata"].get("resourceVersion"):
        cause = statuses.Cause("FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion")
        raise statuses.invalid(resource.kind, resource.group, name, [cause])
    return _overwrite(registry, resource, live, decoded, options, warnings)


def patch(registry: Registry, resource: Resource, namespace: str, name: str, kind: str, body: Any, options: Options) -> Outcome:
    """PATCH of the three kinds that need an existing object."""
    live = registry.get(resource, namespace, name)
    if live is None:
        raise statuses.not_found(resource.plural, resource.group, name)
    current = as_version(live, resource)
    if kind == JSON_PATCH:
        patched = patches.json_patch(current, body)
    elif not isinstance(body, dict):
        raise statuses.bad_request("error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}")
    elif kind == MERGE_PATCH:
        patched = patches.merge_patch(current, body)
    else:
        patched = patches.strategic_patch(current, body, resource.type)
    check_identity(resource, patched)
    warnings: list[str] = []
    decoded = decode(registry, resource, msgspec.json.decode(msgspec.json.encode(patched)), options, warnings)
    _check_name(decoded, name, namespace, resource)
    return _overwrite(registry, resource, live, decoded, options, warnings)


def _check_name(body: JsonObject, name: str, namespace: str, resource: Resource) -> None:
    metadata = body["metadata"]
    if not metadata.get("name"):
        raise statuses.bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if metadata["name"] != name:
        raise statuses.bad_request(f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})")
    if resource.namespaced and metadata.get("namespace", namespace) != namespace:
        raise statuses.bad_request(
            f"the namespace of the object ({metadata['namespace']}) does not match the namespace on the request ({namespace})"
        )


def as_version(stored: Stored, resource: Resource) -> JsonObject:
    """The stored object in the version of a resource; not to be changed."""
    if resource.version == resource.storage_version:
        return stored.body
    return conversion.convert(stored.body, resource)


def _managers_of(live: JsonObject, new: JsonObject, subresource: str) -> ownership.Managers | None:
    """The entries an update starts from: the given ones where somebody edits them; None where they are reset or unknown."""
    given = new["metadata"].get("managedFields")
    if not subresource:
        if isinstance(given, list) and len(given) == 1 and given[0] == {}:
            return None
        read = ownership.read(given)
        if read:
            return read
    return ownership.read(live["metadata"].get("managedFields")) or {}


def _overwrite(registry: Registry, resource: Resource, live: Stored, body: JsonObject, options: Options, warnings: list[str]) -> Outcome:
    current = as_version(live, resource)
    managers = _managers_of(current, body, options.subresource)
    if managers:
        manager = Manager(options.manager, "Update", resource.api_version, options.subresource)
        before = {**current, "metadata": {**current["metadata"]}}
        managers = ownership.update(before, body, managers, manager, rules_for(resource, options.subresource), registry.now())
    return store_update(registry, resource, live, body, ownership.write(managers or {}), options, warnings)


def store_update(
    registry: Registry,
    resource: Resource,
    live: Stored,
    body: JsonObject,
    managed: list[JsonObject],
    options: Options,
    warnings: list[str],
) -> Outcome:
    """From the new object and its owners to the store: preconditions, strategy, validation, finalizers."""
    old = as_version(live, resource)
    metadata = body["metadata"]
    wanted = metadata.get("resourceVersion")
    if wanted and wanted != str(live.version):
        raise statuses.modified(resource.plural, resource.group, live.name)
    if metadata.get("uid", live.uid) != live.uid:
        why = f"Precondition failed: UID in precondition: {metadata['uid']}, UID in object meta: {live.uid}"
        raise statuses.conflict(resource.plural, resource.group, live.name, why)
    body["metadata"] = metadata = _kept_metadata(old["metadata"], metadata, managed)
    if options.subresource == "status":
        body = strategies.prepare_status_update(resource, body, old)
    else:
        strategies.prepare_update(resource, body, old)
    admission.admit_update(registry, resource, body, old)
    if options.subresource != "status":
        immutability.keep(resource, body, old)
    causes = metadata_rules.validate_update(resource, body, old)
    causes += immutability.check(resource, body, old, options.subresource)
    if not causes:
        causes = objects.validate(resource, body)
    if causes:
        raise statuses.invalid(resource.kind, resource.group, live.name, causes)
    if (resource.group, resource.kind) == ("", "Service") and options.subresource != "status":
        causes = registry.addresses.allocate(body, keep=not options.dry_run)
        if causes:
            raise statuses.invalid(resource.kind, resource.group, live.name, causes)
    if body == old:
        return Outcome(old, warnings=warnings, stored=live)
    if options.dry_run:
        return Outcome(body, warnings=warnings)
    if deletions.is_released(resource, body):
        deletions.remove(registry, resource, live, body)
        return Outcome(body, warnings=warnings)
    if resource.version != resource.storage_version:
        stored_body = conversion.to_storage(body, resource, live.body)
        stored = registry.store.commit(resource.storage, "MODIFIED", live.namespace, live.name, stored_body)
        body["metadata"]["resourceVersion"] = str(stored.version)
        return Outcome(body, warnings=warnings, stored=stored)
    stored = registry.store.commit(resource.storage, "MODIFIED", live.namespace, live.name, body)
    return Outcome(body, warnings=warnings, stored=stored)


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


def _kept_metadata(old: JsonObject, new: JsonObject, managed: list[JsonObject]) -> JsonObject:
    made = {key: old[key] for key in _KEPT if key in old}
    for key, value in new.items():
        if key not in _KEPT and key not in ("managedFields", "selfLink"):
            made[key] = value
    if managed:
        made["managedFields"] = managed
    return made


def apply(registry: Registry, resource: Resource, namespace: str, name: str, config: JsonObject, options: Options) -> Outcome:
    """Server-side apply: creates the object where it is missing."""
    if not isinstance(config, dict) or config.get("apiVersion") != resource.api_version or config.get("kind") != resource.kind:
        raise _wrong_kind(config)
    metadata = config.get("metadata") or {}
    if metadata.get("managedFields") is not None:
        raise statuses.bad_request("metadata.managedFields must be nil")
    live = registry.get(resource, namespace, name)
    rules = rules_for(resource, options.subresource)
    manager = Manager(options.manager, "Apply", "", options.subresource)
    warnings: list[str] = []
    if live is None:
        return _apply_new(registry, resource, namespace, name, config, manager, rules, options)
    current = as_version(live, resource)
    managers = ownership.read(current["metadata"].get("managedFields")) or {}
    if not managers:
        managers = _before_first_apply(registry, resource, current, rules)
    merged, managers = _applied(registry, resource, current, config, managers, manager, rules, options)
    managed = ownership.write(managers)
    if merged is None:
        _check_name_of_config(config, name)
        if managed == (current["metadata"].get("managedFields") or []):
            return Outcome(current, warnings=warnings, stored=live)
        merged = current
    decoded = decode(registry, resource, merged, options, warnings, report=False)
    _check_name_of_config(config, name)
    _check_name(decoded, name, namespace, resource)
    return store_update(registry, resource, live, decoded, managed, options, warnings)


def _wrong_kind(config: Any) -> statuses.StatusError:
    version, kind = (config.get("apiVersion") or "", config.get("kind") or "") if isinstance(config, dict) else ("", "")
    group, slash, number = version.partition("/")
    shown = version if slash else f"/{group}" if version else "/"
    return statuses.bad_request(f"invalid object type: {shown}, Kind={kind}")


def _check_name_of_config(config: JsonObject, name: str) -> None:
    given = (config.get("metadata") or {}).get("name")
    if not given:
        raise statuses.bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if given != name:
        raise statuses.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def _gvk(resource: Resource) -> str:
    return f"{resource.group}/{resource.version}, Kind={resource.kind}"


def _applied(
    registry: Registry,
    resource: Resource,
    live: JsonObject | None,
    config: JsonObject,
    managers: ownership.Managers,
    manager: Manager,
    rules: Rules,
    options: Options,
) -> tuple[JsonObject | None, ownership.Managers]:
    try:
        return ownership.apply(live, config, managers, manager, rules, registry.now(), force=options.force)
    except merging.TypingError as error:
        metadata = config.get("metadata") or {}
        named = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {_gvk(resource)}"
        raise statuses.internal(f"failed to create typed patch object ({named}): {error}") from None
    except ownership.OwnedElsewhereError as error:
        if manager.name == "kubectl" and live is not None:
            allowed = ownership.allowed_by_last_applied(live, rules)
            left = [item for item in error.conflicts if not _covers(allowed, item[1])]
            if left:
                raise ownership.OwnedElsewhereError(left).status() from None
            return ownership.apply(live, config, managers, manager, rules, registry.now(), force=True)
        raise error.status() from None


def _covers(fields: fieldsets.FieldSet, path: tuple[str, ...]) -> bool:
    node: fieldsets.FieldSet | None = fields
    for element in path:
        node = node.get(element) if node is not None else None
        if node is None:
            return False
    return fieldsets.is_member(node or {})


def _before_first_apply(registry: Registry, resource: Resource, current: JsonObject, rules: Rules) -> ownership.Managers:
    """What an object without entries held counts as owned by `before-first-apply`."""
    manager = Manager(ownership.BEFORE_FIRST_APPLY, "Update", resource.api_version, "")
    empty: JsonObject = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}
    if not resource.custom:
        empty |= decoding.zero(resource.type)
    return ownership.update(empty, current, {}, manager, rules, registry.now())


def _apply_new(
    registry: Registry, resource: Resource, namespace: str, name: str, config: JsonObject, manager: Manager, rules: Rules, options: Options
) -> Outcome:
    uid = (config.get("metadata") or {}).get("uid")
    if uid:
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise statuses.conflict(resource.plural, resource.group, name, why)
    if options.subresource:
        raise statuses.not_found(resource.plural, resource.group, name)
    warnings: list[str] = []
    merged, managers = _applied(registry, resource, None, config, {}, manager, rules, options)
    decoded = decode(registry, resource, merged or {}, options, warnings, report=False)
    _check_name_of_config(config, name)
    managed = ownership.write({key: entry for key, entry in managers.items() if entry.fields})
    return _insert(registry, resource, namespace, decoded, managed, options, warnings)
