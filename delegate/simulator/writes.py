"""Create, replace, patch and apply: from a request's body to a decoded object and its owners (apiserver `handlers`).

What then happens to the object until it is stored is in `storing`.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from delegate.model.resources import JsonObject
from delegate.simulator import (
    bodies,
    conversion,
    customs,
    decoding,
    fieldsets,
    identities,
    merging,
    operations,
    ownership,
    patches,
    statuses,
    storing,
    strategic,
    strategies,
)
from delegate.simulator.bodies import Body
from delegate.simulator.defaults import apply_defaults
from delegate.simulator.kinds import Resource
from delegate.simulator.ownership import Manager, Managers
from delegate.simulator.permissions import Permissions
from delegate.simulator.registry import Registry
from delegate.simulator.store import Stored
from delegate.simulator.storing import Options, Outcome

APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


class Reading(msgspec.Struct, frozen=True):
    """How a body came to be: sent, or made from what is shown as `patch`; `form` says which of Go's readers reads it."""

    form: Literal["decoded", "converted"] = "decoded"
    patch: str = ""


SENT = Reading()
APPLIED = Reading("converted", "apply")


class Write:
    """One write of one object. `name` is empty for a create. `warnings` grows with what the client is to be warned of."""

    def __init__(self, registry: Registry, resource: Resource, namespace: str, name: str = "", *, options: Options) -> None:
        self.registry = registry
        self.resource = resource
        self.namespace = namespace if resource.namespaced else ""
        self.name = name
        self.options = options
        self.rules = ownership.Rules(
            resource.type,
            resource.api_version,
            options.subresource,
            has_status=strategies.has_status(resource),
            custom=resource.custom,
        )
        self.warnings: list[str] = []
        self.patched = False
        self.permissions: Permissions | None = None
        self._remarks: Sequence[str] = ()
        self._sent: Body | None = None

    def create(self, body: JsonObject, sent: Body | None = None) -> Outcome:
        """POST."""
        self._sent = sent
        decoded = self.decode(body)
        for key in ("managedFields", "deletionTimestamp", "deletionGracePeriodSeconds"):
            decoded["metadata"].pop(key, None)
        manager = Manager(self.options.manager, "Update", self.resource.api_version, self.options.subresource)
        empty: JsonObject = {} if self.resource.custom else decoding.zero(self.resource.type)
        managers = self._updated(empty, decoded, {}, manager)
        self._check_kind(body)
        return storing.insert(self, decoded, ownership.write(managers))

    def replace(self, body: JsonObject, sent: Body | None = None) -> Outcome:
        """PUT."""
        self._sent = sent
        decoded = self.decode(body)
        self._check_name(decoded)
        live = self.live()
        if strategies.needs_version(self.resource) and not decoded["metadata"].get("resourceVersion"):
            cause = statuses.invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise statuses.invalid(self.resource.plural, self.resource.group, self.name, [cause])
        self._check_kind(body)
        return self.overwrite(live, decoded)

    def patch(self, kind: str, patch: Any, remarks: Sequence[str] = ()) -> Outcome:
        """PATCH of the three kinds that need an existing object; `remarks` are what there is to say of the patch itself."""
        live = self.live()
        self._remarks = remarks
        self.patched = True
        current = as_version(live, self.resource)
        if kind == JSON_PATCH:
            patched = self._operated(current, patch)
        elif kind == MERGE_PATCH:
            patched = patches.merge_patch(current, patch)
        else:
            patched = strategic.strategic_patch(current, patch, self.resource.type)
        shown = merging.printed(patch) if kind == STRATEGIC_PATCH else patches.shown(patched, patch, custom=self.resource.custom)
        reading = Reading("converted" if kind == STRATEGIC_PATCH else "decoded", shown)
        if kind == STRATEGIC_PATCH:
            patched |= {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
        else:
            self._complete_identity(patched)
        self._check_patched(patched, reading)
        decoded = self.decode(msgspec.json.decode(msgspec.json.encode(patched)), reading)
        self._check_name(decoded)
        return self.overwrite(live, decoded)

    def _operated(self, current: JsonObject, patch: list[JsonObject]) -> JsonObject:
        patched = operations.json_patch(current, patch)
        if not isinstance(patched, dict):
            got = decoding.json_type(patched)
            raise statuses.bad_request(f"json: cannot unmarshal {got} into Go value of type map[string]interface {{}}")
        return {**patched}

    def _complete_identity(self, patched: JsonObject) -> None:
        """A patch may take the kind away, which is then the old one; without a version nothing of the metadata is understood."""
        if not patched.get("apiVersion"):
            self.warnings.append('unknown field "metadata"')
            raise self._unnamed()
        if not patched.get("kind"):
            patched["kind"] = self.resource.kind

    def apply(self, config: Any) -> Outcome:
        """Server-side apply: creates the object where it is missing."""
        resource = self.resource
        if not isinstance(config, dict) or identities.of(config) != (resource.api_version, resource.kind):
            raise _wrong_kind(config)
        if config["apiVersion"] != resource.api_version:
            config = {**config, "apiVersion": resource.api_version}
        metadata = config.get("metadata")
        if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
            raise statuses.bad_request("metadata.managedFields must be nil")
        if not isinstance(metadata, dict | None):
            self._merged(None, config, {})  # says what doesn't fit
        live = self.registry.get(resource, self.namespace, self.name)
        if live is None:
            return self._apply_new(config)
        self.patched = True
        current = as_version(live, resource)
        managers = ownership.read(current["metadata"].get("managedFields")) or self._before_first_apply(current)
        merged, managers = self._merged(current, config, managers)
        managed = ownership.write(managers)
        self._check_named(config)
        if merged is None:
            if managed == (current["metadata"].get("managedFields") or []):
                return Outcome(current, warnings=self.warnings, stored=live)
            merged = current
        decoded = self.decode(merged, APPLIED)
        self._check_name(decoded)
        return storing.update(self, live, decoded, managed)

    def live(self) -> Stored:
        """The object as it is stored; raises a 404."""
        found = self.registry.get(self.resource, self.namespace, self.name)
        if found is None:
            raise statuses.not_found(self.resource.plural, self.resource.group, self.name)
        return found

    def overwrite(self, live: Stored, body: JsonObject) -> Outcome:
        """Stores a decoded object over the live one in the name of the writer."""
        current = as_version(live, self.resource)
        managers = _given_managers(current, body, self.options.subresource)
        if managers:
            manager = Manager(self.options.manager, "Update", self.resource.api_version, self.options.subresource)
            managers = self._updated(current, body, managers, manager)
        return storing.update(self, live, body, ownership.write(managers))

    def _updated(self, live: JsonObject, new: JsonObject, managers: Managers, manager: Manager) -> Managers:
        """Who owns what after an update; nobody anything where the object can't be typed (it is about to be refused as invalid)."""
        try:
            if self.resource.custom:
                merging.field_set(new, self.resource.type, duplicates=True)
            return ownership.update(live, new, managers, manager, self.rules, now=self.registry.now())
        except merging.TypingError:
            return {}

    def decode(self, body: JsonObject, reading: Reading = SENT) -> JsonObject:
        """The object as the server holds it: unknown fields dropped (warned of, or refused when strict), defaults filled in."""
        resource = self.resource
        unknown: list[str] = []
        try:
            decoded = self._decode(body, unknown, converted=reading.form == "converted")
        except decoding.UndecodableError as error:
            raise self._undecodable(body, error.converted if reading.form == "converted" else str(error), reading) from None
        if resource.definition is None:
            apply_defaults(resource.group, resource.kind, decoded)
        if reading is not APPLIED:
            found = self._found(unknown, reading)
            if found:
                self._report(found, reading)
        return decoded

    def _decode(self, body: JsonObject, unknown: list[str], *, converted: bool) -> JsonObject:
        resource = self.resource
        if not isinstance(body.get("metadata", {}), dict | None):
            got = decoding.json_type(body["metadata"])
            why = f"json: cannot unmarshal {got} into Go struct field {resource.kind}.metadata of type v1.ObjectMeta"
            raise decoding.UndecodableError(why)
        if resource.definition is not None:
            return _decode_custom(resource, body, unknown, applied=converted)
        decoded = (decoding.convert if converted else decoding.decode)(body, resource.type, unknown)
        decoded = {"kind": resource.kind, "apiVersion": resource.api_version, **_without_identity(decoded)}
        if (resource.group, resource.kind) == ("", "Secret"):
            strategies.move_string_data(decoded)
        return decoded

    def _undecodable(self, body: JsonObject, why: str, reading: Reading) -> statuses.StatusError:
        """400 for what was sent, 422 for what a patch made, 500 for what an apply made."""
        if reading is SENT:
            return self._unreadable(body, why)
        if reading is not APPLIED:
            return statuses.invalid("", "", "", [statuses.invalid_value("patch", reading.patch, why)])
        kind = f"{self.resource.group}/{self.resource.version}, Kind={self.resource.kind}"
        place = (body.get("metadata") or {}).get("namespace", "")
        return statuses.internal(
            f"failed to convert new object ({place}/{self.name}; {kind}) to proper version: "
            f"unable to convert unstructured object to {kind}: {why}"
        )

    def _unreadable(self, body: JsonObject, why: str) -> statuses.StatusError:
        kind = body.get("kind") or self.resource.kind
        return statuses.bad_request(f'{kind} in version "{self.resource.version}" cannot be handled as a {kind}: {why}')

    def _found(self, unknown: list[str], reading: Reading) -> list[str]:
        """What fieldValidation has to say: of a typed object in its own order, else first of what comes twice."""
        sent = self._sent if reading is SENT else None
        if sent is not None and sent.pairs is not None and not self.resource.custom:
            return bodies.remarks(sent.pairs, unknown)
        repeated = bodies.remarks(sent.pairs, []) if sent is not None and sent.pairs is not None else list(sent.lines) if sent else []
        return [*self._remarks, *repeated, *(f'unknown field "{field}"' for field in unknown)]

    def _report(self, found: list[str], reading: Reading) -> None:
        if self.options.validation == "Strict":
            if self._sent is not None and self._sent.lines:
                count = len(self._sent.lines)
                found = ["".join(["yaml: unmarshal errors:", *(f"\n  {line}" for line in found[:count])]), *found[count:]]
            raise self._undecodable({"kind": self.resource.kind}, f"strict decoding error: {', '.join(found)}", reading)
        if self.options.validation == "Warn":
            self.warnings += found

    def _check_kind(self, body: JsonObject) -> None:
        """That a custom object doesn't say that it is something else."""
        refusal = identities.misnamed(body, self.resource) if self.resource.custom else None
        if refusal is not None:
            raise refusal

    def _check_patched(self, patched: JsonObject, reading: Reading) -> None:
        """That a patch left the kind and the version as they were."""
        version, kind, resource = str(patched["apiVersion"]), str(patched["kind"]), self.resource
        if (version, kind) == (resource.api_version, resource.kind):
            return
        if resource.custom and version.count("/") < 2:
            self._check_kind(patched)
        else:
            why = identities.mistyped(version, kind, resource.api_version, resource.kind)
            raise self._undecodable(patched, why or identities.unregistered(version, kind), reading)

    def note_repeated(self, sent: Body) -> None:
        """What there is to say of keys that an applied configuration has twice."""
        if sent.lines and self.options.validation == "Strict":
            lines = "".join(f"\n  {line}" for line in sent.lines)
            raise statuses.bad_request(f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:{lines}")
        if self.options.validation == "Warn":
            self.warnings += sent.lines

    def _check_named(self, config: JsonObject) -> None:
        """The name of a configuration for an existing object, which may leave it out."""
        if (config.get("metadata") or {}).get("name"):
            self._check_name(config)

    def _check_name(self, body: JsonObject) -> None:
        metadata = body.get("metadata") or {}
        given = metadata.get("name")
        if not given:
            raise self._unnamed()
        if given != self.name:
            raise statuses.bad_request(f"the name of the object ({given}) does not match the name on the URL ({self.name})")
        namespace = metadata.get("namespace") or self.namespace
        if self.resource.namespaced and namespace != self.namespace:
            if self.patched:
                raise statuses.bad_request("the namespace of the provided object does not match the namespace sent on the request")
            raise statuses.bad_request(
                f"the namespace of the object ({namespace}) does not match the namespace on the request ({self.namespace})"
            )

    def _unnamed(self) -> statuses.StatusError:
        return statuses.bad_request(f"the name of the object ({self.name} based on URL) was undeterminable: name must be provided")

    def _merged(self, live: JsonObject | None, config: JsonObject, managers: Managers) -> tuple[JsonObject | None, Managers]:
        """The applied object (None where it is unchanged) and its owners, or the refusal."""
        manager = Manager(self.options.manager, "Apply", "", self.options.subresource)
        applier = ownership.Applier(manager, self.rules, self.registry.now(), force=self.options.force)
        try:
            return ownership.apply(live, config, managers, applier)
        except merging.TypingError as error:
            metadata = config.get("metadata")
            metadata = metadata if isinstance(metadata, dict) else {}
            kind = f"{self.resource.group}/{self.resource.version}, Kind={self.resource.kind}"
            named = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {kind}"
            raise statuses.internal(f"failed to create typed patch object ({named}): {error}") from None
        except ownership.OwnedElsewhereError as error:
            if manager.name == "kubectl" and live is not None:
                allowed = ownership.allowed_by_last_applied(live, self.rules)
                left = [item for item in error.conflicts if not fieldsets.has(allowed, item[1])]
                if left:
                    raise ownership.OwnedElsewhereError(left).status() from None
                forced = ownership.Applier(manager, self.rules, applier.now, force=True)
                return ownership.apply(live, config, managers, forced)
            raise error.status() from None

    def _before_first_apply(self, current: JsonObject) -> Managers:
        """What an object without entries held counts as owned by `before-first-apply`."""
        manager = Manager(ownership.BEFORE_FIRST_APPLY, "Update", self.resource.api_version, "")
        empty: JsonObject = {"apiVersion": self.resource.api_version, "kind": self.resource.kind, "metadata": {}}
        if not self.resource.custom:
            empty |= decoding.zero(self.resource.type)
        return self._updated(empty, current, {}, manager)

    def _apply_new(self, config: JsonObject) -> Outcome:
        uid = (config.get("metadata") or {}).get("uid")
        if uid:
            why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise statuses.conflict(self.resource.plural, self.resource.group, self.name, why)
        if self.options.subresource:
            raise statuses.not_found(self.resource.plural, self.resource.group, self.name)
        if self.permissions is not None:
            self.permissions.check_create(self.resource)
        merged, managers = self._merged(None, config, {})
        decoded = self.decode(merged or {}, APPLIED)
        self._check_name(config)  # unlike one that updates, an apply that creates has to name the object
        # Unlike POST, an apply that creates may name a resourceVersion: it only matters where there is an object.
        decoded["metadata"].pop("resourceVersion", None)
        managed = ownership.write({key: entry for key, entry in managers.items() if entry.fields})
        return storing.insert(self, decoded, managed)


def _without_identity(body: JsonObject) -> JsonObject:
    return {key: value for key, value in body.items() if key not in ("kind", "apiVersion")}


def _decode_custom(resource: Resource, body: JsonObject, unknown: list[str], *, applied: bool) -> JsonObject:
    assert resource.definition is not None
    schema = resource.definition.schema
    metadata = decoding.decode(body.get("metadata") or {}, resource.type.fields["metadata"], unknown)
    decoded = customs.prune({key: value for key, value in body.items() if key != "metadata"}, schema, unknown)
    decoded = msgspec.json.decode(msgspec.json.encode(decoded))
    if not applied:
        customs.drop_nulls(decoded, schema)
    filled: JsonObject = customs.fill_defaults(decoded, schema)
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **_without_identity(filled)}


def as_version(stored: Stored, resource: Resource) -> JsonObject:
    """The stored object in the version of a resource; not to be changed."""
    if resource.version == resource.storage_version:
        return stored.body
    return conversion.convert(stored.body, resource)


def _given_managers(live: JsonObject, new: JsonObject, subresource: str) -> Managers:
    """The entries an update starts from: the given ones where somebody edits them, none where they are reset, else the live ones."""
    given = new["metadata"].get("managedFields")
    if not subresource:
        if isinstance(given, list) and len(given) == 1 and given[0] == {}:
            return {}
        read = ownership.read(given)
        if read:
            return read
    return ownership.read(live["metadata"].get("managedFields")) or {}


def _wrong_kind(config: Any) -> statuses.StatusError:
    version, kind = identities.of(config) if isinstance(config, dict) else ("", "")
    shown = version if "/" in version or not version else f"/{version}"
    return statuses.bad_request(f"invalid object type: {shown or '/'}, Kind={kind}")
